package e2e

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// The credentials are the end of the address.
var zoopGateway = gateway{
	name: "zoop", accounts: []string{"default", "loja2"}, prefix: "a0zoop", refused: 401, words: [2]string{"ok", "unauthorized"},
	hasIDs: true, minSecret: "zoop-e2e-0123456789-0123456789-0123",
	amount: `"original_amount":"100.10"`, odds: []string{`"100.1"`, `"100.100"`}, huge: `"12345678901234567890.00"`, forget: true,
	sign: func(_, secret string, _ []byte) credentials { return credentials{suffix: "/" + secret} },
	odd:  func(value string) credentials { return credentials{suffix: "/" + url.PathEscape(value)} },
	body: func(e hook) []byte {
		typ := map[string]string{"created": "created", "failed": "failed", "paid": "succeeded", "again": "capture.succeeded", "look": "updated", "part": "canceled", "lost": "charged_back", "refunded": "canceled"}[e.kind]
		status := e.kind
		if e.kind == "again" {
			status = "paid"
		}
		object := zoopTransaction(e.sale, status, e.note)
		if e.kind == "look" {
			object = fmt.Sprintf(`{"id":"%s","resource":"transaction","description":%s}`, e.sale.id, e.note)
		}
		return fmt.Appendf(nil, `{"id":"%s","resource":"event","type":"transaction.%s","created_at":"%s","payload":{"object":%s}}`,
			e.id, typ, e.at.UTC().Format("2006-01-02T15:04:05+00:00"), object)
	},
	key:    basicUser,
	asks:   func(path string, _ url.Values) string { return under(path, "/marketplaces/mp-e2e/transactions/") },
	answer: func(_ *http.Request, s sale) string { return zoopTransaction(s, s.status, `""`) },
	settings: func(string, string) map[string]string {
		return map[string]string{"MARKETPLACE_ID": "mp-e2e"}
	},
	open: []change{
		{"without lookup", map[string]string{"ZOOP_LOOKUP": "never"}, "ZOOP"},
		{"with an empty line among its headers", map[string]string{"ZOOP_AUTHORIZATION": "canary-secret-header\n\nanother"}, "ZOOP_AUTHORIZATION"},
	},
}

func zoopTransaction(s sale, status, note string) string {
	word := map[string]string{"created": "pending", "failed": "failed", "paid": "succeeded", "part": "succeeded", "lost": "charged_back", "refunded": "canceled"}[status]
	captured, left, more := status == "paid" || status == "part" || status == "lost" || status == "refunded", reais(s.amount), ""
	history := []string{`{"id":"h1","operation_type":"created","status":"succeeded","amount":"` + reais(s.amount) + `"}`}
	if status == "refunded" {
		left = reais(s.amount - s.refunded)
		history = append(history, `{"id":"h2","operation_type":"void","status":"succeeded","amount":"`+reais(s.refunded)+`"}`)
	}
	if status == "part" || status == "lost" && s.refunded > 0 {
		left = reais(s.amount - s.refunded)
		history = append(history, s.each(func(number string, amount int64) string {
			return fmt.Sprintf(`{"id":"p%s","operation_type":"void_partial","status":"succeeded","amount":"%s"}`, number, reais(amount))
		}))
	}
	if !captured {
		history = nil
	}
	if !s.withoutFields {
		more = fmt.Sprintf(`"reference_id":"%s","fees":"%s",`, s.reference(), reais(s.fee))
	}
	original := cmp.Or(s.rawAmount, reais(s.amount))
	if status == "paid" {
		left = original
	}
	return fmt.Sprintf(`{"id":"%s","resource":"transaction","status":"%s","amount":"%s","original_amount":"%s","currency":"BRL","payment_type":"credit","description":%s,%s"refunded":false,"voided":%v,"captured":%v,"history":[%s]}`,
		s.id, cmp.Or(s.word, word), left, original, note, more, status == "refunded", captured, strings.Join(history, ","))
}
