package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Outgoing is one domain event of the outbox.
type Outgoing struct {
	ID      int64
	Subject string
	Payload []byte
}

// RelayOutbox sends the oldest unsent domain events with send and marks those
// that it acknowledged: send returns how many of the prefix the broker took.
// One relay works at a time, whatever the number of processes, since order per
// payment is promised; the lock is the transaction's, so a relay that dies or
// stalls loses it with its connection (idle_in_transaction_session_timeout).
// What a lost relay had sent is sent again: at least once, and consumers see
// it by (payment_id, seq). It reports how many were marked, and whether this
// caller was the one relay.
func (db *DB) RelayOutbox(ctx context.Context, limit int, send func(context.Context, []Outgoing) (int, error)) (relayed int, leading bool, err error) {
	const (
		// The lock is that of relayAgain.
		lead   = `SELECT pg_try_advisory_xact_lock(hashtext('umavez outbox'), hashtext(current_schema()))`
		unsent = `SELECT id, subject, payload::text FROM outbox WHERE relayed_at IS NULL ORDER BY id LIMIT $1`
		mark   = `UPDATE outbox SET relayed_at = now() WHERE id = ANY($1)`
	)
	var sendErr error
	err = db.inTx(ctx, "outbox", func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, lead).Scan(&leading); err != nil || !leading {
			return err
		}
		if err := db.at(ctx, "outbox", "_led"); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, unsent, limit)
		if err != nil {
			return err
		}
		out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Outgoing])
		if err != nil || len(out) == 0 {
			return err
		}
		if err := db.at(ctx, "outbox", "_read"); err != nil {
			return err
		}
		var sent int
		if sent, sendErr = send(ctx, out); sent == 0 {
			return nil
		}
		if err := db.at(ctx, "outbox", "_sent"); err != nil {
			return err
		}
		ids := column(out[:sent], func(o Outgoing) int64 { return o.ID })
		if _, err := tx.Exec(ctx, mark, ids); err != nil {
			return err
		}
		relayed = sent
		return db.at(ctx, "outbox", "_marked")
	})
	if err != nil {
		return 0, leading, fmt.Errorf("relay outbox: %w", err)
	}
	if sendErr != nil {
		return relayed, leading, fmt.Errorf("relay outbox: %w", sendErr)
	}
	return relayed, leading, nil
}

// MeetBroker is called by a relay that is connected to a broker's process, by
// the id of that process. When no relay has met it before, the broker has been
// started since, and may have lost what it acknowledged and had not flushed:
// what was relayed within the last while is unsent again. That while ends with
// what was relayed last, and not now: the broker may have been away for hours,
// and everything else with it. It reports how many domain events that are, and
// whether the broker was new. Any number of relays may call it at once; one that
// fails midway goes on from there with its next call.
func (db *DB) MeetBroker(ctx context.Context, serverID string, within time.Duration) (unsent int, met bool, err error) {
	const (
		known = `SELECT EXISTS (SELECT FROM brokers_met WHERE server_id = $1)`
		// Rows are relayed in the order of their ids, and unsent in it too: the
		// last one keeps its mark until all others have lost theirs.
		since = `
SELECT LEAST(now(), (SELECT relayed_at FROM outbox WHERE relayed_at IS NOT NULL ORDER BY id DESC LIMIT 1)) - $1::interval`
		meet = `INSERT INTO brokers_met (server_id) VALUES ($1) ON CONFLICT ON CONSTRAINT brokers_met_pkey DO NOTHING`
		// A broker that runs for longer is met once more, which costs copies.
		forget = `DELETE FROM brokers_met WHERE met_at < now() - interval '400 days'`
	)
	isKnown := func(tx pgx.Tx) (yes bool, err error) {
		return yes, tx.QueryRow(ctx, known, serverID).Scan(&yes)
	}
	unsent, err = db.unsend(ctx, since, within, isKnown, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, meet, serverID)
		if err != nil {
			return err
		}
		met = tag.RowsAffected() > 0 // when it is committed
		_, err = tx.Exec(ctx, forget)
		return err
	})
	if err != nil {
		return unsent, false, fmt.Errorf("meet the broker: %w", err)
	}
	return unsent, met, nil
}

// RelayAgain makes what was relayed within the last while unsent, so that it is
// relayed again in its order, and reports how many domain events that are.
func (db *DB) RelayAgain(ctx context.Context, within time.Duration) (unsent int, err error) {
	unsent, err = db.unsend(ctx, `SELECT now() - $1::interval`, within,
		func(pgx.Tx) (bool, error) { return false, nil }, func(pgx.Tx) error { return nil })
	if err != nil {
		return unsent, fmt.Errorf("relay again: %w", err)
	}
	return unsent, nil
}

// unsendPiece is how many marks one transaction clears. All of them at once take
// longer than a statement may, where a broker's last minutes were busy ones.
const unsendPiece = 5000

// unsend clears the marks since a time, in pieces and in the order of the ids,
// until done says that another has cleared them; end is part of the last piece.
// Each piece waits until no relay is in the midst of a batch: what that one had
// acknowledged by a broker that is gone is marked by then, and is found.
func (db *DB) unsend(ctx context.Context, since string, within time.Duration, done func(pgx.Tx) (bool, error), end func(pgx.Tx) error) (n int, err error) {
	const (
		lock = `SELECT pg_advisory_xact_lock(hashtext('umavez outbox'), hashtext(current_schema()))`
		// OFFSET 0: the newest rows are found by their time, which the planner
		// would else look for along the ids.
		first = `SELECT COALESCE(min(id), 0) - 1 FROM (SELECT id FROM outbox WHERE relayed_at > $1 OFFSET 0) newest`
		clear = `
WITH piece AS (
  SELECT id FROM outbox WHERE id > $1 AND relayed_at > $2 ORDER BY id LIMIT $3
), cleared AS (
  UPDATE outbox o SET relayed_at = NULL FROM piece WHERE o.id = piece.id RETURNING o.id
)
SELECT count(*), COALESCE(max(id), 0) FROM cleared`
	)
	var from time.Time
	var after int64
	for more := true; more; {
		var cleared, last int64
		err := patiently(ctx, func() error {
			return db.inTx(ctx, "relay_again", func(tx pgx.Tx) error {
				cleared, more = 0, false
				if _, err := tx.Exec(ctx, lock); err != nil {
					return classify(err)
				}
				if is, err := done(tx); err != nil || is {
					return classify(err)
				}
				if from.IsZero() {
					var begin time.Time
					if err := tx.QueryRow(ctx, since, within).Scan(&begin); err != nil {
						return classify(err)
					}
					if err := tx.QueryRow(ctx, first, begin).Scan(&after); err != nil {
						return classify(err)
					}
					from = begin
				}
				if err := tx.QueryRow(ctx, clear, after, from, unsendPiece).Scan(&cleared, &last); err != nil {
					return classify(err)
				}
				if more = cleared == unsendPiece; more {
					return nil
				}
				return classify(end(tx))
			})
		})
		if err != nil {
			return n, err
		}
		n, after = n+int(cleared), last
	}
	return n, nil
}
