package campaign

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/process"
	"github.com/umavez/umavez/pkg/sweep"
	"github.com/umavez/umavez/pkg/truth"
)

// phase is one load: umavez in processes of its own on an empty schema and an
// empty broker, under the whole storm of one simulation.
type phase struct {
	c      *campaign
	name   string
	sim    *gatewaysim.Sim
	heard  *record
	url    string // of the database, with the schema
	env    map[string]string
	logs   string
	broker *process.Process
	store  string // directory of the broker
	port   int    // of the broker
	sync   string // of the broker

	api       *http.Server
	ingestURL string
	admin     string
	roles     []*role
	rescued   int

	storm  gatewaysim.Report
	failed error
	over   chan struct{} // closed when the storm has ended
	stop   context.CancelFunc
}

// role is one process of umavez.
type role struct {
	name string
	env  []string
	args []string
	p    *process.Process
}

// newPhase starts everything and the storm. database is the address of a
// database without the schema.
func (c *campaign) newPhase(ctx context.Context, database, store, sync string) (p *phase, err error) {
	c.r.Phases++
	p = &phase{c: c, name: fmt.Sprintf("phase_%d", c.r.Phases), heard: newRecord(), store: store, sync: sync, over: make(chan struct{})}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	p.logs = filepath.Join(c.Dir, "logs", p.name)
	if err := os.MkdirAll(p.logs, 0o755); err != nil {
		return p, err
	}
	p.sim, err = gatewaysim.New(gatewaysim.Config{
		Seed: c.Seed + uint64(c.r.Phases), Payments: c.Payments, Gateways: gatewaysim.AllSources(), Beneficiaries: 10,
		Shares: gatewaysim.Shares{Duplicates: 0.3, Concurrent: 0.5, Malformed: 0.01, Tests: 0.01},
		API:    gatewaysim.API{Latency: time.Millisecond, Jitter: 2 * time.Millisecond},
	})
	if err != nil {
		return p, err
	}
	if p.port, err = freePort(); err != nil {
		return p, err
	}
	if err := p.startBroker(ctx); err != nil {
		return p, err
	}
	if err := p.settings(ctx, database); err != nil {
		return p, err
	}
	if out, err := p.command(ctx, "umavez", "migrate").CombinedOutput(); err != nil {
		return p, fmt.Errorf("umavez migrate: %w: %s", err, out)
	}
	if err := p.startRoles(ctx); err != nil {
		return p, err
	}
	stormCtx, stop := context.WithCancel(ctx)
	p.stop = stop
	go p.send(stormCtx)
	return p, nil
}

// settings makes the schema and the environment of all processes.
func (p *phase) settings(ctx context.Context, database string) error {
	db, err := open(ctx, database)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Pool.Exec(ctx, "CREATE SCHEMA "+p.name); err != nil {
		return err
	}
	u, err := url.Parse(database)
	if err != nil {
		return err
	}
	q := u.Query()
	q.Set("search_path", p.name)
	u.RawQuery = q.Encode()
	p.url = u.String()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p.api = &http.Server{Handler: p.sim.APIHandler(), ReadHeaderTimeout: 10 * time.Second}
	go p.api.Serve(l) //nolint:errcheck // it ends with Close
	p.env = p.sim.Settings("http://" + l.Addr().String())
	for name, value := range map[string]string{
		"DATABASE_URL": p.url, "NATS_URL": fmt.Sprintf("nats://127.0.0.1:%d", p.port), "LOG_LEVEL": "info",
		// What a killed process held comes back after seconds.
		"NATS_ACK_WAIT": "4s", "LOOKUP_TIMEOUT": "1500ms", "PROCESSOR_TX_TIMEOUT": "2s", "PROCESSOR_WORKERS": "1",
		"SWEEP_EVERY": "1s", "RECONCILE_AFTER": "0s", "PROCESSOR_RELAY_EVERY": "200ms", "PROCESSOR_DUE_EVERY": "200ms",
	} {
		p.env[name] = value
	}
	return nil
}

// environment is what a process of umavez gets over our own.
func (p *phase) environment(more ...string) (all []string) {
	for name, value := range p.env {
		all = append(all, name+"="+value)
	}
	return append(all, more...)
}

func (p *phase) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(p.c.Bin, program), args...)
	cmd.Env = append(os.Environ(), p.environment()...)
	return cmd
}

// startBroker starts the broker on its store. It tells with its error whether
// the broker refused.
func (p *phase) startBroker(ctx context.Context) (err error) {
	args := []string{"broker", "--dir", p.store, "--port", fmt.Sprint(p.port)}
	if p.sync != "" {
		args = append(args, "--sync", p.sync)
	}
	p.broker, err = process.Start(process.Spec{Name: "broker", Program: filepath.Join(p.c.Bin, "umavez"), Args: args, LogDir: p.logs})
	if err != nil {
		return err
	}
	return process.Await(ctx, 20*time.Second, "the broker", func() error { return dial(p.port) }, p.broker)
}

