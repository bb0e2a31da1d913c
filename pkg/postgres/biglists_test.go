package postgres_test

import (
	"context"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
	"github.com/umavez/umavez/pkg/replay"
	"github.com/umavez/umavez/pkg/sweep"
)

// sized is a number of the environment, for the longer forms that the Makefile
// has, or what is enough for every run.
func sized(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, not a number above zero", variable, text)
	}
	return n
}

// fillLists stores so many events of a third as many payments over a month:
// most are processed, a few are dead, quarantined, parked or pending.
func fillLists(t *testing.T, db *postgres.DB, rows int) {
	t.Helper()
	begun := time.Now()
	tx, err := db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background()) //nolint:errcheck // committed below
	for _, sql := range []string{
		`SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL synchronous_commit = off`,
		`SELECT ensure_body_partitions(current_date - 31, 32)`,
		`INSERT INTO events (received_at, occurred_at, provider, account, dedupe_key, type, provider_event_id, payment_ref, secret, body_sha256)
SELECT now() - (rows - n) * interval '30 days' / rows, now(), (ARRAY['stripe', 'asaas', 'zoop'])[1 + n % 3], 'default', 'evt/12:' || n, 'payment.paid', 'evt_' || md5(n::text), 'pay_' || n / 3, '1', sha256(n::text::bytea)
FROM generate_series(1, ` + strconv.Itoa(rows) + `) n, (SELECT ` + strconv.Itoa(rows) + ` AS rows) r`,
		`INSERT INTO event_bodies (received_on, event_id, body)
SELECT (received_at AT TIME ZONE 'UTC')::date, id, convert_to('{"id":"' || provider_event_id || '"}', 'UTF8') FROM events`,
		`INSERT INTO event_work (event_id, state, reason, next_at, since, waiting_for)
SELECT id, CASE WHEN id % 400 = 0 THEN 'parked' ELSE 'pending' END, 'payment_unknown: waits', now() + (id % 7 - 3) * interval '1 minute', received_at, NULL FROM events WHERE id % 200 = 0`,
		`INSERT INTO event_results (event_id, at, status, outcome, reason)
SELECT id, received_at, CASE WHEN id % 997 = 0 THEN 'dead' WHEN id % 1009 = 0 THEN 'quarantined' ELSE 'processed' END,
       CASE WHEN id % 997 = 0 OR id % 1009 = 0 THEN NULL ELSE 'applied' END, 'a reason' FROM events WHERE id % 200 <> 0`,
		`INSERT INTO payments (provider, account, gateway_id, status, currency, captured, reference, version)
SELECT 'asaas', 'default', 'pay_' || n, CASE WHEN n % 50 = 0 THEN 'pending' ELSE 'paid' END, 'BRL', 1000, 'PED-' || n, 1 FROM generate_series(1, ` + strconv.Itoa(rows/3) + `) n`,
		`INSERT INTO payment_transitions (payment_id, seq, event_id, to_status, reason) SELECT id, 1, id * 3, 'paid', 'payment.paid' FROM payments`,
		`INSERT INTO ledger_entries (payment_id, transition_seq, amount, currency, kind, debit_account, credit_account, reference_type, reference_id)
SELECT id, 1, 1000, 'BRL', 'capture', 'gateway:asaas:default', 'beneficiary:loja', 'payment', gateway_id FROM payments`,
		`INSERT INTO outbox (payment_id, seq, subject, payload, relayed_at) SELECT id, 1, 'payments.paid.asaas.x', '{}', CASE WHEN id % 5000 = 0 THEN NULL ELSE now() END FROM payments`,
	} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%v in %.60s", err, sql)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Pool.Exec(t.Context(), `SET statement_timeout = 0`); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Pool.Exec(t.Context(), `VACUUM ANALYZE`); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d events were stored in %s", rows, time.Since(begun).Round(time.Second))
}

// scans are the tables that a plan reads from end to end, and what that costs.
var scans = regexp.MustCompile(`Seq Scan on (\w+)(?: \w+)? +\(cost=[0-9.]+\.\.([0-9.]+)`)

// readWhole is the first large table that a plan reads from end to end: a day
// without events, or the table of what is unfinished, is none.
func readWhole(t *testing.T, plan string) string {
	t.Helper()
	for _, m := range scans.FindAllStringSubmatch(plan, -1) {
		cost, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		if cost > 100 && m[1] != "event_work" {
			return m[1]
		}
	}
	return ""
}

// longestList is how long on-call waits for a list.
const longestList = 300 * time.Millisecond

