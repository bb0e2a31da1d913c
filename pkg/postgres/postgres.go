// Package postgres is the only user of pgx: the pool, transactions, and one
// file per group of tables. It knows the nouns and the schema, and neither
// gateways nor the broker. Above it, errors are this package's sentinels; a
// SQLSTATE is read here and nowhere else.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/umavez/umavez/pkg/settlement"
)

// Config is how to reach the database. The zero values of the others mean
// their defaults.
type Config struct {
	DatabaseURL string `envconfig:"DATABASE_URL"` // postgres://..., or keywords
	// MaxConns is this process's part of the connection budget:
	// pods x MaxConns, summed over the binaries, plus 5 for people.
	MaxConns int32 `envconfig:"DATABASE_MAX_CONNS" default:"4"`
	// LockTimeout < StatementTimeout < the request's deadline.
	LockTimeout      time.Duration `envconfig:"DATABASE_LOCK_TIMEOUT" default:"2s"`
	StatementTimeout time.Duration `envconfig:"DATABASE_STATEMENT_TIMEOUT" default:"4s"`
	// SimpleProtocol is for a pooler in transaction mode that does not keep
	// prepared statements (PgBouncer before 1.21). Time-outs are not sent with
	// the connection then, since such a pooler refuses or drops them; see
	// CheckTimeouts.
	SimpleProtocol bool `envconfig:"DATABASE_SIMPLE_PROTOCOL" default:"false"`
}

// Validate reports all faults at once. The URL itself is never shown.
func (c Config) Validate() error {
	var faults []error
	if c.DatabaseURL == "" {
		faults = append(faults, errors.New("DATABASE_URL is not set; give the address of a PostgreSQL 14 or later, for example postgres://user:password@host:5432/umavez"))
	} else if _, err := pgxpool.ParseConfig(c.DatabaseURL); err != nil {
		faults = append(faults, errors.New("DATABASE_URL is not a PostgreSQL address (postgres://user:password@host:port/database)"))
	}
	if c.MaxConns < 1 {
		faults = append(faults, errors.New("DATABASE_MAX_CONNS must be at least 1"))
	}
	if c.LockTimeout >= c.StatementTimeout && c.StatementTimeout > 0 {
		faults = append(faults, fmt.Errorf("DATABASE_LOCK_TIMEOUT (%s) must be below DATABASE_STATEMENT_TIMEOUT (%s)", c.LockTimeout, c.StatementTimeout))
	}
	return errors.Join(faults...)
}

// DB is a pool of connections to one database.
type DB struct {
	Pool *pgxpool.Pool
	Hook Hook // tests only

	timeouts []setting // that every session must have
}

// Open connects lazily; Ping and CheckDurability say whether it works.
func Open(ctx context.Context, c Config) (*DB, error) {
	pc, err := pgxpool.ParseConfig(c.DatabaseURL)
	if err != nil {
		return nil, errors.New("DATABASE_URL is not a PostgreSQL address")
	}
	if c.MaxConns > 0 {
		pc.MaxConns = c.MaxConns
	}
	params := pc.ConnConfig.RuntimeParams
	set := func(name, value string) {
		if _, given := params[name]; !given {
			params[name] = value
		}
	}
	set("timezone", "UTC")
	set("application_name", "umavez")
	timeouts := slices.DeleteFunc(c.timeouts(), func(s setting) bool { _, given := params[s.name]; return given })
	if !c.SimpleProtocol {
		for _, s := range timeouts {
			set(s.name, s.value)
		}
	} else {
		pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	if pc.ConnConfig.ConnectTimeout == 0 {
		pc.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("database pool: %w", redacted(err))
	}
	return &DB{Pool: pool, timeouts: timeouts}, nil
}

// Close waits for the connections in use.
func (db *DB) Close() { db.Pool.Close() }

// Ping asks for one round trip.
func (db *DB) Ping(ctx context.Context) error {
	if err := db.Pool.Ping(ctx); err != nil {
		return fmt.Errorf("database: %w", redacted(err))
	}
	return nil
}

// ErrNotDurable refuses a server whose commit answer does not mean "flushed".
var ErrNotDurable = errors.New("the database acknowledges commits before they are durable")

// CheckDurability refuses synchronous_commit = off and fsync = off: a 200 to
// a gateway would be a lie.
func (db *DB) CheckDurability(ctx context.Context) error {
	var sync, fsync string
	if err := db.Pool.QueryRow(ctx, `SELECT current_setting('synchronous_commit'), current_setting('fsync')`).Scan(&sync, &fsync); err != nil {
		return fmt.Errorf("check durability: %w", redacted(err))
	}
	if sync == "off" || fsync == "off" {
		return fmt.Errorf("%w: synchronous_commit is %s, fsync is %s; set both to on", ErrNotDurable, sync, fsync)
	}
	return nil
}

// InTx runs fn in one transaction and commits it, for what people run by hand:
// it has no points.
func (db *DB) InTx(ctx context.Context, fn func(pgx.Tx) error) error { return db.inTx(ctx, "", fn) }

// inTx runs fn in one transaction and commits it; name is for its points. When
// the commit's own answer is lost the error is ErrUnknownOutcome: it may or may
// not have happened.
func (db *DB) inTx(ctx context.Context, name string, fn func(pgx.Tx) error) error {
	// The level is said and not left to the server's default: revival and the
	// settling of events see what was committed while they waited for a lock.
	tx, err := db.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return classify(err)
	}
	defer rollback(ctx, tx)
	if err := db.at(ctx, name, "_begun"); err != nil {
		return classify(err)
	}
	if err := fn(tx); err != nil {
		return classify(err)
	}
	err = db.at(ctx, name, "_committing")
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err == nil {
		err = db.at(ctx, name, "_committed")
	}
	return commitError(err)
}

