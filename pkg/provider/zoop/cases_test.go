package zoop_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
	"github.com/umavez/umavez/pkg/provider/zoop"
)

// snapshot is what the API answers with an object, asked so many hours in.
func snapshot(t *testing.T, p provider.Provider, hours int, object string) *payment.Snapshot {
	t.Helper()
	claim, err := p.Lookup(context.Background(), &http.Client{Transport: providertest.HandlerTransport{Handler: answer(object)}}, id)
	if err != nil {
		t.Fatal(err)
	}
	return &payment.Snapshot{Claim: claim, ObservedAt: now.Add(time.Duration(hours) * time.Hour)}
}

// hear takes one event through the processor's rule, with what the API says.
func hear(t *testing.T, state payment.Payment, p provider.Provider, body string, snap *payment.Snapshot) payment.Result {
	t.Helper()
	state.Provider, state.GatewayID = "zoop", id
	r, _ := payment.Resolve(state, snap, claimOf(t, p, source(), body, snap.ObservedAt), payment.Policy{Lag: time.Minute})
	return r
}

const wholeSale, partLeft = `"149.90"`, `"100.00"`

func TestCase_A13_ZoopSendsNoArraysAndOneIsQuarantined(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for _, body := range []string{"[]", "[" + succeeded + "]", "[" + succeeded + "," + succeeded + "]"} {
		if m := p.Parse(sign(secret, []byte(body), now)); len(m) != 1 || m[0].Disposition != provider.Quarantine {
			t.Errorf("%d messages, %s", len(m), m[0].Disposition)
		}
	}
}

func TestCase_A23_ZoopWithoutASecretDoesNotStart(t *testing.T) {
	t.Parallel()
	for _, secrets := range [][]provider.Secret{nil, {""}, {secret, ""}} {
		src := source()
		src.WebhookSecrets = secrets
		if _, err := zoop.New(src); err == nil || !strings.Contains(err.Error(), "ZOOP_WEBHOOK_SECRETS") {
			t.Errorf("%d secrets: %v", len(secrets), err)
		}
	}
}

// Nothing but the body's own id makes an event: what travels beside it, and
// could be changed on the way, does not.
func TestCase_A25_NothingBesideTheBodyChangesAZoopEventsKey(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	key := p.Parse(sign(secret, []byte(succeeded), now))[0].DedupeKey
	r := sign(oldSecret, []byte(succeeded), now.Add(time.Hour))
	r.Query, r.Header = "id=x", http.Header{"X-Event-Id": {"x"}, "X-Request-Id": {"y"}}
	if again := p.Parse(r)[0].DedupeKey; again != key {
		t.Errorf("%s, then %s", key, again)
	}
}

// One capture is told under several ids and names, and credited once.
func TestCase_B9_TwoZoopEventsOfOneCaptureCreditOnce(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	sale := object("succeeded", wholeSale, wholeSale, "")
	var state payment.Payment
	moves := 0
	for i, typ := range []string{"transaction.succeeded", "transaction.capture.succeeded", "transaction.updated", "transaction.paid"} {
		r := hear(t, state, p, event(typ, sale), snapshot(t, p, i, sale))
		if r.Need != "" {
			t.Fatalf("%s needs %s", typ, r.Need)
		}
		state, moves = r.Payment, moves+len(r.Transitions)
	}
	if moves != 1 || state.Status != payment.StatusPaid || state.Captured.Value != 14990 {
		t.Errorf("%d transitions, %+v", moves, sumsOf(&state))
	}
}

// Several partial refunds come under one type: neither is swallowed, and each
// books its increase.
func TestCase_B13_ZoopsPartialRefundsAreToldApart(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	keys := map[string]bool{}
	state := hear(t, payment.Payment{}, p, succeeded, snapshot(t, p, 0, object("succeeded", wholeSale, wholeSale, ""))).Payment
	for i, left := range []string{`"100.00"`, `"100.00"`, `"50.00"`} {
		sale := object("succeeded", left, wholeSale, "")
		body := strings.Replace(event("transaction.canceled", sale), "000001\",\"resource\":\"event\"", "00000"+string(rune('2'+i))+`","resource":"event"`, 1)
		keys[p.Parse(sign(secret, []byte(body), now))[0].DedupeKey] = true
		r := hear(t, state, p, body, snapshot(t, p, i+1, sale))
		if r.Need != "" {
			t.Fatalf("needs %s", r.Need)
		}
		state = r.Payment
	}
	if len(keys) != 3 || state.Refunded != 9990 || state.Status != payment.StatusPartiallyRefunded {
		t.Errorf("%d keys, %+v", len(keys), sumsOf(&state))
	}
}

