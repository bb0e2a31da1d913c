package e2e

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Two formats come to one address: signed JSON, and forms with a code, which
// are not signed and come to an address with a secret here.
var pagbankGateway = gateway{
	name: "pagbank", accounts: []string{"default", "loja2"}, prefix: "CHAR_", refused: 401, words: [2]string{"ok", "unauthorized"},
	header: "X-Authenticity-Token", signs: true, idless: true, alike: true, fixed: true, noFee: true, lacks: "look lost", minSecret: "pagbank-e2e-0123456789",
	amount: `"paid":10010`, odds: []string{`"10010"`},
	sign: func(_, secret string, body []byte) credentials {
		if bytes.HasPrefix(body, []byte("notificationCode=")) {
			return credentials{suffix: "/" + pagbankNotificationSecret}
		}
		sum := sha256.Sum256(append([]byte(secret+"-"), body...))
		return credentials{header: http.Header{"X-Authenticity-Token": {hex.EncodeToString(sum[:])}}}
	},
	body: func(e hook) []byte {
		charge := pagbankCharge(e.sale, map[string]string{"again": "paid"}[e.kind], e.note)
		if e.kind != "again" {
			charge = pagbankCharge(e.sale, e.kind, e.note)
		}
		if e.kind != "paid" && e.kind != "created" {
			return []byte(charge)
		}
		return []byte(pagbankOrder(e.sale, charge))
	},
	key: func(r *http.Request) string {
		if token := r.URL.Query().Get("token"); token != "" && r.URL.Query().Get("email") == "loja@example.com" {
			return token
		}
		return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	},
	asks: func(path string, _ url.Values) string {
		if id := under(path, "/charges/"); id != "" {
			return id
		}
		if id := under(path, "/orders/"); id != "" {
			return "CHAR_" + strings.TrimPrefix(id, "ORDE_")
		}
		return "CHAR_" + under(path, "/v3/transactions/notifications/")
	},
	answer: func(r *http.Request, s sale) string {
		switch {
		case strings.Contains(r.URL.Path, "/notifications/"):
			return pagbankTransaction(s)
		case strings.Contains(r.URL.Path, "/orders/"):
			return pagbankOrder(s, pagbankCharge(s, s.status, `""`))
		}
		return pagbankCharge(s, s.status, `""`)
	},
	settings: func(api, _ string) map[string]string {
		return map[string]string{"EMAIL": "loja@example.com", "NOTIFICATION_BASE": api, "NOTIFICATION_SECRET": pagbankNotificationSecret}
	},
	open: []change{
		{"with a sandbox's address in production", map[string]string{"PAGBANK_SANDBOX_SECRET": "canary-secret-0123456789"}, "PAGBANK_SANDBOX_SECRET"},
		{"with an empty secret for its forms", map[string]string{"PAGBANK_NOTIFICATION_SECRET": "canary-secret-0123456789,"}, "PAGBANK_NOTIFICATION_SECRET"},
	},
}

const pagbankNotificationSecret = "pagbank-e2e-notifications-0123456789"

func pagbankCharge(s sale, status, note string) string {
	word := map[string]string{"created": "WAITING", "failed": "DECLINED", "refunded": "CANCELED"}[status]
	if word == "" { // of a dispute it shows nothing
		word = "PAID"
	}
	paid, refunded, more := "0", int64(0), ""
	switch status {
	case "refunded", "part":
		refunded = s.refunded
		fallthrough
	case "paid", "disputed", "won", "lost":
		paid, more = cmp.Or(s.rawAmount, strconv.FormatInt(s.amount, 10)), `"paid_at":"2026-01-15T09:00:03.000-03:00",`
	}
	if !s.withoutFields {
		more += fmt.Sprintf(`"reference_id":"%s",`, s.reference())
	}
	return fmt.Sprintf(`{"id":"%s",%s"status":"%s","created_at":"2026-01-15T09:00:01.000-03:00","description":%s,"amount":{"value":%d,"currency":"BRL","summary":{"total":%d,"paid":%s,"refunded":%d}},"payment_method":{"type":"CREDIT_CARD"}}`,
		s.id, more, cmp.Or(s.word, word), note, s.amount, s.amount, paid, refunded)
}

func pagbankOrder(s sale, charges string) string {
	reference := fmt.Sprintf(`"reference_id":"%s",`, s.reference())
	if s.withoutFields {
		reference = ""
	}
	return fmt.Sprintf(`{"id":"ORDE_%s",%s"created_at":"2026-01-15T09:00:00.000-03:00","charges":[%s]}`, strings.TrimPrefix(s.id, "CHAR_"), reference, charges)
}

// pagbankTransaction is the old API's answer, whose statuses are numbers.
func pagbankTransaction(s sale) string {
	number := map[string]string{"created": "1", "failed": "7", "paid": "3", "refunded": "6", "disputed": "5", "lost": "8", "won": "4"}[s.status]
	when := map[string]string{"disputed": "02-01", "lost": "03-01", "won": "03-01"}[s.status]
	return fmt.Sprintf(`<?xml version="1.0" encoding="ISO-8859-1" standalone="yes"?>`+
		`<transaction><date>2026-01-15T09:00:01.000-03:00</date><lastEventDate>2026-%sT10:00:00.000-03:00</lastEventDate><code>9E884542-81B3-4419-9A75-BCC6FB495EF1</code>`+
		`<reference>%s</reference><type>1</type><status>%s</status><grossAmount>%s</grossAmount></transaction>`, cmp.Or(when, "01-15"), s.reference(), number, reais(s.amount))
}
