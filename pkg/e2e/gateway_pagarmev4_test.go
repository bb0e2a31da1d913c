package e2e

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
)

// The postbacks of Pagar.me's API v1 to v4: signed forms, without any lookup.
var pagarmeV4Gateway = gateway{
	name: "pagarme", label: "pagarme-v4", accounts: []string{"v4"}, prefix: "", refused: 400, words: [2]string{"ok", "invalid signature"},
	header: "X-Hub-Signature", signs: true, form: true, idless: true, minSecret: "ak_live_e2e_0123456789abcdef",
	amount: "transaction%5Bpaid_amount%5D=10010", lacks: "look", noFee: true, noAPI: true,
	sign: func(_, secret string, body []byte) credentials {
		return credentials{header: http.Header{"X-Hub-Signature": {"sha1=" + pagarmeV4Digest(secret, body)}}}
	},
	body: func(e hook) []byte {
		from, to, at := "waiting_payment", map[string]string{"created": "waiting_payment", "failed": "refused", "paid": "paid", "again": "paid", "part": "paid", "lost": "chargedback", "refunded": "refunded"}[e.kind], e.at
		paid, refunded, more := int64(0), int64(0), ""
		switch e.kind {
		case "created":
			from = "processing"
		case "again":
			from = "authorized"
		case "refunded", "part", "lost":
			from, refunded = "paid", e.refunded
		}
		if to == "paid" || to == "refunded" || to == "chargedback" {
			paid = e.sale.amount
		}
		if !e.withoutFields {
			more = fmt.Sprintf("&transaction%%5Bamount%%5D=%d&transaction%%5Breference_key%%5D=%s", e.sale.amount, url.QueryEscape(e.reference()))
		}
		id := url.QueryEscape(e.sale.id)
		return fmt.Appendf(nil, "id=%s&fingerprint=0000000000000000000000000000000000000001&event=transaction_status_changed&old_status=%s&desired_status=paid&current_status=%s&object=transaction"+
			"&transaction%%5Bid%%5D=%s&transaction%%5Bdate_updated%%5D=%s&transaction%%5Bpaid_amount%%5D=%d&transaction%%5Brefunded_amount%%5D=%d%s&transaction%%5Bmetadata%%5D%%5Bdescription%%5D=%s",
			id, from, to, id, url.QueryEscape(at.UTC().Format("2006-01-02T15:04:05.000Z")), paid, refunded, more, formText(e.note))
	},
	settings: func(string, string) map[string]string {
		return map[string]string{"API_VERSION": "4", "LOOKUP": "never", "REFERENCE_FIELD": "reference_key"}
	},
	open: []change{
		{"with the secret key of another API", map[string]string{"PAGARME_V4_WEBHOOK_SECRETS": "sk_canary-secret-0123456789"}, "PAGARME_V4_WEBHOOK_SECRETS"},
		{"with a key of the test mode", map[string]string{"PAGARME_V4_WEBHOOK_SECRETS": "ak_test_canary-secret-0123456789"}, "PAGARME_V4_WEBHOOK_SECRETS"},
		{"with an unknown version", map[string]string{"PAGARME_V4_API_VERSION": "3"}, "PAGARME_V4_API_VERSION"},
	},
}

func pagarmeV4Digest(key string, body []byte) string {
	mac := hmac.New(sha1.New, []byte(key))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}
