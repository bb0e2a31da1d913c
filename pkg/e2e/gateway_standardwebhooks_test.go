package e2e

import (
	"cmp"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A sender of Standard Webhooks with the bodies of the profile generic and an
// API. It repeats the webhook-id in its bodies. The account default has shared
// secrets, loja2 knows the sender's public keys.
var standardWebhooksGateway = gateway{
	name: "standardwebhooks", accounts: []string{"default", "loja2"}, prefix: "pay_", refused: 401, words: [2]string{"ok", "invalid signature"},
	header: "Webhook-Signature", signs: true, hasIDs: true, noDots: true, lacks: "look", marks: true, minSecret: "whsec_",
	idField: "payment_id", amount: `"amount":10010`, odds: []string{`"10010"`},
	secret: func(account, age string) string {
		key := sha256.Sum256([]byte(account + age))
		if account == "loja2" {
			return "whpk_" + base64.StdEncoding.EncodeToString(ed25519.NewKeyFromSeed(key[:]).Public().(ed25519.PublicKey))
		}
		return "whsec_" + base64.StdEncoding.EncodeToString(key[:])
	},
	sign: func(_, secret string, body []byte) credentials {
		sum := sha256.Sum256(body)
		id := found(standardWebhooksID, body, "msg_"+hex.EncodeToString(sum[:8]))
		stamp := strconv.FormatInt(time.Now().Unix(), 10)
		return credentials{header: http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {standardWebhooksEntry(secret, id, stamp, body)}}}
	},
	odd: func(value string) credentials {
		return credentials{header: http.Header{"Webhook-Id": {"msg_odd"}, "Webhook-Timestamp": {strconv.FormatInt(time.Now().Unix(), 10)}, "Webhook-Signature": {value}}}
	},
	body: func(e hook) []byte {
		typ := "payment." + map[string]string{"created": "pending", "failed": "failed", "paid": "paid", "again": "paid", "part": "partially_refunded", "lost": "chargeback.lost", "refunded": "refunded"}[e.kind]
		more := ""
		if !e.withoutFields {
			more = fmt.Sprintf(`"reference":"%s",`, e.reference())
			if e.kind == "paid" || e.kind == "again" {
				more += fmt.Sprintf(`"fee":%d,"net":%d,`, e.fee, e.sale.amount-e.fee)
			}
		}
		amount := e.sale.amount
		if e.kind == "lost" {
			more += fmt.Sprintf(`"dispute_id":"dp_%s",`, e.sale.id)
			amount -= e.refunded
		}
		if e.kind == "refunded" || e.kind == "part" {
			more += fmt.Sprintf(`"refund_id":"rf_%s_%d","amount_refunded":%d,`, e.sale.id, len(e.refunds()), e.refunded)
			amount = e.refunded - e.earlier
		}
		return fmt.Appendf(nil, `{"type":"%s","timestamp":"%s","message_id":"%s","data":{"payment_id":"%s","amount":%d,%s"currency":"BRL","livemode":%v,"description":%s}}`,
			typ, e.at.UTC().Format(time.RFC3339), e.id, e.sale.id, amount, more, !e.test, e.note)
	},
	asks: func(path string, _ url.Values) string { return under(path, "/payments/") },
	answer: func(_ *http.Request, s sale) string {
		word, refunds := map[string]string{"created": "pending", "part": "partially_refunded", "lost": "charged_back"}[s.status], ""
		if s.status == "refunded" || s.status == "part" || s.status == "lost" {
			refunds = s.each(func(number string, amount int64) string {
				return fmt.Sprintf(`{"refund_id":"rf_%s_%s","amount":%d,"status":"succeeded"}`, s.id, number, amount)
			})
		}
		disputes := ""
		if s.status == "lost" {
			disputes = fmt.Sprintf(`{"dispute_id":"dp_%s","amount":%d,"status":"lost"}`, s.id, s.amount-s.refunded)
		}
		return fmt.Sprintf(`{"payment_id":"%s","status":"%s","amount":%s,"currency":"BRL","fee":%d,"net":%d,"reference":"%s","amount_refunded":%d,"refunds":[%s],"disputes":[%s]}`,
			s.id, cmp.Or(s.word, word, s.status), cmp.Or(s.rawAmount, strconv.FormatInt(s.amount, 10)), s.fee, s.amount-s.fee, s.reference(), s.refunded, refunds, disputes)
	},
	settings: func(string, string) map[string]string { return map[string]string{"LOOKUP": "always"} },
	open: []change{
		{"with an empty key", map[string]string{"STANDARDWEBHOOKS_WEBHOOK_SECRETS": "whsec_"}, "STANDARDWEBHOOKS_WEBHOOK_SECRETS"},
		{"with a short key", map[string]string{"STANDARDWEBHOOKS_WEBHOOK_SECRETS": "whsec_Y2FuYXJ5LXNlY3JldA=="}, "STANDARDWEBHOOKS_WEBHOOK_SECRETS"},
		{"with a key that is not base64", map[string]string{"STANDARDWEBHOOKS_WEBHOOK_SECRETS": "whsec_canary-secret-0123456789"}, "STANDARDWEBHOOKS_WEBHOOK_SECRETS"},
	},
}

// The same sender without an API: what it signs is all that there is to know.
var standardWebhooksAlone = func() gateway {
	g := standardWebhooksGateway
	g.label, g.accounts, g.noAPI, g.bare, g.open = "standardwebhooks-alone", []string{"alone"}, true, true, nil
	g.settings = func(string, string) map[string]string { return map[string]string{"LOOKUP": "never"} }
	return g
}()

var standardWebhooksID = regexp.MustCompile(`"message_id"\s*:\s*"([^"\s.]+)"`)

// standardWebhooksEntry is one entry of the header, for the key that the
// receiver holds.
func standardWebhooksEntry(secret, id, stamp string, body []byte) string {
	text := append([]byte(id+"."+stamp+"."), body...)
	if strings.HasPrefix(secret, "whpk_") {
		return "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(standardWebhooksPrivate[secret], text))
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		key = []byte(secret) // of a forger
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(text)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// standardWebhooksPrivate are the sender's halves of the public keys.
var standardWebhooksPrivate = func() map[string]ed25519.PrivateKey {
	keys := map[string]ed25519.PrivateKey{}
	for _, age := range []string{"old", "new"} {
		seed := sha256.Sum256([]byte("loja2" + age))
		private := ed25519.NewKeyFromSeed(seed[:])
		keys["whpk_"+base64.StdEncoding.EncodeToString(private.Public().(ed25519.PublicKey))] = private
	}
	return keys
}()
