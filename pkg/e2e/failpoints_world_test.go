//go:build failpoints

package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
	"github.com/umavez/umavez/pkg/queue"
	"github.com/umavez/umavez/pkg/queue/queuetest"
)

// The settings of the processes under fire: as short as their checks allow, so
// that what a dead process held comes back soon.
var shortTimes = map[string]string{
	"NATS_ACK_WAIT": "1200ms", "LOOKUP_TIMEOUT": "400ms", "PROCESSOR_TX_TIMEOUT": "700ms",
	"DATABASE_LOCK_TIMEOUT": "300ms", "DATABASE_STATEMENT_TIMEOUT": "500ms",
	"INGEST_ADMIT_WAIT": "200ms", "INGEST_BODY_TIMEOUT": "1s", "INGEST_COMMIT_TIMEOUT": "1s", "INGEST_REQUEST_DEADLINE": "1500ms",
	"INGEST_WRITE_TIMEOUT": "4s", "INGEST_DRAIN_TIMEOUT": "4s",
	"PROCESSOR_WORKERS": "2", "PROCESSOR_BATCH": "8", "PROCESSOR_DUE_EVERY": "100ms", "PROCESSOR_RELAY_EVERY": "100ms",
	"MAX_ATTEMPTS": "2", "LOOKUP_BREAK_AFTER": "1000000", "RECONCILE_AFTER": "100ms",
}

// standstill is how long a delayed process stands still: beyond its own
// deadlines, the ack wait, and the server's patience with an idle transaction
// (four times the statement's).
const standstill = 2300 * time.Millisecond

// faultWorld is the product in processes that can be broken: one ingest, one
// processor with two workers, and sweepers as they are run. It serves many
// stories one after the other.
type faultWorld struct {
	*stack
	lent    *lent
	api     *switchedAPI
	fixed   map[string]gatewaysim.Credentials
	quiet   map[program]int // goroutines of ours in a process that has nothing to do
	died    map[program]int // in this story
	console strings.Builder // what the sweepers wrote
	domain  *sentEvents
}

// lent gives a world to one subtest after the other.
type lent struct{ longLived }

func (l *lent) Errorf(format string, args ...any) { l.TB.Helper(); l.TB.Errorf(format, args...) }

// switchedAPI is the gateways' API of the story that is played.
type switchedAPI struct {
	mu sync.RWMutex
	h  http.Handler
}

func (a *switchedAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.RLock()
	h := a.h
	a.mu.RUnlock()
	h.ServeHTTP(w, r)
}

func (a *switchedAPI) play(h http.Handler) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.h = h
}

// newFaultWorld starts the processes. end stops them.
func newFaultWorld(t *testing.T) (w *faultWorld, end func()) {
	t.Helper()
	l := &lent{longLived{TB: t}}
	w = &faultWorld{lent: l, api: &switchedAPI{}, fixed: map[string]gatewaysim.Credentials{}, quiet: map[program]int{}, died: map[program]int{}}
	first := w.simulate(1)
	for _, source := range first.Sources() {
		w.fixed[source], _ = first.Credentials(source)
	}
	w.stack = newStackOn(l, w.api, first.Settings, postgrestest.New(l), postgrestest.URL(l))
	maps.Copy(w.env, shortTimes)
	w.migrate()
	w.up(1, 1)
	w.domain = newSentEvents(l, w.env["NATS_URL"])
	for role, p := range w.roles() {
		w.quiet[role] = settledCount(p)
	}
	return w, l.end
}

func (w *faultWorld) roles() map[program]*process {
	return map[program]*process{atIngest: w.ingests[0], atProcessor: w.processors[0]}
}

// simulate makes a story of ten payments at four gateways: one that states
// money, one whose events have no content to believe, one with notification
// codes, and one that interrupts its queue.
func (w *faultWorld) simulate(seed uint64) *gatewaysim.Sim {
	sim, err := gatewaysim.New(gatewaysim.Config{
		Seed: seed, Payments: 10, Beneficiaries: 3, Gateways: []string{"stripe", "asaas", "pagbank", "mercadopago"}, Credentials: w.fixed,
		Shares: gatewaysim.Shares{Duplicates: 0.6, Concurrent: 0.5, WrongSignatures: 0.08, Malformed: 0.05, Tests: 0.05},
		API:    gatewaysim.API{Stale: 0.3, StaleFor: 200 * time.Millisecond, ServerErrors: 0.02},
	})
	if err != nil {
		w.lent.TB.Fatal(err)
	}
	return sim
}

