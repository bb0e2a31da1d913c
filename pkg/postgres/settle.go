package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/ledger"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/settlement"
)

// The transaction that moves money. In this order, and nowhere else:
//
//	create missing payments      sorted by name, so that two batches wait, not deadlock
//	lock all payments            in id order; FOR NO KEY UPDATE lets foreign keys pass
//	claim the events             delete their work rows; what is gone was settled by another
//	decide                       pure, in Go
//	write                        one array statement a table, in one round trip
//	commit
//
// The ledger's unique key and the primary key of payment_transitions are plain
// constraints without ON CONFLICT: under the lock the decision knows what was
// booked, so a conflict is a contradiction that has to stop the event loudly.
const (
	createPayments = `
INSERT INTO payments (provider, account, gateway_id)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[])
ON CONFLICT ON CONSTRAINT payments_once DO NOTHING`

	lockPayments = `
SELECT` + registrationColumns + `,` + paymentColumns + `
FROM unnest($1::text[], $2::text[], $3::text[]) AS wanted (provider, account, gateway_id)
JOIN payments p USING (provider, account, gateway_id)
LEFT JOIN payment_registrations r USING (provider, account, gateway_id)
ORDER BY p.id
FOR NO KEY UPDATE OF p`

	// A parked row that somebody holds (an application within register_payment)
	// waits for its own time instead of holding up the batch.
	claimWorks = `
WITH loaded AS (SELECT * FROM unnest($1::bigint[], $2::integer[]) AS l (event_id, turn)),
free AS (
  SELECT w.event_id FROM event_work w JOIN loaded USING (event_id) WHERE w.state = 'parked' FOR UPDATE OF w SKIP LOCKED
)
DELETE FROM event_work w USING loaded l
WHERE w.event_id = l.event_id AND w.turn = l.turn AND (w.state = 'pending' OR w.event_id IN (SELECT event_id FROM free))
RETURNING w.event_id`

	insertResults = `
INSERT INTO event_results (event_id, turn, status, outcome, reason, attempts)
SELECT * FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::integer[])`

	keepWorks = `
INSERT INTO event_work (event_id, turn, state, reason, attempts, parks, next_at, since, reason_since, last_error, waiting_for)
SELECT id, turn, state, reason, attempts, parks, now() + delay, COALESCE(since, now()), COALESCE(reason_since, now()), last_error, waiting_for
FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::text[], $5::integer[], $6::integer[], $7::interval[],
            $8::timestamptz[], $9::timestamptz[], $10::text[], $11::text[])
  AS kept (id, turn, state, reason, attempts, parks, delay, since, reason_since, last_error, waiting_for)`

	insertTransitions = `
INSERT INTO payment_transitions (payment_id, seq, event_id, from_status, to_status, reason)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[])`

	updatePayments = `
UPDATE payments p
SET status = n.status, status_at = n.status_at, paid_at = n.paid_at, observed_at = n.observed_at, version = n.version,
    expected = n.expected, captured = n.captured, refunded = n.refunded, charged_back = n.charged_back, fee = n.fee,
    currency = n.currency, beneficiary = n.beneficiary, reference = n.reference, details = n.details::jsonb, updated_at = now()
FROM unnest($1::bigint[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::bigint[],
            $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::text[], $14::text[], $15::text[])
  AS n (id, status, status_at, paid_at, observed_at, version, expected, captured, refunded, charged_back, fee,
        currency, beneficiary, reference, details)
WHERE p.id = n.id`

	insertAccounts = `
INSERT INTO ledger_accounts (name, kind)
SELECT * FROM unnest($1::text[], $2::text[])
ON CONFLICT ON CONSTRAINT ledger_accounts_pkey DO NOTHING`

	insertEntries = `
INSERT INTO ledger_entries (payment_id, transition_seq, amount, currency, kind, debit_account, credit_account, reference_type, reference_id)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])`

	insertOutbox = `
INSERT INTO outbox (payment_id, seq, subject, payload)
SELECT payment_id, seq, subject, payload::jsonb
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[]) WITH ORDINALITY AS o (payment_id, seq, subject, payload, n)
ORDER BY n`

	addBalances = `
INSERT INTO ledger_balances AS b (account, currency, balance)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])
ON CONFLICT ON CONSTRAINT ledger_balances_pkey DO UPDATE
SET balance = b.balance + EXCLUDED.balance, updated_at = now()`
)

