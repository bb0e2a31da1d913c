package chaostest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// dump writes what is in the database to files beside the logs, a row a line,
// so that a violation can be understood when the world is gone. The bodies are
// the simulator's inventions.
func (w *world) dump(ctx context.Context) error {
	for name, sql := range map[string]string{
		"webhook_events":      `SELECT to_jsonb(t) FROM webhook_events t ORDER BY id`,
		"event_results":       `SELECT to_jsonb(t) FROM event_results t ORDER BY event_id, turn`,
		"payments":            `SELECT to_jsonb(t) FROM payments t ORDER BY id`,
		"payment_transitions": `SELECT to_jsonb(t) FROM payment_transitions t ORDER BY payment_id, seq`,
		"ledger_entries":      `SELECT to_jsonb(t) FROM ledger_entries t ORDER BY id`,
		"outbox":              `SELECT to_jsonb(t) FROM outbox t ORDER BY id`,
	} {
		if err := w.dumpRows(ctx, filepath.Join(w.logs, name+".jsonl"), sql); err != nil {
			return fmt.Errorf("dump %s: %w", name, err)
		}
	}
	w.cfg.Say("  what is in the database was written to %s", w.logs)
	return nil
}

func (w *world) dumpRows(ctx context.Context, path, sql string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read by people
	rows, err := w.db.Pool.Query(ctx, sql)
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
