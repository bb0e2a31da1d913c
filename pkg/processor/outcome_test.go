package processor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/settlement"
)

// mute is a store whose commits never happen and whose answers are lost.
type mute struct{ Store }

func (mute) Settle(context.Context, []settlement.Handle, []settlement.Ref, settlement.Decide) (settlement.Decision, error) {
	return settlement.Decision{}, fmt.Errorf("settle batch: %w", settlement.ErrUnknownOutcome)
}

func TestACommitWhoseAnswerIsLostIsNeitherAckedNorGivenBack(t *testing.T) {
	t.Parallel()
	for name, happened := range map[string]bool{"and which happened": true, "and which did not happen": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, provider.LookupNever)
			id := w.receive(paid("pay_1"))
			var acked, naked int
			deliver := func() {
				w.Handle(t.Context(), []Delivery{{EventID: id, Ack: func() error { acked++; return nil }, Nak: func(time.Duration) error { naked++; return nil }}})
			}
			if happened {
				w.hook(t, func(step string) error {
					if step == "settle_committed" {
						return errCut
					}
					return nil
				})
				deliver()
				w.db.Hook = nil
			} else {
				w.store = mute{w.db}
				for range w.cfg.MaxAttempts + 1 {
					deliver()
				}
				w.store = w.db
				w.wantEvent(id, event.StatusPending, "")
			}
			if acked != 0 || naked != 0 {
				t.Errorf("acked %d times, given back %d times, while nobody knows what happened", acked, naked)
			}
			deliver()
			w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
			deliver()
			if acked == 0 || naked != 0 {
				t.Errorf("afterwards acked %d times, given back %d times", acked, naked)
			}
			var attempts int
			if err := w.db.Pool.QueryRow(t.Context(), `SELECT attempts FROM event_results WHERE event_id = $1`, id).Scan(&attempts); err != nil || attempts != 0 {
				t.Errorf("%d attempts counted, %v", attempts, err)
			}
			w.verify()
		})
	}
}

func TestAnEventThatFailedComesByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	w.store = blind{w.db, "pay_1"}
	id := w.receive(paid("pay_1"))
	w.process(id)
	w.wantEvent(id, event.StatusPending, "")
	w.store = w.db
	w.due()
	w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
	w.verify()
}