// Settle runs one batch's transaction. The events that another transaction
// settled meanwhile are simply not among the claimed. It returns the decision
// that was committed.
func (db *DB) Settle(ctx context.Context, events []settlement.Handle, refs []settlement.Ref, decide settlement.Decide) (settlement.Decision, error) {
	slices.SortFunc(events, func(a, b settlement.Handle) int { return cmp.Compare(a.EventID, b.EventID) })
	slices.SortFunc(refs, settlement.Ref.Compare)
	refs = slices.Compact(refs)
	var decided settlement.Decision
	err := db.inTx(ctx, "settle", func(tx pgx.Tx) error {
		claimed, held, err := db.lock(ctx, tx, events, refs)
		if err != nil {
			return err
		}
		if err := db.at(ctx, "settle", "_locked"); err != nil {
			return err
		}
		if len(claimed) == 0 {
			decided = settlement.Decision{}
			return nil
		}
		if decided, err = decide(claimed, held); err != nil {
			return &OwnError{err}
		}
		if len(decided.Verdicts) != len(claimed) {
			return &OwnError{fmt.Errorf("%d events were claimed and %d verdicts given", len(claimed), len(decided.Verdicts))}
		}
		return db.write(ctx, tx, decided)
	})
	if err != nil {
		return settlement.Decision{}, fmt.Errorf("settle batch: %w", err)
	}
	return decided, nil
}

func (db *DB) lock(ctx context.Context, tx pgx.Tx, events []settlement.Handle, refs []settlement.Ref) (map[int64]bool, map[settlement.Ref]settlement.Held, error) {
	providers, accounts, gatewayIDs := make([]string, len(refs)), make([]string, len(refs)), make([]string, len(refs))
	for i, r := range refs {
		providers[i], accounts[i], gatewayIDs[i] = r.Provider, r.Account, r.GatewayID
	}
	held := make(map[settlement.Ref]settlement.Held, len(refs))
	claimed := make(map[int64]bool, len(events))
	var s statements
	if len(refs) > 0 {
		s.add("payments_created", createPayments, providers, accounts, gatewayIDs)
		s.query("payments_locked", lockPayments, func(rows pgx.Rows) error {
			for rows.Next() {
				h, err := scanHeld(rows)
				if err != nil {
					return err
				}
				h.Exists = true
				held[settlement.Ref{Provider: h.Payment.Provider, Account: h.Payment.Account, GatewayID: h.Payment.GatewayID}] = h
			}
			return rows.Err()
		}, providers, accounts, gatewayIDs)
	}
	s.query("events_claimed", claimWorks, func(rows pgx.Rows) error {
		for rows.Next() {
			var id int64
			if err := rows.Scan(&id); err != nil {
				return err
			}
			claimed[id] = true
		}
		return rows.Err()
	}, column(events, func(h settlement.Handle) int64 { return h.EventID }), column(events, func(h settlement.Handle) int32 { return h.Turn }))
	if err := db.run(ctx, tx, s); err != nil {
		return nil, nil, err
	}
	if len(held) != len(refs) {
		return nil, nil, &OwnError{fmt.Errorf("%d payments asked for, %d locked", len(refs), len(held))}
	}
	return claimed, held, nil
}

func (db *DB) write(ctx context.Context, tx pgx.Tx, d settlement.Decision) error {
	var s statements
	addVerdicts(&s, d.Verdicts)
	if err := addChanges(&s, d.Changes); err != nil {
		return &OwnError{err}
	}
	if len(d.Awaited) > 0 {
		s.add("awaited_rung", ringAwaited, d.Awaited)
	}
	return db.run(ctx, tx, s)
}

