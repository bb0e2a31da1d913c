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
	Unsent          int64         // domain events that are not relayed
	OldestUnsent    time.Duration
}

// Backlog counts what is unfinished. The table of unfinished events is small
// by design; the count is for a gauge, not for a hot path.
func (db *DB) Backlog(ctx context.Context) (b Backlog, err error) {
	const count = `
SELECT w.pending, w.parked, w.oldest, o.unsent, o.oldest
FROM (SELECT count(*) FILTER (WHERE state = 'pending') AS pending, count(*) FILTER (WHERE state = 'parked') AS parked,
             COALESCE(extract(epoch FROM now() - min(since) FILTER (WHERE state = 'pending')), 0)::float8 AS oldest FROM event_work) w,
     (SELECT count(*) AS unsent, COALESCE(extract(epoch FROM now() - min(created_at)), 0)::float8 AS oldest FROM outbox WHERE relayed_at IS NULL) o`
	var oldest, unsent float64
	if err := db.Pool.QueryRow(ctx, count).Scan(&b.Pending, &b.Parked, &oldest, &b.Unsent, &unsent); err != nil {
		return b, fmt.Errorf("count the backlog: %w", classify(err))
	}
	b.OldestPending = time.Duration(oldest * float64(time.Second))
	b.OldestUnsent = time.Duration(unsent * float64(time.Second))
	return b, nil
}