// A body moves nothing by itself, whatever it says; an id alone is enough to
// ask.
func TestCase_B15_OnlyTheLookupOfAZoopEventDecides(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	forged := event("transaction.succeeded", object("succeeded", `"99999.00"`, `"99999.00"`, ""))
	if r := hear(t, payment.Payment{}, p, forged, snapshot(t, p, 0, object("pending", wholeSale, wholeSale, ""))); r.Applied() || r.Need != payment.NeedAgreement {
		t.Errorf("a forged payment: %+v", r)
	}
	bare := event("transaction.updated", `{"id":"`+id+`"}`)
	r := hear(t, payment.Payment{}, p, bare, snapshot(t, p, 0, object("succeeded", wholeSale, wholeSale, "")))
	if r.Need != "" || r.Payment.Captured.Value != 14990 || r.Payment.Reference != "PED-1001" {
		t.Errorf("a bare id: %+v", r)
	}
	if r := hear(t, payment.Payment{}, p, forged, snapshot(t, p, 0, object("succeeded", wholeSale, wholeSale, ""))); r.Payment.Captured.Value != 14990 {
		t.Errorf("a forged amount: %+v", r.Payment.Captured)
	}
}

// After a partial refund the API goes on to say "succeeded".
func TestCase_B23_ZoopSaysSucceededAfterARefund(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	state := hear(t, payment.Payment{}, p, succeeded, snapshot(t, p, 0, object("succeeded", wholeSale, wholeSale, ""))).Payment
	sale := object("succeeded", partLeft, wholeSale, "")
	r := hear(t, state, p, event("transaction.canceled", sale), snapshot(t, p, 1, sale))
	again := hear(t, r.Payment, p, event("transaction.succeeded", sale), snapshot(t, p, 2, sale))
	if r.Payment.Refunded != 4990 || again.Applied() || again.Need != "" || again.Payment.Status != payment.StatusPartiallyRefunded {
		t.Errorf("%+v, then %+v, need %q", sumsOf(&r.Payment), sumsOf(&again.Payment), again.Need)
	}
}

// A boleto that we canceled is paid all the same.
func TestCase_C7_ACanceledOrFailedZoopTransactionIsPaidAfterAll(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for before, typ := range map[string]string{"failed": "transaction.failed", "canceled": "transaction.canceled", "reversed": "transaction.reversed"} {
		first := object(before, wholeSale, wholeSale, `,"payment_type":"boleto","history":[]`)
		r := hear(t, payment.Payment{}, p, event(typ, first), snapshot(t, p, 0, first))
		if r.Need != "" || r.Payment.Captured.Known {
			t.Fatalf("%s: %+v", before, r)
		}
		then := object("succeeded", wholeSale, wholeSale, `,"payment_type":"boleto"`+history("paid", "succeeded", "149.90"))
		r = hear(t, r.Payment, p, event("transaction.succeeded", then), snapshot(t, p, 1, then))
		if r.Need != "" || r.Payment.Status != payment.StatusPaid || r.Payment.Captured.Value != 14990 || len(r.Transitions) != 1 {
			t.Errorf("%s, then paid: %+v", before, r)
		}
	}
}

// Where the amounts are in doubt by a hundred, nothing is booked: neither from
// the body nor from the answer.
func TestCase_D5_CentsAreNeverTakenForReaisAtZoop(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for _, amount := range []string{"14990", `"14990"`, "149.90", "149.9", "1.499e2", `"1.499e4"`} {
		doubtful := object("succeeded", amount, amount, "")
		r := sign(secret, []byte(event("transaction.succeeded", doubtful)), now)
		if _, err := p.Facts(providertest.EventOf(p, source(), r, p.Parse(r)[0])); err == nil || !strings.Contains(err.Error(), "original_amount") {
			t.Errorf("%s in a body: %v", amount, err)
		}
		client := &http.Client{Transport: providertest.HandlerTransport{Handler: answer(doubtful)}}
		if claim, err := p.Lookup(context.Background(), client, id); err == nil {
			t.Errorf("%s in an answer: %+v", amount, claim)
		}
	}
}

// The guard of a registered amount: a ratio of a hundred stops the payment.
func TestCase_D5_ARegisteredAmountGuardsAgainstTheOtherUnitOfZoop(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for _, registered := range []int64{149, 1499000} {
		held := payment.Payment{GatewayID: id, Currency: "BRL", Expected: payment.Of(registered), Registered: true}
		if r := hear(t, held, p, succeeded, snapshot(t, p, 0, object("succeeded", wholeSale, wholeSale, ""))); r.Need != payment.NeedAmountMatch {
			t.Errorf("registered %d, captured 14990: %+v", registered, r)
		}
	}
}

