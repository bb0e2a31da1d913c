package processor

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/settlement"
)

// tell stores an event of a gateway whose repeats may mean something new.
func (w *world) tell(key, ref string) int64 {
	w.t.Helper()
	body := []byte(`[{"GatewayID":"` + ref + `"}]`)
	stored, err := w.db.InsertEvents(w.t.Context(), []event.Arrival{{Reopen: true, Event: event.Event{
		Provider: "gw", Account: "default", DedupeKey: key, Type: "test",
		PaymentRef: ref, Body: body, BodySHA256: sha256.Sum256(body), Secret: "1",
	}}})
	if err != nil {
		w.t.Fatal(err)
	}
	return stored[0].ID
}

func newTellingWorld(t *testing.T) *world {
	w := newWorld(t, provider.LookupAlways)
	w.gateway.trusted = false
	return w
}

func TestARepeatOfASettledEventIsLookedUpAgain(t *testing.T) {
	t.Parallel()
	w := newTellingWorld(t)
	for i, want := range []int64{100, 350} {
		c := paid("pay_1")
		c.Facts = append(c.Facts, payment.Fact{Kind: payment.FactRefundTotal, Amount: payment.Of(want)})
		w.gateway.says(c)
		id := w.tell("refund/pay_1", "pay_1")
		w.process(id)
		w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
		if w.gateway.asked != i+1 {
			t.Errorf("asked %d times after %d deliveries", w.gateway.asked, i+1)
		}
		if got := w.balance("loja"); got != 970-want {
			t.Errorf("balance %d, want %d", got, 970-want)
		}
	}
	w.verify()
}

// The second delivery arrives between the lookup for the first and its
// transaction: what it tells of must not be lost.
func TestARepeatThatArrivesWhileTheFirstIsInHandIsNotLost(t *testing.T) {
	t.Parallel()
	w := newTellingWorld(t)
	w.gateway.says(paid("pay_1"))
	id := w.tell("refund/pay_1", "pay_1")
	told := false
	w.Hook = func(step string) error {
		if step == "looked_up" && !told {
			told = true
			w.gateway.says(refunded("pay_1", "re_1", 400))
			w.tell("refund/pay_1", "pay_1")
		}
		return nil
	}
	w.process(id)
	if e := w.event(id); e.Status != "parked" || code(e.Reason) != "told_again" {
		t.Fatalf("event is %+v: the first transaction settled what it had asked about too early", e)
	}
	w.due()
	w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
	w.wantStatus("pay_1", payment.StatusPartiallyRefunded)
	if w.gateway.asked != 2 {
		t.Errorf("asked %d times", w.gateway.asked)
	}
	w.verify()
}

// And the other order: the repeat waits for the transaction and finds the
// event settled.
func TestARepeatThatArrivesDuringTheTransactionPutsTheEventBackToWork(t *testing.T) {
	t.Parallel()
	w := newTellingWorld(t)
	w.gateway.says(paid("pay_1"))
	id := w.tell("refund/pay_1", "pay_1")
	again := make(chan struct{})
	w.db.Hook = func(step string) error {
		if step == "results_written" {
			select {
			case <-again:
			default:
				close(again)
				time.Sleep(200 * time.Millisecond) // until the repeat waits for the row's lock
			}
		}
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-again:
		case <-time.After(5 * time.Second):
			t.Error("the transaction did not reach the step")
		}
		w.gateway.says(refunded("pay_1", "re_1", 400))
		w.tell("refund/pay_1", "pay_1")
	}()
	w.process(id)
	<-done
	w.db.Hook = nil
	w.process(id)
	w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
	w.wantStatus("pay_1", payment.StatusPartiallyRefunded)
	w.verify()
}

// What an old turn of an event ran into says nothing of the new one.
func TestAFailureOfAnEventThatWasToldAgainCountsNoAttempt(t *testing.T) {
	t.Parallel()
	w := newTellingWorld(t)
	w.gateway.says(paid("pay_1"))
	id := w.tell("refund/pay_1", "pay_1")
	w.tell("refund/pay_1", "pay_1")
	for range w.cfg.MaxAttempts + 1 {
		if dead, err := w.db.Fail(t.Context(), settlement.Handle{EventID: id, Turn: 1}, "of the old turn", time.Hour, w.cfg.MaxAttempts); dead || err != nil {
			t.Fatalf("dead %v, %v", dead, err)
		}
	}
	w.due()
	w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
	w.verify()
}

// The repeat may come between the commit and the ack of the first message.
// Then the queue refuses a second one, and nobody rings for the event.
func TestARevivedEventComesByItselfWithinSeconds(t *testing.T) {
	t.Parallel()
	w := newTellingWorld(t)
	w.gateway.says(paid("pay_1"))
	id := w.tell("refund/pay_1", "pay_1")
	w.process(id)
	w.gateway.says(refunded("pay_1", "re_1", 400))
	w.tell("refund/pay_1", "pay_1") // its notice reaches nobody
	deadline := time.Now().Add(10 * time.Second)
	for {
		due, err := w.db.ClaimDue(t.Context(), 10, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if len(due) == 1 && due[0] == id {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody takes it up")
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.process(id)
	w.wantStatus("pay_1", payment.StatusPartiallyRefunded)
	w.verify()
}

// A row that a sweep, or a repeat, has locked for a moment is not claimed. Its
// message must come again: an ack would leave the event to its next_at.
func TestAMessageWhoseEventSomebodyHasForAMomentComesAgain(t *testing.T) {
	t.Parallel()
	w := newTellingWorld(t)
	w.gateway.says(paid("pay_1"))
	id := w.tell("refund/pay_1", "pay_1")
	w.tell("refund/pay_1", "pay_1") // now it is parked: told again
	tx, err := w.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // ended below
	if _, err := tx.Exec(t.Context(), `UPDATE event_work SET sweeps = sweeps + 1 WHERE event_id = $1`, id); err != nil {
		t.Fatal(err)
	}
	var acked, naked int
	deliver := func() {
		w.Handle(t.Context(), []Delivery{{EventID: id, Ack: func() error { acked++; return nil }, Nak: func(time.Duration) error { naked++; return nil }}})
	}
	deliver()
	if acked != 0 || naked != 1 {
		t.Fatalf("acked %d times, given back %d times, while another transaction has the row", acked, naked)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	deliver()
	w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
	deliver() // settled: nothing is left to do
	if acked != 2 || naked != 1 {
		t.Errorf("acked %d times, given back %d times", acked, naked)
	}
	w.verify()
}
