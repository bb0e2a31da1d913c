// Package postgrestest gives each test a world of its own on a real
// PostgreSQL: a migrated schema and a pool whose search_path holds only it.
//
// The server is DATABASE_URL when that is set (`make test` starts one for all
// packages), else a private cluster that this test process starts, keeps in
// .umavez/ of the repository for the next run, and ends with. Schemas do not
// isolate advisory locks: tests that take some put the schema in their names.
//
// A test that cannot reach a database fails; it is never skipped.
package postgrestest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/localpg"
	"github.com/umavez/umavez/pkg/postgres"
)

// maxConns is the pool of one test: enough to run concurrent transactions,
// few enough for several packages on one server.
const maxConns = 10

// world is a schema with its pool. Worlds are reused: emptying one takes half
// a millisecond, making one takes forty.
type world struct {
	schema string
	url    string
	db     *postgres.DB
}

var (
	mu     sync.Mutex
	free   []*world
	taken  = map[testing.TB]*world{}
	worlds int

	besides int // pools that Beside has made
)

// New returns an empty, migrated database for this test. Called again in the
// same test it returns the same one.
func New(t testing.TB) *postgres.DB {
	t.Helper()
	return take(t).db
}

// URL is the DATABASE_URL of the database that New gives this test, for
// processes of their own. Do not print it: it holds the password.
func URL(t testing.TB) string {
	t.Helper()
	return take(t).url
}

// Beside is a second pool on the database of this test, as of another process;
// waits says whether one of its statements waits for a lock at the moment.
func Beside(t testing.TB) (db *postgres.DB, waits func() bool) {
	t.Helper()
	home := New(t)
	mu.Lock()
	besides++
	name := fmt.Sprintf("beside-%d-%d", os.Getpid(), besides)
	mu.Unlock()
	db, err := postgres.Open(t.Context(), postgres.Config{
		DatabaseURL: withParameter(URL(t), "application_name", name), MaxConns: 3, LockTimeout: 2 * time.Second, StatementTimeout: 4 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db, func() (waiting bool) {
		if err := home.Pool.QueryRow(t.Context(), `
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock')`, name).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		return waiting
	}
}

// Schema is the name of the schema that New gives this test.
func Schema(t testing.TB) string {
	t.Helper()
	return take(t).schema
}

// Empty deletes every row of this test's schema, for a test that plays several
// stories one after the other.
func Empty(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := empty(ctx, take(t)); err != nil {
		t.Fatalf("empty the test's schema: %v", err)
	}
}

// Main runs the tests of a package and stops the private cluster, if there is
// one. Without it the cluster ends with the process, less orderly.
func Main(m *testing.M) {
	code := m.Run()
	Close()
	os.Exit(code)
}

// Close ends what this process holds: pools, schemas, the private cluster.
// For packages with a TestMain of their own.
func Close() {
	mu.Lock()
	defer mu.Unlock()
	for _, w := range free {
		w.db.Close()
	}
	free = nil
	shutServer()
}

func take(t testing.TB) *world {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if w, ok := taken[t]; ok {
		return w
	}
	srv, err := openServer()
	if err != nil {
		t.Fatalf("no test database: %v", err)
	}
	var w *world
	if n := len(free); n > 0 {
		w, free = free[n-1], free[:n-1]
	} else if w, err = newWorld(srv); err != nil {
		t.Fatalf("test database: %v", err)
	}
	taken[t] = w
	t.Cleanup(func() { giveBack(t, w) })
	return w
}

func newWorld(srv *server) (*world, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	worlds++
	w := &world{schema: fmt.Sprintf("%s_%d", srv.prefix, worlds)}
	if _, err := srv.admin.Exec(ctx, "CREATE SCHEMA "+w.schema); err != nil {
		return nil, err
	}
	w.url = withSearchPath(srv.url, w.schema)
	db, err := postgres.Open(ctx, postgres.Config{
		DatabaseURL: w.url, MaxConns: maxConns, LockTimeout: 2 * time.Second, StatementTimeout: 4 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	if _, err := db.Migrate(ctx, false, nil); err != nil {
		db.Close()
		return nil, err
	}
	w.db = db
	return w, nil
}

// giveBack empties the world for the next test. One that cannot be emptied,
// or whose connections are still in use, is thrown away.
func giveBack(t testing.TB, w *world) {
	mu.Lock()
	delete(taken, t)
	mu.Unlock()
	deadline := time.Now().Add(3 * time.Second)
	for w.db.Pool.Stat().AcquiredConns() > 0 {
		if time.Now().After(deadline) {
			t.Errorf("the test ended with %d database connections in use", w.db.Pool.Stat().AcquiredConns())
			return // closing the pool would wait for them
		}
		time.Sleep(5 * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := empty(ctx, w); err != nil {
		w.db.Close()
		return
	}
	mu.Lock()
	defer mu.Unlock()
	free = append(free, w)
}

// empty deletes every row. The ledger's triggers refuse deletes, and foreign
// keys would ask for an order: as a replica neither runs. TRUNCATE would take
// twenty times as long. Sequences go on: no test may rely on an id.
func empty(ctx context.Context, w *world) error {
	return pgx.BeginFunc(ctx, w.db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL session_replication_role = replica`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DO $$
			DECLARE t regclass;
			BEGIN
			  FOR t IN SELECT oid FROM pg_class
			    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
			      AND NOT relispartition AND relname <> 'umavez_schema_version'
			  LOOP EXECUTE 'DELETE FROM ' || t; END LOOP;
			END $$`)
		return err
	})
}

func withSearchPath(address, schema string) string {
	return withParameter(address, "search_path", schema)
}

func withParameter(address, name, value string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" {
		return address + " " + name + "=" + value // keyword form
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// Cluster starts a PostgreSQL of the test's own, which it may kill and
// restart. Its database is empty; see ClusterDB. Changes are made to its
// settings before it starts.
func Cluster(t testing.TB, changes ...func(*localpg.Config)) *localpg.Cluster {
	t.Helper()
	parent, err := os.MkdirTemp("", "umavez-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := localpg.Config{Dir: filepath.Join(parent, "pg"), Params: map[string]string{"shared_buffers": "32MB"}, Throwaway: true}
	for _, change := range changes {
		change(&cfg)
	}
	c, err := localpg.Start(context.Background(), cfg)
	if err != nil {
		os.RemoveAll(parent) //nolint:errcheck // scratch
		t.Fatalf("test cluster: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Remove(); err != nil {
			t.Errorf("test cluster: %v", err)
		}
		os.RemoveAll(parent) //nolint:errcheck // scratch
	})
	return c
}

// ClusterDB is Cluster with its database migrated and a pool on it.
func ClusterDB(t testing.TB) (*localpg.Cluster, *postgres.DB) {
	t.Helper()
	c := Cluster(t)
	db, err := postgres.Open(context.Background(), postgres.Config{
		DatabaseURL: c.URL(""), MaxConns: maxConns, LockTimeout: 2 * time.Second, StatementTimeout: 4 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if _, err := db.Migrate(context.Background(), false, nil); err != nil {
		t.Fatal(err)
	}
	return c, db
}

// StateDir is .umavez of the repository, found by going up to go.mod.
func StateDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if text, err := os.ReadFile(filepath.Join(at, "go.mod")); err == nil && strings.Contains(string(text), "umavez") {
			return filepath.Join(at, ".umavez"), nil
		}
		if at == filepath.Dir(at) {
			return filepath.Join(os.TempDir(), "umavez"), nil
		}
	}
}
