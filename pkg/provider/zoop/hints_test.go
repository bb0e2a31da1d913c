package zoop_test

import (
	"context"
	"net/http/httptest"
	"testing"

	stored "github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
)

// ask is what a lookup says of a transaction.
func ask(t *testing.T, object string) (payment.Claim, error) {
	t.Helper()
	api := httptest.NewServer(answer(object))
	defer api.Close()
	src := source()
	src.APIBase = api.URL
	return build(t, src).Lookup(context.Background(), api.Client(), id)
}

// What a body lacks must not keep the API from being asked: a quarantined
// "succeeded" would be a payment that nobody credits.
func TestABodyThatOnlyNamesItsTransactionIsAHint(t *testing.T) {
	p := build(t, source())
	for _, object := range []string{
		`{"id":"` + id + `"}`,
		`{"id":"` + id + `","resource":"transaction","status":"succeeded"}`,
		`{"id":"` + id + `","status":"succeeded","amount":"149.90"}`,
		`{"id":"` + id + `","status":{},"amount":"149.90","original_amount":"149.90"}`,
		`{"id":"` + id + `","status":"succeeded","amount":"149.90","original_amount":"149.90","history":{}}`,
		`{"id":"` + id + `","status":"succeeded","amount":"149.90","original_amount":"149.90","history":[{"operation_type":"capture","status":"succeeded","amount":"100.00"}]}`,
	} {
		claims, err := p.Facts(&stored.Event{Body: []byte(event("transaction.succeeded", object))})
		if err != nil || len(claims) != 1 || claims[0].GatewayID != id || len(claims[0].Facts) != 0 {
			t.Errorf("%s: %+v, %v; want one claim that is looked up", object, claims, err)
		}
	}
}

// captured false is a word, too: an authorisation that was given up is no
// credit and refund, and no "paid" for the application.
func TestAnAuthorisationThatWasGivenUpIsNoRefund(t *testing.T) {
	for status, want := range map[string]payment.Status{"canceled": payment.StatusCanceled, "reversed": payment.StatusCanceled} {
		claim, err := ask(t, object(status, `"0.00"`, `"149.90"`, `,"payment_type":"credit","captured":false`))
		if err != nil {
			t.Fatal(err)
		}
		r := payment.Apply(payment.Payment{GatewayID: id}, claim)
		if r.Need != "" || r.Payment.Status != want || r.Payment.Captured.Known {
			t.Errorf("%s: %s, captured %v, need %q; want %s", status, r.Payment.Status, r.Payment.Captured, r.Need, want)
		}
	}
}

// The object of a whole cancellation need not say that it was paid; what we
// hold says it.
func TestACancellationOfWhatWeHoldAsPaidIsARefund(t *testing.T) {
	paid, err := ask(t, object("succeeded", `"149.90"`, `"149.90"`, ""))
	if err != nil {
		t.Fatal(err)
	}
	held := payment.Apply(payment.Payment{GatewayID: id}, paid).Payment
	for _, amount := range []string{`"149.90"`, "null", `"0.00"`} {
		claim, err := ask(t, object("canceled", amount, `"149.90"`, ""))
		if err != nil {
			t.Fatal(err)
		}
		if r := payment.Apply(held, claim); r.Need != "" || r.Payment.Status != payment.StatusRefunded || r.Payment.Refunded != 14990 {
			t.Errorf("amount %s: %s, refunded %d, need %q; want refunded, 14990", amount, r.Payment.Status, r.Payment.Refunded, r.Need)
		}
	}
}
