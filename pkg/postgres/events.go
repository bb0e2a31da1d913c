package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/umavez/umavez/pkg/event"
)

// Receiving events. A batch is one statement, which is one transaction and one
// round trip: what is new goes into four tables, what is not touches none of
// them. Only when the batch holds duplicates does a second statement count
// them, and only when one of those is to be revived does a third part run.
const (
	// insertEvents has one text for every size of batch, so one plan serves
	// all. The rows come sorted by key: two batches that meet on the same keys
	// wait for one another in one order, and never in a circle.
	insertEvents = `
WITH arrived AS (
  SELECT *
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[],
              $8::boolean[], $9::text[], $10::bytea[], $11::bytea[], $12::text[], $13::text[], $14::text[])
    AS a (provider, account, dedupe_key, type, provider_event_id, payment_ref, occurred_at,
          test, secret, body_sha256, body, headers, settle, reason)
), stored AS (
  INSERT INTO events (provider, account, dedupe_key, type, provider_event_id, payment_ref, occurred_at,
                      test, secret, body_sha256)
  SELECT provider, account, dedupe_key, type, provider_event_id, payment_ref, occurred_at,
         test, secret, body_sha256
  FROM arrived
  ON CONFLICT ON CONSTRAINT events_once DO NOTHING
  RETURNING id, received_at, provider, account, dedupe_key
), fresh AS (
  SELECT s.id, (s.received_at AT TIME ZONE 'UTC')::date AS received_on, a.body, a.headers, a.settle, a.reason
  FROM stored s
  JOIN arrived a USING (provider, account, dedupe_key)
), bodies AS (
  INSERT INTO event_bodies (received_on, event_id, body, headers)
  SELECT received_on, id, body, headers::text[] FROM fresh
), work AS (
  INSERT INTO event_work (event_id)
  SELECT id FROM fresh WHERE settle = ''
), results AS (
  INSERT INTO event_results (event_id, status, reason)
  SELECT id, settle, reason FROM fresh WHERE settle <> ''
)
SELECT id, provider, account, dedupe_key FROM stored`

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
FROM repeated d
LEFT JOIN event_work w ON w.event_id = d.id
LEFT JOIN LATERAL (
  SELECT status FROM event_results r WHERE r.event_id = d.id ORDER BY r.turn DESC LIMIT 1
) l ON true`

	// lockRevivals and reviveEvents are two statements on purpose: the second
	// has a snapshot that was taken under the lock, so it sees the revival of
	// whoever held the lock before, even if that event was processed and
	// settled since. In one statement the older snapshot would say "dead, no
	// work" and ON CONFLICT would find no row to conflict with any more.
	lockRevivals = `
SELECT pg_advisory_xact_lock(hashtext('umavez revival ' || current_schema()), hashint8(id))
FROM unnest($1::bigint[]) AS i (id)`

	reviveEvents = `
INSERT INTO event_work (event_id, turn)
SELECT i.id, l.turn + 1
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

// key is what makes an event unique.
type key struct{ provider, account, dedupe string }

func keyOf(a *event.Arrival) key { return key{a.Provider, a.Account, a.DedupeKey} }

func (k key) compare(o key) int {
	return cmp.Or(strings.Compare(k.provider, o.provider), strings.Compare(k.account, o.account), strings.Compare(k.dedupe, o.dedupe))
}

// InsertEvents stores what is new of a batch and counts what is not; the
// results are parallel to the arrivals. Of arrivals with one key the first may
// be new and the others are its duplicates. A duplicate of an event that is
// dead revives it, one with Reopen revives a processed event too; a revived
// event is due to be published like a new one.
//
// An arrival whose result has an ID is stored and flushed, also when an error
// is returned: the error is then about the others, of which nothing is
// promised. ErrRefusedRow means that at least one arrival is not storable and
// that nothing of the batch was stored.
func (db *DB) InsertEvents(ctx context.Context, arrivals []event.Arrival) ([]event.Stored, error) {
	stored := make([]event.Stored, len(arrivals))
	if len(arrivals) == 0 {
		return stored, nil
	}
	firsts, rest := splitRepeats(arrivals)
	fresh, err := db.insertNew(ctx, arrivals, firsts)
	if err != nil {
		return stored, fmt.Errorf("insert events: %w", err)
	}
	var repeats []int
	for _, i := range firsts {
		if id, ok := fresh[keyOf(&arrivals[i])]; ok {
			stored[i] = event.Stored{ID: id, New: true, Publish: arrivals[i].Settle == ""}
		} else {
			repeats = append(repeats, i)
		}
	}
	for _, i := range rest {
		stored[i].ID = fresh[keyOf(&arrivals[i])]
		repeats = append(repeats, i)
	}
	if len(repeats) == 0 {
		return stored, nil
	}
	if err := db.countRepeats(ctx, arrivals, repeats, stored); err != nil {
		return stored, fmt.Errorf("count redeliveries: %w", err)
	}
	return stored, nil
}

// splitRepeats gives the indices of the first arrival of each key, sorted by
// key, and those of all others.
func splitRepeats(arrivals []event.Arrival) (firsts, rest []int) {
	order := make([]int, len(arrivals))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return keyOf(&arrivals[a]).compare(keyOf(&arrivals[b])) })
	firsts = order[:0:len(order)]
	for n, i := range order {
		if n > 0 && len(firsts) > 0 && keyOf(&arrivals[i]) == keyOf(&arrivals[firsts[len(firsts)-1]]) {
			rest = append(rest, i)
			continue
		}
		firsts = append(firsts, i)
	}
	return firsts, rest
}

