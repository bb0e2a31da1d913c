package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Rejection is a group of refused requests of one source for one reason.
type Rejection struct {
	Provider, Account string
	Reason            string
	Detail            string // how many, how large; never a secret, a body or an address
}

// RecordRejections writes rejections into the ring of the newest ones, over
// the oldest.
func (db *DB) RecordRejections(ctx context.Context, list []Rejection) error {
	const record = `
INSERT INTO rejected_deliveries AS r (slot, provider, account, reason, detail)
SELECT nextval('rejected_deliveries_slot'), provider, account, reason, detail
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS i (provider, account, reason, detail)
ON CONFLICT ON CONSTRAINT rejected_deliveries_pkey DO UPDATE
SET at = EXCLUDED.at, provider = EXCLUDED.provider, account = EXCLUDED.account,
    reason = EXCLUDED.reason, detail = EXCLUDED.detail`
	if len(list) == 0 {
		return nil
	}
	err := db.autocommitted(ctx, "rejections", record, []any{
		column(list, func(r Rejection) string { return storable(r.Provider, maxText) }),
		column(list, func(r Rejection) string { return storable(r.Account, maxText) }),
		column(list, func(r Rejection) string { return storable(r.Reason, maxText) }),
		column(list, func(r Rejection) *string { return orNull(storable(r.Detail, maxReason)) }),
	}, func() {}, func(pgx.Rows) error { return nil })
	if err != nil {
		return fmt.Errorf("record rejections: %w", err)
	}
	return nil
}
