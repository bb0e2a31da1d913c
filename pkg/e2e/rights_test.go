package e2e

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
)

// user makes a login user of this test's own that has one of umavez's roles
// and nothing else, and returns its DATABASE_URL.
func user(t testing.TB, role string) string {
	t.Helper()
	db := postgrestest.New(t)
	name, password := strings.ToLower("e2e_"+role+"_"+rand.Text()[:8]), rand.Text()
	if _, err := db.Pool.Exec(t.Context(), fmt.Sprintf(`CREATE ROLE %s LOGIN PASSWORD '%s' IN ROLE umavez_%s`, name, password, role)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Whatever it has left behind goes with it.
		if _, err := db.Pool.Exec(context.Background(), fmt.Sprintf(`DROP OWNED BY %[1]s; DROP ROLE %[1]s`, name)); err != nil {
			t.Errorf("drop the test's user: %v", err)
		}
	})
	u, err := url.Parse(postgrestest.URL(t))
	if err != nil || u.Scheme == "" {
		t.Fatal("these tests need DATABASE_URL in the form postgres://...")
	}
	u.User = url.UserPassword(name, password)
	return u.String()
}

// as opens the database with one of the roles.
func as(t testing.TB, role string) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{
		DatabaseURL: user(t, role), MaxConns: 2, LockTimeout: 2 * time.Second, StatementTimeout: 4 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if err := db.CheckSchema(t.Context()); err != nil {
		t.Fatalf("a process with the role umavez_%s would not start: %v", role, err)
	}
	return db
}

// refused wants statements refused for want of rights.
func refused(t *testing.T, db *postgres.DB, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if code := sqlState(t, db, sql); code != "42501" {
			t.Errorf("SQLSTATE %q, want insufficient_privilege (42501): %s", code, sql)
		}
	}
}

// allowed wants statements that the role needs.
func allowed(t *testing.T, db *postgres.DB, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if code := sqlState(t, db, sql); code != "" {
			t.Errorf("SQLSTATE %s: %s", code, sql)
		}
	}
}

// sqlState runs statements in a transaction that is rolled back.
func sqlState(t *testing.T, db *postgres.DB, sql string) string {
	t.Helper()
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // on purpose
	_, err = tx.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
	var pe *pgconn.PgError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &pe):
		return pe.Code
	}
	t.Fatalf("%v: %s", err, sql)
	return ""
}

// moneyTables hold money or say how it moved.
var moneyTables = []string{"payments", "payment_transitions", "ledger_accounts", "ledger_entries", "ledger_balances", "outbox", "payment_registrations"}

// perTable is a statement for each table.
func perTable(tables []string, formats ...string) (all []string) {
	for _, table := range tables {
		for _, f := range formats {
			all = append(all, fmt.Sprintf(f, table))
		}
	}
	return all
}

const (
	selectFrom = `SELECT count(*) FROM %s`
	deleteFrom = `DELETE FROM %s`
	truncate   = `TRUNCATE %s`
)

// ownerOnly is what no role of a process may do.
var ownerOnly = []string{
	`CREATE TABLE mine (a int)`, `DROP TABLE ledger_entries`, `ALTER TABLE ledger_entries DISABLE TRIGGER ledger_entries_immutable`,
	`SET session_replication_role = replica`, `CREATE OR REPLACE FUNCTION ledger_is_immutable() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`,
	`UPDATE umavez_schema_version SET version = 0`,
}
