package gatewaysim

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// stripe plays Stripe with snapshot events of API version stripeVersion.
type stripe struct{}

const stripeVersion = "2026-02-25.clover"

func (stripe) name() string { return "stripe" }

func (stripe) kinds() []weighted {
	return []weighted{
		{KindCreated, 6}, {KindPaid, 40}, {KindAuthorized, 2}, {KindCaptured, 10},
		{KindPartRefunded, 8}, {KindRefunded, 7}, {KindRefundFailed, 3},
		{KindFailed, 3}, {KindFailedThenPaid, 5}, {KindCanceled, 3}, {KindExpired, 3},
		{KindInquiry, 1}, {KindDisputed, 3}, {KindDisputeWon, 3}, {KindDisputeLost, 3},
	}
}

func (stripe) eventID(r *rand.Rand) string { return "evt_1S" + randomText(r, 22, base62) }

func (stripe) credentials(r *rand.Rand) Credentials {
	return Credentials{
		WebhookSecrets: []string{"whsec_" + randomText(r, 32, base62)},
		APIKey:         "sk_live_" + randomText(r, 40, base62),
	}
}

func (stripe) identity(_ *pay, _ *step, h *happening) string { return h.id }

func (stripe) success(status int) bool { return status >= 200 && status < 300 }

func (stripe) settings(*account, string) map[string]string { return nil }

func (g stripe) retitle(typ string, r *rand.Rand) map[string]any {
	return map[string]any{"type": typ, "id": g.eventID(r)}
}

// signature is the lower-case hex HMAC-SHA256 of "<t>.<body>" under the whole
// secret, its prefix included.
func (stripe) signature(secret, t string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(t))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

func (g stripe) sign(c *Credentials, body []byte, now time.Time, _ uint64) Sent {
	t := strconv.FormatInt(now.Unix(), 10)
	value := "t=" + t
	for _, secret := range c.WebhookSecrets {
		value += ",v1=" + g.signature(secret, t, body)
	}
	if len(c.WebhookSecrets) > 1 {
		value += ",v0=" + strings.Repeat("0", 64)
	}
	return Sent{Body: body, Header: http.Header{
		"Stripe-Signature": {value}, "User-Agent": {"Stripe/1.0 (+https://stripe.com/docs/webhooks)"},
	}}
}

// forge makes a request that no holder of the secret has signed just now.
func (g stripe) forge(c *Credentials, body []byte, now time.Time, variant uint64) Sent {
	s := g.sign(c, body, now, 0)
	h := s.Header
	t := strconv.FormatInt(now.Unix(), 10)
	good := g.signature(c.WebhookSecrets[0], t, body)
	switch variant % 7 {
	case 0: // another secret
		h.Set("Stripe-Signature", "t="+t+",v1="+g.signature("whsec_forged", t, body))
	case 1: // changed on the way
		s.Body = append(bytes.Clone(body), ' ')
	case 2:
		h.Del("Stripe-Signature")
	case 3: // a recording, an hour old
		return g.sign(c, body, now.Add(-time.Hour), 0)
	case 4: // from the future
		return g.sign(c, body, now.Add(time.Hour), 0)
	case 5: // a scheme that does not count
		h.Set("Stripe-Signature", "t="+t+",v0="+good)
	case 6: // the digest of another time
		h.Set("Stripe-Signature", "t="+strconv.FormatInt(now.Unix()-1, 10)+",v1="+good)
	}
	return s
}

func (g stripe) test(p *pay, st *step, h *happening, variant uint64) ([]byte, http.Header) {
	test := *h
	test.id = "evt_1T" + randomText(newRand(variant, streamRequest), 22, base62)
	return stripeEvent(&test, st, g.data(p, st, h), false), nil
}

// malformed gives bodies that say nothing readable about any payment.
func (g stripe) malformed(p *pay, body []byte, variant uint64) []byte {
	r := newRand(variant, streamRequest)
	id := "evt_1M" + randomText(r, 22, base62)
	head := `{"id":"` + id + `","object":"event","api_version":"` + stripeVersion + `","created":` +
		strconv.FormatInt(p.steps[0].at.Unix(), 10) + `,"livemode":true,"type":"payment_intent.succeeded",`
	switch variant % 6 {
	case 0:
		return body[:len(body)*2/3]
	case 1:
		return []byte("[" + string(body) + "]")
	case 2:
		return []byte(head + `"data":null}`)
	case 3:
		return []byte(head + `"data":{"object":{"object":"payment_intent","amount_received":100,"currency":"brl","status":"succeeded"}}}`)
	case 4:
		return []byte(head + `"data":{"object":{"id":{"a":1},"object":"payment_intent"}}}`)
	}
	return []byte("not json at all " + id)
}

func (g stripe) body(p *pay, st *step, h *happening, _ int) []byte {
	return stripeEvent(h, st, g.data(p, st, h), true)
}

func stripeEvent(h *happening, st *step, data object, live bool) []byte {
	return object{
		{"id", h.id}, {"object", "event"}, {"api_version", stripeVersion}, {"created", st.at.Unix()},
		{"livemode", live}, {"pending_webhooks", 1},
		{"request", object{{"id", nil}, {"idempotency_key", nil}}},
		{"type", h.typ}, {"data", data},
	}.bytes()
}

// data is the object that the event type is about, and what it was before.
func (g stripe) data(p *pay, st *step, h *happening) object {
	switch {
	case strings.HasPrefix(h.typ, "payment_intent."):
		return object{{"object", g.intent(p, &st.state, nil)}}
	case strings.HasPrefix(h.typ, "charge.dispute."):
		return object{{"object", g.dispute(p, &st.state)}}
	case strings.HasPrefix(h.typ, "refund."), h.typ == "charge.refund.updated":
		d := object{{"object", g.refund(p, &st.state, &st.refunds[h.refund])}}
		if h.was != "" {
			d = d.with("previous_attributes", object{{"status", h.was}})
		}
		return d
	}
	d := object{{"object", g.charge(p, &st.state, nil)}}
	switch h.typ {
	case "charge.updated":
		d = d.with("previous_attributes", object{{"balance_transaction", nil}})
	case "charge.refunded":
		d = d.with("previous_attributes", object{{"amount_refunded", raw(h.was)}})
	}
	return d
}
