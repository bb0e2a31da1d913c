package truth

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/umavez/umavez/pkg/postgres"
)

// Dump writes what is in the database to files of a directory, a row a line, so
// that a difference can be understood when its world is gone. The bodies are
// the simulator's inventions.
func Dump(ctx context.Context, db *postgres.DB, dir string) error {
	for name, sql := range map[string]string{
		"webhook_events":      `SELECT to_jsonb(t) FROM webhook_events t ORDER BY id`,
		"event_results":       `SELECT to_jsonb(t) FROM event_results t ORDER BY event_id, turn`,
		"payments":            `SELECT to_jsonb(t) FROM payments t ORDER BY id`,
		"payment_transitions": `SELECT to_jsonb(t) FROM payment_transitions t ORDER BY payment_id, seq`,
		"ledger_entries":      `SELECT to_jsonb(t) FROM ledger_entries t ORDER BY id`,
		"outbox":              `SELECT to_jsonb(t) FROM outbox t ORDER BY id`,
	} {
		if err := dumpRows(ctx, db, filepath.Join(dir, name+".jsonl"), sql); err != nil {
			return fmt.Errorf("dump %s: %w", name, err)
		}
	}
	return nil
}

func dumpRows(ctx context.Context, db *postgres.DB, path, sql string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read by people
	rows, err := db.Pool.Query(ctx, sql)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var line []byte
		if err := rows.Scan(&line); err != nil {
			return err
		}
		if _, err := f.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return rows.Err()
}