// story is the simulation for one fault, and another one for each round.
func (w *faultWorld) story(name string, wants func(*gatewaysim.Sim) bool, round int) *gatewaysim.Sim {
	h := fnv.New64a()
	fmt.Fprint(h, name, round)
	for seed := h.Sum64() >> 1; ; seed++ {
		if sim := w.simulate(seed); wants == nil || wants(sim) {
			return sim
		}
	}
}

// arm replaces what is armed in a process.
func (w *faultWorld) arm(role program, specs ...string) {
	w.t.Helper()
	p := w.roles()[role]
	req, err := http.NewRequest(http.MethodPut, "http://"+p.admin+"/failpoints", strings.NewReader(strings.Join(specs, ";")))
	if err != nil {
		w.t.Fatal(err)
	}
	if r := doRequest(req); r.err != nil && !p.ended() || r.err == nil && r.status != http.StatusOK {
		w.t.Fatalf("arm %s with %v: %d %s %v", role, specs, r.status, r.body, r.err)
	}
}

// fired counts how often a process said that it did something at a point, over
// all its lives.
func (w *faultWorld) fired(f fault) int {
	line := fmt.Sprintf("failpoint: %s %s\n", f.point, f.action)
	n := strings.Count(w.console.String(), line)
	for _, p := range w.roles() {
		n += strings.Count(p.output(), line)
	}
	return n
}

// restart starts again what has died.
func (w *faultWorld) restart(env ...string) {
	w.t.Helper()
	if w.ingests[0].ended() {
		w.died[atIngest]++
		w.ingests[0] = start(w.lent, w.logs, "ingest-1", "ingest", w.of("ingest", append(env, "INGEST_ADDR="+w.addrs[0])...))
		w.upOrDead(w.ingests[0])
	}
	if w.processors[0].ended() {
		w.died[atProcessor]++
		w.processors[0] = start(w.lent, w.logs, "processor-1", "processor", w.of("processor", env...))
		w.upOrDead(w.processors[0])
	}
}

// upOrDead waits until a process is ready, or has died of what is armed in it.
func (w *faultWorld) upOrDead(p *process) {
	w.t.Helper()
	eventually(w.t, 20*time.Second, p.name+" is ready", func() bool {
		status, _ := p.page("/readyz")
		return status == http.StatusOK || p.ended()
	})
	if p.ended() && p.cmd.ProcessState.ExitCode() >= 0 {
		w.t.Fatalf("%s ended with code %d:\n%s", p.name, p.cmd.ProcessState.ExitCode(), tail(p.output(), 3000))
	}
}

// sweepWith makes one pass of a sweeper of its own, with something armed in
// it. It says how the process ended.
func (w *faultWorld) sweepWith(spec string, args ...string) (code int, errs string) {
	w.t.Helper()
	_, errs, code = run(w.lent, "sweeper", w.of("sweeper", "FAILPOINTS="+spec, "DATABASE_STATEMENT_TIMEOUT=4s"), append([]string{"run"}, args...)...)
	w.console.WriteString(errs)
	w.sweeps++
	return code, errs
}

// hurry lets time pass for what waits in the database for its time.
func (w *faultWorld) hurry() {
	w.t.Helper()
	if _, err := w.db.Pool.Exec(w.t.Context(), `
UPDATE event_work w SET next_at = now()
FROM (SELECT event_id FROM event_work WHERE next_at > now() AND (state = 'parked' OR attempts > 0 OR turn > 1) ORDER BY event_id FOR UPDATE SKIP LOCKED) waits
WHERE w.event_id = waits.event_id`); err != nil {
		w.t.Fatal(err)
	}
}

// resend sends again what died, as somebody does in the gateway's panel. It
// returns how many events were asked for.
func (w *faultWorld) resend(sim *gatewaysim.Sim) (n int) {
	w.t.Helper()
	type dead struct {
		Sum      []byte
		Provider string
	}
	for _, d := range queryAll[dead](w.t, w.db, `
SELECT e.body_sha256, e.provider FROM webhook_events v JOIN events e ON e.id = v.id WHERE v.status = 'dead'`) {
		sum := hex.EncodeToString(d.Sum)
		delivery := w.deliveryOf(sim, d.Provider, sum)
		if delivery == nil {
			w.t.Fatalf("a dead event of %s was sent by nobody: its body has the hash %s", d.Provider, sum)
		}
		sent := delivery.Request(time.Now(), 0)
		req, err := http.NewRequest(http.MethodPost, w.url()+sent.Target(delivery.Path), strings.NewReader(string(sent.Body)))
		if err != nil {
			w.t.Fatal(err)
		}
		req.Header = sent.Header
		doRequest(req) // an answer that is no success is asked for again by the caller
		n++
	}
	return n
}

