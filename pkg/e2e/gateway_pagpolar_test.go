package e2e

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

var pagpolarGateway = gateway{
	name: "pagpolar", accounts: []string{"default", "loja2"}, prefix: "sale-", refused: 401, words: [2]string{"ok", "unauthorized"},
	header: "Authorization", minSecret: "pp_e2e_0123456789abcdef", sign: token("Authorization", "Bearer "), marks: true, vague: true, lacks: "part lost",
	body: func(e hook) []byte {
		typ := "TRANSACTION_" + map[string]string{"created": "CREATED", "failed": "REFUSED", "paid": "PAID", "again": "APPROVED", "look": "UPDATED", "refunded": "REFUNDED"}[e.kind]
		more := ""
		if e.test {
			more = `"test":true,`
		}
		return fmt.Appendf(nil, `{"event":"%s","id":"%s","creation_date":"%s",%s"data":{"transaction":{"id":"%s","status":"%s","description":%s}}}`,
			typ, e.id, e.at.UTC().Format(time.RFC3339), more, e.sale.id, strings.ToUpper(e.kind), e.note)
	},
	asks: func(path string, q url.Values) string {
		if path == "/refunds" {
			return q.Get("sale_identifier")
		}
		return under(path, "/sales/")
	},
	answer: func(r *http.Request, s sale) string {
		if strings.HasSuffix(r.URL.Path, "/refunds") {
			if s.status != "refunded" {
				return `{"data":[]}`
			}
			return fmt.Sprintf(`{"data":[{"id":"rf_%s","amount":%d,"status":"DONE"}]}`, s.id, s.refunded)
		}
		word := map[string]string{"created": "PENDING", "failed": "REFUSED", "paid": "PAID", "refunded": "REFUNDED"}[s.status]
		return fmt.Sprintf(`{"id":"%s","status":"%s","amount":%s,"fee":%d,"reference":"%s"}`,
			s.id, cmp.Or(s.word, word), cmp.Or(s.rawAmount, strconv.FormatInt(s.amount, 10)), s.fee, s.reference())
	},
	settings: func(string, string) map[string]string {
		return map[string]string{
			"API_AUTH": "Authorization: Bearer {key}", "SALE_ID_PATH": "id", "STATUS_PATH": "status",
			"STATUS_MAP":  "PENDING=pending,PAID=paid,REFUSED=failed,REFUNDED=refunded",
			"AMOUNT_PATH": "amount", "AMOUNT_UNIT": "minor", "CURRENCY": "BRL", "FEE_PATH": "fee", "REFERENCE_PATH": "reference",
			"REFUNDS_LIST_PATH": "data", "REFUND_ID_PATH": "id", "REFUND_AMOUNT_PATH": "amount", "REFUND_STATUS_PATH": "status",
			"REFUND_STATUS_MAP": "DONE=succeeded",
		}
	},
	open: []change{{"without lookup", map[string]string{"PAGPOLAR_LOOKUP": "never"}, "PAGPOLAR"}},
}
