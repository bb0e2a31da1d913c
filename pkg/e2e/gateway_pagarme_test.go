package e2e

import (
	"cmp"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The account default takes signatures of published keys, loja2 the password
// that was typed into the dashboard.
var pagarmeGateway = gateway{
	name: "pagarme", accounts: []string{"default", "loja2"}, prefix: "ch_", refused: 401, words: [2]string{"ok", "unauthorized"},
	header: "X-Webhook-Asymmetric-Signature", signs: true, published: true, hasIDs: true,
	amount: `"paid_amount":10010`, odds: []string{`"10010"`},
	secret: func(account, age string) string {
		if account == "default" {
			return "key-e2e-" + age
		}
		return "hookuser:pass:word-" + age
	},
	sign: func(account, secret string, body []byte) credentials {
		if account != "default" {
			return credentials{header: http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(secret))}}}
		}
		return credentials{header: http.Header{"X-Webhook-Asymmetric-Signature": {pagarmeSignature(pagarmeKeys()[secret], secret, body)}}}
	},
	body: func(e hook) []byte {
		typ := map[string]string{"created": "charge.pending", "failed": "charge.payment_failed", "paid": "charge.paid", "again": "order.paid",
			"look": "charge.updated", "part": "charge.partial_canceled", "lost": "charge.chargedback", "refunded": "charge.refunded"}[e.kind]
		data := pagarmeCharge(e.sale, e.kind, e.note)
		switch e.kind {
		case "again":
			data = fmt.Sprintf(`{"id":"or_%s","code":"%s","amount":%d,"currency":"BRL","closed":true,"status":"paid","charges":[%s]}`,
				strings.TrimPrefix(e.sale.id, "ch_"), e.reference(), e.sale.amount, pagarmeCharge(e.sale, "paid", e.note))
		case "look":
			data = fmt.Sprintf(`{"id":"%s","description":%s}`, e.sale.id, e.note)
		}
		return fmt.Appendf(nil, `{"id":"%s","account":{"id":"acc_E2E01","name":"Loja Exemplo"},"type":"%s","created_at":"%s","data":%s}`,
			e.id, typ, e.at.UTC().Format("2006-01-02T15:04:05.0000000Z"), data)
	},
	key: basicUser,
	asks: func(path string, q url.Values) string {
		if path == "/payables" {
			return q.Get("charge_id")
		}
		return under(path, "/charges/")
	},
	answer: func(r *http.Request, s sale) string {
		if strings.HasSuffix(r.URL.Path, "/payables") {
			return fmt.Sprintf(`{"data":[{"charge_id":"%s","type":"credit","installment":1,"amount":%d,"fee":%d,"anticipation_fee":0,"fraud_coverage_fee":0,"status":"waiting_funds"}],"paging":{}}`,
				s.id, s.amount, s.fee)
		}
		return pagarmeCharge(s, s.status, `""`)
	},
	serve: func(w http.ResponseWriter, _ *http.Request, path string) bool {
		if path != "/jwks.json" {
			return false
		}
		var keys []string
		for kid, key := range pagarmeKeys() {
			keys = append(keys, fmt.Sprintf(`{"kty":"RSA","use":"sig","alg":"RS256","kid":"%s","n":"%s","e":"%s"}`, kid,
				base64.RawURLEncoding.EncodeToString(key.N.Bytes()), base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes())))
		}
		fmt.Fprintf(w, `{"keys":[%s]}`, strings.Join(keys, ","))
		return true
	},
	settings: func(api, account string) map[string]string {
		own := map[string]string{"ACCOUNT_ID": "acc_E2E01", "PAYABLES": "true", "AUTH": "basic"}
		if account == "default" {
			own["AUTH"], own["JWKS_URL"], own["WEBHOOK_SECRETS"] = "signature", api+"/jwks.json", ""
		}
		return own
	},
	open: []change{
		{"without a word on its credentials", map[string]string{"PAGARME_AUTH": ""}, "PAGARME_AUTH"},
		{"with credentials that do not exist", map[string]string{"PAGARME_AUTH": "signature,hmac"}, "PAGARME_AUTH"},
		{"with passwords that are missing", map[string]string{"PAGARME_AUTH": "basic"}, "PAGARME_WEBHOOK_SECRETS"},
		{"with everybody's signatures and no account", map[string]string{"PAGARME_ACCOUNT_ID": "", "PAGARME_LOOKUP": "in_doubt"}, "PAGARME_ACCOUNT_ID"},
		{"with keys from an address that anybody on the way can answer for", map[string]string{"PAGARME_JWKS_URL": "http://keys.example/jwks.json"}, "PAGARME_JWKS_URL"},
	},
}

// pagarmeKeys are the pairs that Pagar.me publishes a half of.
var pagarmeKeys = sync.OnceValue(func() map[string]*rsa.PrivateKey {
	keys := map[string]*rsa.PrivateKey{}
	for _, kid := range []string{"key-e2e-old", "key-e2e-new"} {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		keys[kid] = key
	}
	return keys
})

func pagarmeSignature(key *rsa.PrivateKey, kid string, body []byte) string {
	sum := sha256.Sum256(body)
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return "alg=RS256; kid=" + kid + "; signature=" + base64.RawURLEncoding.EncodeToString(signature)
}

// basicUser is the key of an API that takes it as the user of HTTP Basic, with
// an empty password.
func basicUser(r *http.Request) string {
	user, password, ok := r.BasicAuth()
	if !ok || password != "" {
		return ""
	}
	return user
}

func pagarmeCharge(s sale, status, note string) string {
	word, paid, more := map[string]string{"created": "pending", "failed": "failed", "paid": "paid", "part": "paid", "lost": "chargedback", "refunded": "canceled"}[status], "", ""
	if status == "paid" || status == "part" || status == "lost" || status == "refunded" {
		paid = fmt.Sprintf(`"paid_amount":%s,"paid_at":"2026-01-15T12:00:04Z",`, cmp.Or(s.rawAmount, strconv.FormatInt(s.amount, 10)))
	}
	if status == "refunded" {
		more = fmt.Sprintf(`"canceled_amount":%d,"last_transaction":{"status":"refunded","success":true},`, s.refunded)
	}
	if status == "part" || status == "lost" && s.refunded > 0 { // the transaction has the difference, the charge the sum
		more = fmt.Sprintf(`"canceled_amount":%d,"last_transaction":{"status":"partial_refunded","success":true,"amount":%d},`, s.refunded, s.refunded-s.earlier)
	}
	if !s.withoutFields {
		more += fmt.Sprintf(`"code":"%s","amount":%d,`, s.reference(), s.amount)
	}
	return fmt.Sprintf(`{"id":"%s",%s%s"status":"%s","currency":"BRL","payment_method":"pix","updated_at":"%s","metadata":{"description":%s}}`,
		s.id, paid, more, cmp.Or(s.word, word), time.Now().UTC().Format(time.RFC3339), note)
}
