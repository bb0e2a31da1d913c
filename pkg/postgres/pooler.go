package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A pooler in transaction mode gives each transaction another session. Nothing
// here is left to a session, so that this is possible: advisory locks are the
// transaction's, settings are SET LOCAL. What remains is what a session has
// from its start: the time-outs, and search_path.

// setting is a parameter of a session.
type setting struct{ name, value string }

// timeouts are those that keep one stuck client from holding up all others.
func (c Config) timeouts() (all []setting) {
	add := func(name string, d time.Duration) {
		if d > 0 {
			all = append(all, setting{name, fmt.Sprintf("%dms", d.Milliseconds())})
		}
	}
	add("lock_timeout", c.LockTimeout)
	add("statement_timeout", c.StatementTimeout)
	add("idle_in_transaction_session_timeout", 4*c.StatementTimeout)
	return all
}

// ErrNoTimeouts refuses sessions in which one client could wait for ever.
var ErrNoTimeouts = errors.New("the database's sessions have no time-outs")

// CheckTimeouts refuses sessions that lack a time-out of the settings: a
// pooler has dropped it, or it was not sent because of DATABASE_SIMPLE_PROTOCOL.
// The error says what to run.
func (db *DB) CheckTimeouts(ctx context.Context) error {
	const missing = `
SELECT format('ALTER ROLE %I IN DATABASE %I SET %s = %L;', session_user, current_database(), n.name, n.value)
FROM unnest($1::text[], $2::text[]) AS n (name, value)
JOIN pg_settings s ON s.name = n.name
WHERE s.setting = '0'`
	rows, err := db.Pool.Query(ctx, missing, column(db.timeouts, func(s setting) string { return s.name }), column(db.timeouts, func(s setting) string { return s.value }))
	if err != nil {
		return fmt.Errorf("check time-outs: %w", redacted(err))
	}
	commands, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("check time-outs: %w", redacted(err))
	}
	if len(commands) > 0 {
		return fmt.Errorf("%w: behind a pooler they belong to the role. Run this, and RECONNECT in the pooler's console:\n%s", ErrNoTimeouts, strings.Join(commands, "\n"))
	}
	return nil
}

// poolerHint says what to do about an error that only a pooler causes, or "".
func poolerHint(err error) string {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return ""
	}
	const preparedExists, preparedMissing = "42P05", "26000"
	switch parameter, refused := strings.CutPrefix(pe.Message, "unsupported startup parameter: "); {
	case refused && parameter == "search_path":
		return "; a pooler stands before the database: take search_path out of DATABASE_URL and give it to the role with ALTER ROLE ... SET search_path"
	case refused, pe.Code == preparedExists, pe.Code == preparedMissing:
		return "; a pooler stands before the database, and keeps neither settings nor prepared statements of a session: set DATABASE_SIMPLE_PROTOCOL=true"
	}
	return ""
}