// rollback ends a transaction that did not commit; after a commit it has no
// effect. It has a deadline of its own: the connection may be a black hole.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = tx.Rollback(ctx)
}

// The errors that callers tell apart; three of them are the processor's words.
var (
	ErrRetry          = settlement.ErrRetry
	ErrUnknownOutcome = settlement.ErrUnknownOutcome
	ErrUnavailable    = settlement.ErrUnavailable
	// ErrRefusedRow: the data itself was refused (a constraint, a value out
	// of range or too large); running it again gives the same answer.
	ErrRefusedRow = errors.New("database refused the data")
)

// classify maps a pgx error to a sentinel, keeping SQLSTATE and constraint
// names and dropping details, which contain values of rows.
func classify(err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []error{ErrRetry, ErrUnknownOutcome, ErrRefusedRow, ErrUnavailable} {
		if errors.Is(err, known) {
			return err
		}
	}
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		short := fmt.Errorf("SQLSTATE %s %s", pe.Code, pe.ConstraintName)
		switch {
		case pe.Code == "40P01" || pe.Code == "40001" || pe.Code == "55P03":
			return fmt.Errorf("%w: %w", ErrRetry, short)
		case pe.Code[:2] == "23" || pe.Code[:2] == "22" || pe.Code[:2] == "54":
			return fmt.Errorf("%w: %w", ErrRefusedRow, short)
		case pe.Code[:2] == "57" || pe.Code[:2] == "53" || pe.Code[:2] == "08":
			return fmt.Errorf("%w: %w", ErrUnavailable, short)
		}
		// Rights, schema, disk, a defect of the server: about us, not about
		// this event. It must not make events dead, so it waits for repair.
		return fmt.Errorf("%w: %s: %w%s", ErrUnavailable, pe.Message, short, poolerHint(pe))
	}
	if pgconn.Timeout(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	var ce *pgconn.ConnectError
	if errors.As(err, &ce) || !isOurs(err) {
		return fmt.Errorf("%w: %w", ErrUnavailable, redacted(err))
	}
	return err
}

// isOurs tells errors of our own code in a transaction (decoding, deciding)
// from those of the connection.
func isOurs(err error) bool {
	var oe *OwnError
	return errors.As(err, &oe)
}

// OwnError marks an error that the callback of a transaction made itself.
type OwnError struct{ Err error }

func (e *OwnError) Error() string { return e.Err.Error() }
func (e *OwnError) Unwrap() error { return e.Err }

// commitError classifies what Commit returned. A server that answered says
// what happened; silence does not.
func commitError(err error) error {
	if err == nil {
		return nil
	}
	var pe *pgconn.PgError
	if errors.As(err, &pe) && pe.Code[:2] != "57" && pe.Code[:2] != "08" {
		return classify(err)
	}
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return fmt.Errorf("%w: commit was answered with a rollback", ErrUnavailable)
	}
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, redacted(err))
}

// redacted keeps connection errors free of the address's password: pgx shows
// host and user in a ConnectError, which is more than a log needs.
func redacted(err error) error {
	var ce *pgconn.ConnectError
	if errors.As(err, &ce) {
		inner := errors.Unwrap(ce)
		if inner == nil {
			return errors.New("cannot connect to the database")
		}
		return fmt.Errorf("cannot connect to the database: %w%s", inner, poolerHint(err))
	}
	if hint := poolerHint(err); hint != "" {
		return fmt.Errorf("%w%s", err, hint)
	}
	return err
}

func isUndefinedTable(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == "42P01"
}
