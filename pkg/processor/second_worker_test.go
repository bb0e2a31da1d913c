package processor

import (
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
	"github.com/umavez/umavez/pkg/provider"
)

// Two events tell of one capture. The first worker is stopped between its read
// of the payment and its write.
func TestCase_B5_TheSecondWorkerWaitsReadsAgainAndDoesNothing(t *testing.T) {
	t.Parallel()
	first := newWorld(t, provider.LookupNever)
	db, waits := postgrestest.Beside(t)
	second := newWorldOn(t, db, provider.LookupNever)
	first.process(first.receive(pending("pay_1")))
	a, b := first.receive(paid("pay_1")), first.receive(paid("pay_1"))

	locked, goOn := make(chan struct{}), make(chan struct{})
	first.hook(t, func(step string) error {
		if step == "settle_locked" {
			close(locked)
			<-goOn
		}
		return nil
	})
	var ends [2]chan struct{}
	for i, work := range []func(){func() { first.process(a) }, func() { <-locked; second.process(b) }} {
		ends[i] = make(chan struct{})
		go func() {
			defer close(ends[i])
			work()
		}()
	}
	<-locked
	wrong := ""
	for deadline := time.Now().Add(5 * time.Second); wrong == "" && !waits(); time.Sleep(2 * time.Millisecond) {
		select {
		case <-ends[1]:
			wrong = "did not wait"
		default:
		}
		if time.Now().After(deadline) {
			wrong = "neither waits nor ends"
		}
	}
	if wrong != "" {
		t.Errorf("the second worker %s", wrong)
	}
	close(goOn)
	<-ends[0]
	<-ends[1]
	first.wantEvent(a, event.StatusProcessed, event.OutcomeApplied)
	first.wantEvent(b, event.StatusProcessed, event.OutcomeRepeated)
	var attempts int
	if err := first.db.Pool.QueryRow(t.Context(), `SELECT COALESCE(sum(attempts), 0) FROM webhook_events`).Scan(&attempts); err != nil || attempts != 0 {
		t.Errorf("%d attempts failed, %v", attempts, err)
	}
	first.wantStatus("pay_1", payment.StatusPaid)
	first.verify()
}

func TestAParkedEventComesAlongWithTheNextOfItsPayment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	refund := w.receive(refundOnly("pay_1", "re_1", 400))
	w.process(refund)
	w.wantEvent(refund, event.StatusParked, "")
	w.process(w.receive(paid("pay_1"))) // sorted behind it by id
	w.process(w.receive(paid("pay_1")))
	w.wantEvent(refund, event.StatusProcessed, event.OutcomeApplied)
	w.wantStatus("pay_1", payment.StatusPartiallyRefunded)
	w.verify()
}