// ringAwaited leaves alone what somebody else has in hand: it comes back by
// its own time.
const ringAwaited = `
UPDATE event_work w
SET next_at = now()
FROM (
  SELECT event_id FROM event_work
  WHERE waiting_for = ANY($1) AND state = 'parked' AND next_at > now()
  ORDER BY event_id
  FOR UPDATE SKIP LOCKED
) waits
WHERE w.event_id = waits.event_id`

func addVerdicts(s *statements, verdicts []settlement.Verdict) {
	var settled, kept []settlement.Verdict
	for _, v := range verdicts {
		if v.Settled() {
			settled = append(settled, v)
		} else {
			kept = append(kept, v)
		}
	}
	if len(settled) > 0 {
		s.add("results_written", insertResults,
			column(settled, func(v settlement.Verdict) int64 { return v.EventID }),
			column(settled, func(v settlement.Verdict) int32 { return max(v.Turn, 1) }),
			column(settled, func(v settlement.Verdict) string { return string(v.Status) }),
			column(settled, func(v settlement.Verdict) *string { return orNull(string(v.Outcome)) }),
			column(settled, func(v settlement.Verdict) *string { return orNull(clip(v.Reason)) }),
			column(settled, func(v settlement.Verdict) int32 { return int32(v.Attempts) }))
	}
	if len(kept) > 0 {
		s.add("work_kept", keepWorks,
			column(kept, func(v settlement.Verdict) int64 { return v.EventID }),
			column(kept, func(v settlement.Verdict) int32 { return max(v.Turn, 1) }),
			column(kept, func(v settlement.Verdict) string { return string(v.Status) }),
			column(kept, func(v settlement.Verdict) *string { return orNull(clip(v.Reason)) }),
			column(kept, func(v settlement.Verdict) int32 { return int32(v.Attempts) }),
			column(kept, func(v settlement.Verdict) int32 { return int32(v.Parks) }),
			column(kept, func(v settlement.Verdict) time.Duration { return v.Delay }),
			column(kept, func(v settlement.Verdict) *time.Time { return timeOrNull(v.Since) }),
			column(kept, func(v settlement.Verdict) *time.Time { return timeOrNull(v.ReasonSince) }),
			column(kept, func(v settlement.Verdict) *string { return orNull(clip(v.LastError)) }),
			column(kept, func(v settlement.Verdict) *string { return orNull(v.WaitingFor) }))
	}
}

// placed is a move with the payment it belongs to.
type placed struct {
	paymentID int64
	move      settlement.Move
}

// posted is a ledger entry with the payment it belongs to.
type posted struct {
	paymentID int64
	entry     ledger.Entry
}

func addChanges(s *statements, changes []settlement.Change) error {
	if len(changes) == 0 {
		return nil
	}
	var moves []placed
	var entries []posted
	for _, c := range changes {
		for _, m := range c.Moves {
			moves = append(moves, placed{c.Payment.ID, m})
			for _, e := range m.Entries {
				entries = append(entries, posted{c.Payment.ID, e})
			}
		}
	}
	if len(moves) > 0 {
		s.add("transitions_written", insertTransitions,
			column(moves, func(m placed) int64 { return m.paymentID }),
			column(moves, func(m placed) int64 { return m.move.Transition.Seq }),
			column(moves, func(m placed) int64 { return m.move.EventID }),
			column(moves, func(m placed) *string { return orNull(string(m.move.Transition.From)) }),
			column(moves, func(m placed) string { return string(m.move.Transition.To) }),
			column(moves, func(m placed) string { return m.move.Transition.Reason }))
	}
	if err := addPayments(s, changes); err != nil {
		return err
	}
	if len(entries) > 0 {
		addEntries(s, entries)
	}
	if len(moves) > 0 {
		s.add("outbox_written", insertOutbox,
			column(moves, func(m placed) int64 { return m.paymentID }),
			column(moves, func(m placed) int64 { return m.move.Transition.Seq }),
			column(moves, func(m placed) string { return m.move.Subject }),
			column(moves, func(m placed) string { return string(m.move.Payload) }))
	}
	// Last, because a beneficiary's row may be hot: it is held for as short as
	// can be. Rows are sorted by account, after all payments.
	balances, err := sumBalances(entries)
	if err != nil {
		return err
	}
	if len(balances) > 0 {
		s.add("balances_written", addBalances,
			column(balances, func(b balance) string { return b.account }),
			column(balances, func(b balance) string { return b.currency }),
			column(balances, func(b balance) int64 { return b.amount }))
	}
	return nil
}

