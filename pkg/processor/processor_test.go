package processor

import (
	"slices"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

func TestAPaidEventBooksCaptureAndFeeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	id := w.receive(paid("pay_1"))
	w.process(id)
	w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
	again := w.receive(paid("pay_1"))
	w.process(again, id)
	w.wantEvent(again, event.StatusProcessed, event.OutcomeRepeated)
	w.wantStatus("pay_1", payment.StatusPaid)
	if got, want := w.ledger("pay_1"), []string{"capture 1000", "fee 30"}; !slices.Equal(got, want) {
		t.Errorf("ledger %v, want %v", got, want)
	}
	if got := w.balance("loja"); got != 970 {
		t.Errorf("balance %d, want 970", got)
	}
	w.verify()
}

func TestCase_C12_ARefundThatIsKnownFirstWalksThroughPaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupAlways)
	w.gateway.says(refunded("pay_1", "re_1", 1000))
	id := w.receive(pending("pay_1"))
	w.process(id)
	w.wantStatus("pay_1", payment.StatusRefunded)
	if got, want := w.ledger("pay_1"), []string{"capture 1000", "fee 30", "refund 1000"}; !slices.Equal(got, want) {
		t.Errorf("ledger %v, want %v", got, want)
	}
	w.verify()
}

func TestAParkedRefundIsAppliedWithTheEventThatItWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	refund := w.receive(refundOnly("pay_1", "re_1", 400))
	w.process(refund)
	w.wantEvent(refund, event.StatusParked, "")
	w.process(w.receive(paid("pay_1")))
	// The sibling comes along in the same batch, after its own order by id: it
	// may need one more look, which its short delay gives it.
	for range 50 {
		if w.event(refund).Status != string(event.StatusParked) {
			break
		}
		w.process(refund)
	}
	w.wantEvent(refund, event.StatusProcessed, event.OutcomeApplied)
	w.wantStatus("pay_1", payment.StatusPartiallyRefunded)
	w.verify()
}

func TestCase_C10_AnUnknownPaymentWaitsForItsRegistration(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	w.cfg.UnknownPayment = "park"
	id := w.receive(paid("pay_404"))
	w.process(id)
	if e := w.event(id); e.Status != "parked" || code(e.Reason) != "payment_unknown" {
		t.Fatalf("event is %+v", e)
	}
	w.register("pay_404", 1000, "loja-do-registro")
	w.due()
	w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
	if got := w.balance("loja-do-registro"); got != 970 {
		t.Errorf("balance %d, want 970", got)
	}
	w.verify()
}

func TestARegisteredAmountThatDiffersIsParkedWithoutCredit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	w.register("pay_1", 999, "loja")
	w.due()
	id := w.receive(paid("pay_1"))
	w.process(id)
	if e := w.event(id); e.Status != "parked" || code(e.Reason) != "amount_mismatch" {
		t.Errorf("event is %+v", e)
	}
	if got := w.ledger("pay_1"); len(got) != 0 {
		t.Errorf("ledger %v, want nothing", got)
	}
	w.verify()
}

func TestMoneyWithoutAnOwnerIsAllocatedWhenTheApplicationNamesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	c := paid("pay_1")
	c.Beneficiary = ""
	w.process(w.receive(c))
	w.register("pay_1", 0, "loja-9")
	w.due()
	if got, want := w.ledger("pay_1"), []string{"capture 1000", "fee 30", "allocation 970"}; !slices.Equal(got, want) {
		t.Errorf("ledger %v, want %v", got, want)
	}
	if got := w.balance("loja-9"); got != 970 {
		t.Errorf("balance %d, want 970", got)
	}
	w.process(w.receive(refundOnly("pay_1", "re_1", 1000)))
	if got := w.balance("loja-9"); got != -30 {
		t.Errorf("balance after the refund %d, want -30", got)
	}
	w.verify()
}

func TestOneLookupServesAllWaitingEventsOfAPayment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupAlways)
	w.gateway.says(paid("pay_1"))
	a, b, c := w.receive(pending("pay_1")), w.receive(paid("pay_1")), w.receive(paid("pay_1"))
	w.process(a, b, c)
	if w.gateway.asked != 1 {
		t.Errorf("the gateway was asked %d times, want once", w.gateway.asked)
	}
	w.wantEvent(a, event.StatusProcessed, event.OutcomeApplied)
	w.wantEvent(b, event.StatusProcessed, event.OutcomeRepeated)
	w.verify()
}

func TestAnEventReceivedBeforeTheSnapshotThatContainsItNeedsNoLookup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupAlways)
	w.gateway.says(paid("pay_1"))
	first, second := w.receive(paid("pay_1")), w.receive(paid("pay_1"))
	w.process(first)
	w.process(second)
	if w.gateway.asked != 1 {
		t.Errorf("the gateway was asked %d times, want once", w.gateway.asked)
	}
	w.wantEvent(second, event.StatusProcessed, event.OutcomeRepeated)
}

