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
// what was relayed within the last while is unsent again. It reports how many
// domain events that are, and whether the broker was new. Any number of relays
// may call it at once.
func (db *DB) MeetBroker(ctx context.Context, serverID string, within time.Duration) (unsent int, met bool, err error) {
	const (
		meet = `INSERT INTO brokers_met (server_id) VALUES ($1) ON CONFLICT ON CONSTRAINT brokers_met_pkey DO NOTHING`
		// A broker that runs for longer is met once more, which costs copies.
		forget = `DELETE FROM brokers_met WHERE met_at < now() - interval '400 days'`
	)
	err = db.unsend(ctx, within, &unsent, func(tx pgx.Tx) (bool, error) {
		tag, err := tx.Exec(ctx, meet, serverID)
		if err != nil || tag.RowsAffected() == 0 {
			return false, err
		}
		met = true // when it is committed
		_, err = tx.Exec(ctx, forget)
		return true, err
	})
	if err != nil {
		return 0, false, fmt.Errorf("meet the broker: %w", err)
	}
	return unsent, met, nil
}

// RelayAgain makes what was relayed within the last while unsent, so that it is
// relayed again in its order, and reports how many domain events that are.
func (db *DB) RelayAgain(ctx context.Context, within time.Duration) (unsent int, err error) {
	err = db.unsend(ctx, within, &unsent, func(pgx.Tx) (bool, error) { return true, nil })
	if err != nil {
		return 0, fmt.Errorf("relay again: %w", err)
	}
	return unsent, nil
}

// unsend clears the marks when wanted says so. It waits until no relay is in
// the midst of a batch: what that one had acknowledged by a broker that is gone
// is marked by then, and is found.
func (db *DB) unsend(ctx context.Context, within time.Duration, n *int, wanted func(pgx.Tx) (bool, error)) error {
	const (
		lock   = `SELECT pg_advisory_xact_lock(hashtext('umavez outbox'), hashtext(current_schema()))`
		unmark = `UPDATE outbox SET relayed_at = NULL WHERE relayed_at > now() - $1::interval`
	)
	return patiently(ctx, func() error {
		return db.inTx(ctx, "relay_again", func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, lock); err != nil {
				return classify(err)
			}
			if want, err := wanted(tx); err != nil || !want {
				return classify(err)
			}
			tag, err := tx.Exec(ctx, unmark, within)
			*n = int(tag.RowsAffected())
			return classify(err)
		})
	})
}
