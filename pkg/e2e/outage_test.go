package e2e

import (
	"bytes"

	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/postgres/postgrestest"
	"github.com/umavez/umavez/pkg/queue/queuetest"
)

// handStack is a stack whose gateways are in this test's hands.
func handStack(t *testing.T) (*stack, *testWorld) {
	t.Helper()
	w := &testWorld{world: &world{db: postgrestest.New(t), api: newFakeAPI(t), log: &logBuffer{}}, t: t}
	s := newStackOn(t, w.api, func(base string) map[string]string { w.api.url = base; return worldSettings(base) }, w.db, postgrestest.URL(t))
	return s, w
}

func TestCase_B11_ADuplicateAfterEverythingWasLostAndStartedAgain(t *testing.T) {
	s, w := handStack(t)
	s.up(2, 1)
	w.addrs = s.addrs
	bodies, sales := map[*gateway][]byte{}, map[*gateway]sale{}
	for _, g := range gateways {
		sales[g] = newSale(g).paid()
		w.api.tells(g, sales[g])
		bodies[g] = g.body(newHook("paid", "evt_"+sales[g].id, sales[g]))
		w.take(g, bodies[g])
	}
	for _, g := range gateways {
		w.wantCredited(g, sales[g])
	}
	s.settle(10 * time.Second)
	for _, p := range s.all() {
		p.kill()
	}
	// Another broker, empty: beyond any window of duplicates.
	s.broker.Kill()
	s.broker = queuetest.NewProcess(t)
	s.env["NATS_URL"] = s.broker.URL()
	s.migrate()
	s.ingests, s.processors, s.addrs = nil, nil, nil
	s.up(2, 1)
	w.addrs = s.addrs
	for _, g := range gateways {
		w.take(g, bodies[g])
		w.take(g, g.body(newHook("again", "evt_again"+sales[g].id, sales[g])))
	}
	for _, g := range gateways {
		w.wantCredited(g, sales[g])
		e := w.about(g, sales[g].id)
		if g.alike || g.reopen {
			// One state is one event there, or a repeat is processed again.
			if len(e) == 0 || e[0].Deliveries < 2 || e[0].Status != "processed" {
				t.Errorf("%s: %v", g, e)
			}
			continue
		}
		if len(e) != 2 || e[0].Deliveries != 2 || e[0].Outcome != "applied" || e[1].Outcome != "repeated" {
			t.Errorf("%s: %v", g, e)
		}
	}
	s.settle(10 * time.Second)
	verify(t, s.db)
}

// Success is a promise that only the database can keep. A forger is told so
// without it.
func TestCase_G13_WithoutPostgreSQLEveryGatewayIsAskedToComeAgain(t *testing.T) {
	cluster, db := postgrestest.ClusterDB(t)
	w := &testWorld{world: &world{db: db, api: newFakeAPI(t), log: &logBuffer{}}, t: t}
	s := newStackOn(t, w.api, worldSettings, db, cluster.URL(""))
	s.up(2, 1)
	w.addrs = s.addrs
	taken, sales := map[*gateway][]byte{}, map[*gateway]sale{}
	for _, g := range gateways {
		sales[g] = newSale(g).paid()
		w.api.tells(g, sales[g])
		taken[g] = g.body(newHook("paid", "evt_"+sales[g].id, sales[g]))
		w.take(g, taken[g])
	}
	if err := cluster.Kill(); err != nil {
		t.Fatal(err)
	}
	later := reply{status: http.StatusServiceUnavailable, body: "try again later\n", kind: "text/plain; charset=utf-8"}
	for _, g := range gateways {
		fresh := newSale(g).paid()
		for what, body := range map[string][]byte{
			"a duplicate": taken[g], "a new event": g.body(newHook("paid", "evt_"+fresh.id, fresh)), "what nobody can read": []byte("<xml/>" + fresh.id),
		} {
			if r := w.send(g, body); r != later {
				t.Errorf("%s, %s: %+v, want %+v", g, what, r, later)
			}
		}
		if r := w.post(g.oddly("e2e-forged-0123456789-0123456789-0123456789", taken[g])); r.status != g.refused {
			t.Errorf("%s, a forged one: %d %q, want %d", g, r.status, r.body, g.refused)
		}
	}
	if err := cluster.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	repaired := time.Now()
	for _, g := range gateways {
		eventually(t, 5*time.Second-time.Since(repaired), g.String()+" is answered with success again", func() bool { return w.send(g, taken[g]).status == 200 })
	}
	for _, g := range gateways {
		w.wantCredited(g, sales[g])
	}
	s.settle(10 * time.Second)
	verify(t, db)
}

