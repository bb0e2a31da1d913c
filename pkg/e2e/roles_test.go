package e2e

import (
	"crypto/sha256"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
	"github.com/umavez/umavez/pkg/sweep"
)

func TestTheIngestRoleStoresEventsAndTouchesNoMoney(t *testing.T) {
	t.Parallel()
	db := as(t, "ingest")
	arrival := func(key string) event.Arrival {
		return event.Arrival{Event: event.Event{Provider: "asaas", Account: "default", DedupeKey: key, Type: "t", PaymentRef: "p", Secret: "1",
			Body: []byte(key), BodySHA256: sha256.Sum256([]byte(key))}}
	}
	ignored := arrival("b")
	ignored.Settle, ignored.Reason = event.StatusIgnored, "test"
	got, err := db.InsertEvents(t.Context(), []event.Arrival{arrival("a"), ignored})
	if err != nil || !got[0].New || !got[1].New {
		t.Fatalf("store: %+v %v", got, err)
	}
	owner := postgrestest.New(t)
	if _, err := owner.Pool.Exec(t.Context(), `WITH w AS (DELETE FROM event_work RETURNING event_id)
INSERT INTO event_results (event_id, status, reason) SELECT event_id, 'dead', 'test' FROM w`); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} { // the first revives
		if got, err = db.InsertEvents(t.Context(), []event.Arrival{arrival("a")}); err != nil || got[0].New || got[0].Publish != want {
			t.Fatalf("duplicate: %+v %v", got, err)
		}
	}
	for range 2 {
		if err := db.RecordRejections(t.Context(), []postgres.Rejection{{Provider: "asaas", Account: "default", Reason: "r"}}); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, db, perTable(moneyTables, selectFrom, deleteFrom, truncate)...)
	refused(t, db, perTable([]string{"events", "event_bodies", "event_results", "event_work", "event_redeliveries"}, deleteFrom, truncate)...)
	refused(t, db, `UPDATE events SET type = 'x'`, `UPDATE event_bodies SET body = ''`, `UPDATE event_results SET status = 'processed'`,
		`UPDATE event_work SET attempts = 0`, `SELECT body FROM event_bodies`, `SELECT * FROM webhook_events`,
		`SELECT register_payment('asaas', 'default', 'p')`, `SELECT ensure_body_partitions('2030-01-01', 1)`)
	refused(t, db, ownerOnly...)
}

func TestTheProcessorRoleBooksAndChangesNothingThatIsBooked(t *testing.T) {
	t.Parallel()
	db := as(t, "processor")
	refused(t, db, perTable([]string{"ledger_entries", "payment_transitions", "ledger_accounts", "payments", "outbox", "ledger_balances",
		"events", "event_bodies", "event_results", "payment_registrations"}, deleteFrom, truncate)...)
	refused(t, db, `UPDATE ledger_entries SET amount = 1`, `UPDATE payment_transitions SET reason = 'x'`, `UPDATE ledger_accounts SET kind = 'fees'`,
		`UPDATE events SET type = 'x'`, `UPDATE event_bodies SET body = ''`, `UPDATE event_results SET status = 'processed'`,
		`INSERT INTO events DEFAULT VALUES`, `INSERT INTO payment_registrations DEFAULT VALUES`,
		`SELECT register_payment('asaas', 'default', 'p')`, `SELECT ensure_body_partitions('2030-01-01', 1)`, `SELECT * FROM rejected_deliveries`)
	refused(t, db, ownerOnly...)
}

