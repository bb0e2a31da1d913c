package e2e

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// The account default has its token in a header, loja2 in the address.
var iuguGateway = gateway{
	name: "iugu", accounts: []string{"default", "loja2"}, prefix: "INV", refused: 401, words: [2]string{"ok", "unauthorized"},
	header: "Authorization", form: true, idless: true, reopen: true, minSecret: "iugu-e2e-0123456789",
	sign: func(account, secret string, _ []byte) credentials {
		if account == "default" {
			return credentials{header: http.Header{"Authorization": {secret}}}
		}
		return credentials{suffix: "/" + secret}
	},
	body: func(e hook) []byte {
		typ := map[string]string{"created": "created", "failed": "payment_failed", "paid": "status_changed", "again": "created", "look": "status_changed", "part": "refund", "lost": "status_changed", "refunded": "refund"}[e.kind]
		status := map[string]string{"created": "pending", "failed": "pending", "paid": "paid", "again": "paid", "part": "paid", "lost": "chargeback", "refunded": "refunded"}[e.kind]
		more := "&data%5Border_id%5D=" + url.QueryEscape(e.reference())
		if e.withoutFields {
			more = ""
		}
		return fmt.Appendf(nil, "event=invoice.%s&data%%5Bid%%5D=%s&data%%5Baccount_id%%5D=EXAMPLEACC00000000000000000000001&data%%5Bstatus%%5D=%s%s&data%%5Bsubscription_id%%5D=&data%%5Bcustomer_name%%5D=%s",
			typ, url.QueryEscape(e.sale.id), status, more, formText(e.note))
	},
	base: "/v1",
	key:  basicUser,
	asks: func(path string, _ url.Values) string { return under(path, "/v1/invoices/") },
	answer: func(_ *http.Request, s sale) string {
		word, paid, taxes, refunded := "pending", "null", "null", "0"
		if s.status == "part" || s.status == "lost" {
			refunded = strconv.FormatInt(s.refunded, 10)
		}
		if s.status == "paid" || s.status == "part" || s.status == "lost" || s.status == "refunded" {
			word, paid, taxes = strings.NewReplacer("part", "paid", "lost", "chargeback").Replace(s.status), cmp.Or(s.rawAmount, strconv.FormatInt(s.amount, 10)), strconv.FormatInt(s.fee, 10)
		}
		if s.status == "refunded" {
			refunded = strconv.FormatInt(s.refunded, 10)
		}
		return fmt.Sprintf(`{"id":"%s","status":"%s","currency":"BRL","total_cents":%d,"total_paid_cents":%s,"taxes_paid_cents":%s,"refunded_cents":%s,"total":"R$ 1,00","external_reference":"%s"}`,
			s.id, cmp.Or(s.word, word), s.amount, paid, taxes, refunded, s.reference())
	},
	settings: func(_, account string) map[string]string {
		if account == "default" {
			return map[string]string{"AUTH": "header"}
		}
		return map[string]string{"AUTH": "path"}
	},
	open: []change{
		{"without a word on where its token is", map[string]string{"IUGU_AUTH": ""}, "IUGU_AUTH"},
		{"without lookup", map[string]string{"IUGU_LOOKUP": "never"}, "IUGU"},
	},
}
