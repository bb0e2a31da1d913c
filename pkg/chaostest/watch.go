package chaostest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/umavez/umavez/pkg/postgres"
)

// watch checks what must hold at every moment, while the faults are played.
type watch struct {
	w *world

	mu      sync.Mutex
	looks   int
	missed  int // the database did not answer
	found   []string
	events  int64
	entries int64
	moves   int64
}

func newWatch(w *world) *watch { return &watch{w: w} }

func (x *watch) run(ctx context.Context) {
	for wait(ctx, 10*time.Second) {
		x.look(ctx)
	}
}

// look checks every invariant in one snapshot, and that what is append-only
// did not shrink.
func (x *watch) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var events, entries, moves int64
	err := x.w.db.Pool.QueryRow(ctx, `
SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM ledger_entries), (SELECT count(*) FROM payment_transitions)`).Scan(&events, &entries, &moves)
	var results []postgres.CheckResult
	if err == nil {
		// How long something may wait is for the calms to judge.
		results, err = x.w.db.Verify(ctx, postgres.VerifyOptions{PendingLimit: 24 * time.Hour, BodiesSince: 24 * time.Hour, Rows: 5}, nil)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil {
		x.missed++
		return
	}
	x.looks++
	if events < x.events || entries < x.entries || moves < x.moves {
		x.find("what is append-only shrank: events %d to %d, entries %d to %d, transitions %d to %d", x.events, events, x.entries, entries, x.moves, moves)
	}
	x.events, x.entries, x.moves = events, entries, moves
	for _, one := range results {
		for _, v := range one.Rows {
			x.find("invariant %d, %s: %s %s", v.Invariant, v.Check, v.Subject, v.Detail)
		}
	}
}

func (x *watch) find(format string, args ...any) {
	if len(x.found) < 50 {
		x.found = append(x.found, "during the run: "+fmt.Sprintf(format, args...))
	}
}
