package processor

import (
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// The gateway answers what was true when it was asked; the second event is
// received, and the refund made, before the answer arrives.
func TestAnEventReceivedDuringALookupIsAskedAboutAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupAlways)
	w.gateway.says(paid("pay_1"))
	first := w.receive(paid("pay_1"))
	var second int64
	w.gateway.during = func() {
		if second != 0 {
			return
		}
		second = w.receive(paid("pay_1")) // says nothing of the refund that it is sent for
		w.gateway.says(refunded("pay_1", "re_1", 400))
		time.Sleep(50 * time.Millisecond) // the answer is under way
	}
	w.process(first)
	w.process(second)
	w.wantStatus("pay_1", payment.StatusPartiallyRefunded)
	if w.gateway.asked != 2 {
		t.Errorf("the gateway was asked %d times, want twice", w.gateway.asked)
	}
	w.verify()
}

func TestAnAnswerAboutAnotherPaymentCreditsNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupAlways)
	w.gateway.answers["pay_1"] = paid("pay_2")
	id := w.receive(pending("pay_1"))
	w.process(id)
	if e := w.event(id); e.Status != "parked" || code(e.Reason) != "lookup_mismatch" {
		t.Errorf("event is %+v", e)
	}
	if got := append(w.ledger("pay_1"), w.ledger("pay_2")...); len(got) != 0 {
		t.Errorf("ledger %v, want nothing", got)
	}
	w.verify()
}

func TestAPaymentThatTheAPIDoesNotKnowYetIsAskedAboutAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupAlways)
	id := w.receive(paid("pay_1"))
	w.process(id)
	if e := w.event(id); e.Status != "parked" || code(e.Reason) != "lookup_not_found" {
		t.Fatalf("event is %+v", e)
	}
	var soon bool
	if err := w.db.Pool.QueryRow(t.Context(), `SELECT next_at < now() + interval '10 seconds' FROM event_work WHERE event_id = $1`, id).Scan(&soon); err != nil || !soon {
		t.Errorf("asked again soon: %t, %v", soon, err)
	}
	w.gateway.says(paid("pay_1"))
	w.due()
	w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
	w.verify()
}

func TestAGatewayThatIsAwayMakesNoEventDead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupAlways)
	w.gateway.fails(&provider.RetryError{Status: 503})
	id := w.receive(paid("pay_1"))
	w.process(id)
	w.due() // twenty times
	if e := w.event(id); e.Status != "parked" || code(e.Reason) != "lookup_unavailable" {
		t.Errorf("event is %+v", e)
	}
	var attempts, parks int
	if err := w.db.Pool.QueryRow(t.Context(), `SELECT attempts, parks FROM event_work WHERE event_id = $1`, id).Scan(&attempts, &parks); err != nil || attempts != 0 || parks < w.cfg.MaxAttempts {
		t.Errorf("%d attempts counted, parked %d times, %v", attempts, parks, err)
	}
	w.gateway.fails(nil)
	w.gateway.says(paid("pay_1"))
	w.due()
	w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
	w.verify()
}

func TestAnUntrustedBodyMovesNoMoneyWhereNobodyCanBeAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	w.gateway.trusted = false
	id := w.receive(paid("pay_1"))
	w.process(id)
	if e := w.event(id); e.Status != "parked" {
		t.Errorf("event is %+v", e)
	}
	if got := w.ledger("pay_1"); len(got) != 0 {
		t.Errorf("ledger %v, want nothing", got)
	}
	w.verify()
}