// insertNew stores the arrivals at the given indices and returns the ids of
// those that were new, by key: RETURNING promises no order.
func (db *DB) insertNew(ctx context.Context, arrivals []event.Arrival, indices []int) (map[key]int64, error) {
	fresh := make(map[key]int64, len(indices))
	err := db.autocommitted(ctx, insertEvents, insertArgs(arrivals, indices), func(rows pgx.Rows) error {
		var id int64
		var k key
		if err := rows.Scan(&id, &k.provider, &k.account, &k.dedupe); err != nil {
			return err
		}
		fresh[k] = id
		return nil
	})
	if err == nil {
		err = db.at("events_inserted")
	}
	return fresh, err
}

func insertArgs(arrivals []event.Arrival, indices []int) []any {
	text := func(get func(a *event.Arrival) string) []string {
		return column(indices, func(i int) string { return get(&arrivals[i]) })
	}
	orNullText := func(get func(a *event.Arrival) string) []*string {
		return column(indices, func(i int) *string { return orNull(get(&arrivals[i])) })
	}
	return []any{
		text(func(a *event.Arrival) string { return a.Provider }),
		text(func(a *event.Arrival) string { return a.Account }),
		text(func(a *event.Arrival) string { return a.DedupeKey }),
		text(func(a *event.Arrival) string { return storable(a.Type, maxText) }),
		orNullText(func(a *event.Arrival) string { return storable(a.ProviderEventID, maxText) }),
		orNullText(func(a *event.Arrival) string { return a.PaymentRef }),
		column(indices, func(i int) *time.Time { return storableTime(arrivals[i].OccurredAt) }),
		column(indices, func(i int) bool { return arrivals[i].Test }),
		text(func(a *event.Arrival) string { return storable(a.Secret, maxText) }),
		column(indices, func(i int) []byte { return arrivals[i].BodySHA256[:] }),
		column(indices, func(i int) []byte { return notNil(arrivals[i].Body) }),
		text(func(a *event.Arrival) string { return headersLiteral(a.Headers) }),
		text(func(a *event.Arrival) string { return string(a.Settle) }),
		text(func(a *event.Arrival) string { return storable(a.Reason, maxReason) }),
	}
}

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
	err := db.autocommitted(ctx, countRedeliveries, args, func(rows pgx.Rows) error {
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
	if err == nil {
		err = db.at("redeliveries_counted")
	}
	if err != nil {
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

// revive puts settled events back to work: those whose newest result is
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
		err := db.InTx(ctx, func(tx pgx.Tx) error {
			var s statements
			s.query("revivals_locked", lockRevivals, func(rows pgx.Rows) error {
				for rows.Next() { //nolint:revive // the locks are what was asked for
				}
				return rows.Err()
			}, sortedIDs)
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
			return db.run(ctx, tx, s)
		})
		if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknownOutcome) {
			err = fmt.Errorf("%w: %w", errBroken, err)
		}
		return err
	})
	if err == nil {
		err = db.at("revival_committed")
	}
	if err != nil {
		return nil, fmt.Errorf("revive events: %w", err)
	}
	return revived, nil
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

