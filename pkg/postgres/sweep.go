package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/sweep"
)

// DuePage reads unfinished events after the given cursor, oldest first: those
// that are due, or with OlderThan also pending ones that were received so long
// ago. Paging by key, not by what was done, means that rows which cannot be
// moved starve nobody; with OlderThan the key is the id alone, because marking
// a row moves its next_at forward and it would be met again.
func (db *DB) DuePage(ctx context.Context, f sweep.Filter, after sweep.Cursor, limit int) ([]sweep.Row, error) {
	const (
		columns = `
SELECT w.event_id, w.next_at, e.provider, e.account, COALESCE(e.payment_ref, ''), e.type, w.state, COALESCE(w.reason, w.last_error, ''),
       w.attempts, w.sweeps, w.turn, w.since, e.received_at
FROM event_work w
JOIN events e ON e.id = w.event_id
WHERE ($1 = '' OR e.provider = $1) AND `
		due = columns + `(w.next_at, w.event_id) > ($2, $3) AND w.next_at <= now()
ORDER BY w.next_at, w.event_id
LIMIT $4`
		older = columns + `w.event_id > $2
  AND (w.next_at <= now() OR w.state = 'pending' AND w.attempts = 0 AND e.received_at <= now() - $3::interval)
ORDER BY w.event_id
LIMIT $4`
	)
	sql, args := due, []any{f.Provider, after.NextAt, after.EventID, limit}
	if f.OlderThan > 0 {
		sql, args = older, []any{f.Provider, after.EventID, f.OlderThan, limit}
	}
	var out []sweep.Row
	err := db.between(ctx, "due_page", func() error {
		rows, err := db.Pool.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r sweep.Row, err error) {
			err = row.Scan(&r.Notice.ID, &r.NextAt, &r.Notice.Provider, &r.Notice.Account, &r.Notice.PaymentRef, &r.Type, &r.State, &r.Reason,
				&r.Attempts, &r.Sweeps, &r.Turn, &r.Since, &r.ReceivedAt)
			return r, err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read due events: %w", err)
	}
	return out, nil
}

// MarkSwept pushes swept events back: 5 minutes, 10, 20 ... at most 6 hours.
// Those that processors take by themselves at their time (ClaimDue) are pushed
// back by no more than their message needs: should the broker lose it, they
// must not wait for the next sweeps.
// What was settled or re-parked meanwhile is left alone, and so is what
// somebody holds at the moment: it is in hand, and looked at again if not.
func (db *DB) MarkSwept(ctx context.Context, rows []sweep.Row) error {
	const mark = `
UPDATE event_work w
SET sweeps = sweeps + 1, next_at = now() + CASE
  WHEN ` + comesByItself + ` THEN interval '30 seconds'
  ELSE LEAST(interval '5 minutes' * power(2, LEAST(sweeps, 10)), interval '6 hours') END
FROM (
  SELECT w.event_id FROM event_work w
  JOIN unnest($1::bigint[], $2::timestamptz[]) AS s (event_id, next_at) ON w.event_id = s.event_id AND w.next_at = s.next_at
  ORDER BY w.event_id
  FOR UPDATE OF w SKIP LOCKED
) free
WHERE w.event_id = free.event_id`
	return patiently(ctx, func() error {
		err := db.between(ctx, "mark_swept", func() error {
			_, err := db.Pool.Exec(ctx, mark,
				column(rows, func(r sweep.Row) int64 { return r.Notice.ID }),
				column(rows, func(r sweep.Row) time.Time { return r.NextAt }))
			return err
		})
		if err != nil {
			return fmt.Errorf("mark swept events: %w", err)
		}
		return nil
	})
}

// RingForAll makes everything pending due at once: the queue that held their
// messages was lost. It works in pieces and returns how many were not due yet.
// What somebody holds comes last, so that it keeps nothing else waiting; the
// error is about that, when it is held for longer than a lock is waited for.
func (db *DB) RingForAll(ctx context.Context) (events int, err error) {
	const (
		piece = `
WITH piece AS (
  SELECT event_id FROM event_work WHERE event_id > $1 AND state = 'pending' AND attempts = 0 AND next_at > now()
  ORDER BY event_id LIMIT 10000 FOR UPDATE`
		ring = `
), rung AS (
  UPDATE event_work w SET next_at = now() FROM piece WHERE w.event_id = piece.event_id RETURNING w.event_id
)
SELECT count(*), COALESCE(max(event_id), 0) FROM rung`
	)
	for _, due := range []string{piece + ` SKIP LOCKED` + ring, piece + ring} {
		for last, n := int64(0), -1; n != 0; events += n {
			if err := db.between(ctx, "ring_for_all", func() error { return db.Pool.QueryRow(ctx, due, last).Scan(&n, &last) }); err != nil {
				return events, fmt.Errorf("make all pending events due: %w", err)
			}
		}
	}
	return events, nil
}

// BuryParked makes events dead that have been parked for longer than limit.
func (db *DB) BuryParked(ctx context.Context, limit time.Duration, f sweep.Filter, most int) (int, error) {
	const bury = `
WITH old AS (
  SELECT w.event_id FROM event_work w JOIN events e ON e.id = w.event_id
  WHERE w.state = 'parked' AND w.reason <> 'registered' AND w.since <= now() - $1::interval AND ($2 = '' OR e.provider = $2)
  ORDER BY w.event_id
  LIMIT $3
  FOR UPDATE OF w SKIP LOCKED
), gone AS (
  DELETE FROM event_work w USING old WHERE w.event_id = old.event_id
  RETURNING w.event_id, w.turn, w.reason, w.attempts
)
INSERT INTO event_results (event_id, turn, status, reason, attempts)
SELECT event_id, turn, 'dead', 'parked for too long: ' || reason, attempts FROM gone`
	buried := 0
	err := db.between(ctx, "bury_parked", func() error {
		tag, err := db.Pool.Exec(ctx, bury, limit, f.Provider, most)
		buried = int(tag.RowsAffected())
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("bury parked events: %w", err)
	}
	return buried, nil
}

// CountParkedOver says how many events BuryParked would bury.
func (db *DB) CountParkedOver(ctx context.Context, limit time.Duration, f sweep.Filter) (n int, err error) {
	const count = `
SELECT count(*) FROM event_work w JOIN events e ON e.id = w.event_id
WHERE w.state = 'parked' AND w.reason <> 'registered' AND w.since <= now() - $1::interval AND ($2 = '' OR e.provider = $2)`
	if err := db.Pool.QueryRow(ctx, count, limit, f.Provider).Scan(&n); err != nil {
		return 0, fmt.Errorf("count parked events: %w", classify(err))
	}
	return n, nil
}

// Reconcile enters one event for each payment whose gateway has not been asked
// for a while, so that the answer is applied like any other fact. The key holds
// when the payment was last seen: two sweepers enter one event, and a payment
// that was looked up since gets a new one. The day is in it too, so that one
// whose event died is tried again tomorrow. It pages by payment id and returns
// the last one it looked at, 0 at the end.
func (db *DB) Reconcile(ctx context.Context, f sweep.Filter, r sweep.Reconcile, after int64, limit int) (entered []event.Notice, last int64, err error) {
	// Two texts, so that the usual one can use the index of the unsettled.
	which := `p.status IN ('pending', 'authorized', 'disputed')`
	if r.All {
		which = `true`
	}
	enter := `
WITH stale AS (
  SELECT p.id, p.provider, p.account, p.gateway_id, COALESCE(p.observed_at, p.created_at) AS seen
  FROM payments p
  WHERE p.id > $1
    AND COALESCE(p.observed_at, p.created_at) <= now() - $2::interval
    AND p.created_at >= now() - $3::interval
    AND ` + which + `
    AND ($4 = '' OR p.provider = $4)
    AND p.provider || '/' || p.account = ANY($5)
  ORDER BY p.id
  LIMIT $6
), entered AS (
  INSERT INTO events (provider, account, dedupe_key, type, payment_ref, secret, body_sha256)
  SELECT provider, account, 'umavez/reconcile/' || id || '/' || extract(epoch FROM seen) || '/' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD'), $7, gateway_id, 'sweeper', sha256(''::bytea)
  FROM stale
  ON CONFLICT ON CONSTRAINT events_once DO NOTHING
  RETURNING id, provider, account, payment_ref
), work AS (
  INSERT INTO event_work (event_id) SELECT id FROM entered
)
SELECT s.id, COALESCE(e.id, 0), s.provider, s.account, s.gateway_id
FROM stale s
LEFT JOIN entered e ON e.provider = s.provider AND e.account = s.account AND e.payment_ref = s.gateway_id
ORDER BY s.id`
	err = db.between(ctx, "reconcile", func() error {
		rows, err := db.Pool.Query(ctx, enter, after, r.After, r.Within, f.Provider, r.Sources, limit, event.TypeReconcile)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var n event.Notice
			if err := rows.Scan(&last, &n.ID, &n.Provider, &n.Account, &n.PaymentRef); err != nil {
				return err
			}
			if n.ID != 0 {
				entered = append(entered, n)
			}
		}
		return rows.Err()
	})
	if err != nil {
		return nil, 0, fmt.Errorf("enter reconciliation: %w", err)
	}
	return entered, last, nil
}