func TestTheSweeperRoleMakesAWholePassAndTouchesNoMoney(t *testing.T) {
	t.Parallel()
	owner, db := postgrestest.New(t), as(t, "sweeper")
	// A day that nobody has prepared.
	day := "event_bodies_" + time.Now().UTC().AddDate(0, 0, postgres.PartitionsAhead).Format("20060102")
	if _, err := owner.Pool.Exec(t.Context(), `DROP TABLE `+day); err != nil {
		t.Fatal(err)
	}
	if err := db.EnsurePartitions(t.Context()); err != nil {
		t.Fatalf("prepare partitions: %v", err)
	}
	if !queryOne[bool](t, owner, `SELECT to_regclass($1) IS NOT NULL`, day) {
		t.Errorf("%s was not made", day)
	}
	if _, err := owner.Pool.Exec(t.Context(), `
WITH e AS (INSERT INTO events (provider, account, dedupe_key, type, payment_ref, secret, body_sha256) SELECT 'asaas', 'default', n, 't', 'p', '1', sha256('') FROM generate_series(1, 3) n RETURNING id)
INSERT INTO event_work (event_id, state, reason, next_at, since) SELECT id, CASE WHEN id % 2 = 0 THEN 'parked' ELSE 'pending' END, 'test', now() - interval '1 hour', now() - interval '1 hour' FROM e;
INSERT INTO payments (provider, account, gateway_id) VALUES ('asaas', 'default', 'p')`); err != nil {
		t.Fatal(err)
	}
	page, err := db.DuePage(t.Context(), sweep.Filter{}, sweep.Cursor{}, 10)
	if err != nil || len(page) != 3 {
		t.Fatalf("due: %d %v", len(page), err)
	}
	if err := db.MarkSwept(t.Context(), page); err != nil {
		t.Fatal(err)
	}
	if _, err := db.BuryParked(t.Context(), time.Minute, sweep.Filter{}, 10); err != nil {
		t.Fatal(err)
	}
	if entered, _, err := db.Reconcile(t.Context(), sweep.Filter{}, sweep.Reconcile{Within: time.Hour, Sources: []string{"asaas/default"}}, 0, 10); err != nil || len(entered) != 1 {
		t.Fatalf("reconcile: %v %v", entered, err)
	}
	allowed(t, db, perTable(moneyTables, selectFrom)...)
	refused(t, db, perTable(moneyTables, deleteFrom, truncate)...)
	refused(t, db, `UPDATE payments SET status = 'paid'`, `UPDATE ledger_entries SET amount = 1`, `UPDATE ledger_balances SET balance = 1`,
		`INSERT INTO payments (provider, account, gateway_id) VALUES ('a', 'b', 'c')`, `INSERT INTO ledger_accounts VALUES ('x', 'fees')`,
		`INSERT INTO ledger_balances VALUES ('x', 'BRL', 1)`, `INSERT INTO outbox (payment_id, seq, subject, payload) VALUES (1, 1, 's', '{}')`,
		`INSERT INTO payment_registrations (provider, account, gateway_id) VALUES ('a', 'b', 'c')`, `UPDATE events SET type = 'x'`,
		`UPDATE event_bodies SET body = ''`, `SELECT register_payment('asaas', 'default', 'p')`)
	refused(t, db, ownerOnly...)
}

func TestTheApplicationsRoleRegistersPaymentsAndReads(t *testing.T) {
	t.Parallel()
	db := as(t, "app")
	allowed(t, db, `SELECT register_payment('asaas', 'default', 'p', 100, 'BRL', 'loja', 'PED-1')`, `SELECT status, body FROM webhook_events`,
		`SELECT status, reason FROM unfinished_events`)
	allowed(t, db, perTable(moneyTables, selectFrom)...)
	refused(t, db, perTable(append(moneyTables, "events", "event_work", "event_results"), deleteFrom, truncate)...)
	refused(t, db, perTable([]string{"events", "event_bodies", "event_work"}, selectFrom)...)
	refused(t, db, `INSERT INTO payment_registrations (provider, account, gateway_id) VALUES ('a', 'b', 'c')`,
		`INSERT INTO payments (provider, account, gateway_id) VALUES ('a', 'b', 'c')`, `UPDATE payments SET status = 'paid'`,
		`UPDATE outbox SET relayed_at = NULL`, `SELECT ensure_body_partitions('2030-01-01', 1)`)
	refused(t, db, ownerOnly...)
}

func TestTheReadersRoleReadsMoneyAndNoBodies(t *testing.T) {
	t.Parallel()
	db := as(t, "reader")
	allowed(t, db, perTable(moneyTables, selectFrom)...)
	refused(t, db, perTable(moneyTables, deleteFrom, truncate)...)
	refused(t, db, `SELECT * FROM webhook_events`, `SELECT * FROM event_bodies`, `SELECT * FROM events`, `UPDATE payments SET status = 'paid'`,
		`SELECT register_payment('asaas', 'default', 'p')`, `SELECT ensure_body_partitions('2030-01-01', 1)`)
	refused(t, db, ownerOnly...)
}