// autocommitted runs one statement that is its own transaction; when it
// returns nil, the commit is flushed.
func (db *DB) autocommitted(ctx context.Context, sql string, args []any, scan func(pgx.Rows) error) error {
	return patiently(ctx, func() error {
		rows, err := db.Pool.Query(ctx, sql, args...)
		if err != nil {
			return statementError(err)
		}
		defer rows.Close()
		for rows.Next() {
			if err := scan(rows); err != nil {
				return statementError(err)
			}
		}
		return statementError(rows.Err())
	})
}

// errBroken marks the end of a connection. Whether the statement took effect
// may be unknown; the statements of this file may be run again all the same,
// since they find what they have done before.
var errBroken = errors.New("connection broken")

// statementError classifies the error of a statement that commits by itself:
// when the server did not answer, it may have committed.
func statementError(err error) error {
	if err == nil {
		return nil
	}
	var pe *pgconn.PgError
	switch {
	case errors.As(err, &pe) && pe.Code[:2] == "54": // an index row that is too large, and the like
		return fmt.Errorf("%w: SQLSTATE %s", ErrRefusedRow, pe.Code)
	case errors.As(err, &pe) && pe.Code[:3] == "57P": // the server is going away, or not yet here
		return fmt.Errorf("%w: %w", errBroken, classify(err))
	case errors.As(err, &pe):
		return classify(err)
	case pgconn.SafeToRetry(err):
		return fmt.Errorf("%w: %w", errBroken, classify(err))
	}
	return fmt.Errorf("%w: %w: %w", errBroken, ErrUnknownOutcome, redacted(err))
}

// patiently runs fn again, a few times and never past the deadline, when the
// server said that it rolled back and may be asked again, or when a pooled
// connection turned out to be dead: after a restart of the server all are.
func patiently(ctx context.Context, fn func() error) error {
	const tries = 4
	for n := 1; ; n++ {
		err := fn()
		if n == tries || !errors.Is(err, ErrRetry) && !errors.Is(err, errBroken) {
			return err
		}
		pause := time.NewTimer(time.Duration(n) * (2*time.Millisecond + rand.N(8*time.Millisecond)))
		select {
		case <-ctx.Done():
			pause.Stop()
			return err
		case <-pause.C:
		}
	}
}

// Bounds of what strangers can make us keep outside the body, in bytes.
const (
	maxText   = 255
	maxReason = 300
	maxHeader = 4096
)

// storable makes a text of strangers fit for a text column: valid UTF-8
// without NUL, at most so many bytes, cut between runes.
func storable(s string, most int) string {
	if strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) {
		s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
	}
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// storableTime drops a gateway time that is no date of this era.
func storableTime(t time.Time) *time.Time {
	if y := t.Year(); t.IsZero() || y < 1 || y > 9999 {
		return nil
	}
	return &t
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// headersLiteral writes headers as a text[] literal, name, value, name, value;
// an array parameter cannot hold arrays of different lengths.
func headersLiteral(headers []event.Header) string {
	if len(headers) == 0 {
		return "{}"
	}
	var b strings.Builder
	quote := func(s string) {
		b.WriteByte('"')
		for i := range len(s) {
			if s[i] == '"' || s[i] == '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(s[i])
		}
		b.WriteByte('"')
	}
	b.WriteByte('{')
	for i, h := range headers {
		if i > 0 {
			b.WriteByte(',')
		}
		quote(storable(h.Name, maxText))
		b.WriteByte(',')
		quote(storable(h.Value, maxHeader))
	}
	b.WriteByte('}')
	return b.String()
}
