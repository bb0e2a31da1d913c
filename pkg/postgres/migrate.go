package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/tern/v2/migrate"

	"github.com/umavez/umavez/schema"
)

// versionTable is in the schema that the connection's search_path names.
const versionTable = "umavez_schema_version"

// PartitionsAhead is how many days of body partitions are kept ready.
const PartitionsAhead = 7

// Migration is one migration that was, or would be, run.
type Migration struct {
	Number int32  `json:"number"`
	Name   string `json:"name"`
}

// Migrate brings the schema up to date under an advisory lock and prepares
// the partitions of the coming days. With dryRun it only says what it would
// run. Running it twice, or twice at once, is harmless.
func (db *DB) Migrate(ctx context.Context, dryRun bool, progress func(Migration)) (ran []Migration, err error) {
	conn, err := db.Pool.Acquire(ctx)
	if err != nil {
		return nil, classify(err)
	}
	defer conn.Release()
	// Migrations may take longer than a statement of the daemons, but must
	// not queue behind a long transaction and hold up everybody behind them.
	if _, err := conn.Exec(ctx, `SET lock_timeout = '10s'; SET statement_timeout = '30min'`); err != nil {
		return nil, classify(err)
	}
	defer conn.Exec(context.WithoutCancel(ctx), `RESET lock_timeout; RESET statement_timeout`) //nolint:errcheck // a broken connection is dropped by the pool

	m, err := migrate.NewMigrator(ctx, conn.Conn(), versionTable)
	if err != nil {
		return nil, fmt.Errorf("prepare migrations: %w", classify(err))
	}
	if err := m.LoadMigrations(schema.Files); err != nil {
		return nil, fmt.Errorf("load migrations: %w", err)
	}
	current, err := m.GetCurrentVersion(ctx)
	if err != nil {
		return nil, fmt.Errorf("read schema version: %w", classify(err))
	}
	if int(current) > len(m.Migrations) {
		return nil, fmt.Errorf("the database has schema version %d, this program knows %d: run a newer umavez", current, len(m.Migrations))
	}
	for _, mg := range m.Migrations {
		if mg.Sequence > current {
			ran = append(ran, Migration{Number: mg.Sequence, Name: mg.Name})
		}
	}
	if dryRun {
		return ran, nil
	}
	m.OnStart = func(seq int32, name, _, _ string) {
		if progress != nil {
			progress(Migration{Number: seq, Name: name})
		}
	}
	if err := m.Migrate(ctx); err != nil {
		return nil, migrationError(err)
	}
	if err := checkSchemaRights(ctx, conn.Conn()); err != nil {
		return nil, err
	}
	if err := ensurePartitions(ctx, conn.Conn()); err != nil {
		return nil, err
	}
	return ran, nil
}

// checkSchemaRights refuses a schema in which everybody may create: functions
// that run with their owner's rights could be captured there. Migration 003
// revokes that, which has no effect where this user does not own the schema.
func checkSchemaRights(ctx context.Context, conn *pgx.Conn) error {
	var open bool
	var name string
	if err := conn.QueryRow(ctx, `SELECT current_schema(), has_schema_privilege('public', current_schema(), 'CREATE')`).Scan(&name, &open); err != nil {
		return fmt.Errorf("check the rights on the schema: %w", classify(err))
	}
	if open {
		return fmt.Errorf("everybody may create objects in the schema %s; as its owner run: REVOKE CREATE ON SCHEMA %s FROM PUBLIC", name, name)
	}
	return nil
}

func migrationError(err error) error {
	var mp migrate.MigrationPgError
	if errors.As(err, &mp) {
		return fmt.Errorf("migration %s: %w", mp.MigrationName, classify(mp.PgError))
	}
	return fmt.Errorf("migrate: %w", classify(err))
}

func ensurePartitions(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, `SELECT ensure_body_partitions((now() AT TIME ZONE 'UTC')::date - 1, $1)`, PartitionsAhead+2); err != nil {
		return fmt.Errorf("prepare body partitions: %w", classify(err))
	}
	return nil
}

// EnsurePartitions prepares the body partitions of the coming days.
func (db *DB) EnsurePartitions(ctx context.Context) error {
	conn, err := db.Pool.Acquire(ctx)
	if err != nil {
		return classify(err)
	}
	defer conn.Release()
	return db.between(ctx, "partitions", func() error { return ensurePartitions(ctx, conn.Conn()) })
}

var migrationFile = regexp.MustCompile(`^(\d+)_.*\.sql$`)

// SchemaVersion is the newest migration that this program knows.
func SchemaVersion() int32 {
	var newest int32
	entries, err := fs.ReadDir(schema.Files, ".")
	if err != nil {
		panic("postgres: embedded migrations: " + err.Error())
	}
	for _, e := range entries {
		if m := migrationFile.FindStringSubmatch(e.Name()); m != nil {
			if n, err := strconv.ParseInt(m[1], 10, 32); err == nil {
				newest = max(newest, int32(n))
			}
		}
	}
	return newest
}

// CheckSchema refuses a database that was not migrated far enough. A newer
// schema is accepted: migrations only expand what older programs use.
func (db *DB) CheckSchema(ctx context.Context) error {
	var version int32
	err := db.Pool.QueryRow(ctx, `SELECT version FROM `+versionTable).Scan(&version)
	if want := SchemaVersion(); err != nil || version < want {
		if err != nil && !isUndefinedTable(err) {
			return fmt.Errorf("read schema version: %w", classify(err))
		}
		return fmt.Errorf("the database has schema version %d, this program needs %d: run `umavez migrate` first", version, want)
	}
	return nil
}
