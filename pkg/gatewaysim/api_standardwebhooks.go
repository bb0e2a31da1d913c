package gatewaysim

import (
	"net/http"
	"strings"
	"time"
)

func (g standardWebhooks) serve(mux *http.ServeMux, s *Sim) {
	handle := func(pattern string, mapped bool, show func(*http.Request, *account) (any, bool)) {
		mux.HandleFunc("GET /standardwebhooks"+pattern, func(w http.ResponseWriter, r *http.Request) {
			key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if mapped {
				key = r.Header.Get("X-Api-Key")
			}
			a := s.accountOf("standardwebhooks", key)
			if a == nil || (a.name == swMapped) != mapped {
				answer(w, http.StatusUnauthorized, object{{"message", "Unauthorized"}})
				return
			}
			v, ok := show(r, a)
			if !ok {
				answer(w, http.StatusNotFound, object{{"message", "Not found"}})
				return
			}
			answer(w, http.StatusOK, v)
		})
	}
	handle("/payments/{id}", false, func(r *http.Request, a *account) (any, bool) {
		p, st := s.view(r, a, r.PathValue("id"))
		if p == nil {
			return nil, false
		}
		return swPayment(p, st), true
	})
	handle("/charges", true, func(r *http.Request, a *account) (any, bool) {
		p, st := s.view(r, a, r.URL.Query().Get("code"))
		if p == nil {
			return nil, false
		}
		return object{{"charges", []object{swCharge(p, st)}}}, true
	})
	handle("/charges/{id}/give-backs", true, func(r *http.Request, a *account) (any, bool) {
		p, st := s.view(r, a, r.PathValue("id"))
		if p == nil {
			return nil, false
		}
		list := []object{}
		for _, x := range st.refunds {
			list = append(list, object{{"code", x.id}, {"value", swDecimal(p, x.amount, p.oddities)}, {"state", x.word}})
		}
		return list, true
	})
}

// swGross is what was captured, or what is asked for until then.
func swGross(p *pay, st *state) int64 {
	if st.captured > 0 {
		return st.captured
	}
	return p.amount
}

// swPayment is the answer of the profile "generic".
func swPayment(p *pay, st *state) object {
	o := object{
		{"payment_id", p.id}, {"status", string(st.status)}, {"amount", swGross(p, st)}, {"currency", p.currency}, {"reference", p.reference},
		{"amount_refunded", st.refunded()}, {"updated_at", st.at.Format(time.RFC3339)},
	}
	if st.feeKnown {
		o = o.with("fee", st.fee).with("net", st.captured-st.fee)
	}
	refunds, disputes := []object{}, []object{}
	for _, r := range st.refunds {
		refunds = append(refunds, object{{"refund_id", r.id}, {"amount", r.amount}, {"status", r.word}})
	}
	if d := st.dispute; d != nil {
		disputes = append(disputes, object{{"dispute_id", d.id}, {"amount", d.amount}, {"status", d.word}})
	}
	return o.with("refunds", refunds).with("disputes", disputes)
}

// swCharge is the answer of the mapped shape.
func swCharge(p *pay, st *state) object {
	complaints := []object{}
	if d := st.dispute; d != nil {
		complaints = append(complaints, object{{"code", d.id}, {"value", swDecimal(p, d.amount, p.oddities)}, {"state", d.word}})
	}
	o := object{
		{"code", p.id}, {"state", swStates[string(st.status)]}, {"gross", swDecimal(p, swGross(p, st), p.oddities)}, {"money", p.currency},
		{"order", p.reference}, {"complaints", complaints},
	}
	if st.feeKnown {
		o = o.with("left", swDecimal(p, st.captured-st.fee, p.oddities>>1))
	}
	return o
}