// A function that runs with its owner's rights must not meet tables of its
// caller: a trigger on such a table would run with the owner's rights too.
func TestFunctionsThatRunAsTheirOwnerCannotBeLedAstray(t *testing.T) {
	t.Parallel()
	for role, call := range map[string]string{
		"app": `SELECT register_payment('asaas', 'default', 'p')`, "sweeper": `SELECT ensure_body_partitions('2030-01-01', 1)`,
	} {
		db, owner := as(t, role), postgrestest.New(t)
		stolen := sqlState(t, db, `
CREATE TEMP TABLE taken (who text);
CREATE FUNCTION pg_temp.take() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO pg_temp.taken VALUES (current_user); RETURN NEW; END';
CREATE TEMP TABLE payment_registrations (LIKE payment_registrations INCLUDING ALL);
CREATE TRIGGER take BEFORE INSERT ON pg_temp.payment_registrations FOR EACH ROW EXECUTE FUNCTION pg_temp.take();
CREATE TEMP TABLE event_bodies (received_on date) PARTITION BY RANGE (received_on);
`+call+`;
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_temp.taken) THEN RAISE EXCEPTION 'code of the caller ran as %', (SELECT who FROM pg_temp.taken) USING ERRCODE = 'XX001'; END IF;
  IF EXISTS (SELECT FROM pg_inherits WHERE inhparent = 'pg_temp.event_bodies'::regclass) THEN RAISE EXCEPTION 'partitioned a table of the caller' USING ERRCODE = 'XX001'; END IF;
END $$`)
		if stolen != "" {
			t.Errorf("%s: SQLSTATE %s", role, stolen)
		}
		if n := queryOne[int](t, owner, `SELECT count(*) FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND prosecdef AND NOT (proconfig::text LIKE '%search_path=' || current_schema() || ', pg_temp%')`); n != 0 {
			t.Errorf("%d functions run as their owner without a fixed search_path", n)
		}
	}
}

// Which functions that run with their owner's rights each role may call.
func TestEachRoleCallsOnlyItsOwnFunctions(t *testing.T) {
	t.Parallel()
	owner := postgrestest.New(t)
	for role, want := range map[string]string{"ingest": "", "processor": "", "reader": "", "app": "register_payment", "sweeper": "*_body_partition*"} {
		type function struct{ Name string }
		all := queryAll[function](t, owner, `
SELECT proname::text FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND prosecdef AND has_function_privilege('umavez_' || $1, oid, 'EXECUTE')`, role)
		for _, f := range all {
			if ok, err := path.Match(want, f.Name); err != nil || !ok {
				t.Errorf("umavez_%s may call %s", role, f.Name)
			}
		}
		if (len(all) > 0) != (want != "") {
			t.Errorf("umavez_%s may call %v, want %q", role, all, want)
		}
	}
}

func TestNobodyChangesTheLedger(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	if !queryOne[bool](t, db, `SELECT rolsuper FROM pg_roles WHERE rolname = current_user`) {
		t.Fatal("the test's user is no superuser, so that this proves nothing")
	}
	if _, err := db.Pool.Exec(t.Context(), `
INSERT INTO ledger_accounts VALUES ('a', 'gateway'), ('b', 'unallocated');
INSERT INTO payments (provider, account, gateway_id, captured, currency) VALUES ('asaas', 'default', 'p', 1, 'BRL');
INSERT INTO payment_transitions (payment_id, seq, event_id, to_status, reason) SELECT id, 1, 1, 'paid', 'r' FROM payments;
INSERT INTO ledger_entries (payment_id, transition_seq, amount, currency, kind, debit_account, credit_account, reference_type, reference_id)
SELECT id, 1, 1, 'BRL', 'capture', 'a', 'b', 'payment', 'asaas/default/p' FROM payments`); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`UPDATE ledger_entries SET amount = 2`, `UPDATE ledger_entries SET amount = amount`, `DELETE FROM ledger_entries`, `TRUNCATE ledger_entries`,
		`TRUNCATE payments CASCADE`, `INSERT INTO ledger_entries SELECT * FROM ledger_entries`,
		`UPDATE ledger_entries SET amount = 2 WHERE false`, `MERGE INTO ledger_entries l USING payments p ON p.id = l.payment_id WHEN MATCHED THEN DELETE`,
	} {
		if code := sqlState(t, db, sql); code == "" {
			t.Errorf("the superuser may: %s", sql)
		}
	}
}

// The roles suffice for the processes that they are named after.
func TestEachProcessWorksWithItsOwnRole(t *testing.T) {
	sim := badDay(t, 11, 80)
	s := newStack(t, sim)
	s.urls = map[string]string{"ingest": user(t, "ingest"), "processor": user(t, "processor"), "sweeper": user(t, "sweeper")}
	s.up(2, 2)
	report := s.storm(sim, act{0.5, func() { s.processors[0].kill(); s.processors[0] = s.processor(0) }})
	s.settle(30 * time.Second)
	s.reconcile(20 * time.Second)
	compare(t, s.db, sim, report)
	for _, p := range s.all() {
		p.stop(syscall.SIGTERM)
		if strings.Contains(p.output(), "42501") {
			t.Errorf("%s met a right that it lacks:\n%s", p.name, tail(p.output(), 2000))
		}
	}
}
