package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/sweep"
)

// ParkedReasons says why events are parked that are not due yet: by the first
// word of their reason, how many, and when the first of them is looked at.
func (db *DB) ParkedReasons(ctx context.Context, f sweep.Filter) ([]sweep.Parked, error) {
	const count = `
SELECT split_part(COALESCE(w.reason, ''), ':', 1) AS reason, count(*), min(w.next_at)
FROM event_work w JOIN events e ON e.id = w.event_id
WHERE w.state = 'parked' AND w.next_at > now() AND ($1 = '' OR e.provider = $1)
GROUP BY 1
ORDER BY 2 DESC, 1`
	rows, err := db.Pool.Query(ctx, count, f.Provider)
	if err != nil {
		return nil, fmt.Errorf("count parked events: %w", classify(err))
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[sweep.Parked])
	if err != nil {
		return nil, fmt.Errorf("count parked events: %w", classify(err))
	}
	return out, nil
}