func TestCase_D12_FifteenFailuresThenRecoveryLoseNothing(t *testing.T) {
	cluster, db := postgrestest.ClusterDB(t)
	w := &testWorld{world: &world{db: db, api: newFakeAPI(t), log: &logBuffer{}}, t: t}
	s := newStackOn(t, w.api, worldSettings, db, cluster.URL(""))
	s.up(2, 1)
	w.addrs = s.addrs
	if err := cluster.Kill(); err != nil {
		t.Fatal(err)
	}
	first := map[*gateway]sale{}
	for _, g := range gateways {
		first[g] = newSale(g).paid()
		body := g.body(newHook("paid", "evt_"+first[g].id, first[g]))
		for try := range 15 {
			begun := time.Now()
			r := w.send(g, body)
			if r.err != nil || r.status != http.StatusServiceUnavailable || time.Since(begun) > 6*time.Second {
				t.Errorf("%s, try %d: %d %q %v after %s", g, try, r.status, r.body, r.err, time.Since(begun))
			}
		}
	}
	for _, p := range s.ingests {
		if status, _ := p.page("/readyz"); status != http.StatusServiceUnavailable {
			t.Errorf("%s is ready without its database", p.name)
		}
		if status, _ := p.page("/healthz"); status != http.StatusOK {
			t.Errorf("%s is not alive without its database", p.name)
		}
	}
	if err := cluster.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The gateway sends the one that failed, then all that it has kept.
	for _, g := range gateways {
		w.api.tells(g, first[g])
		body := g.body(newHook("paid", "evt_"+first[g].id, first[g]))
		eventually(t, 5*time.Second, g.String()+" is answered with success again", func() bool { return w.send(g, body).status == 200 })
	}
	var backlog []sale
	for i := range 200 {
		g := gateways[i%len(gateways)]
		old := newSale(g).paid()
		w.api.tells(g, old)
		h := newHook("paid", "evt_a&b="+old.id, old)
		h.at = h.at.Add(-13 * 24 * time.Hour)
		w.take(g, g.body(h))
		backlog = append(backlog, old)
	}
	s.settle(30 * time.Second)
	for g, f := range first {
		w.wantCredited(g, f)
	}
	for i, old := range backlog {
		w.wantLedger(gateways[i%len(gateways)], old.id, old.credited())
	}
	verify(t, db)
}

// canaries are what must never leave the database: personal data and secrets.
var canaries = []string{"Canária Segredo", "canaria@segredo.example", "123.456.789-09", "12345678909", "4111111111111111"}

