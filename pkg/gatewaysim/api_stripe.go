package gatewaysim

import (
	"net/http"
	"strconv"
	"strings"
)

func (stripe) objects(p *pay) []string {
	ids := []string{p.id}
	for i := range p.steps {
		st := &p.steps[i]
		ids = append(ids, st.charge, st.feeTxn)
		for _, r := range st.refunds {
			ids = append(ids, r.id)
		}
		if st.dispute != nil {
			ids = append(ids, st.dispute.id, st.dispute.out, st.dispute.back)
		}
	}
	named := ids[:0]
	for _, id := range ids {
		if id != "" {
			named = append(named, id)
		}
	}
	return named
}

func (g stripe) serve(mux *http.ServeMux, s *Sim) {
	handle := func(pattern string, h func(*http.Request, *account) (object, bool)) {
		mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) {
			key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			a := s.accountOf("stripe", key)
			if a == nil {
				answer(w, http.StatusUnauthorized, stripeError("invalid_request_error", "", "Invalid API Key provided"))
				return
			}
			o, ok := h(r, a)
			if !ok {
				answer(w, http.StatusNotFound, stripeError("invalid_request_error", "resource_missing", "No such object"))
				return
			}
			w.Header().Set("Stripe-Version", stripeVersion)
			answer(w, http.StatusOK, o)
		})
	}
	handle("/v1/payment_intents/{id}", func(r *http.Request, a *account) (object, bool) {
		p, st := s.view(r, a, r.PathValue("id"))
		if p == nil || p.id != r.PathValue("id") {
			return nil, false
		}
		return g.intent(p, st, expandOf(r)), true
	})
	handle("/v1/charges/{id}", func(r *http.Request, a *account) (object, bool) {
		p, st := s.view(r, a, r.PathValue("id"))
		if st = p.asOfCharge(st, r.PathValue("id")); st == nil {
			return nil, false
		}
		return g.charge(p, st, expandOf(r)), true
	})
	handle("/v1/balance_transactions/{id}", func(r *http.Request, a *account) (object, bool) {
		p, st := s.view(r, a, r.PathValue("id"))
		switch id := r.PathValue("id"); {
		case p == nil:
		case id == st.feeTxn && st.feeKnown:
			return g.chargeTxn(p, st), true
		case st.dispute != nil && id == st.dispute.out:
			return g.txn(p, id, -st.dispute.amount, st.dispute.fee, "adjustment", "dispute", st.dispute.at), true
		}
		return nil, false
	})
	handle("/v1/refunds", func(r *http.Request, a *account) (object, bool) {
		p, st := s.viewOfQuery(r, a)
		if p == nil {
			return stripeList("/v1/refunds", nil, 10, ""), true
		}
		return stripePage(r, g.refunds(p, st)), true
	})
	handle("/v1/disputes", func(r *http.Request, a *account) (object, bool) {
		p, st := s.viewOfQuery(r, a)
		if p == nil || st.dispute == nil {
			return stripeList("/v1/disputes", nil, 10, ""), true
		}
		return stripePage(r, []object{g.dispute(p, st)}), true
	})
}

func stripeError(typ, code, message string) object {
	return object{{"error", object{{"code", orNull(code)}, {"message", message}, {"type", typ}}}}
}

// asOfCharge is the last state up to st in which a charge was the latest one.
func (p *pay) asOfCharge(st *state, charge string) *state {
	if p == nil {
		return nil
	}
	var found *state
	for i := range p.steps {
		if s := &p.steps[i].state; s.charge == charge {
			found = s
		}
		if &p.steps[i].state == st {
			return found
		}
	}
	return found
}

// viewOfQuery finds the payment that a list is asked for.
func (s *Sim) viewOfQuery(r *http.Request, a *account) (*pay, *state) {
	q := r.URL.Query()
	id := q.Get("payment_intent")
	if id == "" {
		id = q.Get("charge")
	}
	return s.view(r, a, id)
}

func expandOf(r *http.Request) expansion {
	e := expansion{}
	for name, values := range r.URL.Query() {
		if strings.HasPrefix(name, "expand[") {
			for _, v := range values {
				e[v] = true
			}
		}
	}
	return e
}

func stripePage(r *http.Request, all []object) object {
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil || limit < 1 || limit > 100 {
		limit = 10
	}
	return stripeList(r.URL.Path, all, limit, r.URL.Query().Get("starting_after"))
}

// stripeList is one page of a list, from behind the cursor.
func stripeList(url string, all []object, limit int, after string) object {
	begin := 0
	for i, o := range all {
		if after != "" && o[0].value == after {
			begin = i + 1
		}
	}
	page := all[begin:min(len(all), begin+limit)]
	if page == nil {
		page = []object{}
	}
	return object{{"object", "list"}, {"data", page}, {"has_more", begin+limit < len(all)}, {"url", url}}
}