func (p *phase) startRoles(ctx context.Context) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	admin, err := freePort()
	if err != nil {
		return err
	}
	p.ingestURL, p.admin = fmt.Sprintf("http://127.0.0.1:%d", port), fmt.Sprintf("http://127.0.0.1:%d", admin)
	p.roles = []*role{
		{name: "ingest", args: []string{"role", "ingest"}, env: []string{fmt.Sprintf("INGEST_ADDR=127.0.0.1:%d", port), fmt.Sprintf("ADMIN_ADDR=127.0.0.1:%d", admin)}},
		{name: "processor-1", args: []string{"role", "processor"}, env: []string{"ADMIN_ADDR=off"}},
		{name: "processor-2", args: []string{"role", "processor"}, env: []string{"ADMIN_ADDR=off"}},
		{name: "sweeper", args: []string{"role", "sweeper"}, env: []string{"ADMIN_ADDR=off"}},
	}
	for _, r := range p.roles {
		if err := p.start(r); err != nil {
			return err
		}
	}
	return process.Await(ctx, 20*time.Second, "ingest", func() error { return dial(port) }, p.roles[0].p)
}

func (p *phase) start(r *role) (err error) {
	r.p, err = process.Start(process.Spec{Name: r.name, Program: filepath.Join(p.c.Bin, "umavez"), Args: r.args, Env: p.environment(r.env...), LogDir: p.logs})
	return err
}

// killRoles ends every process of umavez without notice.
func (p *phase) killRoles() {
	p.c.r.Kills++
	for _, r := range p.roles {
		r.p.Kill()
	}
}

