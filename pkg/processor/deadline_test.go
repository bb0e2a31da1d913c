package processor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// Each read of a batch ends with PROCESSOR_TX_TIMEOUT: one that stands still
// gives its messages back, and does not keep its worker.
func TestAReadThatStandsStillGivesItsBatchBack(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"load_asked", "referenced_asked", "held_asked"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w, g := newCodedWorld(t, provider.LookupInDoubt)
			held := withReference(paid("pay_1"), "pay_1", "PED-1")
			w.process(w.receive(held))
			g.says["code-1"] = []payment.Claim{lost("PED-1")}
			id := w.receiveBody("", []byte("code-1"))
			w.cfg.TxTimeout = 150 * time.Millisecond
			still := true
			w.db.Hook = func(s string) error {
				if s == step && still {
					still = false
					time.Sleep(2 * w.cfg.TxTimeout)
				}
				return nil
			}
			got := w.Process(context.Background(), []int64{id})[id]
			w.db.Hook = nil
			if still {
				t.Fatal("the step was not reached")
			}
			if got != Again {
				t.Errorf("result %v, want %v: the read had no deadline", got, Again)
			}
			w.cfg.TxTimeout = 5 * time.Second
			w.process(id)
			w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
			w.wantStatus("pay_1", payment.StatusChargedBack)
		})
	}
}

// A claim of due events that stands still ends by itself: nobody else looks
// for what is parked in this process.
func TestAClaimOfDueEventsThatStandsStillIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	w.cfg.TxTimeout = 150 * time.Millisecond
	w.cfg.DueEvery = 10 * time.Millisecond
	deadlines := make(chan error, 1)
	w.store = claims{w.store, func(ctx context.Context) {
		select {
		case <-ctx.Done():
			deadlines <- context.Cause(ctx)
		case <-time.After(10 * time.Second):
			deadlines <- nil
		}
	}}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.workDue(ctx)
	}()
	if err := <-deadlines; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the claim ended with %v", err)
	}
	if err := <-deadlines; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second claim ended with %v", err)
	}
	stop()
	go func() {
		for range deadlines { //nolint:revive // the last ones may be waiting to tell
		}
	}()
	<-done
	close(deadlines)
}

// claims is a store whose claim of due events waits first.
type claims struct {
	Store
	wait func(context.Context)
}

func (c claims) ClaimDue(ctx context.Context, limit int, lease time.Duration) ([]int64, error) {
	c.wait(ctx)
	return c.Store.ClaimDue(ctx, limit, lease)
}
