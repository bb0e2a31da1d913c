package postgres

import (
	"context"
	"fmt"

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
