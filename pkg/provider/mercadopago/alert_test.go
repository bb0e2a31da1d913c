package mercadopago_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"testing"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/mercadopago"
)

// A fraud alert has data.payment_id and no data.id, so its address may have
// none. A part that is absent is left out of the signed text, and the alert is
// not sent again: 401 would lose it.
func TestAFraudAlertThatNamesNoResourceIsNotRefused(t *testing.T) {
	sum := func(key, text string) string {
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte(text))
		return hex.EncodeToString(mac.Sum(nil))
	}
	const requestID = "7d2b1f60-5a3e-4c8f-9b1a-0c2d4e6f8a10"
	alert := body(t, "fraud_alert")
	send := func(query, digest string) provider.Request {
		h := http.Header{}
		h.Set(mercadopago.SignatureHeader, "ts=1767225600,v1="+digest)
		h.Set(mercadopago.RequestIDHeader, requestID)
		return provider.Request{Header: h, Query: query, Body: alert, Now: clock}
	}
	p := build(t)
	without := sum(secret, "request-id:"+requestID+";ts:1767225600;")
	r := send("type=stop_delivery_op_wh", without)
	if _, reason := p.Verify(r); reason != provider.ReasonNone {
		t.Fatalf("refused: %s", reason)
	}
	if m := p.Parse(r)[0]; m.Disposition != provider.Quarantine || m.Reason != mercadopago.ReasonAlert {
		t.Errorf("%s, %q; want it where people look", m.Disposition, m.Reason)
	}
	for name, r := range map[string]provider.Request{
		"with an id that is not signed": send("data.id=98765432101&type=payment", without),
		"of an unknown secret":          send("type=stop_delivery_op_wh", sum("another-secret-of-somebody", "request-id:"+requestID+";ts:1767225600;")),
		"of another notification":       send("type=stop_delivery_op_wh", sum(secret, "id:98765432101;request-id:"+requestID+";ts:1767225600;")),
		"an IPN":                        send("id=98765432101&topic=payment", sum(secret, "id:98765432101;request-id:"+requestID+";ts:1767225600;")),
	} {
		if _, reason := p.Verify(r); reason != provider.ReasonMismatch {
			t.Errorf("%s: %q", name, reason)
		}
	}
}
