package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/settlement"
)

// maxSiblings bounds how many parked events of the batch's payments come
// along, so that one payment with a flood of parked events stays cheap.
const maxSiblings = 100

// loadWorks takes the asked events that are still unfinished, and with them
// the parked events of the same payments: what they waited for may have come.
const loadWorks = `
WITH asked AS (
  SELECT w.event_id, e.provider || '/' || e.account || '/' || e.payment_ref AS key
  FROM event_work w
  JOIN events e ON e.id = w.event_id
  WHERE w.event_id = ANY($1)
), wanted AS (
  SELECT event_id FROM asked
  UNION
  (SELECT s.event_id FROM event_work s
   WHERE s.waiting_for IN (SELECT key FROM asked WHERE key IS NOT NULL) LIMIT $2)
)
SELECT e.id, e.provider, e.account, e.dedupe_key, COALESCE(e.provider_event_id, ''), e.type,
       COALESCE(e.payment_ref, ''), e.occurred_at, e.received_at, e.test, b.body, b.headers,
       w.state, w.turn, w.attempts, w.parks, w.since, COALESCE(w.reason, ''), COALESCE(w.reason_since, w.since), clock_timestamp()
FROM wanted x
JOIN event_work w ON w.event_id = x.event_id
JOIN events e ON e.id = x.event_id
LEFT JOIN event_bodies b ON b.event_id = e.id AND b.received_on = (e.received_at AT TIME ZONE 'UTC')::date
ORDER BY e.id`

// A look at the gateway that lies in the future was dated by a clock that was
// wrong; it must not outrank every look to come. A minute is more than a lock
// is ever waited for.
const observedAt = `CASE WHEN p.observed_at <= now() + interval '1 minute' THEN p.observed_at END`

const paymentColumns = `
       p.id, p.provider, p.account, p.gateway_id, p.status, p.status_at, p.paid_at, ` + observedAt + `, p.version,
       p.expected, p.captured, p.refunded, p.charged_back, p.fee, COALESCE(p.currency, ''),
       COALESCE(p.beneficiary, ''), COALESCE(p.reference, ''), p.details`

const registrationColumns = `
       r.registered_at IS NOT NULL, r.expected, COALESCE(r.currency, ''), COALESCE(r.beneficiary, ''), COALESCE(r.reference, '')`

// loadHeld reads payments without a lock, by the events that were asked for;
// heldByRefs, by their names.
const (
	loadHeld = `
WITH refs AS (
  SELECT DISTINCT provider, account, payment_ref FROM events WHERE id = ANY($1) AND payment_ref IS NOT NULL
)` + heldOfRefs
	heldByRefs = `
WITH refs AS (
  SELECT DISTINCT * FROM unnest($1::text[], $2::text[], $3::text[]) AS r (provider, account, payment_ref)
)` + heldOfRefs
)

const heldOfRefs = `
SELECT refs.provider, refs.account, refs.payment_ref, p.id IS NOT NULL,` + registrationColumns + `,
       COALESCE(p.id, 0), COALESCE(p.provider, refs.provider), COALESCE(p.account, refs.account),
       COALESCE(p.gateway_id, refs.payment_ref), COALESCE(p.status, ''), p.status_at, p.paid_at, ` + observedAt + `,
       COALESCE(p.version, 0), p.expected, p.captured, COALESCE(p.refunded, 0), COALESCE(p.charged_back, 0),
       COALESCE(p.fee, 0), COALESCE(p.currency, ''), COALESCE(p.beneficiary, ''), COALESCE(p.reference, ''),
       COALESCE(p.details, '{}')
FROM refs
LEFT JOIN payments p ON p.provider = refs.provider AND p.account = refs.account AND p.gateway_id = refs.payment_ref
LEFT JOIN payment_registrations r ON r.provider = refs.provider AND r.account = refs.account AND r.gateway_id = refs.payment_ref`

// Load reads a batch by event ids in one round trip. Events that were settled
// already are left out.
func (db *DB) Load(ctx context.Context, ids []int64) (settlement.Batch, error) {
	var out settlement.Batch
	batch := &pgx.Batch{}
	batch.Queue(loadWorks, ids, maxSiblings).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			w, now, err := scanWork(rows)
			if err != nil {
				return err
			}
			w.Sibling = !slices.Contains(ids, w.Event.ID)
			out.Works = append(out.Works, w)
			out.Now = now
		}
		return rows.Err()
	})
	out.Held = make(map[settlement.Ref]settlement.Held)
	batch.Queue(loadHeld, ids).Query(func(rows pgx.Rows) error { return collectHeld(rows, out.Held) })
	if err := db.between(ctx, "load", func() error { return db.Pool.SendBatch(ctx, batch).Close() }); err != nil {
		return settlement.Batch{}, fmt.Errorf("load batch: %w", err)
	}
	return out, nil
}

