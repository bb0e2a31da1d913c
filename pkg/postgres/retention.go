package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// DropBodies drops the bodies of whole days (UTC) that are older than keep and
// returns how many days went; those that an unfinished event needs stay. What
// went to the DEFAULT partition is deleted in pieces. Keys and results stay.
func (db *DB) DropBodies(ctx context.Context, keep time.Duration) (days int, err error) {
	const (
		drop = `SELECT drop_body_partition((now() AT TIME ZONE 'UTC' - $1::interval)::date) IS NOT NULL`
		trim = `
DELETE FROM event_bodies_default WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM event_bodies_default
  WHERE received_on < first_day_of_needed_bodies((now() AT TIME ZONE 'UTC' - $1::interval)::date) LIMIT 5000))`
	)
	for again := true; again; {
		err := db.between(ctx, "drop_bodies", func() error { return db.Pool.QueryRow(ctx, drop, keep).Scan(&again) })
		if err != nil {
			return days, fmt.Errorf("drop old bodies: %w", err)
		}
		if again {
			days++
		}
	}
	for {
		var trimmed int64
		err := db.between(ctx, "trim_bodies", func() error {
			tag, err := db.Pool.Exec(ctx, trim, keep)
			trimmed = tag.RowsAffected()
			return err
		})
		if err != nil {
			return days, fmt.Errorf("drop old bodies: %w", err)
		}
		if trimmed == 0 {
			return days, nil
		}
	}
}

// ForgetEvents deletes settled events older than keep, oldest first, at most
// so many, with all that is kept about them: a resend of one would be a new
// event. Payments, transitions and the ledger stay for ever. Ids grow with
// time, so the oldest are the smallest and no index on the time is needed.
func (db *DB) ForgetEvents(ctx context.Context, keep time.Duration, most int) (events int, err error) {
	const (
		oldest = `
SELECT id FROM (SELECT id, received_at FROM events ORDER BY id LIMIT $2) o
WHERE received_at < now() - $1::interval AND NOT EXISTS (SELECT FROM event_work w WHERE w.event_id = o.id)`
		// Under the locks that revival takes, and with a snapshot that was
		// taken under them: an event that is resent at this moment stays.
		forget = `
WITH old AS (
  SELECT id FROM unnest($1::bigint[]) AS o (id) WHERE NOT EXISTS (SELECT FROM event_work w WHERE w.event_id = o.id)
), results AS (
  DELETE FROM event_results r USING old WHERE r.event_id = old.id
), redeliveries AS (
  DELETE FROM event_redeliveries d USING old WHERE d.event_id = old.id
)
DELETE FROM events e USING old WHERE e.id = old.id`
	)
	err = db.inTx(ctx, "forget", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, oldest, keep, most)
		if err != nil {
			return err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil || len(ids) == 0 {
			return err
		}
		slices.Sort(ids)
		if err := db.at(ctx, "forget", "_chosen"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, lockRevivals, ids); err != nil {
			return err
		}
		if err := db.at(ctx, "forget", "_locked"); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, forget, ids)
		events = int(tag.RowsAffected())
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("forget old events: %w", err)
	}
	return events, nil
}
