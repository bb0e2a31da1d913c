package gatewaysim

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

func (g iugu) serve(mux *http.ServeMux, s *Sim) {
	mux.HandleFunc("GET /iugu/v1/invoices/{id}", func(w http.ResponseWriter, r *http.Request) {
		token, password, _ := r.BasicAuth()
		a := s.accountOf("iugu", token)
		if a == nil || password != "" {
			answer(w, http.StatusUnauthorized, object{{"errors", "Unauthorized"}})
			return
		}
		p, st := s.view(r, a, r.PathValue("id"))
		if p == nil {
			answer(w, http.StatusNotFound, object{{"errors", "Invoice Not Found"}})
			return
		}
		answer(w, http.StatusOK, g.invoice(p, st))
	})
}

// invoice is the answer about an invoice: figures in cents, and beside them
// the same amounts as texts for people. One that was paid elsewhere has all
// the figures of a receipt but the taxes.
func (g iugu) invoice(p *pay, st *state) object {
	var paid, taxes, refunded, paidAt any
	switch {
	case st.word == "externally_paid":
		paid, taxes, paidAt = p.amount, int64(0), st.at.Format(time.RFC3339)
	case st.captured > 0:
		paid, taxes, paidAt = st.captured, st.fee, st.receivedAt.Format(time.RFC3339)
	}
	if back := st.refunded(); back > 0 {
		refunded = back
	}
	var external, order any
	if g.referenceName(p) == "order_id" {
		order = p.reference
	} else {
		external = p.reference
	}
	return object{
		{"id", p.id}, {"account_id", g.accountID(p)}, {"status", st.word}, {"currency", p.currency}, {"payment_method", p.method},
		{"total", iuguReais(p.amount)}, {"total_cents", p.amount},
		{"total_paid", iuguReais(paid)}, {"total_paid_cents", paid},
		{"taxes_paid", iuguReais(taxes)}, {"taxes_paid_cents", taxes},
		{"refunded", iuguReais(refunded)}, {"refunded_cents", refunded},
		{"external_reference", external}, {"order_id", order},
		{"paid_at", paidAt}, {"updated_at", st.at.Format(time.RFC3339)},
	}
}

// iuguReais writes cents as Iugu does for people: "R$ 1.234,56".
func iuguReais(cents any) any {
	n, ok := cents.(int64)
	if !ok {
		return nil
	}
	whole := fmt.Sprint(n / 100)
	var groups []string
	for len(whole) > 3 {
		groups = append([]string{whole[len(whole)-3:]}, groups...)
		whole = whole[:len(whole)-3]
	}
	return fmt.Sprintf("R$ %s,%02d", strings.Join(append([]string{whole}, groups...), "."), n%100)
}
