package postgres

import (
	"context"
	"fmt"
	"time"
)

// Backlog is what is unfinished now.
type Backlog struct {
	Pending, Parked int64
	OldestPending   time.Duration // age of the oldest pending event
}

// Backlog counts unfinished events. Their table is small by design; the count
// is for a gauge, not for a hot path.
func (db *DB) Backlog(ctx context.Context) (b Backlog, err error) {
	const count = `
SELECT count(*) FILTER (WHERE state = 'pending'), count(*) FILTER (WHERE state = 'parked'),
       COALESCE(extract(epoch FROM now() - min(since) FILTER (WHERE state = 'pending')), 0)::float8
FROM event_work`
	var oldest float64
	if err := db.Pool.QueryRow(ctx, count).Scan(&b.Pending, &b.Parked, &oldest); err != nil {
		return b, fmt.Errorf("count unfinished events: %w", classify(err))
	}
	b.OldestPending = time.Duration(oldest * float64(time.Second))
	return b, nil
}

// Unsent counts the domain events that are not relayed, and gives the age of
// the oldest. The role of ingest may not read them.
func (db *DB) Unsent(ctx context.Context) (n int64, oldest time.Duration, err error) {
	const count = `SELECT count(*), COALESCE(extract(epoch FROM now() - min(created_at)), 0)::float8 FROM outbox WHERE relayed_at IS NULL`
	var seconds float64
	if err := db.Pool.QueryRow(ctx, count).Scan(&n, &seconds); err != nil {
		return 0, 0, fmt.Errorf("count unsent domain events: %w", classify(err))
	}
	return n, time.Duration(seconds * float64(time.Second)), nil
}
