package postgres

import (
	"context"
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
//
// Each migration is one transaction with a lock and settings of its own, and
// nothing is left to the session: it works behind a pooler in transaction mode
// too, where the next statement may meet another session.
func (db *DB) Migrate(ctx context.Context, dryRun bool, progress func(Migration)) (ran []Migration, err error) {
	all, err := migrations(ctx)
	if err != nil {
		return nil, err
	}
	current, err := db.schemaVersion(ctx)
	if err != nil && !isUndefinedTable(err) {
		return nil, fmt.Errorf("read schema version: %w", classify(err))
	}
	if int(current) > len(all) {
		return nil, fmt.Errorf("the database has schema version %d, this program knows %d: run a newer umavez", current, len(all))
	}
	for _, m := range all[current:] {
		ran = append(ran, Migration{Number: m.Sequence, Name: m.Name})
	}
	if dryRun {
		return ran, nil
	}
	for more := true; more; {
		if more, err = db.migrateNext(ctx, all, progress); err != nil {
			return nil, err
		}
	}
	return ran, db.inMigration(ctx, func(tx pgx.Tx) error {
		if err := checkSchemaRights(ctx, tx); err != nil {
			return &OwnError{err}
		}
		return ensurePartitions(ctx, tx)
	})
}

// migrations are those of this program, in their order.
func migrations(ctx context.Context) ([]*migrate.Migration, error) {
	m, err := migrate.NewMigrator(ctx, nil, versionTable) // without a connection it only reads files
	if err != nil {
		return nil, fmt.Errorf("prepare migrations: %w", err)
	}
	if err := m.LoadMigrations(schema.Files); err != nil {
		return nil, fmt.Errorf("load migrations: %w", err)
	}
	return m.Migrations, nil
}

// migrationLock is the number that tern locks: an older umavez waits for it.
const migrationLock = 9628173550095224

const migrationLockTimeout = `SET LOCAL lock_timeout = '10s'`

// inMigration runs fn in a transaction that may take its time, and must not
// queue behind a long one and hold up everybody behind it.
func (db *DB) inMigration(ctx context.Context, fn func(pgx.Tx) error) error {
	return db.InTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, migrationLockTimeout+`; SET LOCAL statement_timeout = '30min'`); err != nil {
			return err
		}
		return fn(tx)
	})
}

// migrateNext runs the next migration, if there is one.
func (db *DB) migrateNext(ctx context.Context, all []*migrate.Migration, progress func(Migration)) (ran bool, err error) {
	name := ""
	err = db.inMigration(ctx, func(tx pgx.Tx) error {
		// Whoever migrates at the moment may take its time too; only behind the
		// lock does a wait hold anybody up.
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '30min'`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, migrationLockTimeout); err != nil {
			return err
		}
		// Read under the lock, in a snapshot of its own: another may have run some.
		var version int32
		var first bool
		if err := tx.QueryRow(ctx, `SELECT to_regclass('`+versionTable+`') IS NULL`).Scan(&first); err != nil {
			return err
		}
		if first {
			if _, err := tx.Exec(ctx, `CREATE TABLE `+versionTable+` (version int4 NOT NULL); INSERT INTO `+versionTable+` VALUES (0)`); err != nil {
				return err
			}
		}
		if err := tx.QueryRow(ctx, `SELECT version FROM `+versionTable).Scan(&version); err != nil {
			return err
		}
		if int(version) >= len(all) {
			return nil
		}
		m := all[version]
		ran, name = true, m.Name
		if progress != nil {
			progress(Migration{Number: m.Sequence, Name: m.Name})
		}
		if _, err := tx.Exec(ctx, m.UpSQL); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE `+versionTable+` SET version = $1`, m.Sequence)
		return err
	})
	switch {
	case err != nil && name != "":
		return false, fmt.Errorf("migration %s: %w", name, err)
	case err != nil:
		return false, fmt.Errorf("migrate: %w", err)
	}
	return ran, nil
}

func (db *DB) schemaVersion(ctx context.Context) (version int32, err error) {
	err = db.Pool.QueryRow(ctx, `SELECT version FROM `+versionTable).Scan(&version)
	return version, err
}

// checkSchemaRights refuses a schema in which everybody may create: functions
// that run with their owner's rights could be captured there. Migration 003
// revokes that, which has no effect where this user does not own the schema.
func checkSchemaRights(ctx context.Context, tx pgx.Tx) error {
	var open bool
	var name string
	if err := tx.QueryRow(ctx, `SELECT current_schema(), has_schema_privilege('public', current_schema(), 'CREATE')`).Scan(&name, &open); err != nil {
		return fmt.Errorf("check the rights on the schema: %w", classify(err))
	}
	if open {
		return fmt.Errorf("everybody may create objects in the schema %s; as its owner run: REVOKE CREATE ON SCHEMA %s FROM PUBLIC", name, name)
	}
	return nil
}

// ensurePartitions leaves the work to whoever is at it: two that make the same
// table at once meet in the catalogue, where one of them fails.
func ensurePartitions(ctx context.Context, tx pgx.Tx) error {
	const ensure = `SELECT ensure_body_partitions((now() AT TIME ZONE 'UTC')::date - 1, $1)`
	var ours bool
	err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(hashtext('umavez partitions'), hashtext(current_schema()))`).Scan(&ours)
	if err == nil && ours {
		_, err = tx.Exec(ctx, ensure, PartitionsAhead+2)
	}
	if err != nil {
		return fmt.Errorf("prepare body partitions: %w", classify(err))
	}
	return nil
}

// EnsurePartitions prepares the body partitions of the coming days.
func (db *DB) EnsurePartitions(ctx context.Context) error {
	return db.between(ctx, "partitions", func() error {
		return db.InTx(ctx, func(tx pgx.Tx) error { return ensurePartitions(ctx, tx) })
	})
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
	version, err := db.schemaVersion(ctx)
	if want := SchemaVersion(); err != nil || version < want {
		if err != nil && !isUndefinedTable(err) {
			return fmt.Errorf("read schema version: %w", classify(err))
		}
		return fmt.Errorf("the database has schema version %d, this program needs %d: run `umavez migrate` first", version, want)
	}
	return nil
}
