package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/settlement"
)

// comesByItself is the condition of events that processors take at their time
// without a message: parked ones, failed ones, and revived ones. It is that of
// the index event_work_due, and sweep.Row.ComesByItself says the same in Go.
const comesByItself = `(state = 'parked' OR attempts > 0 OR turn > 1)`

// ClaimDue takes events whose time has come and which no message will bring:
// parked ones, failed ones after their backoff, and revived ones. They are pushed lease into
// the future, so that other processors leave them alone for as long; a claim
// that is lost comes back by itself.
func (db *DB) ClaimDue(ctx context.Context, limit int, lease time.Duration) ([]int64, error) {
	const claim = `
UPDATE event_work w
SET next_at = now() + $2
FROM (
  SELECT event_id FROM event_work
  WHERE next_at <= now() AND ` + comesByItself + `
  ORDER BY next_at
  LIMIT $1
  FOR UPDATE SKIP LOCKED
) due
WHERE w.event_id = due.event_id
RETURNING w.event_id`
	var ids []int64
	err := db.between(ctx, "claim_due", func() error {
		rows, err := db.Pool.Query(ctx, claim, limit, lease)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim due events: %w", err)
	}
	return ids, nil
}

// Fail counts one failure of an event, in a transaction of its own because the
// one that failed was rolled back. It waits backoff before the next try; at
// maxAttempts the event is dead. Nothing happens when the event was settled, or
// told again, meanwhile. It reports whether the event is dead now.
func (db *DB) Fail(ctx context.Context, event settlement.Handle, lastError string, backoff time.Duration, maxAttempts int) (dead bool, err error) {
	const bury = `
WITH gone AS (
  DELETE FROM event_work WHERE event_id = $1 AND turn = $4 AND attempts >= $3 RETURNING event_id, turn, attempts
)
INSERT INTO event_results (event_id, turn, status, reason, attempts)
SELECT event_id, turn, 'dead', $2, attempts FROM gone
RETURNING true`
	const count = `
UPDATE event_work SET attempts = attempts + 1, last_error = $2, next_at = now() + $3
WHERE event_id = $1 AND turn = $4
RETURNING attempts`
	attempts := 0
	err = db.between(ctx, "fail", func() error {
		err := db.Pool.QueryRow(ctx, count, event.EventID, clip(lastError), backoff, event.Turn).Scan(&attempts)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("count failure of event %d: %w", event.EventID, err)
	}
	if attempts < maxAttempts {
		return false, nil
	}
	err = db.between(ctx, "bury", func() error {
		tag, err := db.Pool.Exec(ctx, bury, event.EventID, clip("gave up after repeated failures: "+lastError), maxAttempts, event.Turn)
		dead = tag.RowsAffected() > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("bury event %d: %w", event.EventID, err)
	}
	return dead, nil
}

// clip keeps a reason storable, and short enough for a table and a log line.
func clip(s string) string { return storable(s, 300) }