func TestNoLogMetricSubjectOrErrorShowsSecretsOrPersons(t *testing.T) {
	s, w := handStack(t)
	s.env["LOG_LEVEL"] = "debug"
	s.up(2, 2)
	w.addrs = s.addrs
	note := `"` + strings.Join(canaries, " ") + `"`
	secrets := []string{"e2e-canary-forged-token-000000000000"}
	for _, g := range gateways {
		for _, a := range g.accounts {
			secrets = append(secrets, apiKeyOf(g, a))
			if !g.published {
				secrets = append(secrets, secretsOf(g, a)...)
			}
		}
	}
	settled := map[*gateway][]sale{}
	for _, g := range gateways {
		paid, refunded, unknown := newSale(g).paid(), newSale(g).refundedAll(), newSale(g).paid()
		w.api.tells(g, paid)
		w.api.tells(g, refunded)
		settled[g] = append(settled[g], paid)
		if !g.bare && !g.batch { // there a refund waits for its capture, or for a refund of that name
			settled[g] = append(settled[g], refunded)
		}
		for _, sl := range []sale{paid, refunded, unknown} {
			h := newHook(sl.status, "evt_"+sl.id, sl)
			h.note = note
			body := g.body(h)
			w.take(g, body)
			w.take(g, body)
			w.take(g, body[:len(body)-2])                                                               // unreadable
			w.take(g, bytes.Replace(body, []byte(note), []byte(`{"x":`+note+`,"x":1}`), 1))             // a name twice
			w.take(g, bytes.Replace(body, []byte(`"id":"`), []byte(`"id":"`+canaries[1]), 1))           // where an id should be
			w.take(g, bytes.Replace(body, []byte(`"status":"`), []byte(`"status":`+note+`,"x":"`), -1)) // and a word
			forged := g.oddly("e2e-canary-forged-token-000000000000", body)
			if r := w.post(forged); r.status != g.refused || leaks(r.body, secrets) != "" {
				t.Errorf("forged: %d %q", r.status, r.body)
			}
			forged.target = "/webhooks/" + canaries[3] + "/" + canaries[4]
			if r := w.post(forged); r.status != 404 {
				t.Errorf("no source: %d %q", r.status, r.body)
			}
		}
	}
	for g, all := range settled {
		for _, sl := range all {
			w.final(g, sl.id)
		}
	}
	var looked int
	check := func(where, text string) {
		looked++
		if what := leaks(text, secrets); what != "" {
			at := strings.Index(text, what)
			t.Errorf("%s shows %q: %.300s", where, what, text[max(0, at-150):])
		}
	}
	for _, p := range s.all() {
		_, page := p.page("/metrics")
		if page == "" {
			t.Errorf("%s has no metrics", p.name)
		}
		check("the metrics page of "+p.name, page)
		check("the readiness page of "+p.name, func() string { _, b := p.page("/readyz"); return b }())
	}
	check("the sweeper's output", func() string {
		out, errs, _ := run(t, "sweeper", s.of("sweeper"), "run", "-v", "-o", "json", "--older-than", "1s")
		return out + errs
	}())
	time.Sleep(1100 * time.Millisecond) // the list of refused requests is written once a second
	for _, sql := range []string{
		`SELECT COALESCE(string_agg(concat_ws(' ', provider, account, reason, detail), ' '), '') FROM rejected_deliveries`,
		`SELECT COALESCE(string_agg(concat_ws(' ', reason, last_error, waiting_for), ' '), '') FROM event_work WHERE waiting_for IS NULL OR waiting_for NOT LIKE '%@%'`,
		`SELECT COALESCE(string_agg(concat_ws(' ', status, outcome, reason), ' '), '') FROM event_results`,
		`SELECT COALESCE(string_agg(concat_ws(' ', subject, payload::text), ' '), '') FROM outbox WHERE payload::text NOT LIKE '%@%'`,
		`SELECT COALESCE(string_agg(subject, ' '), '') FROM outbox`,
		`SELECT COALESCE(string_agg(concat_ws(' ', reason, from_status, to_status), ' '), '') FROM payment_transitions`,
	} {
		check(sql, queryOne[string](t, s.db, sql))
	}
	for _, p := range s.all() {
		p.stop(os.Interrupt)
	}
	files, err := filepath.Glob(filepath.Join(s.logs, "*.log"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%d logs %v", len(files), err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil || len(text) < 200 {
			t.Fatalf("%s: %d bytes, %v: nothing to look at", f, len(text), err)
		}
		check("the log "+filepath.Base(f), string(text))
	}
	if looked < 15 {
		t.Errorf("only %d places were looked at", looked)
	}
}

// leaks returns the first secret or personal text that a text shows.
func leaks(text string, secrets []string) string {
	for _, c := range append(append([]string{}, canaries...), secrets...) {
		if strings.Contains(text, c) {
			return c
		}
	}
	return ""
}
