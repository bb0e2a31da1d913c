package e2e

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

var stripeGateway = gateway{
	name: "stripe", accounts: []string{"default", "loja2"}, prefix: "pi_", refused: 400, words: [2]string{"ok", "invalid signature"},
	header: "Stripe-Signature", signs: true, hasIDs: true, minSecret: "whsec_e2e_0123456789",
	amount: `"amount_received":10010`, odds: []string{`"10010"`}, marks: true, lacks: "lost",
	sign: func(_, secret string, body []byte) credentials {
		t := strconv.FormatInt(time.Now().Unix(), 10)
		return credentials{header: http.Header{"Stripe-Signature": {"t=" + t + ",v1=" + stripeDigest(secret, t, body)}}}
	},
	body: func(e hook) []byte {
		typ, object := "payment_intent."+map[string]string{"created": "created", "failed": "payment_failed", "paid": "succeeded"}[e.kind], ""
		switch e.kind {
		case "refunded", "part":
			typ, object = "refund.created", stripeRefund(e.sale, strconv.Itoa(len(e.refunds())), e.refunded-e.earlier)
		case "again", "look":
			typ = map[string]string{"again": "charge.succeeded", "look": "charge.updated"}[e.kind]
			object = stripeCharge(e.sale)
		default:
			object = stripeIntent(e.sale, e.kind, e.note, "null")
		}
		return fmt.Appendf(nil, `{"id":"%s","object":"event","api_version":"2026-02-25.clover","created":%d,"livemode":%v,"type":"%s","data":{"object":%s}}`,
			e.id, e.at.Unix(), !e.test, typ, object)
	},
	asks:   func(path string, _ url.Values) string { return under(path, "/v1/payment_intents/") },
	answer: func(_ *http.Request, s sale) string { return stripeIntent(s, s.status, `""`, stripeCharge(s)) },
}

func stripeDigest(secret, t string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

func stripeIntent(s sale, status, note, charge string) string {
	word, failure, received, metadata := "requires_action", "null", int64(0), fmt.Sprintf(`{"order_id":"%s"}`, s.reference())
	switch status {
	case "failed":
		word, failure = "requires_payment_method", `{"code":"card_declined"}`
	case "paid", "part", "refunded":
		word, received = "succeeded", s.amount
	}
	if received == 0 {
		charge = "null"
	}
	if s.withoutFields {
		metadata = "{}"
	}
	return fmt.Sprintf(`{"id":"%s","object":"payment_intent","amount":%d,"amount_received":%d,"currency":"brl","description":%s,"livemode":true,"status":"%s","last_payment_error":%s,"metadata":%s,"latest_charge":%s}`,
		s.id, s.amount, received, note, cmp.Or(s.word, word), failure, metadata, charge)
}

func stripeRefund(s sale, number string, amount int64) string {
	return fmt.Sprintf(`{"id":"re_%[1]s_%[2]s","object":"refund","amount":%[3]d,"currency":"brl","payment_intent":"%[1]s","status":"succeeded"}`, s.id, number, amount)
}

func stripeCharge(s sale) string {
	refunds := s.each(func(number string, amount int64) string { return stripeRefund(s, number, amount) })
	return fmt.Sprintf(`{"id":"ch_%[1]s","object":"charge","amount":%[2]d,"amount_captured":%[2]d,"amount_refunded":%[3]d,"captured":true,"currency":"brl","refunded":%[4]v,"status":"succeeded","payment_intent":"%[1]s",`+
		`"metadata":{"order_id":"%[7]s"},"balance_transaction":{"id":"txn_%[1]s","object":"balance_transaction","currency":"brl","fee":%[5]d},"refunds":{"object":"list","data":[%[6]s],"has_more":false}}`,
		s.id, s.amount, s.refunded, s.refunded == s.amount, s.fee, refunds, s.reference())
}
