package processor

import (
	"context"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/settlement"
)

func TestAFaultOfTheDatabaseMakesNoEventDead(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string][2]string{
		"a table that is not there yet": {`ALTER TABLE outbox RENAME TO outbox_elsewhere`, `ALTER TABLE outbox_elsewhere RENAME TO outbox`},
		"a column of another version":   {`ALTER TABLE payments RENAME COLUMN fee TO fees`, `ALTER TABLE payments RENAME COLUMN fees TO fee`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldOn(t, ownSchema(t), provider.LookupNever)
			ids := []int64{w.receive(paid("pay_1")), w.receive(paid("pay_2"))}
			w.exec(fault[0])
			for range w.cfg.MaxAttempts + 1 {
				for id, r := range w.Process(t.Context(), ids) {
					if r != Again {
						t.Fatalf("event %d: result %v", id, r)
					}
				}
			}
			for _, id := range ids {
				w.wantEvent(id, event.StatusPending, "")
			}
			w.exec(fault[1])
			w.process(ids...)
			w.wantEvent(ids[0], event.StatusProcessed, event.OutcomeApplied)
			w.verify()
		})
	}
}

// blind is a store that hides a payment from the decision, which is a defect.
type blind struct {
	Store
	hides string
}

func (b blind) Settle(ctx context.Context, events []settlement.Handle, refs []settlement.Ref, decide settlement.Decide) (settlement.Decision, error) {
	return b.Store.Settle(ctx, events, refs, func(claimed map[int64]bool, held map[settlement.Ref]settlement.Held) (settlement.Decision, error) {
		for ref := range held {
			if ref.GatewayID == b.hides {
				delete(held, ref)
			}
		}
		return decide(claimed, held)
	})
}

func TestADefectInARuleIsIsolatedToItsEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	w.store = blind{w.db, "pay_bad"}
	good, bad := w.receive(paid("pay_1")), w.receive(paid("pay_bad"))
	for range w.cfg.MaxAttempts {
		w.process(good, bad)
	}
	w.wantEvent(good, event.StatusProcessed, event.OutcomeApplied)
	w.wantEvent(bad, event.StatusDead, "")
	w.verify()
}

func TestARevivedEventGetsItsDroppedBodyBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	body := []byte(`[{"GatewayID":"pay_1","Currency":"BRL","Captured":{"Value":1000,"Known":true},"Facts":[{"Kind":"status","Status":"paid"}]}]`)
	id := w.receiveAs("once", "pay_1", body)
	w.exec(`DELETE FROM event_work`)
	w.exec(`INSERT INTO event_results (event_id, status, reason) VALUES ($1, 'dead', 'test')`, id)
	w.exec(`DELETE FROM event_bodies`)
	if again := w.receiveAs("once", "pay_1", body); again != id {
		t.Fatalf("the resend became event %d, want %d", again, id)
	}
	w.process(id)
	w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
	w.wantStatus("pay_1", payment.StatusPaid)
	w.verify()
}

func TestEventsAreWorkedOffWhileTheQueueIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	w.register("pay_1", 0, "loja")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- w.Run(ctx, func(ctx context.Context, _ int, _ time.Duration) ([]Delivery, error) {
			<-ctx.Done() // nothing comes
			return nil, nil
		})
	}()
	deadline := time.Now().Add(10 * time.Second)
	for unfinished := 1; unfinished > 0; {
		if err := w.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM event_work`).Scan(&unfinished); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("a due event was not worked off")
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
