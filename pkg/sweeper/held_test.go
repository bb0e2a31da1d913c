package sweeper_test

import (
	"errors"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/sweep"
)

// A processor that stands still in its transaction keeps the rows of its batch
// locked until the server ends it. The sweep is about all the others too.
func TestARowThatAStalledProcessorHoldsDoesNotEndTheSweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receive(5, time.Hour)
	stalled, err := w.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stalled.Rollback(t.Context()) //nolint:errcheck // it ends with the test
	if _, err := stalled.Exec(t.Context(), `DELETE FROM event_work WHERE event_id = (SELECT min(event_id) FROM event_work)`); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	sum := w.pass(sweep.Filter{}, false)
	if took := time.Since(started); took > time.Second {
		t.Errorf("the sweep took %s: it waited for the stalled processor", took)
	}
	if sum.Lost != 5 || w.queued() != 5 {
		t.Errorf("rung for %d, queued %d, want 5", sum.Lost, w.queued())
	}
	if n := w.count(`SELECT count(*) FROM event_work WHERE sweeps = 1 AND next_at > now()`); n != 4 {
		t.Errorf("%d rows are pushed back, want those that nobody holds", n)
	}
	if err := stalled.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sum := w.pass(sweep.Filter{}, false); sum.Looked != 1 || sum.Waiting != 1 {
		t.Errorf("the row that was held is not looked at again: %+v", sum)
	}
}

// The same when everything is rung for because the stream is lost.
func TestARowThatAStalledProcessorHoldsDoesNotKeepTheOthersFromBeingDue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receive(5, 0)
	stalled, err := w.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stalled.Rollback(t.Context()) //nolint:errcheck // it ends with the test
	if _, err := stalled.Exec(t.Context(), `DELETE FROM event_work WHERE event_id = (SELECT min(event_id) FROM event_work)`); err != nil {
		t.Fatal(err)
	}
	if n, err := w.db.RingForAll(t.Context()); n != 4 || !errors.Is(err, postgres.ErrRetry) {
		t.Errorf("%d events are due (%v), want those that nobody holds, and an error for the one that is held", n, err)
	}
	if n := w.count(`SELECT count(*) FROM event_work WHERE next_at <= now()`); n != 4 {
		t.Errorf("%d rows are due, want 4", n)
	}
	if err := stalled.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := w.db.RingForAll(t.Context()); n != 1 || err != nil {
		t.Errorf("%d events are due now (%v), want the one that was held", n, err)
	}
}
