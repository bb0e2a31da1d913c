package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/replay"
)

// replayable lists events with their newest result; the conditions follow.
// What was settled by the statement that stored it has that statement's time.
const replayable = `
SELECT e.id, e.provider, e.account, e.dedupe_key, COALESCE(e.provider_event_id, ''), e.type, COALESCE(e.payment_ref, ''),
       e.occurred_at, e.received_at, e.test, COALESCE(w.state, r.status, ''), CASE WHEN w.event_id IS NULL THEN COALESCE(r.outcome, '') ELSE '' END,
       COALESCE(CASE WHEN w.event_id IS NULL THEN r.reason ELSE COALESCE(w.reason, w.last_error) END, ''),
       COALESCE(r.turn, 0), w.event_id IS NOT NULL, b.event_id IS NOT NULL, x.on_receipt,
       CASE WHEN x.on_receipt THEN b.body END, CASE WHEN x.on_receipt THEN b.headers END
FROM events e
LEFT JOIN event_work w ON w.event_id = e.id
LEFT JOIN LATERAL (
  SELECT * FROM event_results l WHERE l.event_id = e.id ORDER BY l.turn DESC LIMIT 1
) r ON true
LEFT JOIN event_bodies b ON b.event_id = e.id AND b.received_on = (e.received_at AT TIME ZONE 'UTC')::date
CROSS JOIN LATERAL (
  SELECT COALESCE(w.event_id IS NULL AND r.turn = 1 AND r.at = e.received_at AND r.status IN ('ignored', 'quarantined'), false) AS on_receipt
) x
WHERE `

// ReplayPage reads events that a filter names, in the order of their ids and
// behind the given one.
func (db *DB) ReplayPage(ctx context.Context, f replay.Filter, after int64, limit int) ([]replay.Row, error) {
	sql, args := replayQuery(f, after, limit)
	var out []replay.Row
	err := db.InTx(ctx, func(tx pgx.Tx) error {
		// A rare filter may have to look at many events; nobody waits behind it.
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = '10min'`); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, scanReplay)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read events to replay: %w", err)
	}
	return out, nil
}

// replayQuery names only the conditions that are given, so that each filter
// finds its index: the key of events, that of their payments, or that of the
// results that were set aside.
func replayQuery(f replay.Filter, after int64, limit int) (string, []any) {
	args := []any{after, limit}
	conditions := []string{"e.id > $1"}
	add := func(condition string, arg any) {
		args = append(args, arg)
		conditions = append(conditions, strings.ReplaceAll(condition, "?", fmt.Sprintf("$%d", len(args))))
	}
	if len(f.IDs) > 0 {
		add("e.id = ANY(?)", f.IDs)
	}
	if f.Provider != "" {
		add("e.provider = ?", f.Provider)
	}
	if f.Account != "" {
		add("e.account = ?", f.Account)
	}
	if f.Payment != "" {
		add("e.payment_ref = ?", f.Payment)
	}
	if !f.Since.IsZero() {
		add("e.received_at >= ?", f.Since)
	}
	if !f.Until.IsZero() {
		add("e.received_at < ?", f.Until)
	}
	if len(f.Statuses) > 0 {
		add("w.event_id IS NULL AND r.status = ANY(?)", column(f.Statuses, func(s event.Status) string { return string(s) }))
		aside := func(s event.Status) bool { return s != event.StatusDead && s != event.StatusQuarantined }
		if !slices.ContainsFunc(f.Statuses, aside) {
			conditions = append(conditions, "e.id IN (SELECT s.event_id FROM event_results s WHERE s.status IN ('dead', 'quarantined'))")
		}
	}
	return replayable + strings.Join(conditions, "\n  AND ") + "\nORDER BY e.id\nLIMIT $2", args
}

func scanReplay(row pgx.CollectableRow) (r replay.Row, err error) {
	e := &r.Event
	var occurred pgtype.Timestamptz
	var headers []string
	err = row.Scan(&e.ID, &e.Provider, &e.Account, &e.DedupeKey, &e.ProviderEventID, &e.Type, &e.PaymentRef,
		&occurred, &e.ReceivedAt, &e.Test, &r.Status, &r.Outcome, &r.Reason, &r.Turn, &r.Unfinished, &r.HasBody, &r.OnReceipt, &e.Body, &headers)
	e.OccurredAt, e.Headers = occurred.Time, headersOf(headers)
	return r, err
}

// putBack is the second statement under the locks of revival, as reviveEvents
// is: its snapshot was taken under them. The turn is that of the row that was
// looked at, so that of two replays at once one changes nothing. The event is
// due at once and comes by itself: no message is needed.
const putBack = `
INSERT INTO event_work (event_id, turn, next_at)
SELECT i.id, i.turn + 1, now()
FROM unnest($1::bigint[], $2::integer[]) AS i (id, turn)
WHERE i.turn = (SELECT max(r.turn) FROM event_results r WHERE r.event_id = i.id)
  AND NOT EXISTS (SELECT FROM event_work w WHERE w.event_id = i.id)
  AND EXISTS (SELECT FROM events e WHERE e.id = i.id)
ORDER BY i.id
ON CONFLICT ON CONSTRAINT event_work_pkey DO NOTHING
RETURNING event_id`

// Replay gives settled events another turn and returns the ids of those that
// got it. One that was revived, replayed or forgotten since its row was read
// is left alone.
func (db *DB) Replay(ctx context.Context, rows []replay.Row) (replayed []int64, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	ids := column(rows, func(r replay.Row) int64 { return r.Event.ID })
	err = patiently(ctx, func() error {
		return db.InTx(ctx, func(tx pgx.Tx) error {
			lock := statement{sql: lockRevivals, args: []any{slices.Sorted(slices.Values(ids))}, rows: exhaust}
			back := statement{sql: putBack, args: []any{ids, column(rows, func(r replay.Row) int32 { return r.Turn })}, rows: func(r pgx.Rows) (err error) {
				replayed, err = pgx.CollectRows(r, pgx.RowTo[int64])
				return err
			}}
			return sendAll(ctx, tx, statements{lock, back})
		})
	})
	if err != nil {
		return nil, fmt.Errorf("replay events: %w", err)
	}
	return replayed, nil
}
