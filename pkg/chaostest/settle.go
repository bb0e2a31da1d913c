package chaostest

import (
	"context"
	"fmt"
	"time"
)

// settleLimit is for everything to become final after everything was healed
// and every webhook was delivered.
const settleLimit = 6 * time.Minute

// settle does what an operator does after an incident: sweeps, has dead events
// sent again, and at last has every payment looked up, since some webhooks
// never came.
func (w *world) settle(ctx context.Context) error {
	if err := w.awaitReady(ctx, time.Minute); err != nil {
		return fmt.Errorf("everything was healed, and %w", err)
	}
	if err := w.drain(ctx); err != nil {
		return err
	}
	if err := w.sweeps.pass(ctx, 2*time.Second, "RECONCILE_AFTER=1ms", "RECONCILE_ALL=true"); err != nil {
		return fmt.Errorf("reconcile: %w", err)
	}
	return w.drain(ctx)
}

// drain waits until nothing is unfinished, dead or unsent.
func (w *world) drain(ctx context.Context) error {
	started := time.Now()
	for {
		var unfinished, dead, unsent int
		err := w.db.Pool.QueryRow(ctx, `
SELECT (SELECT count(*) FROM event_work), (SELECT count(*) FROM webhook_events WHERE status = 'dead'),
       (SELECT count(*) FROM outbox WHERE relayed_at IS NULL)`).Scan(&unfinished, &dead, &unsent)
		if err == nil && unfinished+dead+unsent == 0 {
			return nil
		}
		if time.Since(started) > settleLimit {
			return fmt.Errorf("everything was healed, and after %s %d events are unfinished, %d dead and %d domain events unsent (%v)", settleLimit, unfinished, dead, unsent, err)
		}
		if dead > 0 {
			_, _ = w.resendDead(ctx) // until it is taken
		}
		_ = w.sweeps.pass(ctx, 2*time.Second)
		// What waits for a time of its own need not be waited for by us too:
		// for the database, an hour passes.
		if time.Since(started) > 30*time.Second {
			if _, err := w.db.Pool.Exec(ctx, `UPDATE event_work SET next_at = now() WHERE state = 'parked' OR attempts > 0 OR turn > 1`); err != nil {
				w.cfg.Say("  let time pass: %v", err)
			}
		}
		if !wait(ctx, time.Second) {
			return ctx.Err()
		}
	}
}
