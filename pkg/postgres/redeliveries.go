package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/event"
)

const (
	// countRedeliveries counts duplicates and finds those that ask for more.
	countRedeliveries = `
WITH repeated AS (
  SELECT e.id, e.provider, e.account, e.dedupe_key, sum(i.n)::bigint AS n, bool_or(i.reopen) AS reopen,
         COALESCE((array_agg(i.sha256) FILTER (WHERE i.sha256 <> e.body_sha256))[1:16], '{}') AS differing
  FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::boolean[])
    AS i (provider, account, dedupe_key, sha256, n, reopen)
  JOIN events e USING (provider, account, dedupe_key)
  GROUP BY e.id
), counted AS (
  INSERT INTO event_redeliveries AS r (event_id, count, differing)
  SELECT id, n, differing FROM repeated ORDER BY id
  ON CONFLICT ON CONSTRAINT event_redeliveries_pkey DO UPDATE
  SET count = r.count + EXCLUDED.count, last_at = now(),
      differing = CASE
        WHEN EXCLUDED.differing <@ r.differing OR cardinality(r.differing) >= 16 THEN r.differing
        ELSE (ARRAY(SELECT DISTINCT unnest(r.differing || EXCLUDED.differing)))[1:16]
      END
)
SELECT d.id, d.provider, d.account, d.dedupe_key, d.reopen,
       COALESCE(w.event_id IS NULL AND (l.status = 'dead' OR d.reopen AND l.status = 'processed'), false)
         OR d.reopen AND w.event_id IS NOT NULL
FROM repeated d
LEFT JOIN event_work w ON w.event_id = d.id
LEFT JOIN LATERAL (
  SELECT status FROM event_results r WHERE r.event_id = d.id ORDER BY r.turn DESC LIMIT 1
) l ON true`

	// restoreBodies brings back the body of an event that is to be revived,
	// where retention has dropped it; only the very same bytes may stand in.
	restoreBodies = `
INSERT INTO event_bodies (received_on, event_id, body)
SELECT (e.received_at AT TIME ZONE 'UTC')::date, e.id, i.body
FROM unnest($1::bigint[], $2::bytea[], $3::bytea[]) AS i (id, sha256, body)
JOIN events e ON e.id = i.id AND e.body_sha256 = i.sha256
ON CONFLICT DO NOTHING`

	// lockRevivals and reviveEvents are two statements on purpose: the second
	// has a snapshot that was taken under the lock, so it sees the revival of
	// whoever held the lock before, even if that event was processed and
	// settled since. In one statement the older snapshot would say "dead, no
	// work" and ON CONFLICT would find no row to conflict with any more.
	lockRevivals = `
SELECT pg_advisory_xact_lock(hashtext('umavez revival ' || current_schema()), hashint8(id))
FROM unnest($1::bigint[]) AS i (id)`

	// tellAgain marks unfinished events that were sent again and may mean
	// something new. Whoever has one in hand has perhaps asked the gateway too
	// early: with another turn his claim finds nothing, and the event is due
	// again. Where it settles first, this update waits, finds no row, and
	// reviveEvents does the rest.
	tellAgain = `
UPDATE event_work w
SET turn = turn + 1, since = now(), next_at = now(), parks = 0, state = 'parked', reason_since = now(),
    reason = COALESCE(w.reason, 'told_again: the gateway sent it again while it was unfinished')
FROM unnest($1::bigint[], $2::boolean[]) AS i (id, reopen)
WHERE w.event_id = i.id AND i.reopen`

	// A revived event is rung for at once. Its first message may still wait for
	// its ack, and then the queue refuses the second: so it is due soon, and
	// comes by itself.
	reviveEvents = `
INSERT INTO event_work (event_id, turn, next_at)
SELECT i.id, l.turn + 1, now() + interval '2 seconds'
FROM unnest($1::bigint[], $2::boolean[]) AS i (id, reopen)
CROSS JOIN LATERAL (
  SELECT turn, status FROM event_results r WHERE r.event_id = i.id ORDER BY r.turn DESC LIMIT 1
) l
WHERE (l.status = 'dead' OR i.reopen AND l.status = 'processed')
  AND NOT EXISTS (SELECT FROM event_work w WHERE w.event_id = i.id)
ORDER BY i.id
ON CONFLICT ON CONSTRAINT event_work_pkey DO NOTHING
RETURNING event_id`
)

