package campaign

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/postgres"
)

// snapshot is what anybody could read at a moment: a commit that is visible is
// a commit that must stay.
type snapshot struct {
	entries map[string]bool // of the ledger, whole rows
	results map[string]bool // of events
	moves   map[string]bool // transitions
}

func texts(ctx context.Context, db *postgres.DB, sql string) (map[string]bool, error) {
	rows, err := db.Pool.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	set := make(map[string]bool, len(all))
	for _, one := range all {
		set[one] = true
	}
	return set, err
}

func look(ctx context.Context, db *postgres.DB) (s snapshot, err error) {
	for _, q := range []struct {
		into *map[string]bool
		sql  string
	}{
		{&s.entries, `SELECT l::text FROM ledger_entries l`},
		{&s.results, `SELECT r::text FROM event_results r`},
		{&s.moves, `SELECT payment_id || ' ' || seq || ' ' || to_status || ' ' || event_id FROM payment_transitions`},
	} {
		if *q.into, err = texts(ctx, db, q.sql); err != nil {
			return s, err
		}
	}
	return s, nil
}

// judge looks at the database right after a cut. before is what was visible;
// the promises are taken first, since more are made meanwhile.
func (c *campaign) judge(ctx context.Context, db *postgres.DB, heard *record, before snapshot, cut string) error {
	promises := heard.promises()
	if err := c.judgePromises(ctx, db, promises, cut); err != nil {
		return fmt.Errorf("after %s: %w", cut, err)
	}
	after, err := look(ctx, db)
	if err != nil {
		return fmt.Errorf("after %s: %w", cut, err)
	}
	for _, one := range []struct {
		what      string
		had, have map[string]bool
	}{{"ledger entry", before.entries, after.entries}, {"result", before.results, after.results}, {"transition", before.moves, after.moves}} {
		for row := range one.had {
			if !one.have[row] {
				c.r.fault("%s: the %s %s was committed and is gone or another", cut, one.what, row)
			}
		}
	}
	// Much is pending, rightly; what must hold at every moment must hold now.
	return c.verify(ctx, db, time.Hour, cut)
}

func (c *campaign) judgePromises(ctx context.Context, db *postgres.DB, promises []promise, cut string) error {
	stored, err := texts(ctx, db, `SELECT encode(body_sha256, 'hex') FROM events`)
	if err != nil {
		return err
	}
	repeated, err := texts(ctx, db, `SELECT encode(unnest(differing), 'hex') FROM event_redeliveries`)
	if err != nil {
		return err
	}
	for _, p := range promises {
		found := false
		for _, sum := range p.sums {
			found = found || stored[sum] || p.empty && repeated[sum]
		}
		if !found {
			c.r.Lost++
			c.r.fault("%s: event %.80s was answered with success and is not stored", cut, p.event)
		}
	}
	return nil
}

func (c *campaign) verify(ctx context.Context, db *postgres.DB, pending time.Duration, cut string) error {
	results, err := db.Verify(ctx, postgres.VerifyOptions{PendingLimit: pending, BodiesSince: time.Hour, Rows: 3}, nil)
	if err != nil {
		return fmt.Errorf("after %s: %w", cut, err)
	}
	for _, one := range results {
		for _, v := range one.Rows {
			c.r.fault("%s: invariant %d, %s: %s %s", cut, v.Invariant, v.Check, v.Subject, v.Detail)
		}
	}
	return nil
}
