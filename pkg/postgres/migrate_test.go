package postgres_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
	"github.com/umavez/umavez/schema"
)

// An index on a large table takes longer than any statement of the daemons,
// and waits for those that read the table.
func TestEveryMigrationMayTakeItsTime(t *testing.T) {
	t.Parallel()
	cluster := postgrestest.Cluster(t)
	db, err := postgres.Open(t.Context(), postgres.Config{
		DatabaseURL: cluster.URL(""), MaxConns: 2, LockTimeout: 50 * time.Millisecond, StatementTimeout: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	other, err := pgx.Connect(t.Context(), cluster.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background()) //nolint:errcheck // a test
	released := make(chan error, 1)
	ran, err := db.Migrate(t.Context(), false, func(m postgres.Migration) {
		if m.Number != 4 {
			return
		}
		// Somebody writes to a table that the fourth migration indexes.
		if _, err := other.Exec(t.Context(), `BEGIN; LOCK TABLE payments IN ROW EXCLUSIVE MODE`); err != nil {
			t.Error(err)
		}
		time.AfterFunc(400*time.Millisecond, func() {
			_, err := other.Exec(context.Background(), `COMMIT`)
			released <- err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-released; err != nil {
		t.Fatal(err)
	}
	if len(ran) != int(postgres.SchemaVersion()) {
		t.Errorf("%d migrations ran", len(ran))
	}
	if err := db.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestADryRunOfMigrateChangesNothing(t *testing.T) {
	t.Parallel()
	cluster := postgrestest.Cluster(t)
	db, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: cluster.URL(""), MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for range 2 {
		would, err := db.Migrate(t.Context(), true, func(m postgres.Migration) { t.Errorf("%s was run", m.Name) })
		if err != nil || len(would) != int(postgres.SchemaVersion()) {
			t.Fatalf("%d migrations, %v", len(would), err)
		}
	}
	var tables int
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace`).Scan(&tables); err != nil || tables != 0 {
		t.Errorf("%d things were made, %v", tables, err)
	}
}

// Migrations and sweepers at once meet over the partitions of the coming days.
func TestPartitionsArePreparedByManyAtOnce(t *testing.T) {
	t.Parallel()
	_, db := postgrestest.ClusterDB(t)
	for range 5 {
		if _, err := db.Pool.Exec(t.Context(), `DO $$ DECLARE p regclass; BEGIN
			FOR p IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'event_bodies'::regclass AND inhrelid <> 'event_bodies_default'::regclass
			LOOP EXECUTE 'DROP TABLE ' || p; END LOOP; END $$`); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				if err := db.EnsurePartitions(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		var partitions int
		if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_inherits WHERE inhparent = 'event_bodies'::regclass`).Scan(&partitions); err != nil || partitions != postgres.PartitionsAhead+3 {
			t.Errorf("%d partitions, %v", partitions, err)
		}
	}
}

// An index on a large table takes minutes, and whoever migrates at the same time
// waits for it, as harmless as twice in a row.
func TestAMigrationWaitsForOneThatTakesLong(t *testing.T) {
	t.Parallel()
	cluster := postgrestest.Cluster(t)
	db, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: cluster.URL(""), MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	other, err := pgx.Connect(t.Context(), cluster.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background()) //nolint:errcheck // a test
	const migrationLock = 9628173550095224
	if _, err := other.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, int64(migrationLock)); err != nil {
		t.Fatal(err)
	}
	released := make(chan error, 1)
	time.AfterFunc(11*time.Second, func() {
		_, err := other.Exec(context.Background(), `SELECT pg_advisory_unlock_all()`)
		released <- err
	})
	if _, err := db.Migrate(t.Context(), false, nil); err != nil {
		t.Error(err)
	}
	if err := <-released; err != nil {
		t.Error(err)
	}
}

// Where the user of the migrations may not make roles, an administrator runs the
// file of the roles afterwards: it grants what the later files would have.
func TestTheRolesThatAnAdministratorMakesAfterwardsMayDoAsMuch(t *testing.T) {
	t.Parallel()
	_, db := postgrestest.ClusterDB(t)
	grants := func() map[string]bool {
		t.Helper()
		rows, err := db.Pool.Query(t.Context(), `
SELECT grantee || ' may ' || privilege_type || ' ' || table_name FROM information_schema.role_table_grants WHERE grantee LIKE 'umavez\_%'
UNION ALL
SELECT grantee || ' may ' || privilege_type || ' ' || table_name || '.' || column_name FROM information_schema.role_column_grants WHERE grantee LIKE 'umavez\_%'
UNION ALL
SELECT grantee || ' may ' || privilege_type || ' ' || routine_name FROM information_schema.role_routine_grants WHERE grantee LIKE 'umavez\_%'`)
		if err != nil {
			t.Fatal(err)
		}
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		set := map[string]bool{}
		for _, one := range list {
			set[one] = true
		}
		return set
	}
	before := grants()
	if len(before) < 100 {
		t.Fatalf("only %d rights", len(before))
	}
	for _, role := range []string{"umavez_ingest", "umavez_processor", "umavez_sweeper", "umavez_app", "umavez_reader"} {
		if _, err := db.Pool.Exec(t.Context(), `DROP OWNED BY `+role+`; DROP ROLE `+role); err != nil {
			t.Fatal(err)
		}
	}
	file, err := schema.Files.ReadFile("003_roles.sql")
	if err != nil {
		t.Fatal(err)
	}
	up, _, _ := strings.Cut(string(file), "---- create above")
	if _, err := db.Pool.Exec(t.Context(), up); err != nil {
		t.Fatal(err)
	}
	after := grants()
	for one := range before {
		if !after[one] {
			t.Errorf("no longer: %s", one)
		}
	}
}