func TestALookupThatContradictsTheEventParksItWithoutCredit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupAlways)
	w.gateway.says(pending("pay_1"))
	id := w.receive(paid("pay_1"))
	w.process(id)
	if e := w.event(id); e.Status != "parked" || code(e.Reason) != string(payment.NeedAgreement) {
		t.Fatalf("event is %+v", e)
	}
	if got := w.ledger("pay_1"); len(got) != 0 {
		t.Fatalf("ledger %v, want nothing", got)
	}
	w.gateway.says(paid("pay_1"))
	w.process(id)
	w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
	w.wantStatus("pay_1", payment.StatusPaid)
	w.verify()
}

func TestAContradictionThatLastsIsSettledForTheLookup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupAlways)
	w.gateway.says(pending("pay_1"))
	id := w.receive(paid("pay_1"))
	w.process(id)
	w.exec(`UPDATE event_work SET reason_since = now() - interval '1 hour'`)
	w.process(id)
	if e := w.event(id); e.Status != "processed" {
		t.Errorf("event is %+v", e)
	}
	if got := w.ledger("pay_1"); len(got) != 0 {
		t.Errorf("ledger %v, want nothing", got)
	}
	w.verify()
}

func TestAnUntrustedBodyMovesNoMoneyWithoutALookup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupAlways)
	w.gateway.trusted = false
	w.gateway.fails(&provider.RetryError{Status: 503})
	id := w.receive(paid("pay_1"))
	w.process(id)
	if e := w.event(id); e.Status != "parked" || code(e.Reason) != "lookup_unavailable" {
		t.Errorf("event is %+v", e)
	}
	w.gateway.fails(nil)
	w.gateway.says(paid("pay_1"))
	w.process(id)
	w.wantStatus("pay_1", payment.StatusPaid)
	w.verify()
}

func TestAPanickingBodyIsQuarantinedAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	bad, good := w.receiveBody("pay_2", []byte("panic")), w.receive(paid("pay_1"))
	w.process(bad, good)
	w.wantEvent(bad, event.StatusQuarantined, "")
	w.wantEvent(good, event.StatusProcessed, event.OutcomeApplied)
	w.verify()
}

func TestAPoisonEventIsIsolatedAndDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	// Two payments claim one refund of the gateway: the ledger's key refuses
	// the second, and must not hold up the others.
	w.process(w.receive(paid("pay_a")), w.receive(paid("pay_b")))
	w.process(w.receive(refundOnly("pay_a", "re_same", 100)))
	var ids []int64
	for _, ref := range []string{"pay_1", "pay_2", "pay_3"} {
		ids = append(ids, w.receive(paid(ref)))
	}
	poison := w.receive(refundOnly("pay_b", "re_same", 100))
	w.process(append(ids, poison)...)
	for _, id := range ids {
		w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
	}
	w.wantEvent(poison, event.StatusPending, "")
	w.process(poison)
	w.process(poison)
	w.wantEvent(poison, event.StatusDead, "")
	w.wantStatus("pay_b", payment.StatusPaid)
	w.verify()
}

func TestCase_B7_MixedRepeatsBookEachFactOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	won := start.Add(3 * time.Hour)
	for range 3 {
		w.process(w.receive(disputed("pay_1", payment.DisputeOpen, start.Add(2*time.Hour))), w.receive(paid("pay_1")),
			w.receive(disputed("pay_1", payment.DisputeWon, won)))
		w.process(w.receive(refundOnly("pay_1", "re_1", 1000)))
		w.due()
	}
	want := []string{"capture 1000", "chargeback 1000", "chargeback_reversal 1000", "fee 30", "refund 1000"}
	got := w.ledger("pay_1")
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("ledger %v, want %v", got, want)
	}
	w.wantStatus("pay_1", payment.StatusRefunded)
	w.verify()
}

// register calls the function that applications call.
func (w *world) register(ref string, expected int64, beneficiary string) {
	w.t.Helper()
	var amount *int64
	if expected > 0 {
		amount = &expected
	}
	w.exec(`SELECT register_payment('gw', 'default', $1, $2, 'BRL', $3, 'PED-1')`, ref, amount, beneficiary)
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.db.Pool.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatal(err)
	}
}

// due processes what is parked as if its time had come, until nothing more
// can be settled.
func (w *world) due() {
	w.t.Helper()
	for range 20 {
		w.exec(`UPDATE event_work SET next_at = now() - interval '1 second' WHERE state = 'parked' OR attempts > 0`)
		ids, err := w.db.ClaimDue(w.t.Context(), 1000, time.Minute)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(ids) == 0 {
			return
		}
		w.process(ids...)
	}
}

// A receipt that was undone leaves money there and back beside a status from
// before the capture, whichever that is.
func TestAnUndoneReceiptMayEndAsExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	w.process(w.receive(paid("pay_1")))
	undone := payment.Claim{GatewayID: "pay_1", Currency: "BRL", At: start.Add(time.Hour), Facts: []payment.Fact{{Kind: payment.FactUndo, ID: "un_1"}}}
	overdue := payment.Claim{GatewayID: "pay_1", Currency: "BRL", At: start.Add(2 * time.Hour), Facts: []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusExpired}}}
	w.process(w.receive(undone))
	w.process(w.receive(overdue))
	w.wantStatus("pay_1", payment.StatusExpired)
	w.verify()
}
