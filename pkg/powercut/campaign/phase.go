package campaign

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/process"
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