func (w *faultWorld) deliveryOf(sim *gatewaysim.Sim, gateway, sum string) *gatewaysim.Delivery {
	all := sim.Deliveries()
	for i := range all {
		d := &all[i]
		if d.Gateway != gateway || !d.Authentic() {
			continue
		}
		for try := range 3 {
			sent := d.Request(time.Now(), try)
			body := sent.Body
			if sent.Part != nil {
				body = sent.Part
			}
			if fmt.Sprintf("%x", sha256.Sum256(body)) == sum {
				return d
			}
		}
	}
	return nil
}

// forgetStreams deletes both streams with all messages: the worst a broker
// can do.
func (w *faultWorld) forgetStreams() {
	w.t.Helper()
	conn := queuetest.Connect(w.lent, queue.Config{URL: w.env["NATS_URL"]})
	if err := conn.Remove(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	conn.Close()
}

// age makes everything older than KEY_RETENTION, with its bodies.
func (w *faultWorld) age() {
	w.t.Helper()
	for _, sql := range []string{
		`SELECT ensure_body_partitions((now() AT TIME ZONE 'UTC')::date - 500, 1)`,
		`UPDATE events SET received_at = received_at - interval '500 days'`,
		`UPDATE event_bodies SET received_on = received_on - 500`,
	} {
		if _, err := w.db.Pool.Exec(w.t.Context(), sql); err != nil {
			w.t.Fatalf("%v in %s", err, sql)
		}
	}
}

// unfinished is what is not final, and how much of it waits for a sweep.
type unfinished struct{ events, idle, unsent, dead int }

func (w *faultWorld) unfinished() (u unfinished) {
	w.t.Helper()
	if err := w.db.Pool.QueryRow(w.t.Context(), `
SELECT count(*), count(*) FILTER (WHERE w.state = 'pending' AND e.received_at < now() - interval '700 milliseconds'),
       (SELECT count(*) FROM outbox WHERE relayed_at IS NULL),
       (SELECT count(*) FROM webhook_events WHERE status = $1)
FROM event_work w JOIN events e ON e.id = w.event_id`, event.StatusDead).Scan(&u.events, &u.idle, &u.unsent, &u.dead); err != nil {
		w.t.Fatal(err)
	}
	return u
}

// settledCount is how many goroutines of ours a process has, once that does
// not change any more.
func settledCount(p *process) int {
	last := -1
	for range 50 {
		n := ourGoroutines(p)
		if n == last {
			return n
		}
		last = n
		time.Sleep(40 * time.Millisecond)
	}
	return last
}

// ourGoroutines counts those that are in our code, or were started by it.
func ourGoroutines(p *process) (n int) {
	_, page := p.page("/debug/pprof/goroutine?debug=1")
	for block := range strings.SplitSeq(page, "\n\n") {
		var count int
		head, _, _ := strings.Cut(strings.TrimSpace(block), " @")
		if _, err := fmt.Sscan(head[strings.LastIndexByte(head, '\n')+1:], &count); err == nil && strings.Contains(block, "umavez/umavez/pkg/") &&
			!strings.Contains(block, "pprof.Index") {
			n += count
		}
	}
	return n
}

// wantNoLeak checks the processes that survived: no goroutine and no
// connection of the story is left.
func (w *faultWorld) wantNoLeak() {
	w.t.Helper()
	for role, p := range w.roles() {
		var goroutines int
		var conns float64
		deadline := time.Now().Add(4 * time.Second)
		for {
			goroutines, conns = ourGoroutines(p), p.metric("umavez_db_connections_used")
			if goroutines <= w.quiet[role] && conns == 0 {
				break
			}
			if time.Now().After(deadline) {
				_, stacks := p.page("/debug/pprof/goroutine?debug=1")
				w.t.Errorf("%s: %d goroutines of ours, %d at rest before; %v connections in use\n%s", role, goroutines, w.quiet[role], conns, stacks)
				break
			}
			time.Sleep(30 * time.Millisecond)
		}
	}
}
