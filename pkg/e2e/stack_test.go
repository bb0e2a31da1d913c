package e2e

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
	"github.com/umavez/umavez/pkg/queue/queuetest"
	"github.com/umavez/umavez/pkg/sweep"
)

// stack is the product in processes of its own: several ingests and
// processors, a broker, and the gateways' API in this process.
type stack struct {
	t          testing.TB
	db         *postgres.DB
	env        map[string]string // of every process
	urls       map[string]string // DATABASE_URL by role, where each has its own
	logs       string            // directory
	broker     *queuetest.Process
	ingests    []*process
	addrs      []string // of the ingests
	processors []*process
	turn       atomic.Uint64
	sweeps     int
}

// newStack prepares a database and a broker for a simulator, and starts
// nothing yet.
func newStack(t testing.TB, sim *gatewaysim.Sim) *stack {
	t.Helper()
	return newStackOn(t, sim.APIHandler(), sim.Settings, postgrestest.New(t), postgrestest.URL(t))
}

func newStackOn(t testing.TB, api http.Handler, settings func(base string) map[string]string, db *postgres.DB, url string) *stack {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	s := &stack{t: t, db: db, logs: t.TempDir(), env: settings(server.URL), broker: queuetest.NewProcess(t)}
	maps.Copy(s.env, map[string]string{
		"DATABASE_URL": url, "NATS_URL": s.broker.URL(), "LOG_LEVEL": "info",
		// A message that a killed processor held comes back after seconds.
		"NATS_ACK_WAIT": "4s", "LOOKUP_TIMEOUT": "1500ms", "PROCESSOR_TX_TIMEOUT": "2s",
		"PROCESSOR_WORKERS": "1", "RECONCILE_AFTER": "1s",
	})
	s.migrate()
	return s
}

// migrate brings schema and streams up to date, as a release does.
func (s *stack) migrate() {
	s.t.Helper()
	if out, errs, code := run(s.t, "umavez", s.env, "migrate"); code != 0 {
		s.t.Fatalf("umavez migrate: code %d\n%s%s", code, out, errs)
	}
}

// with is the environment of all with some values changed.
func (s *stack) with(changes ...string) map[string]string {
	env := maps.Clone(s.env)
	for _, c := range changes {
		name, value, _ := strings.Cut(c, "=")
		env[name] = value
	}
	return env
}

// of is the environment of one role.
func (s *stack) of(role string, changes ...string) map[string]string {
	env := s.with(changes...)
	if url := s.urls[role]; url != "" {
		env["DATABASE_URL"] = url
	}
	return env
}

// up starts so many of each and waits until they are ready.
func (s *stack) up(ingests, processors int) *stack {
	s.t.Helper()
	for range ingests {
		s.addrs = append(s.addrs, freeAddr(s.t))
		s.ingests = append(s.ingests, s.ingest(len(s.ingests)))
	}
	for range processors {
		s.processors = append(s.processors, s.processor(len(s.processors)))
	}
	for _, p := range s.all() {
		p.ready()
	}
	return s
}

func (s *stack) all() []*process { return append(append([]*process{}, s.ingests...), s.processors...) }

func (s *stack) ingest(i int) *process {
	return start(s.t, s.logs, "ingest-"+string(rune('1'+i)), "ingest", s.of("ingest", "INGEST_ADDR="+s.addrs[i]))
}

func (s *stack) processor(i int) *process {
	return start(s.t, s.logs, "processor-"+string(rune('1'+i)), "processor", s.of("processor"))
}

// url is the address of an ingest, another one with each call.
func (s *stack) url() string {
	return "http://" + s.addrs[int(s.turn.Add(1))%len(s.addrs)]
}

// act is something that happens when so much of a storm is over.
type act struct {
	at float64 // share of the deliveries
	do func()
}

// storm sends everything that a simulator has, split over the ingests.
func (s *stack) storm(sim *gatewaysim.Sim, acts ...act) gatewaysim.Report {
	s.t.Helper()
	total := len(sim.Deliveries())
	var next atomic.Int64
	due := make(chan func(), len(acts))
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for do := range due {
			do()
		}
	}()
	report, err := sim.Run(s.t.Context(), gatewaysim.RunConfig{
		BaseURL: func(string, string) string { return s.url() }, Concurrency: 16, Timeout: 6 * time.Second, RetryFor: 30 * time.Second,
		Progress: func(done, _ int) {
			if n := next.Load(); int(n) < len(acts) && float64(done) >= acts[n].at*float64(total) && next.CompareAndSwap(n, n+1) {
				due <- acts[n].do
			}
		},
	})
	close(due)
	<-finished
	if err != nil {
		s.t.Fatal(err)
	}
	if int(next.Load()) != len(acts) {
		s.t.Fatalf("only %d of %d acts were played", next.Load(), len(acts))
	}
	s.t.Logf("storm: %d requests, %d retries, %.0f/s, p99 %.0f ms, answers %v", report.Requests, report.Retries, report.EventsPerSecond, report.Latency.P99, report.Answers)
	return report
}

// sweep runs the sweeper as on-call does.
func (s *stack) sweep(args ...string) (sum sweep.Summary) {
	s.t.Helper()
	out, errs, code := run(s.t, "sweeper", s.of("sweeper"), append([]string{"run", "-o", "json"}, args...)...)
	if code != 0 {
		s.t.Fatalf("sweeper run: code %d\n%s%s", code, out, errs)
	}
	if err := json.Unmarshal([]byte(out), &sum); err != nil {
		s.t.Fatalf("sweeper run: %v in %q", err, out)
	}
	s.sweeps++
	return sum
}

// settle waits until nothing is unfinished and all domain events are sent; it
// sweeps what the broker has lost.
func (s *stack) settle(within time.Duration) {
	s.t.Helper()
	deadline, swept := time.Now().Add(within), time.Now()
	for {
		var unfinished, idle, unsent int
		if err := s.db.Pool.QueryRow(s.t.Context(), `
SELECT count(*), count(*) FILTER (WHERE w.state = 'pending' AND e.received_at < now() - interval '3 seconds'),
       (SELECT count(*) FROM outbox WHERE relayed_at IS NULL)
FROM event_work w JOIN events e ON e.id = w.event_id`).Scan(&unfinished, &idle, &unsent); err != nil {
			s.t.Fatal(err)
		}
		switch {
		case unfinished == 0 && unsent == 0:
			return
		case time.Now().After(deadline):
			s.t.Fatalf("not final within %s: %d events unfinished (%s), %d domain events unsent", within, unfinished, s.reasons(), unsent)
		case idle > 0 && time.Since(swept) > 2*time.Second:
			s.sweep("--older-than", "3s")
			swept = time.Now()
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (s *stack) reasons() string {
	return queryOne[string](s.t, s.db, `
SELECT COALESCE(string_agg(what || ' x' || n, ', '), '') FROM (
  SELECT state || ' ' || COALESCE(reason, last_error, '') AS what, count(*) AS n FROM event_work GROUP BY 1) x`)
}

// reconcile asks the gateways about every payment once, for the webhooks that
// never came.
func (s *stack) reconcile(within time.Duration) {
	s.t.Helper()
	time.Sleep(1100 * time.Millisecond) // RECONCILE_AFTER
	s.sweep("--reconcile-all")
	s.settle(within)
}