// Held reads payments and registrations by name, without a lock.
func (db *DB) Held(ctx context.Context, refs []settlement.Ref) (map[settlement.Ref]settlement.Held, error) {
	providers, accounts, ids := make([]string, len(refs)), make([]string, len(refs)), make([]string, len(refs))
	for i, r := range refs {
		providers[i], accounts[i], ids[i] = r.Provider, r.Account, r.GatewayID
	}
	held := make(map[settlement.Ref]settlement.Held, len(refs))
	err := db.between(ctx, "held", func() error {
		rows, err := db.Pool.Query(ctx, heldByRefs, providers, accounts, ids)
		if err != nil {
			return err
		}
		defer rows.Close()
		return collectHeld(rows, held)
	})
	if err != nil {
		return nil, fmt.Errorf("read payments: %w", err)
	}
	return held, nil
}

// referenced is served by the index payments_by_reference.
const referenced = `
WITH named AS (
  SELECT gateway_id, captured IS NOT NULL AS captured FROM payments
  WHERE provider = $1 AND account = $2 AND reference = $3
  UNION ALL
  SELECT gateway_id, false FROM payment_registrations
  WHERE provider = $1 AND account = $2 AND reference = $3
)
SELECT gateway_id FROM named
GROUP BY gateway_id
HAVING bool_or(captured) OR NOT EXISTS (SELECT FROM named WHERE captured)
ORDER BY 1
LIMIT 10`

// Referenced gives the gateway ids of a source's payments that carry a
// reference, as the gateway or the application gave it; ten at most. Where
// some of them are captured, the attempts that failed are left out: disputes
// and refunds are about money.
func (db *DB) Referenced(ctx context.Context, provider, account, reference string) (ids []string, err error) {
	err = db.between(ctx, "referenced", func() error {
		rows, err := db.Pool.Query(ctx, referenced, provider, account, reference)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("payments of a reference: %w", err)
	}
	return ids, nil
}

func collectHeld(rows pgx.Rows, into map[settlement.Ref]settlement.Held) error {
	for rows.Next() {
		var ref settlement.Ref
		var exists bool
		h, err := scanHeld(rows, &ref.Provider, &ref.Account, &ref.GatewayID, &exists)
		if err != nil {
			return err
		}
		h.Exists = exists
		into[ref] = h
	}
	return rows.Err()
}

func scanWork(rows pgx.Rows) (w settlement.Work, now time.Time, err error) {
	e := &w.Event
	var occurred pgtype.Timestamptz
	var headers []string
	err = rows.Scan(&e.ID, &e.Provider, &e.Account, &e.DedupeKey, &e.ProviderEventID, &e.Type,
		&e.PaymentRef, &occurred, &e.ReceivedAt, &e.Test, &e.Body, &headers,
		&w.State, &w.Turn, &w.Attempts, &w.Parks, &w.Since, &w.Reason, &w.ReasonSince, &now)
	e.OccurredAt, e.Headers = occurred.Time, headersOf(headers)
	return w, now, err
}

// headersOf reads the kept headers of a body: name, value, name, value ...
func headersOf(flat []string) (out []event.Header) {
	for i := 0; i+1 < len(flat); i += 2 {
		out = append(out, event.Header{Name: flat[i], Value: flat[i+1]})
	}
	return out
}

// scanHeld reads the given leading columns, registrationColumns and
// paymentColumns.
func scanHeld(rows pgx.Rows, leading ...any) (h settlement.Held, err error) {
	p := &h.Payment
	var reg settlement.Registration
	var registered bool
	var regExpected, expected, captured pgtype.Int8
	var statusAt, paidAt, observedAt pgtype.Timestamptz
	var details []byte
	targets := append(leading, &registered, &regExpected, &reg.Currency, &reg.Beneficiary, &reg.Reference,
		&p.ID, &p.Provider, &p.Account, &p.GatewayID, &p.Status, &statusAt, &paidAt, &observedAt, &p.Version,
		&expected, &captured, &p.Refunded, &p.ChargedBack, &p.Fee, &p.Currency, &p.Beneficiary, &p.Reference, &details)
	if err := rows.Scan(targets...); err != nil {
		return h, err
	}
	p.StatusAt, p.PaidAt, p.ObservedAt = statusAt.Time, paidAt.Time, observedAt.Time
	p.Expected = payment.Minor{Value: expected.Int64, Known: expected.Valid}
	p.Captured = payment.Minor{Value: captured.Int64, Known: captured.Valid}
	if p.Version == 0 {
		p.Status = payment.StatusNone // the row's "pending" stands for "nothing heard yet"
	}
	if len(details) > 2 {
		if err := json.Unmarshal(details, &p.Details); err != nil {
			return h, &OwnError{fmt.Errorf("details of payment %d: %w", p.ID, err)}
		}
	}
	if registered {
		reg.Expected = payment.Minor{Value: regExpected.Int64, Known: regExpected.Valid}
		h.Registered = &reg
	}
	return h, nil
}
