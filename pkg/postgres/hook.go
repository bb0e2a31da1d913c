package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/umavez/umavez/pkg/failpoint"
)

// Hook is called with the name of a step between two statements. Tests use it
// to cut the work of one DB there: an error is returned to the caller as if
// the connection had failed. It is nil in production. The same steps are the
// points of failpoint, named postgres.<step>.
type Hook func(step string) error

// The moments of a call that is not part of a list of statements.
const (
	asked    = "_asked"    // about to be sent
	answered = "_answered" // done, and its answer read
)

// at is the point of a step: in a test, its hook and its failpoint. A
// statement of a list has no moment: its point follows its answer. A step
// without a name has no point.
func (db *DB) at(ctx context.Context, step, moment string) error {
	if step == "" || db.Hook == nil && !failpoint.Enabled {
		return nil
	}
	return db.reach(ctx, step+moment)
}

func (db *DB) reach(ctx context.Context, step string) error {
	if db.Hook != nil {
		if err := db.Hook(step); err != nil {
			return err
		}
	}
	if !failpoint.Enabled {
		return nil
	}
	return injected(failpoint.At(ctx, "postgres."+step))
}

// injected gives the error of a failpoint the form in which the driver, or our
// own code, would give it, so that it is classified like any other.
func injected(err error) error {
	switch {
	case errors.Is(err, failpoint.ErrDeadlock):
		return &pgconn.PgError{Severity: "ERROR", Code: "40P01", Message: err.Error()}
	case errors.Is(err, failpoint.ErrSerialization):
		return &pgconn.PgError{Severity: "ERROR", Code: "40001", Message: err.Error()}
	case errors.Is(err, failpoint.ErrInjected):
		return &OwnError{err}
	}
	return err
}

// stepwise says whether statements are to be sent one by one, so that a test
// can cut between any two.
func (db *DB) stepwise() bool { return db.Hook != nil || failpoint.Armed("postgres.") }

// between runs one call to the database between its two points, and classifies
// its error.
func (db *DB) between(ctx context.Context, step string, call func() error) error {
	err := db.at(ctx, step, asked)
	if err == nil {
		err = call()
	}
	if err == nil {
		err = db.at(ctx, step, answered)
	}
	return classify(err)
}
