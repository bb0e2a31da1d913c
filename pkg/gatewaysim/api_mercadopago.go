package gatewaysim

import (
	"net/http"
	"strings"
)

// serve adds Mercado Pago's API below /mercadopago.
func (g mercadopago) serve(mux *http.ServeMux, s *Sim) {
	handle := func(path string, known func(*pay, *state, string) bool, show func(*pay, *state) any) {
		mux.HandleFunc("GET /mercadopago"+path, func(w http.ResponseWriter, r *http.Request) {
			key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			a := s.accountOf("mercadopago", key)
			if a == nil {
				answer(w, http.StatusUnauthorized, object{{"message", "invalid access token"}, {"error", "bad_request"}, {"status", 401}})
				return
			}
			id := r.PathValue("id")
			p, st := s.view(r, a, id)
			if p == nil || !known(p, st, id) {
				answer(w, http.StatusNotFound, object{{"message", "Resource not found"}, {"error", "not_found"}, {"status", 404}})
				return
			}
			answer(w, http.StatusOK, show(p, st))
		})
	}
	payments := func(p *pay, _ *state, id string) bool { return !p.isOrder() && p.id == id }
	orders := func(p *pay, _ *state, id string) bool { return p.isOrder() && p.id == id }
	cases := func(_ *pay, st *state, id string) bool { return st.dispute != nil && st.dispute.id == id }
	handle("/v1/payments/{id}", payments, func(p *pay, st *state) any { return g.payment(p, st) })
	handle("/v1/payments/{id}/refunds", payments, func(p *pay, st *state) any { return g.refunds(p, st) })
	handle("/v1/orders/{id}", orders, func(p *pay, st *state) any { return g.order(p, st) })
	handle("/v1/chargebacks/{id}", cases, func(p *pay, st *state) any { return g.chargeback(p, st) })
}