// countRepeats completes the results of the duplicates at the given indices.
func (db *DB) countRepeats(ctx context.Context, arrivals []event.Arrival, indices []int, stored []event.Stored) error {
	lines := repeatLines(arrivals, indices)
	ids := make(map[key]int64, len(lines))
	var revivable []int64
	var reopen []bool
	args := []any{
		column(lines, func(l repeat) string { return l.provider }),
		column(lines, func(l repeat) string { return l.account }),
		column(lines, func(l repeat) string { return l.dedupe }),
		column(lines, func(l repeat) []byte { return l.sha256[:] }),
		column(lines, func(l repeat) int64 { return l.n }),
		column(lines, func(l repeat) bool { return l.reopen }),
	}
	begin := func() {
		clear(ids)
		revivable, reopen = nil, nil
	}
	err := db.autocommitted(ctx, "redeliveries", countRedeliveries, args, begin, func(rows pgx.Rows) error {
		var id int64
		var k key
		var again, revives bool
		if err := rows.Scan(&id, &k.provider, &k.account, &k.dedupe, &again, &revives); err != nil {
			return err
		}
		ids[k] = id
		if revives {
			revivable, reopen = append(revivable, id), append(reopen, again)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := db.restoreBodies(ctx, arrivals, indices, ids, revivable); err != nil {
		return err
	}
	revived, err := db.revive(ctx, revivable, reopen)
	for _, i := range indices {
		id, ok := ids[keyOf(&arrivals[i])]
		switch {
		case !ok: // retention removed it between the two statements
			err = errors.Join(err, errors.New("an event vanished while its duplicate was received"))
		case err != nil && slices.Contains(revivable, id):
		default:
			stored[i].ID = id
			if slices.Contains(revived, id) {
				stored[i].Publish = true
				revived = slices.DeleteFunc(revived, func(r int64) bool { return r == id })
			}
		}
	}
	return err
}

func (db *DB) restoreBodies(ctx context.Context, arrivals []event.Arrival, indices []int, ids map[key]int64, revivable []int64) error {
	if len(revivable) == 0 {
		return nil
	}
	given := map[int64]*event.Arrival{}
	for _, i := range indices {
		if id := ids[keyOf(&arrivals[i])]; slices.Contains(revivable, id) {
			given[id] = &arrivals[i]
		}
	}
	args := []any{
		revivable,
		column(revivable, func(id int64) []byte { return given[id].BodySHA256[:] }),
		column(revivable, func(id int64) []byte { return notNil(given[id].Body) }),
	}
	return db.autocommitted(ctx, "bodies", restoreBodies, args, func() {}, func(pgx.Rows) error { return nil })
}

// revive marks unfinished events with reopen, and puts settled events back to
// work: those whose newest result is
// "dead", and those with reopen whose newest result is "processed". Each is
// revived once, however many ask at the same moment; the others find it
// unfinished or settled again. It returns the events that it revived.
func (db *DB) revive(ctx context.Context, ids []int64, reopen []bool) (revived []int64, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	order := make([]int, len(ids))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(ids[a], ids[b]) })
	sortedIDs := column(order, func(i int) int64 { return ids[i] })
	sortedReopen := column(order, func(i int) bool { return reopen[i] })
	err = patiently(ctx, func() error {
		revived = nil
		err := db.inTx(ctx, "revival", func(tx pgx.Tx) error {
			var s statements
			s.query("revivals_locked", lockRevivals, exhaust, sortedIDs)
			s.add("events_told_again", tellAgain, sortedIDs, sortedReopen)
			s.query("events_revived", reviveEvents, func(rows pgx.Rows) error {
				for rows.Next() {
					var id int64
					if err := rows.Scan(&id); err != nil {
						return err
					}
					revived = append(revived, id)
				}
				return rows.Err()
			}, sortedIDs, sortedReopen)
			left := 0
			s.query("revivals_checked", `SELECT count(*) FROM events WHERE id = ANY($1)`, func(rows pgx.Rows) error {
				for rows.Next() {
					if err := rows.Scan(&left); err != nil {
						return err
					}
				}
				return rows.Err()
			}, sortedIDs)
			if err := db.run(ctx, tx, s); err != nil {
				return err
			}
			if left != len(sortedIDs) { // the resend finds no key, and is stored as new
				return &OwnError{errors.New("an event was forgotten while it was resent")}
			}
			return nil
		})
		if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknownOutcome) {
			err = fmt.Errorf("%w: %w", errBroken, err)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("revive events: %w", err)
	}
	return revived, nil
}

// exhaust reads rows whose coming was all that was asked for: locks.
func exhaust(rows pgx.Rows) error {
	for rows.Next() { //nolint:revive // see above
	}
	return rows.Err()
}

// repeat is the duplicates of one key with one body, of one batch.
type repeat struct {
	key
	sha256 [32]byte
	n      int64
	reopen bool
}

func repeatLines(arrivals []event.Arrival, indices []int) []repeat {
	type line struct {
		key
		sha256 [32]byte
	}
	at := make(map[line]int, len(indices))
	lines := make([]repeat, 0, len(indices))
	for _, i := range indices {
		a := &arrivals[i]
		l := line{keyOf(a), a.BodySHA256}
		n, ok := at[l]
		if !ok {
			n = len(lines)
			at[l] = n
			lines = append(lines, repeat{key: l.key, sha256: l.sha256})
		}
		lines[n].n++
		lines[n].reopen = lines[n].reopen || a.Reopen
	}
	return lines
}