// Ten million rows are for `make biglists BIGLISTS_ROWS=10000000`; what decides
// is that no list reads a large table from end to end.
func TestCase_F11_TheListsOfOnCallAreFoundByIndexes(t *testing.T) {
	t.Parallel()
	_, db := postgrestest.ClusterDB(t)
	rows := sized(t, "BIGLISTS_ROWS", 60_000)
	fillLists(t, db, rows)
	middle := strconv.Itoa(rows / 2)
	quick := func(name string, ask func() (int, error)) {
		t.Helper()
		best := time.Hour
		for range 3 { // the first one may meet a cold cache
			begun := time.Now()
			n, err := ask()
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			if n == 0 {
				t.Errorf("%s: nothing was found", name)
			}
			best = min(best, time.Since(begun))
		}
		t.Logf("%-45s %8.2f ms", name, best.Seconds()*1000)
		if best > longestList {
			t.Errorf("%s took %s", name, best)
		}
	}
	lists := map[string]string{
		"the newest webhooks":             `SELECT id, provider, type, payment_ref, status, outcome, reason FROM webhook_events ORDER BY id DESC LIMIT 50`,
		"the page behind":                 `SELECT id, provider, type, payment_ref, status, outcome, reason FROM webhook_events WHERE id < ` + middle + ` ORDER BY id DESC LIMIT 50`,
		"one webhook with its body":       `SELECT * FROM webhook_events WHERE id = ` + middle,
		"the webhooks of a payment":       `SELECT id, status, outcome, reason, body FROM webhook_events WHERE provider = 'asaas' AND payment_ref = 'pay_` + strconv.Itoa(rows/6) + `' ORDER BY id`,
		"a webhook by the gateway's id":   `SELECT id, status, outcome, reason FROM webhook_events WHERE provider_event_id = 'evt_' || md5('` + middle + `')`,
		"dead and quarantined ones":       `SELECT id, provider, account, type, payment_ref, status, reason, attempts, at FROM set_aside_events ORDER BY at DESC LIMIT 20`,
		"parked ones":                     `SELECT id, provider, type, payment_ref, reason, attempts, last_error, next_at FROM unfinished_events WHERE status = 'parked' ORDER BY next_at LIMIT 20`,
		"stuck ones":                      `SELECT id, provider, type, payment_ref, status, since FROM unfinished_events WHERE status = 'pending' AND since < now() - interval '10 minutes' ORDER BY since LIMIT 20`,
		"a payment by the gateway's id":   `SELECT id, status, captured FROM payments WHERE provider = 'asaas' AND account = 'default' AND gateway_id = 'pay_77'`,
		"a payment by your order's id":    `SELECT id, status, captured FROM payments WHERE provider = 'asaas' AND account = 'default' AND reference = 'PED-77'`,
		"the history of a payment":        `SELECT t.seq, t.from_status, t.to_status, t.reason, e.provider_event_id, t.at FROM payment_transitions t JOIN webhook_events e ON e.id = t.event_id WHERE t.payment_id = 1 ORDER BY t.seq`,
		"the ledger of a payment":         `SELECT at, kind, amount, currency, debit_account, credit_account FROM ledger_entries WHERE payment_id = 1 ORDER BY id`,
		"domain events that are not sent": `SELECT id, subject FROM outbox WHERE relayed_at IS NULL ORDER BY id LIMIT 20`,
	}
	if rows < 15_000 {
		t.Fatal("too few rows: the planner may read small tables as it likes")
	}
	if all := explain(t, db, `SELECT id FROM events WHERE type = 'payment.none'`); readWhole(t, all) != "events" {
		t.Errorf("a list that does read everything is not told from others:\n%s", all)
	}
	for name, sql := range lists {
		plan := explain(t, db, sql)
		if found := readWhole(t, plan); found != "" {
			t.Errorf("%s reads %s from end to end:\n%s", name, found, plan)
		}
		quick(name, func() (int, error) {
			r, err := db.Pool.Query(t.Context(), sql)
			if err != nil {
				return 0, err
			}
			all, err := pgx.CollectRows(r, pgx.RowToMap)
			return len(all), err
		})
	}
	ctx := t.Context()
	quick("sweeper run --dry-run, a page", func() (int, error) {
		page, err := db.DuePage(ctx, sweep.Filter{}, sweep.Cursor{}, 1000)
		return len(page), err
	})
	quick("sweeper run --older-than, a page", func() (int, error) {
		page, err := db.DuePage(ctx, sweep.Filter{OlderThan: time.Minute}, sweep.Cursor{}, 1000)
		return len(page), err
	})
	quick("why parked ones wait", func() (int, error) { p, err := db.ParkedReasons(ctx, sweep.Filter{}); return len(p), err })
	quick("the gauges", func() (int, error) {
		b, err := db.Backlog(ctx)
		if err == nil {
			_, _, err = db.Unsent(ctx)
		}
		return int(b.Pending), err
	})
	for name, f := range map[string]replay.Filter{
		"replay by status":       {Statuses: []event.Status{event.StatusDead, event.StatusQuarantined}},
		"replay by payment":      {Payment: "pay_77", Statuses: []event.Status{event.StatusProcessed}},
		"replay by time":         {Since: time.Now().Add(-72 * time.Hour), Statuses: []event.Status{event.StatusDead}},
		"replay of processed":    {Provider: "asaas", Statuses: []event.Status{event.StatusProcessed}},
		"replay of three events": {IDs: []int64{1, 2, int64(rows / 2)}},
	} {
		quick(name, func() (int, error) { page, err := db.ReplayPage(ctx, f, 0, 500); return len(page), err })
	}
	// The claim of due events, every second by every processor.
	quick("due events", func() (int, error) {
		var n int
		err := db.Pool.QueryRow(ctx, `SELECT count(*) FROM (SELECT event_id FROM event_work WHERE next_at <= now() AND (state = 'parked' OR attempts > 0 OR turn > 1) ORDER BY next_at LIMIT 200) d`).Scan(&n)
		return n, err
	})
}

func explain(t *testing.T, db *postgres.DB, sql string) string {
	t.Helper()
	r, err := db.Pool.Query(t.Context(), `EXPLAIN `+sql)
	if err != nil {
		t.Fatalf("%v in %s", err, sql)
	}
	lines, err := pgx.CollectRows(r, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
