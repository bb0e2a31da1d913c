package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/app"
	"github.com/umavez/umavez/pkg/daemon"
	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/process"
	"github.com/umavez/umavez/pkg/sweep"
	"github.com/umavez/umavez/pkg/sweeper"
	"github.com/umavez/umavez/pkg/truth"
)

// schemaName keeps the demo apart from everything else in the database, when
// one was given. It is emptied at the start of each demo.
const schemaName = "umavez_demo"

// ackWait is the demo's NATS_ACK_WAIT.
const ackWait = 12 * time.Second

// world is all that the demo runs.
type world struct {
	dir, logs  string
	nats       string // the address that NATS_URL or --nats gave
	local      *app.Local
	api        *http.Server
	db         *postgres.DB
	ingestURL  string
	broker     *process.Process // nil: one was given, it is not ours to kill
	brokerArgs []string
	ours       bool // the streams of the given broker were made by us
	ingest     *process.Process
	processors []*process.Process
	sweeper    *app.Sweeper
	sources    []string // "stripe/default", as reconciliation names them

	waiting func(unfinished, unsent int) // told while all is not final yet

	mu     sync.Mutex
	kills  []string
	sweeps int
}

func startWorld(ctx context.Context, cfg Config, sim *gatewaysim.Sim) (w *world, err error) {
	w = &world{dir: cfg.Dir, logs: filepath.Join(cfg.Dir, "demo-logs"), nats: cfg.NATS, waiting: func(int, int) {}}
	if err := os.RemoveAll(w.logs); err != nil {
		return w, err
	}
	if err := os.MkdirAll(w.logs, 0o755); err != nil {
		return w, err
	}
	// The broker first: what is wrong with a given one harms nothing then.
	if err := w.startBroker(ctx); err != nil {
		return w, err
	}
	if w.local, err = app.StartLocalPostgres(ctx, cfg.Dir); err != nil {
		return w, err
	}
	if err := ownSchema(ctx); err != nil {
		return w, err
	}
	var apiURL string
	if w.api, apiURL, err = serveAPI(sim.APIHandler()); err != nil {
		return w, err
	}
	for _, source := range sim.Sources() {
		if !strings.Contains(source, "/") {
			source += "/default"
		}
		w.sources = append(w.sources, source)
	}
	for name, value := range sim.Settings(apiURL) {
		os.Setenv(name, value) //nolint:errcheck // the names are valid
	}
	// Just above a lookup and a transaction: what a killed processor had in
	// hand comes back sooner than by the default, and the demo ends sooner.
	os.Setenv("NATS_ACK_WAIT", ackWait.String()) //nolint:errcheck // the name is valid
	if err := migrate(ctx); err != nil {
		return w, err
	}
	var pg postgres.Config
	pg.DatabaseURL, pg.MaxConns = os.Getenv("DATABASE_URL"), 4
	if w.db, err = postgres.Open(ctx, pg); err != nil {
		return w, err
	}
	if err := w.startRoles(ctx); err != nil {
		return w, err
	}
	os.Setenv("RECONCILE_AFTER", "0s") //nolint:errcheck // reconciled on purpose, once, by settle
	w.sweeper, err = app.NewSweeper(ctx, zap.NewNop(), app.NewRegistry(), func(c *sweeper.Config) { c.ReconcileAfter = 0 })
	return w, err
}

// ownSchema points DATABASE_URL at an empty schema of the demo's own.
func ownSchema(ctx context.Context) error {
	u, err := url.Parse(os.Getenv("DATABASE_URL"))
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return &daemon.ConfigError{Err: errors.New("DATABASE_URL is not a PostgreSQL address (postgres://user:password@host:port/database)")}
	}
	db, err := app.OpenDatabase(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+schemaName+" CASCADE; CREATE SCHEMA "+schemaName); err != nil {
		return fmt.Errorf("prepare the schema %s: %w", schemaName, err)
	}
	q := u.Query()
	q.Set("search_path", schemaName)
	u.RawQuery = q.Encode()
	return os.Setenv("DATABASE_URL", u.String())
}

// startBroker starts a broker of the demo's own, unless one was given. That one
// must be free: the names of the streams are fixed, so invented payments would
// reach whoever listens there, and a real umavez' messages would be taken.
func (w *world) startBroker(ctx context.Context) error {
	if w.nats != "" {
		return w.borrowBroker(ctx)
	}
	for _, name := range []string{"NATS_CREDS", "NATS_REPLICAS"} {
		os.Unsetenv(name) //nolint:errcheck // the names are valid
	}
	dir := filepath.Join(w.dir, "demo-nats")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	w.brokerArgs = []string{"broker", "--dir", dir, "--port", fmt.Sprint(port)}
	os.Setenv("NATS_URL", fmt.Sprintf("nats://127.0.0.1:%d", port)) //nolint:errcheck // the name is valid
	if w.broker, err = w.spawn("broker", nil, w.brokerArgs...); err != nil {
		return err
	}
	return process.Await(ctx, 20*time.Second, "the broker", func() error { return dial(fmt.Sprintf("127.0.0.1:%d", port)) }, w.broker)
}

// borrowBroker uses the broker that was given, when nobody else does.
func (w *world) borrowBroker(ctx context.Context) error {
	os.Setenv("NATS_URL", w.nats) //nolint:errcheck // the name is valid
	conn, err := app.OpenQueue(ctx)
	if err != nil {
		return fmt.Errorf("NATS_URL or --nats: %w", err)
	}
	defer conn.Close()
	who, err := conn.Occupied(ctx)
	if err != nil {
		return fmt.Errorf("NATS_URL or --nats: %w", err)
	}
	if who != "" {
		return &daemon.ConfigError{Err: fmt.Errorf("NATS_URL or --nats: this NATS account is in use: %s. The demo would send invented payments there and take messages away; "+
			"use another account, or unset NATS_URL and leave --nats out. If an earlier demo that was killed left them, delete both streams", who)}
	}
	w.ours = true
	return nil
}

