package gatewaysim

import (
	"net/http"
	"strings"
	"time"
)

func (g pagpolar) serve(mux *http.ServeMux, s *Sim) {
	handle := func(pattern string, id func(*http.Request) string, show func(*pay, *state) object) {
		mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) {
			key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			a := s.accountOf("pagpolar", key)
			if a == nil {
				answer(w, http.StatusUnauthorized, object{{"message", "Unauthorized"}})
				return
			}
			p, st := s.view(r, a, id(r))
			if p == nil {
				answer(w, http.StatusNotFound, object{{"message", "Not found"}})
				return
			}
			answer(w, http.StatusOK, show(p, st))
		})
	}
	handle("/sales/{id}", func(r *http.Request) string { return r.PathValue("id") }, g.sale)
	handle("/refunds", func(r *http.Request) string { return r.URL.Query().Get("sale_identifier") }, g.refunds)
}

// sale is the answer about a sale. A fee is named from the capture on.
func (g pagpolar) sale(p *pay, st *state) object {
	var fee, net any
	if st.feeKnown {
		fee, net = st.fee, st.captured-st.fee
	}
	return object{
		{"id", g.saleID(p)}, {"status", st.word}, {"amount", p.amount}, {"fee", fee}, {"net", net}, {"currency", p.currency},
		{"reference", p.reference}, {"created_at", p.made().Format(time.RFC3339)}, {"updated_at", st.at.Format(time.RFC3339)},
	}
}

func (g pagpolar) refunds(p *pay, st *state) object {
	list := []object{}
	for _, r := range st.refunds {
		list = append(list, object{
			{"id", r.id}, {"sale_identifier", g.saleID(p)}, {"amount", r.amount}, {"status", r.word}, {"created_at", r.at.Format(time.RFC3339)},
		})
	}
	return object{{"data", list}}
}
