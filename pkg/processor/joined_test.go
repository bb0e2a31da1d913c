package processor

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

func failedAttempt(ref string) payment.Claim {
	c := pending(ref)
	c.Facts[0].Status = payment.StatusFailed
	return c
}

// The customer's first attempt was declined, the second was paid; the code
// about the second is here before its own event. The reference names the first
// attempt alone, and that one was never paid.
func TestACodeDoesNotCreditAnAttemptThatWasNotPaid(t *testing.T) {
	t.Parallel()
	for _, mode := range []provider.LookupMode{provider.LookupAlways, provider.LookupInDoubt} {
		t.Run(string(mode), func(t *testing.T) {
			w, g := newCodedWorld(t, mode)
			first, second := withReference(failedAttempt("pay_1"), "pay_1", "PED-1"), withReference(paid("pay_2"), "pay_2", "PED-1")
			w.gateway.says(first)
			w.process(w.receive(first))
			said := withReference(paid(""), "", "PED-1")
			said.Facts = said.Facts[:1]
			g.says["code-1"] = []payment.Claim{said}
			code := w.receiveBody("", []byte("code-1"))
			w.process(code)
			w.gateway.says(second)
			w.process(w.receive(second))
			w.process(code)
			w.wantStatus("pay_1", payment.StatusFailed)
			w.wantStatus("pay_2", payment.StatusPaid)
			if a, b := w.ledger("pay_1"), w.ledger("pay_2"); len(a) != 0 || len(b) == 0 {
				t.Errorf("the first attempt booked %q, the second %q; event %+v", a, b, w.event(code))
			}
			if n := w.balance("loja"); n != 970 {
				t.Errorf("the owner has %d of one payment of 970", n)
			}
			w.verify()
		})
	}
}

// A refund, or a lost dispute, must not book a receipt that nobody saw either.
func TestACodeAboutALostDisputeWaitsForTheReceipt(t *testing.T) {
	t.Parallel()
	w, g := newCodedWorld(t, provider.LookupInDoubt)
	w.process(w.receive(withReference(failedAttempt("pay_1"), "pay_1", "PED-1")))
	c := lost("PED-1")
	c.Captured = payment.Of(1000)
	c.Facts = []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusChargedBack}}
	g.says["code-1"] = []payment.Claim{c}
	code := w.receiveBody("", []byte("code-1"))
	w.process(code)
	w.process(w.receive(withReference(paid("pay_2"), "pay_2", "PED-1")))
	w.process(code)
	w.wantStatus("pay_1", payment.StatusFailed)
	w.wantStatus("pay_2", payment.StatusChargedBack)
	if n := w.balance("loja"); n != -30 {
		t.Errorf("the owner has %d, %+v %q %q", n, w.event(code), w.ledger("pay_1"), w.ledger("pay_2"))
	}
	w.verify()
}

// codeOfADispute is what the gateway says of a code about a dispute: the
// reference, and not whose attempt it is.
func codeOfADispute(reference string) payment.Claim {
	return payment.Claim{Reference: reference, Currency: "BRL", Captured: payment.Of(1000), At: start.Add(time.Hour),
		Facts: []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusDisputed}}}
}

// seenPaid is what a lookup says of a paid payment, with the time of its
// receipt: a dispute is later than that.
func seenPaid(id, reference string) payment.Claim {
	c := withReference(paid(id), id, reference)
	for i := range c.Facts {
		c.Facts[i].At = c.At
	}
	return c
}

// The event that the payment was paid never came, and a code says that it is
// in dispute. Nobody else will ever say that it was paid: the gateway is asked.
func TestACodeAboutAPaymentWhoseReceiptNeverCameAsksForIt(t *testing.T) {
	t.Parallel()
	for _, mode := range []provider.LookupMode{provider.LookupAlways, provider.LookupInDoubt} {
		t.Run(string(mode), func(t *testing.T) {
			w, g := newCodedWorld(t, mode)
			first := withReference(pending("pay_1"), "pay_1", "PED-1")
			w.gateway.says(first)
			w.process(w.receive(first))
			w.gateway.says(seenPaid("pay_1", "PED-1"))
			g.says["code-1"] = []payment.Claim{codeOfADispute("PED-1")}
			code := w.receiveBody("", []byte("code-1"))
			w.process(code)
			w.wantEvent(code, event.StatusProcessed, event.OutcomeApplied)
			w.wantStatus("pay_1", payment.StatusDisputed)
			w.verify()
		})
	}
}

// While the gateway says that it was not paid the code waits, and with the
// money it is due at once, not when its own time has come.
func TestACodeAboutAPaymentThatIsNotPaidIsDueWhenItIs(t *testing.T) {
	t.Parallel()
	for _, mode := range []provider.LookupMode{provider.LookupAlways, provider.LookupInDoubt} {
		t.Run(string(mode), func(t *testing.T) {
			w, g := newCodedWorld(t, mode)
			first := withReference(pending("pay_1"), "pay_1", "PED-1")
			w.gateway.says(first)
			w.process(w.receive(first))
			g.says["code-1"] = []payment.Claim{codeOfADispute("PED-1")}
			id := w.receiveBody("", []byte("code-1"))
			w.process(id)
			if e := w.event(id); e.Status != "parked" || code(e.Reason) != string(payment.NeedCapturedAmount) {
				t.Fatalf("event is %+v", e)
			}
			second := seenPaid("pay_1", "PED-1")
			w.gateway.says(second)
			w.process(w.receive(second))
			due, err := w.db.ClaimDue(t.Context(), 10, time.Minute)
			if err != nil || len(due) != 1 || due[0] != id {
				t.Fatalf("due are %v, want %d (%v)", due, id, err)
			}
			w.process(id)
			w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
			w.wantStatus("pay_1", payment.StatusDisputed)
			w.verify()
		})
	}
}

// A repeat that differs in bytes from a first one whose body is gone says the
// same of itself, and something new of the payment.
func TestARepeatOfAnEventWhoseBodyIsGoneIsLookedUp(t *testing.T) {
	t.Parallel()
	w := newTellingWorld(t)
	w.gateway.says(paid("pay_1"))
	id := w.tell("refund/pay_1", "pay_1")
	w.process(id)
	if _, err := w.db.Pool.Exec(t.Context(), `DELETE FROM event_bodies WHERE event_id = $1`, id); err != nil {
		t.Fatal(err)
	}
	w.gateway.says(refunded("pay_1", "re_1", 400))
	body := []byte(`[{"GatewayID":"pay_1","Reason":"with one word more"}]`)
	if _, err := w.db.InsertEvents(t.Context(), []event.Arrival{{Reopen: true, Event: event.Event{
		Provider: "gw", Account: "default", DedupeKey: "refund/pay_1", Type: "test",
		PaymentRef: "pay_1", Body: body, BodySHA256: sha256.Sum256(body), Secret: "1",
	}}}); err != nil {
		t.Fatal(err)
	}
	w.process(id)
	w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
	w.wantStatus("pay_1", payment.StatusPartiallyRefunded)
	if n := w.balance("loja"); n != 570 {
		t.Errorf("the owner has %d, want 570; %+v", n, w.event(id))
	}
}
