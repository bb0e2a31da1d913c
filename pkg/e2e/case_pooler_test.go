package e2e

import (
	"context"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
)

// Everything goes through PgBouncer in transaction mode with few sessions:
// migrate, two ingests, two processors with their relays, the sweeper, replay
// and verify.
func TestCase_F7_TheWholeSystemWorksBehindAPoolerInTransactionMode(t *testing.T) {
	t.Parallel()
	cluster := postgrestest.Cluster(t)
	direct, err := pgx.Connect(t.Context(), cluster.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close(context.Background()) //nolint:errcheck // a test
	// As the README says.
	for _, setting := range []string{"lock_timeout = '2s'", "statement_timeout = '4s'", "idle_in_transaction_session_timeout = '16s'"} {
		if _, err := direct.Exec(t.Context(), `ALTER ROLE umavez IN DATABASE umavez SET `+setting); err != nil {
			t.Fatal(err)
		}
	}
	url := postgrestest.Pooler(t, cluster, 6)
	db, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: url, MaxConns: 4, SimpleProtocol: true, LockTimeout: 2 * time.Second, StatementTimeout: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)

	// Migrations at once over the same sessions: no lock stays behind, and no
	// setting of theirs.
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if _, err := db.Migrate(t.Context(), false, nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for range 12 {
		if got := queryOne[string](t, db, `SELECT current_setting('statement_timeout') || ' ' || current_setting('lock_timeout') || ' ' || (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')`); got != "4s 2s 0" {
			t.Errorf("after the migrations a session has %q", got)
		}
	}

	sim := badDay(t, 17, 150)
	s := newStackOn(t, sim.APIHandler(), func(base string) map[string]string {
		env := sim.Settings(base)
		env["DATABASE_SIMPLE_PROTOCOL"] = "true"
		return env
	}, db, url)
	s.up(2, 2)
	report := s.storm(sim, act{0.5, func() { s.processors[0].kill(); s.processors[0] = s.processor(0) }})
	s.settle(40 * time.Second)
	s.reconcile(30 * time.Second)
	compare(t, db, sim, report)
	sum := s.replays(0, "--status", "processed", "--provider", "asaas", "--limit", "20", "--wait", "20s")
	if sum.Replayed != 20 || sum.Became["processed, applied"] != 0 {
		t.Errorf("replay: %+v", sum)
	}
	if out, errs, code := run(t, "umavez", s.env, "verify"); code != 0 {
		t.Errorf("umavez verify: code %d\n%s%s", code, out, errs)
	}
	if n := queryOne[int](t, db, `SELECT count(*) FROM outbox WHERE relayed_at IS NULL`); n != 0 {
		t.Errorf("%d domain events are not relayed", n)
	}
	for _, p := range s.all() {
		p.stop(syscall.SIGTERM)
		for _, bad := range []string{"prepared statement", "25P01", "42P05", "26000", "umavez outbox"} {
			if text := p.output(); strings.Contains(text, bad) {
				t.Errorf("%s logged %q:\n%s", p.name, bad, tail(text, 2000))
			}
		}
	}
}