// restartRoles starts again what was killed, and what ended by itself, as an
// orchestrator does.
func (p *phase) restartRoles() error {
	for _, r := range p.roles {
		if r.p.Ended() {
			if err := p.start(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// send runs the storm. An event is tried until it is taken.
func (p *phase) send(ctx context.Context) {
	defer close(p.over)
	p.storm, p.failed = p.sim.Run(ctx, gatewaysim.RunConfig{
		BaseURL:     func(string, string) string { return p.ingestURL },
		Concurrency: 16, Rate: p.c.Rate, Timeout: 6 * time.Second, RetryFor: 10 * time.Minute,
		OnSend: p.heard.sends, OnAnswer: p.heard.hears,
	})
}

// running says whether the storm goes on.
func (p *phase) running() bool {
	select {
	case <-p.over:
		return false
	default:
		return true
	}
}

// load waits until some webhooks were answered with success since the last
// cut, and a moment of chance more. It is false when the storm has ended.
func (p *phase) load(ctx context.Context, since int, most time.Duration) bool {
	until := time.Now().Add(3 * time.Second)
	for p.running() && p.heard.ok() < since+10 && time.Now().Before(until) {
		if !pause(ctx, 5*time.Millisecond) {
			return false
		}
	}
	return pause(ctx, time.Duration(p.c.rng.Int64N(int64(most)))) && p.running()
}

func open(ctx context.Context, url string) (*postgres.DB, error) {
	var cfg postgres.Config
	cfg.DatabaseURL, cfg.MaxConns = url, 2
	return postgres.Open(ctx, cfg)
}

// settle waits until the storm is over and nothing is unfinished, sweeping what
// the broker lost, and compares everything with the truth.
func (p *phase) settle(ctx context.Context, db *postgres.DB) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	select {
	case <-p.over:
	case <-ctx.Done():
		return fmt.Errorf("%s: the storm did not end", p.name)
	}
	if p.failed != nil {
		return fmt.Errorf("%s: storm: %w", p.name, p.failed)
	}
	if err := p.drain(ctx, db); err != nil {
		return err
	}
	compared, err := truth.Compare(ctx, db, p.sim, p.storm)
	if err != nil {
		return err
	}
	for _, difference := range compared.Differences {
		p.c.r.fault("%s: at the end: %s", p.name, difference)
	}
	if compared.Mismatches > 0 {
		if err := truth.Dump(ctx, db, p.logs); err != nil {
			return err
		}
	}
	if p.storm.GivenUp > 0 {
		p.c.r.fault("%s: %d authentic webhooks were never answered with success", p.name, p.storm.GivenUp)
	}
	if err := p.count(ctx, db); err != nil {
		return err
	}
	r := p.c.r
	r.Payments += compared.Payments
	r.Acknowledged += len(p.heard.promises())
	r.Attempts.OK += p.heard.attempts.OK
	r.Attempts.Failed += p.heard.attempts.Failed
	r.Attempts.Unknown += p.heard.attempts.Unknown
	r.Rescued += p.rescued + p.sweptByLoop()
	// The bytes once more, now by the sender's own record, and every invariant.
	if err := p.c.judgePromises(ctx, db, p.heard.promises(), p.name+" at the end"); err != nil {
		return err
	}
	return p.c.verify(ctx, db, time.Minute, p.name+" at the end")
}

// forget drops what a load has left, unless somebody will want to look at it.
func (c *campaign) forget(ctx context.Context, db *postgres.DB, p *phase) error {
	if c.r.Faulty > 0 {
		return nil
	}
	_, err := db.Pool.Exec(ctx, "DROP SCHEMA "+p.name+" CASCADE")
	return err
}

// count adds what a settled database holds to the result.
func (p *phase) count(ctx context.Context, db *postgres.DB) error {
	var entries, transitions, dead int
	err := db.Pool.QueryRow(ctx, `
SELECT (SELECT count(*) FROM ledger_entries), (SELECT count(*) FROM payment_transitions), (SELECT count(*) FROM event_results WHERE status = 'dead')`).
		Scan(&entries, &transitions, &dead)
	p.c.r.Entries += entries
	p.c.r.Transitions += transitions
	if dead > 0 {
		p.c.r.fault("%s: %d events are dead", p.name, dead)
	}
	return err
}

// drain sweeps, as on-call does after an incident, until nothing is unfinished
// and all domain events are relayed.
func (p *phase) drain(ctx context.Context, db *postgres.DB) error {
	var swept time.Time
	last := "nobody knows what was unfinished"
	for {
		var unfinished, idle, unsent int
		var reasons string
		err := db.Pool.QueryRow(ctx, `
SELECT count(*), count(*) FILTER (WHERE w.state = 'pending' AND e.received_at < now() - interval '3 seconds'),
       (SELECT count(*) FROM outbox WHERE relayed_at IS NULL), COALESCE(string_agg(DISTINCT w.state || ' ' || COALESCE(w.reason, w.last_error, ''), ', '), '')
FROM event_work w JOIN events e ON e.id = w.event_id`).Scan(&unfinished, &idle, &unsent, &reasons)
		switch {
		case err == nil && unfinished == 0 && unsent == 0:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%s: not final in time: %s", p.name, last)
		case err != nil:
			return err
		case idle > 0 && time.Since(swept) > 2*time.Second:
			swept = time.Now()
			if err := p.sweep(ctx); err != nil {
				return err
			}
		}
		last = fmt.Sprintf("%d events unfinished (%s), %d domain events unsent", unfinished, reasons, unsent)
		pause(ctx, 100*time.Millisecond)
	}
}

func (p *phase) sweep(ctx context.Context) error {
	cmd := p.command(ctx, "sweeper", "run", "-o", "json", "--older-than", "3s")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	var sum sweep.Summary
	if jsonErr := json.Unmarshal(out, &sum); jsonErr == nil {
		p.rescued += sum.Lost
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil // the queue was away; the next one tries again
	}
	if err != nil {
		return fmt.Errorf("sweeper run: %w: %s", err, said.String())
	}
	return nil
}

// sweptByLoop is how many lost events the sweeper's loop put back, by its log.
func (p *phase) sweptByLoop() int { return p.logged("sweeper", "sweep.finished") }

// toldAgain is how many domain events the processors relayed again for a broker
// that had been started, by their logs.
func (p *phase) toldAgain() int {
	return p.logged("processor-1", "outbox.broker_met") + p.logged("processor-2", "outbox.broker_met")
}

// logged sums what the lines of one kind count in a role's log.
func (p *phase) logged(role, event string) (sum int) {
	text, _ := os.ReadFile(filepath.Join(p.logs, role+".log"))
	for line := range bytes.Lines(text) {
		var one struct {
			Event string `json:"event"`
			Lost  int    `json:"lost"`
			Again int    `json:"relayed_again"`
		}
		if json.Unmarshal(line, &one) == nil && one.Event == event {
			sum += one.Lost + one.Again
		}
	}
	return sum
}

// close ends everything that the phase runs.
func (p *phase) close() {
	if p.stop != nil {
		p.stop()
		<-p.over
	}
	var ending sync.WaitGroup
	for _, r := range p.roles {
		if r.p != nil {
			ending.Go(func() { r.p.Stop(15 * time.Second) })
		}
	}
	ending.Wait()
	p.broker.Kill()
	if p.api != nil {
		_ = p.api.Close()
	}
}

func medianAndMax(all []time.Duration) (median, most float64) {
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return ms(all[len(all)/2]), ms(all[len(all)-1])
}

func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close() //nolint:errcheck // only the number is wanted
	return l.Addr().(*net.TCPAddr).Port, nil
}

// dial says whether somebody listens.
func dial(port int) error {
	c, err := net.DialTimeout("tcp4", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

// pause waits, and says whether there is still time.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
