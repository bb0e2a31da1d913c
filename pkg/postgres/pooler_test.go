package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
)

// What an operator meets who puts a pooler before the database and changes
// nothing else, step by step: each error says what to do next.
func TestCase_F7_WithoutItsSettingAPoolersErrorSaysWhatToDo(t *testing.T) {
	t.Parallel()
	cluster := postgrestest.Cluster(t)
	open := func(url string, simple bool) *postgres.DB {
		t.Helper()
		db, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: url, MaxConns: 4, SimpleProtocol: simple,
			LockTimeout: 2 * time.Second, StatementTimeout: 4 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		return db
	}
	wants := func(err error, words ...string) {
		t.Helper()
		if err == nil {
			t.Fatalf("no error; want %q", words)
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("error %q does not say %q", err, w)
			}
		}
	}
	strict := postgrestest.Pooler(t, cluster, 4)
	wants(open(strict, false).Ping(t.Context()), "unsupported startup parameter", "DATABASE_SIMPLE_PROTOCOL=true")
	wants(open(strict+"&search_path=x", true).Ping(t.Context()), "take search_path out of DATABASE_URL")

	// The parameters are dropped silently: the statements give it away ...
	lenient := postgrestest.Pooler(t, cluster, 2, "ignore_startup_parameters = lock_timeout,statement_timeout,idle_in_transaction_session_timeout")
	db := open(lenient, false)
	other, err := pgx.Connect(t.Context(), strings.Replace(lenient, "?", "?application_name=other&", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(t.Context()) //nolint:errcheck // a test
	for try := 0; try < 50 && err == nil; try++ {
		if err = db.CheckDurability(t.Context()); err == nil && try%2 == 0 {
			_, err = other.Exec(t.Context(), `BEGIN; SELECT 1`) // takes a session away
		} else if err == nil {
			_, err = other.Exec(t.Context(), `COMMIT`)
		}
	}
	wants(err, "prepared statement", "DATABASE_SIMPLE_PROTOCOL=true")

	// ... and with the setting the missing time-outs do, until the role has them.
	db = open(strict, true)
	err = db.CheckTimeouts(t.Context())
	wants(err, `ALTER ROLE umavez IN DATABASE umavez SET lock_timeout = '2000ms';`, "SET statement_timeout = '4000ms';",
		"SET idle_in_transaction_session_timeout = '16000ms';", "RECONNECT")
	if !errors.Is(err, postgres.ErrNoTimeouts) {
		t.Error(err)
	}
	_, commands, _ := strings.Cut(err.Error(), "\n")
	direct := open(cluster.URL(""), false)
	if _, err := direct.Pool.Exec(t.Context(), commands); err != nil {
		t.Fatalf("the advice %q: %v", commands, err)
	}
	if err := open(postgrestest.Pooler(t, cluster, 2), true).CheckTimeouts(t.Context()); err != nil {
		t.Errorf("after the advice was followed: %v", err)
	}
	if err := direct.CheckTimeouts(t.Context()); err != nil {
		t.Errorf("without a pooler: %v", err)
	}
}