// returnBroker takes the demo's streams off the broker that was given.
func (w *world) returnBroker() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := app.OpenQueue(ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.Remove(ctx) // the next demo there says what is left
}

func (w *world) startRoles(ctx context.Context) (err error) {
	port, err := freePort()
	if err != nil {
		return err
	}
	adminPort, err := freePort()
	if err != nil {
		return err
	}
	w.ingestURL = fmt.Sprintf("http://127.0.0.1:%d", port)
	if w.ingest, err = w.spawn("ingest", []string{fmt.Sprintf("INGEST_ADDR=127.0.0.1:%d", port), fmt.Sprintf("ADMIN_ADDR=127.0.0.1:%d", adminPort)}, "role", "ingest"); err != nil {
		return err
	}
	for i := range 2 {
		p, err := w.spawnProcessor(i)
		if err != nil {
			return err
		}
		w.processors = append(w.processors, p)
	}
	return process.Await(ctx, 20*time.Second, "ingest", func() error {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", adminPort))
		if err != nil {
			return err
		}
		resp.Body.Close() //nolint:errcheck // only the status counts
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("not ready: %d", resp.StatusCode)
		}
		return nil
	}, append([]*process.Process{w.ingest}, w.processors...)...)
}

// spawn starts this program again with other arguments.
func (w *world) spawn(name string, env []string, args ...string) (*process.Process, error) {
	return process.Start(process.Spec{Name: name, Args: args, Env: env, LogDir: w.logs})
}

// grace is how long a role may take to stop in order.
const grace = 15 * time.Second

func (w *world) spawnProcessor(i int) (*process.Process, error) {
	return w.spawn(fmt.Sprintf("processor-%d", i+1), []string{"ADMIN_ADDR=off", "PROCESSOR_WORKERS=1", "PARK_LIMIT=1h"}, "role", "processor")
}

// killProcessor ends one processor without notice, and starts it again.
func (w *world) killProcessor(ctx context.Context) (err error) {
	w.processors[0].Kill()
	w.noteKill("processor 1, SIGKILL")
	pause(ctx, time.Second)
	w.processors[0], err = w.spawnProcessor(0)
	return err
}

// killBroker ends the broker without notice, and starts it again on its port.
func (w *world) killBroker(ctx context.Context) (err error) {
	if w.broker == nil {
		w.noteKill("none of the broker: it was given")
		return nil
	}
	w.broker.Kill()
	w.noteKill("broker, SIGKILL")
	pause(ctx, time.Second)
	w.broker, err = w.spawn("broker", nil, w.brokerArgs...)
	return err
}

func (w *world) noteKill(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kills = append(w.kills, what)
}

type settled struct {
	took       time.Duration
	sweeps     int
	reconciled int
}

// settle waits until nothing is unfinished: sweeping what was lost, then
// asking the gateways about every payment once, since some webhooks never came.
func (w *world) settle(ctx context.Context, cfg Config) (s settled, err error) {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, cfg.Settle)
	defer cancel()
	if err := w.drain(ctx, &s); err != nil {
		return s, err
	}
	notices := 0
	after := int64(0)
	r := sweep.Reconcile{Within: 24 * time.Hour, All: true, Sources: w.sources}
	for {
		entered, last, err := w.db.Reconcile(ctx, sweep.Filter{}, r, after, 1000)
		if err != nil {
			return s, err
		}
		if last == 0 {
			break
		}
		after = last
		notices += len(entered)
		w.sweeper.Publish(ctx, entered)
	}
	s.reconciled = notices
	if err := w.drain(ctx, &s); err != nil {
		return s, err
	}
	s.took = time.Since(begin)
	return s, nil
}

// drain sweeps until nothing is unfinished and everything is relayed.
func (w *world) drain(ctx context.Context, s *settled) error {
	const idle = 5 * time.Second
	last, err := truth.Settle(ctx, w.db, truth.Settling{
		Idle: idle, Look: 500 * time.Millisecond,
		Sweep: func(ctx context.Context) error {
			s.sweeps++
			if _, err := w.sweeper.Pass(ctx, sweep.Filter{OlderThan: idle}, false); err != nil && !errors.Is(err, sweeper.ErrQueue) {
				return fmt.Errorf("sweep: %w", err)
			}
			return nil
		},
		Waiting: func(u truth.Unsettled) { w.waiting(u.Events, u.Unsent) },
	})
	if ctx.Err() != nil {
		return fmt.Errorf("not final within --settle: %s; see the logs in %s", last, w.logs)
	}
	return err
}

func (w *world) stop() {
	for _, p := range append(append([]*process.Process{}, w.processors...), w.ingest) {
		p.Stop(grace)
	}
	if w.sweeper != nil {
		w.sweeper.Close()
	}
	if w.ours {
		w.returnBroker()
	}
	if w.db != nil {
		w.db.Close()
	}
	w.broker.Stop(grace)
	if w.api != nil {
		_ = w.api.Close()
	}
	if w.local != nil {
		w.local.Stop()
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close() //nolint:errcheck // only the number is wanted
	return l.Addr().(*net.TCPAddr).Port, nil
}

func dial(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

// pause waits, and says whether there is still time.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
