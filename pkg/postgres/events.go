package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/event"
)

// Receiving events. A batch is one statement, which is one transaction and one
// round trip: what is new goes into four tables, what is not touches none of
// them. Only when the batch holds duplicates does a second statement count
// them, and only when one of those is to be revived does a third part run.
//
// insertEvents has one text for every size of batch, so one plan serves
// all. The rows come sorted by key: two batches that meet on the same keys
// wait for one another in one order, and never in a circle.
const insertEvents = `
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
// promised. When the server's answer was lost and the statement had to be sent
// again, what it had stored counts as its own duplicate and waits for the
// sweeper. ErrRefusedRow means that at least one arrival is not storable and
// that nothing of the batch was stored.
func (db *DB) InsertEvents(ctx context.Context, arrivals []event.Arrival) ([]event.Stored, error) {
	stored := make([]event.Stored, len(arrivals))
	if len(arrivals) == 0 {
		return stored, nil
	}
	firsts, rest := splitRepeats(arrivals)
	fresh, again, err := db.insertNew(ctx, arrivals, firsts)
	if err != nil {
		return stored, fmt.Errorf("insert events: %w", err)
	}
	var repeats []int
	for _, i := range firsts {
		if id, ok := fresh[keyOf(&arrivals[i])]; ok {
			stored[i] = event.Stored{ID: id, New: true, Publish: arrivals[i].Settle == ""}
		} else {
			// After a try whose answer was lost, what looks like a duplicate
			// may be ours, stored a moment ago and announced by nobody.
			stored[i].Publish = again && arrivals[i].Settle == ""
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
// those that were new, by key: RETURNING promises no order. again says that
// it took more than one try.
func (db *DB) insertNew(ctx context.Context, arrivals []event.Arrival, indices []int) (fresh map[key]int64, again bool, err error) {
	fresh = make(map[key]int64, len(indices))
	tries := 0
	begin := func() { clear(fresh); tries++ }
	err = db.autocommitted(ctx, "insert", insertEvents, insertArgs(arrivals, indices), begin, func(rows pgx.Rows) error {
		var id int64
		var k key
		if err := rows.Scan(&id, &k.provider, &k.account, &k.dedupe); err != nil {
			return err
		}
		fresh[k] = id
		return nil
	})
	return fresh, tries > 1, err
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
