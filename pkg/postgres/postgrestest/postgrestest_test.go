package postgrestest

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/postgres"
)

func TestMain(m *testing.M) { Main(m) }

func count(t *testing.T, db *postgres.DB, table string) (n int) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func fill(t *testing.T, db *postgres.DB) {
	t.Helper()
	if _, err := db.Pool.Exec(t.Context(), `
		SELECT register_payment('asaas', 'default', 'pay_1', 1000, 'BRL');
		INSERT INTO ledger_accounts (name, kind) VALUES ('gateway:a', 'gateway'), ('unallocated:a', 'unallocated');
		INSERT INTO payments (provider, account, gateway_id, captured, currency) VALUES ('asaas', 'default', 'pay_1', 1000, 'BRL');
		INSERT INTO payment_transitions (payment_id, seq, event_id, to_status, reason) SELECT id, 1, 1, 'paid', 'test' FROM payments;
		INSERT INTO ledger_entries (payment_id, transition_seq, amount, currency, kind, debit_account, credit_account, reference_type, reference_id)
		SELECT id, 1, 1000, 'BRL', 'capture', 'gateway:a', 'unallocated:a', 'payment', 'pay_1' FROM payments`); err != nil {
		t.Fatal(err)
	}
}

func TestEachTestFindsItsDatabaseMigratedAndEmpty(t *testing.T) {
	schemas := map[string]bool{}
	for _, name := range []string{"first", "second"} {
		t.Run(name, func(t *testing.T) {
			db := New(t)
			schemas[Schema(t)] = true
			if err := db.CheckSchema(t.Context()); err != nil {
				t.Error(err)
			}
			if err := db.CheckDurability(t.Context()); err != nil {
				t.Error(err)
			}
			for _, table := range []string{"events", "event_work", "payments", "payment_registrations", "ledger_entries", "ledger_accounts"} {
				if n := count(t, db, table); n != 0 {
					t.Errorf("%s has %d rows", table, n)
				}
			}
			fill(t, db)
			if n := count(t, db, "ledger_entries"); n != 1 {
				t.Errorf("%d ledger entries were made", n)
			}
		})
	}
	if len(schemas) != 1 {
		t.Errorf("schemas %v: the second test did not reuse the first one's", schemas)
	}
}

func TestTwoTestsAtOnceDoNotSeeEachOther(t *testing.T) {
	db := New(t)
	fill(t, db)
	t.Run("inner", func(t *testing.T) {
		if n := count(t, New(t), "payments"); n != 0 {
			t.Errorf("%d payments of another test", n)
		}
	})
	if New(t) != db {
		t.Error("a second call gave the same test another database")
	}
}

func TestURLLeadsToTheSameDatabase(t *testing.T) {
	db := New(t)
	fill(t, db)
	conn, err := pgx.Connect(t.Context(), URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context()) //nolint:errcheck // only read
	var n int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM payments`).Scan(&n); err != nil || n != 1 {
		t.Errorf("payments: %d, %v", n, err)
	}
}

func TestTheLedgerStillRefusesDeletes(t *testing.T) {
	db := New(t)
	fill(t, db)
	if _, err := db.Pool.Exec(t.Context(), `DELETE FROM ledger_entries`); err == nil {
		t.Error("an entry was deleted: emptying the schema left the session a replica")
	}
}

func TestClusterOfItsOwnSurvivesAKill(t *testing.T) {
	c, db := ClusterDB(t)
	fill(t, db)
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := db.Ping(t.Context()); err == nil {
		t.Error("a killed server answered")
	}
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(t, db, "payments"); n != 1 {
		t.Errorf("%d payments after the crash", n)
	}
}

func BenchmarkEmpty(b *testing.B) {
	New(b)
	mu.Lock()
	w := taken[b]
	mu.Unlock()
	for b.Loop() {
		if err := empty(b.Context(), w); err != nil {
			b.Fatal(err)
		}
	}
}
