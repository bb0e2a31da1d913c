package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// autocommitted runs one statement that is its own transaction; when it
// returns nil, the commit is flushed. begin is called before every try: rows
// of a try that ended badly may be of a transaction that never was. step is for
// its points, which every try passes.
func (db *DB) autocommitted(ctx context.Context, step, sql string, args []any, begin func(), scan func(pgx.Rows) error) error {
	return patiently(ctx, func() error {
		begin()
		if err := db.at(ctx, step, asked); err != nil {
			return statementError(err)
		}
		rows, err := db.Pool.Query(ctx, sql, args...)
		if err != nil {
			return statementError(err)
		}
		defer rows.Close()
		for rows.Next() {
			if err := scan(rows); err != nil {
				return statementError(err)
			}
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return statementError(err)
		}
		return statementError(db.at(ctx, step, answered))
	})
}

// errBroken marks the end of a connection. Whether the statement took effect
// may be unknown; those that run through here may be run again all the same,
// since they find what they have done before.
var errBroken = errors.New("connection broken")

// statementError classifies the error of a statement that commits by itself:
// when the server did not answer, it may have committed.
func statementError(err error) error {
	if err == nil {
		return nil
	}
	var pe *pgconn.PgError
	switch {
	case errors.As(err, &pe) && pe.Code[:3] == "57P": // the server is going away, or not yet here
		return fmt.Errorf("%w: %w", errBroken, classify(err))
	case errors.As(err, &pe):
		return classify(err)
	case pgconn.SafeToRetry(err):
		return fmt.Errorf("%w: %w", errBroken, classify(err))
	}
	return fmt.Errorf("%w: %w: %w", errBroken, ErrUnknownOutcome, redacted(err))
}

// patiently runs fn again, a few times and never past the deadline, when the
// server said that it rolled back and may be asked again, or when a pooled
// connection turned out to be dead: after a restart of the server all are.
func patiently(ctx context.Context, fn func() error) error {
	const tries = 4
	for n := 1; ; n++ {
		err := fn()
		if n == tries || !errors.Is(err, ErrRetry) && !errors.Is(err, errBroken) {
			return err
		}
		pause := time.NewTimer(time.Duration(n) * (2*time.Millisecond + rand.N(8*time.Millisecond)))
		select {
		case <-ctx.Done():
			pause.Stop()
			return err
		case <-pause.C:
		}
	}
}
