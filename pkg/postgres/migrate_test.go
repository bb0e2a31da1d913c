package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
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
