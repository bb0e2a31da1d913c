package gatewaysim

import "net/http"

func (g zoop) serve(mux *http.ServeMux, s *Sim) {
	handle := func(pattern string, show func(*http.Request, *account) (object, bool)) {
		mux.HandleFunc("GET /zoop/v1/marketplaces/{marketplace}"+pattern, func(w http.ResponseWriter, r *http.Request) {
			// The key is the user, and the password is empty.
			key, password, _ := r.BasicAuth()
			a := s.accountOf("zoop", key)
			switch {
			case a == nil || password != "":
				answer(w, http.StatusUnauthorized, zoopError("authentication_failed", http.StatusUnauthorized))
			case r.PathValue("marketplace") != g.marketplace(&a.Credentials):
				answer(w, http.StatusForbidden, zoopError("permission_denied", http.StatusForbidden))
			default:
				o, ok := show(r, a)
				if !ok {
					answer(w, http.StatusNotFound, zoopError("resource_not_found", http.StatusNotFound))
					return
				}
				answer(w, http.StatusOK, o)
			}
		})
	}
	handle("/transactions/{id}", func(r *http.Request, a *account) (object, bool) {
		p, st := s.view(r, a, r.PathValue("id"))
		if p == nil {
			return nil, false
		}
		return g.transaction(p, st), true
	})
	handle("/transactions", func(r *http.Request, a *account) (object, bool) {
		reference, found := r.URL.Query().Get("reference_id"), []object{}
		for _, p := range s.payments {
			if reference != "" && p.acct == a && p.reference == reference {
				if _, st := s.view(r, a, p.id); st != nil {
					found = append(found, g.transaction(p, st))
				}
			}
		}
		return zoopList(found), true
	})
	type told struct {
		p           *pay
		step, event int
	}
	byEvent := map[objectKey]told{}
	for _, p := range s.payments {
		for i := range p.steps {
			for j := range p.steps[i].events {
				if p.acct.gateway.name() == g.name() {
					byEvent[objectKey{p.acct, p.steps[i].events[j].id}] = told{p, i, j}
				}
			}
		}
	}
	// An event can be read back as it was sent, once it is true.
	handle("/events/{id}", func(r *http.Request, a *account) (object, bool) {
		t, ok := byEvent[objectKey{a, r.PathValue("id")}]
		if !ok {
			return nil, false
		}
		if pub := s.places[t.p.index].Load(); pub == nil || int(pub.steps) <= t.step {
			return nil, false
		}
		st := &t.p.steps[t.step]
		return g.event(t.p, st, &st.events[t.event]), true
	})
}

func zoopError(category string, status int) object {
	return object{{"error", object{{"status", http.StatusText(status)}, {"status_code", status}, {"type", "invalid_request_error"}, {"category", category}}}}
}

func zoopList(all []object) object {
	return object{
		{"resource", "list"}, {"items", all}, {"has_more", false}, {"total_pages", 1}, {"page", 1}, {"limit", 100}, {"offset", 0}, {"total", len(all)},
	}
}