// The names read the other way round to some: charged_back is lost, and
// dispute.succeeded is won.
func TestCase_C12_AZoopDisputeIsBookedWhateverIsHeardOfIt(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	sale := func(status string) string { return object(status, wholeSale, wholeSale, "") }
	for name, c := range map[string]struct {
		types, words []string
		ends         payment.Status
		books        []payment.Kind
	}{
		"lost":                         {[]string{"succeeded", "disputed", "charged_back"}, []string{"succeeded", "dispute", "charged_back"}, payment.StatusChargedBack, []payment.Kind{payment.KindCapture, payment.KindChargeback}},
		"lost, and heard of then":      {[]string{"charge_back"}, []string{"charged_back"}, payment.StatusChargedBack, []payment.Kind{payment.KindCapture, payment.KindChargeback}},
		"won":                          {[]string{"succeeded", "disputed", "dispute.succeeded"}, []string{"succeeded", "disputed", "succeeded"}, payment.StatusPaid, []payment.Kind{payment.KindCapture, payment.KindChargeback, payment.KindChargebackReversal}},
		"won, and heard of then":       {[]string{"dispute.succeeded"}, []string{"succeeded"}, payment.StatusPaid, []payment.Kind{payment.KindCapture}},
		"won, and the opening is late": {[]string{"dispute.succeeded", "disputed"}, []string{"succeeded", "succeeded"}, payment.StatusPaid, []payment.Kind{payment.KindCapture}},
	} {
		var state payment.Payment
		var booked []payment.Kind
		for i, typ := range c.types {
			r := hear(t, state, p, event("transaction."+typ, sale(c.words[i])), snapshot(t, p, i+1, sale(c.words[i])))
			if r.Need != "" {
				t.Fatalf("%s: %s needs %s", name, typ, r.Need)
			}
			state = r.Payment
			for _, tr := range r.Transitions {
				for _, b := range tr.Bookings {
					booked = append(booked, b.Kind)
				}
			}
		}
		if state.Status != c.ends || !slices.Equal(booked, c.books) {
			t.Errorf("%s: %s, booked %v; want %s, %v", name, state.Status, booked, c.ends, c.books)
		}
	}
}

func TestCase_D1_AZoopEventWithoutItsObjectIsKeptForAPerson(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for _, payload := range []string{`null`, `{}`, `{"object":null}`, `{"object":{}}`, `{"object":{"id":null}}`, `{"id":"` + id + `"}`, `[]`} {
		m := p.Parse(sign(secret, []byte(`{"id":"e1","type":"transaction.succeeded","payload":`+payload+`}`), now))[0]
		if m.Disposition != provider.Quarantine {
			t.Errorf("%s: %s", payload, m.Disposition)
		}
	}
}

func TestCase_D3_BigNumbersOfZoopKeepEveryDigit(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	body := strings.Replace(strings.Replace(succeeded, `"`+id+`"`, "9007199254740993", 1), "149.90", "12345678901234567890.00", 1)
	r := sign(secret, []byte(body), now)
	m := p.Parse(r)[0]
	_, err := p.Facts(providertest.EventOf(p, source(), r, m))
	if m.PaymentRef != "9007199254740993" || err == nil || !strings.Contains(err.Error(), "amount") {
		t.Errorf("reference %s, %v", m.PaymentRef, err)
	}
}

// The fee of a sale shrinks with a partial refund, as the contract's example
// shows. What was booked stands, and a person is told.
func TestAFeeThatShrinksWithARefundIsReportedAndNotBookedAgain(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	whole, part := object("succeeded", wholeSale, wholeSale, `,"fees":"4.97"`), object("succeeded", partLeft, wholeSale, `,"fees":"3.31"`)
	state := hear(t, payment.Payment{}, p, succeeded, snapshot(t, p, 0, whole)).Payment
	r := hear(t, state, p, event("transaction.canceled", part), snapshot(t, p, 1, part))
	if r.Need != "" || r.Payment.Fee != 497 || r.Payment.Refunded != 4990 || !r.Disagrees {
		t.Errorf("fee %d, refunded %d, disagrees %v, need %q", r.Payment.Fee, r.Payment.Refunded, r.Disagrees, r.Need)
	}
	late := hear(t, payment.Payment{}, p, event("transaction.canceled", part), snapshot(t, p, 1, part))
	if late.Payment.Fee != 331 || late.Payment.Net() != 9669 || late.Disagrees {
		t.Errorf("heard of then: fee %d, net %d, disagrees %v", late.Payment.Fee, late.Payment.Net(), late.Disagrees)
	}
}
