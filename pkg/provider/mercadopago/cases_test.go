package mercadopago_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// The order's id in the address may have any letter case, and the signature
// over the lower-case spelling lets all of them pass: they are one order, with
// one key, and asked for in the spelling of the API (CASES A15, A25).
func TestCase_A15_MercadoPagoAnOrderIsOneWhateverItsLetterCase(t *testing.T) {
	t.Parallel()
	p := build(t, "MONEY_SOURCE=order")
	b := body(t, "orders/order_processed")
	keys := map[string]bool{}
	for _, id := range []string{ordID, strings.ToLower(ordID), "oRd" + ordID[3:], ordID[:10] + strings.ToLower(ordID[10:])} {
		r := request("data.id="+id+"&type=order", requestID, ordLower, b)
		if _, reason := p.Verify(r); reason != "" {
			t.Fatalf("%s: %s", id, reason)
		}
		m := p.Parse(r)[0]
		if m.PaymentRef != ordID || m.Disposition != provider.Process {
			t.Errorf("%s is about %q (%s)", id, m.PaymentRef, m.Disposition)
		}
		keys[m.DedupeKey] = true
	}
	if len(keys) != 1 {
		t.Errorf("one order has the keys %v", keys)
	}
}

// The request id is on every attempt, and two notifications may share it; it
// is no part of the key. A body that borrows another notification's id does
// not take its place (CASES A25).
func TestCase_A25_MercadoPagoTheKeyIsMadeOfWhatIsSignedAndWhatLasts(t *testing.T) {
	t.Parallel()
	p := build(t)
	updated := body(t, "payment_updated")
	first := sign(secret, updated, clock)
	second := sign(secret, updated, clock.Add(900e9))
	second.Header = second.Header.Clone()
	second.Header.Set("X-Request-Id", otherOfTwo)
	second.Header.Set("X-Retry", "1")
	if a, b := p.Parse(first)[0].DedupeKey, p.Parse(second)[0].DedupeKey; a != b {
		t.Errorf("a repetition has another key: %q, %q", a, b)
	}
	other := signedQuery(secret, "data.id=98765432102&type=payment", updated, clock)
	if a, b := p.Parse(first)[0].DedupeKey, p.Parse(other)[0].DedupeKey; a == b {
		t.Errorf("a borrowed id takes the place of the true one: %q", a)
	}
	unreadable := signedQuery(secret, "data.id=98765432102&type=payment", []byte("{"), clock)
	same := signedQuery(secret, "data.id=98765432103&type=payment", []byte("{"), clock)
	if p.Parse(unreadable)[0].DedupeKey == p.Parse(same)[0].DedupeKey {
		t.Error("what cannot be read is known by its body alone; the address differs")
	}
}

// An IPN and a webhook of one payment, with one request id, made two orders
// elsewhere (CASES B21). The IPN is refused, whatever it is signed with.
func TestCase_B21_MercadoPagoAnIPNBesideTheWebhookIsRefused(t *testing.T) {
	t.Parallel()
	p := build(t)
	ipn := []byte(`{"resource":"` + payID + `","topic":"payment"}`)
	for name, text := range map[string]string{
		"the id of the address":  "id:" + payID + ";request-id:" + requestID + ";ts:1767225600;",
		"no id":                  "request-id:" + requestID + ";ts:1767225600;",
		"an empty id":            "id:;request-id:" + requestID + ";ts:1767225600;",
		"nothing but the time":   "ts:1767225600;",
		"the webhook's manifest": "id:" + payID + ";request-id:" + requestID + ";ts:1767225600000;",
	} {
		r := request("id="+payID+"&topic=payment", requestID, "ts=1767225600,v1="+digest(secret, text), ipn)
		if label, reason := p.Verify(r); reason != provider.ReasonMismatch || label != "" {
			t.Errorf("signed over %s: label %q, reason %q", name, label, reason)
		}
	}
	if _, reason := p.Verify(request("id="+payID+"&topic=payment", requestID, "", ipn)); reason != provider.ReasonMissing {
		t.Error(reason)
	}
}

