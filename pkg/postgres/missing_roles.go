package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// MissingRoles are the roles that migrations make where their user may, and
// that this cluster does not have: an administrator must.
func (db *DB) MissingRoles(ctx context.Context) ([]string, error) {
	rows, err := db.Pool.Query(ctx, `
SELECT r FROM unnest($1::text[]) WITH ORDINALITY AS wanted (r, n)
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = r)
ORDER BY n`, []string{"umavez_ingest", "umavez_processor", "umavez_sweeper", "umavez_app", "umavez_reader"})
	if err != nil {
		return nil, fmt.Errorf("look for the roles: %w", classify(err))
	}
	missing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for the roles: %w", classify(err))
	}
	return missing, nil
}
