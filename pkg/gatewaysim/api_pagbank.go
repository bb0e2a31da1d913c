package gatewaysim

import (
	"fmt"
	"net/http"
	"strings"
)

func (g pagbank) serve(mux *http.ServeMux, s *Sim) {
	one := func(pattern, prefix string, show func(*pay, *state) object) {
		mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) {
			key, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			a := s.accountOf("pagbank", key)
			if a == nil || !bearer {
				answer(w, http.StatusUnauthorized, pagbankError("UNAUTHORIZED", "Invalid credential."))
				return
			}
			p, st := s.view(r, a, r.PathValue("id"))
			if p == nil || !strings.HasPrefix(r.PathValue("id"), prefix) {
				answer(w, http.StatusNotFound, pagbankError("RESOURCE_NOT_FOUND", "Not found."))
				return
			}
			o := show(p, st)
			if o == nil {
				answer(w, http.StatusNotFound, pagbankError("RESOURCE_NOT_FOUND", "Not found."))
				return
			}
			answer(w, http.StatusOK, o)
		})
	}
	one("/pagbank/orders/{id}", "ORDE_", g.orderObject)
	one("/pagbank/charges/{id}", "CHAR_", func(p *pay, st *state) object {
		if st.word == "" {
			return nil // nobody has tried to pay yet
		}
		return g.charge(p, st)
	})
	mux.HandleFunc("GET /pagbank/v3/transactions/notifications/{code}", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		a := s.accountOf("pagbank", q.Get("token"))
		if a == nil || q.Get("email") != pagbankEmail {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		code := r.PathValue("code")
		p, st := s.view(r, a, code)
		if p == nil || strings.Contains(code, "_") {
			http.Error(w, "Not Found", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/xml;charset=ISO-8859-1")
		_, _ = w.Write(pagbankLatin1(g.xml(p, st)))
	})
}

func pagbankError(code, description string) object {
	return object{{"error_messages", []object{{{"code", code}, {"description", description}}}}}
}

// xml is a transaction as the old API tells it.
func (g pagbank) xml(p *pay, st *state) string {
	value := func(cents int64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }
	gross, fee := st.captured, int64(0)
	if gross == 0 {
		gross = p.amount
	}
	if st.feeKnown {
		fee = st.fee
	}
	return `<?xml version="1.0" encoding="ISO-8859-1" standalone="yes"?>` + "\n" +
		"<transaction><date>" + fmt.Sprint(pagbankTime(p.made())) + "</date><code>" + g.transaction(p) + "</code>" +
		"<reference>" + p.reference + "</reference><type>1</type><status>" + g.number(st) + "</status>" +
		"<lastEventDate>" + fmt.Sprint(pagbankTime(st.at)) + "</lastEventDate><paymentMethod><type>1</type></paymentMethod>" +
		"<grossAmount>" + value(gross) + "</grossAmount><discountAmount>0.00</discountAmount><feeAmount>" + value(fee) + "</feeAmount>" +
		"<netAmount>" + value(gross-fee) + "</netAmount><extraAmount>0.00</extraAmount>" +
		"<sender><name>João da Silva</name></sender><items><item><description>ação</description></item></items></transaction>"
}

// pagbankLatin1 writes a text in ISO-8859-1; what that does not have becomes '?'.
func pagbankLatin1(text string) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range text {
		if r > 0xff {
			r = '?'
		}
		out = append(out, byte(r))
	}
	return out
}