// The address carries only an id, so status and money come from the lookup
// (CASES B15): no notification of a payment claims anything.
func TestCase_B15_MercadoPagoTheLookupDecides(t *testing.T) {
	t.Parallel()
	p := build(t)
	lies := `{"id":1,"type":"payment","action":"payment.updated","user_id":444555666,"status":"approved","transaction_amount":1000000,` +
		`"data":{"id":"` + payID + `","status":"approved","transaction_amount":1000000,"external_reference":"thief:1"}}`
	r := sign(secret, []byte(lies), clock)
	claims, err := p.Facts(providertest.EventOf(p, source(), r, p.Parse(r)[0]))
	if err != nil || len(claims) != 1 {
		t.Fatalf("%+v, %v", claims, err)
	}
	snap, err := p.Lookup(context.Background(), clientOf(pay("pending", "pending_waiting_transfer", "")), payID)
	if err != nil {
		t.Fatal(err)
	}
	res, _ := payment.Resolve(payment.Payment{GatewayID: payID}, &payment.Snapshot{Claim: snap, ObservedAt: clock}, claims[0], payment.Policy{})
	if res.Payment.Status != payment.StatusPending || res.Payment.Captured.Known || res.Payment.Reference != "PED-1001" || res.Need != "" {
		t.Errorf("%+v", res)
	}
}

// After a refund the status may still be "approved" (CASES B23).
func TestCase_B23_MercadoPagoARefundOfAllWinsOverApproved(t *testing.T) {
	t.Parallel()
	p := build(t)
	c, err := p.Lookup(context.Background(), clientOf(pay("approved", "accredited", `"transaction_amount_refunded":250,"refunds":[`+refundItem("11", "250.00", "approved")+`]`)), payID)
	if err != nil {
		t.Fatal(err)
	}
	res := payment.Apply(payment.Payment{GatewayID: payID}, c)
	if res.Payment.Status != payment.StatusRefunded || res.Payment.Refunded != 25000 {
		t.Errorf("%+v", res)
	}
}

// Ids above 2^53 keep their digits, in numbers and texts, from the body
// through the key to the address that is asked (CASES D3).
func TestCase_D3_MercadoPagoLongIDsKeepTheirDigits(t *testing.T) {
	t.Parallel()
	p := build(t)
	for _, id := range []string{"9007199254740993", "987654321012345678", "18446744073709551615"} {
		r := sign(secret, []byte(`{"id":`+id+`,"type":"topic_chargebacks_wh","data":{"id":`+id+`,"payment_id":`+id+`}}`), clock)
		m := p.Parse(r)[0]
		if m.PaymentRef != id || m.ProviderEventID != id || !strings.Contains(m.DedupeKey, ":"+id) {
			t.Errorf("%+v", m)
		}
		asked := ""
		_, err := p.Lookup(context.Background(), clientOf(func(w http.ResponseWriter, r *http.Request) {
			asked = r.URL.Path
			fmt.Fprintf(w, `{"id":%s,"status":"pending","currency_id":"BRL"}`, id)
		}), id)
		if err != nil || asked != "/v1/payments/"+id {
			t.Errorf("%s: asked %s, %v", id, asked, err)
		}
	}
	if m := p.Parse(signedQuery(secret, "data.id=184467440737095516150&type=payment", body(t, "payment_updated"), clock))[0]; m.Disposition != provider.Quarantine {
		t.Errorf("21 digits: %+v", m)
	}
}

// The alert of fraud comes once. It is kept for a person whatever the source
// of money is, and changes nothing.
func TestAFraudAlertIsNeverLostAndChangesNothing(t *testing.T) {
	t.Parallel()
	for _, settings := range []string{"", "MONEY_SOURCE=order"} {
		p := build(t, settings)
		r := signedQuery(secret, payQuery, body(t, "fraud_alert"), clock)
		m := p.Parse(r)[0]
		if m.Disposition != provider.Quarantine || !strings.HasPrefix(m.Reason, "stop_delivery") || m.PaymentRef != payID {
			t.Errorf("%+v", m)
		}
		claims, err := p.Facts(&event.Event{Type: m.Type, PaymentRef: m.PaymentRef, Body: m.Body})
		if err != nil || len(claims) != 0 {
			t.Errorf("%+v, %v", claims, err)
		}
	}
}

// A stored event of which Parse found nothing usable is not decided either.
func TestFactsOfAnEventWithoutPaymentAreAnError(t *testing.T) {
	t.Parallel()
	p := build(t)
	for _, b := range []string{`{"type":"payment","data":{"id":"` + payID + `"}}`, `{}`, `{`, `{"type":"\u0000"}`} {
		if claims, err := p.Facts(&event.Event{Body: []byte(b)}); err == nil || errors.Is(err, provider.ErrUnresolved) {
			t.Errorf("%s: %+v, %v", b, claims, err)
		}
	}
}
