package e2e

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

var asaasGateway = gateway{
	name: "asaas", accounts: []string{"default", "loja2"}, prefix: "pay_", refused: 401, words: [2]string{"ok", "unauthorized"},
	header: "Asaas-Access-Token", hasIDs: true, lacks: "lost", minSecret: "e2e-token-0123456789-0123456789-01234", sign: token("Asaas-Access-Token", ""),
	amount: `"value":100.10`, odds: []string{"100.1", "100.100", `"100.10"`, "100.1000000000000000000000000000000000000"},
	body: func(e hook) []byte {
		typ := map[string]string{"created": "PAYMENT_CREATED", "failed": "PAYMENT_CREDIT_CARD_CAPTURE_REFUSED", "paid": "PAYMENT_CONFIRMED",
			"part": "PAYMENT_PARTIALLY_REFUNDED", "again": "PAYMENT_RECEIVED", "look": "PAYMENT_UPDATED", "refunded": "PAYMENT_REFUNDED"}[e.kind]
		s := e.sale
		s.status = map[string]string{"again": "paid", "look": "created"}[e.kind]
		if s.status == "" {
			s.status = e.kind
		}
		return fmt.Appendf(nil, `{"id":"%s","event":"%s","dateCreated":"%s","payment":%s}`, e.id, typ,
			e.at.UTC().Add(-3*time.Hour).Format(time.DateTime), asaasPayment(s, e.note))
	},
	base:   "/v3",
	key:    func(r *http.Request) string { return r.Header.Get("access_token") },
	asks:   func(path string, _ url.Values) string { return under(path, "/v3/payments/") },
	answer: func(_ *http.Request, s sale) string { return asaasPayment(s, `""`) },
}

func asaasPayment(s sale, note string) string {
	word := map[string]string{"created": "PENDING", "failed": "PENDING", "paid": "CONFIRMED", "part": "CONFIRMED", "refunded": "REFUNDED"}[s.status]
	refunds := "null"
	if s.status == "refunded" || s.status == "part" {
		refunds = "[" + s.each(func(number string, amount int64) string {
			return fmt.Sprintf(`{"dateCreated":"2026-01-0%s 10:00:00","status":"DONE","value":%s}`, number, reais(amount))
		}) + "]"
	}
	more := fmt.Sprintf(`,"netValue":%s,"externalReference":"%s"`, reais(s.amount-s.fee), s.reference())
	if s.withoutFields {
		more = ""
	}
	value := reais(s.amount)
	if s.rawAmount != "" {
		value = s.rawAmount
	}
	return fmt.Sprintf(`{"object":"payment","id":"%s","value":%s,"description":%s,"billingType":"CREDIT_CARD","status":"%s","deleted":false,"refunds":%s%s}`,
		s.id, value, note, cmp.Or(s.word, word), refunds, more)
}
