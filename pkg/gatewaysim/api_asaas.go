package gatewaysim

import "net/http"

func (g asaas) serve(mux *http.ServeMux, s *Sim) {
	handle := func(pattern string, h func(*http.Request, *account) (object, bool)) {
		mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) {
			key := r.Header.Get("access_token")
			a := s.accountOf("asaas", key)
			if a == nil {
				code := "invalid_access_token"
				if key == "" {
					code = "access_token_not_found"
				}
				answer(w, http.StatusUnauthorized, asaasError(code, "A chave de API não é válida"))
				return
			}
			o, ok := h(r, a)
			if !ok {
				answer(w, http.StatusNotFound, asaasError("not_found", "Cobrança não encontrada"))
				return
			}
			answer(w, http.StatusOK, o)
		})
	}
	one := func(show func(*pay, *state) object) func(*http.Request, *account) (object, bool) {
		return func(r *http.Request, a *account) (object, bool) {
			p, st := s.view(r, a, r.PathValue("id"))
			if p == nil {
				return nil, false
			}
			return show(p, st), true
		}
	}
	handle("/v3/payments/{id}", one(g.payment))
	handle("/v3/payments/{id}/status", one(func(_ *pay, st *state) object { return object{{"status", st.word}} }))
	handle("/v3/payments/{id}/refunds", one(func(p *pay, st *state) object { return asaasList(g.refunds(p, st)) }))
	handle("/v3/payments", func(r *http.Request, a *account) (object, bool) {
		reference := r.URL.Query().Get("externalReference")
		found := []object{}
		for _, p := range s.payments {
			if reference != "" && p.acct == a && p.reference == reference {
				if _, st := s.view(r, a, p.id); st != nil {
					found = append(found, g.payment(p, st))
				}
			}
		}
		return asaasList(found), true
	})
}

func asaasError(code, description string) object {
	return object{{"errors", []object{{{"code", code}, {"description", description}}}}}
}

func asaasList(all []object) object {
	return object{
		{"object", "list"}, {"hasMore", false}, {"totalCount", len(all)}, {"limit", 100}, {"offset", 0}, {"data", all},
	}
}