func addPayments(s *statements, changes []settlement.Change) error {
	details := make([]string, len(changes))
	for i, c := range changes {
		text, err := json.Marshal(c.Payment.Details)
		if err != nil {
			return fmt.Errorf("details of payment %d: %w", c.Payment.ID, err)
		}
		details[i] = string(text)
	}
	of := func(get func(p *payment.Payment) int64) []int64 {
		return column(changes, func(c settlement.Change) int64 { return get(&c.Payment) })
	}
	s.add("payments_written", updatePayments,
		of(func(p *payment.Payment) int64 { return p.ID }),
		column(changes, func(c settlement.Change) string { return rowStatus(c.Payment.Status) }),
		column(changes, func(c settlement.Change) *time.Time { return timeOrNull(c.Payment.StatusAt) }),
		column(changes, func(c settlement.Change) *time.Time { return timeOrNull(c.Payment.PaidAt) }),
		column(changes, func(c settlement.Change) *time.Time { return timeOrNull(c.Payment.ObservedAt) }),
		of(func(p *payment.Payment) int64 { return p.Version }),
		column(changes, func(c settlement.Change) *int64 { return minorOrNull(c.Payment.Expected) }),
		column(changes, func(c settlement.Change) *int64 { return minorOrNull(c.Payment.Captured) }),
		of(func(p *payment.Payment) int64 { return p.Refunded }),
		of(func(p *payment.Payment) int64 { return p.ChargedBack }),
		of(func(p *payment.Payment) int64 { return p.Fee }),
		column(changes, func(c settlement.Change) *string { return orNull(c.Payment.Currency) }),
		column(changes, func(c settlement.Change) *string { return orNull(c.Payment.Beneficiary) }),
		column(changes, func(c settlement.Change) *string { return orNull(c.Payment.Reference) }),
		details)
	return nil
}

func rowStatus(s payment.Status) string {
	if s == payment.StatusNone {
		return string(payment.StatusPending)
	}
	return string(s)
}

func addEntries(s *statements, entries []posted) {
	kinds := map[string]string{}
	for _, e := range entries {
		kinds[e.entry.Debit.Name] = e.entry.Debit.Kind
		kinds[e.entry.Credit.Name] = e.entry.Credit.Kind
	}
	names := sortedKeys(kinds)
	s.add("accounts_written", insertAccounts, names, column(names, func(n string) string { return kinds[n] }))
	s.add("entries_written", insertEntries,
		column(entries, func(e posted) int64 { return e.paymentID }),
		column(entries, func(e posted) int64 { return e.entry.Seq }),
		column(entries, func(e posted) int64 { return e.entry.Amount }),
		column(entries, func(e posted) string { return e.entry.Currency }),
		column(entries, func(e posted) string { return string(e.entry.Kind) }),
		column(entries, func(e posted) string { return e.entry.Debit.Name }),
		column(entries, func(e posted) string { return e.entry.Credit.Name }),
		column(entries, func(e posted) string { return e.entry.ReferenceType }),
		column(entries, func(e posted) string { return e.entry.ReferenceID }))
}
