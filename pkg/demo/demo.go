// Package demo plays a bad day at the gateways against the whole of umavez on
// this machine, and checks what is left of it to the cent.
//
// The roles are separate processes of this same program, so that a kill is a
// kill: in the middle of the storm one processor and the broker are ended with
// SIGKILL and started again. Afterwards everything is compared with the truth
// that the simulator owns, and every invariant is checked on the database.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/schollz/progressbar/v3"
	"go.uber.org/zap"
	"golang.org/x/term"

	"github.com/umavez/umavez/pkg/app"
	"github.com/umavez/umavez/pkg/daemon"
	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/postgres"
)

// Config says how large the storm is.
type Config struct {
	Dir         string // for servers, logs and the JSON report
	NATS        string // a broker to use instead of one of the demo's own
	Seed        uint64
	Payments    int
	Concurrency int
	Rate        float64       // webhooks a second; 0 is as fast as they are taken
	Settle      time.Duration // for everything to become final after the storm
	Output      string        // "table" or "json": what Run writes to out
}

// MaxPayments bounds what the simulator holds in memory.
const MaxPayments = 1_000_000

// Validate names the first flag that cannot be right.
func (c Config) Validate() error {
	switch {
	case c.Dir == "":
		return errors.New("--dir is empty; give a directory")
	case c.Payments < 1 || c.Payments > MaxPayments:
		return fmt.Errorf("--payments is %d; it must be from 1 to %d", c.Payments, MaxPayments)
	case c.Concurrency < 1 || c.Concurrency > 10_000:
		return fmt.Errorf("--concurrency is %d; it must be from 1 to 10000", c.Concurrency)
	case !(c.Rate >= 0) || math.IsInf(c.Rate, 0): // NaN is not above zero either
		return fmt.Errorf("--rate is %v; it must be a number of webhooks a second, or 0", c.Rate)
	case c.Settle <= 0:
		return fmt.Errorf("--settle is %s; it must be above zero", c.Settle)
	}
	return nil
}

// Run plays the demo and writes its report. The error says that something
// differs, or that the demo could not be played; then the report has an error
// and what was known by then.
func Run(ctx context.Context, cfg Config, out io.Writer) error {
	if err := cfg.Validate(); err != nil {
		return &daemon.ConfigError{Err: err}
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return &daemon.ConfigError{Err: fmt.Errorf("--dir: %w", err)}
	}
	// A report of another run must not be taken for this one's.
	path := filepath.Join(cfg.Dir, "demo-report.json")
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &daemon.ConfigError{Err: fmt.Errorf("--dir: %w", err)}
	}
	begin := time.Now()
	r, err := play(ctx, cfg, out)
	r.TotalSeconds = time.Since(begin).Seconds()
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("interrupted (%w)", context.Cause(ctx))
		}
		r.Error = err.Error()
		return errors.Join(err, r.write(path))
	}
	if err := r.write(path); err != nil {
		return err
	}
	if cfg.Output == "json" {
		err = r.print(out)
	} else {
		r.table(out)
		fmt.Fprintf(out, "\nThe same as JSON: %s\n", path)
	}
	if err == nil && !r.OK() {
		err = fmt.Errorf("the result differs from the truth: %d differences, %d violations; see above, and %s", r.Mismatches, r.Violations, path)
	}
	return err
}

// play runs everything and returns what is known, also with an error.
func play(ctx context.Context, cfg Config, out io.Writer) (*Report, error) {
	r := newReport(cfg.Seed)
	say := func(format string, args ...any) {
		if cfg.Output == "table" {
			fmt.Fprintf(out, format+"\n", args...)
		}
	}
	shares := gatewaysim.Shares{Duplicates: 0.30, Concurrent: 0.5, WrongSignatures: 0.03, Malformed: 0.005, Tests: 0.005, Lost: 0.015}
	sim, err := gatewaysim.New(gatewaysim.Config{
		Seed: cfg.Seed, Payments: cfg.Payments, Gateways: gatewaysim.AllSources(), Beneficiaries: 25, Shares: shares,
		API: gatewaysim.API{Latency: time.Millisecond, Jitter: 2 * time.Millisecond, TooMany: 0.0005, ServerErrors: 0.002, Stale: 0.01, StaleFor: 500 * time.Millisecond},
	})
	if err != nil {
		return r, err
	}
	say("umavez demo, seed %d: %s at %s, %s", cfg.Seed, count(cfg.Payments, "payment"), count(len(gatewaysim.Gateways()), "gateway"), count(len(sim.Deliveries()), "webhook"))
	w, err := startWorld(ctx, cfg, sim)
	defer w.stop()
	if err != nil {
		return r, err
	}
	say("  PostgreSQL, NATS and the roles are up; logs are in %s", w.logs)
	if pg := w.local.Postgres; pg != nil && pg.Moved() {
		say("  the private PostgreSQL lives in %s: its user cannot reach %s", pg.Dir(), cfg.Dir)
	}
	storm, err := w.storm(ctx, cfg, sim)
	r.stormed(storm)
	w.mu.Lock()
	r.Kills = w.kills
	w.mu.Unlock()
	if err != nil {
		return r, fmt.Errorf("storm: %w", err)
	}
	say("  the storm is over after %s; waiting until everything is final", storm.Elapsed.Round(100*time.Millisecond))
	var clear func()
	w.waiting, clear = showWaiting(cfg, say)
	settled, err := w.settle(ctx, cfg)
	clear()
	r.SettleSeconds, r.Reconciled, r.Sweeps = settled.took.Seconds(), settled.reconciled, settled.sweeps
	if err != nil {
		return r, err
	}
	return r, w.check(ctx, sim, storm, r)
}

// onTerminal says whether progress may be drawn on stderr.
func (c Config) onTerminal() bool { return c.Output == "table" && term.IsTerminal(int(os.Stderr.Fd())) }

// quietFor is how often a line says what is waited for where nothing can be
// drawn.
const quietFor = 5 * time.Second

// showWaiting draws a counter on a terminal; elsewhere it says a line now and
// then. clear takes the counter away.
func showWaiting(cfg Config, say func(string, ...any)) (show func(unfinished, unsent int), clear func()) {
	if cfg.onTerminal() {
		return func(unfinished, unsent int) {
				fmt.Fprintf(os.Stderr, "\r\033[K  waiting: %s unfinished, %s not relayed", count(unfinished, "event"), count(unsent, "domain event"))
			}, func() {
				fmt.Fprint(os.Stderr, "\r\033[K")
			}
	}
	last := time.Now()
	return func(unfinished, unsent int) {
		if time.Since(last) < quietFor {
			return
		}
		last = time.Now()
		say("  waiting: %s unfinished, %s not relayed; a killed processor's events come back after NATS_ACK_WAIT (12 s)",
			count(unfinished, "event"), count(unsent, "domain event"))
	}, func() {}
}

// count is a number and its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// storm sends all webhooks and kills what is to be killed on the way.
func (w *world) storm(ctx context.Context, cfg Config, sim *gatewaysim.Sim) (gatewaysim.Report, error) {
	total := len(sim.Deliveries())
	progress := func(int, int) {}
	if cfg.onTerminal() {
		bar := progressbar.NewOptions(total, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription("  storm"),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("webhooks"),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
		progress = func(done, _ int) { _ = bar.Set(done) }
		defer bar.Clear() //nolint:errcheck // a progress bar, also of a storm that was interrupted
	}
	// The kills are bound to progress, not to time: they happen in the middle
	// on a slow machine as on a fast one.
	acts := []struct {
		at  int
		act func(context.Context) error
	}{{total / 3, w.killProcessor}, {total * 2 / 3, w.killBroker}}
	due := make(chan func(context.Context) error, len(acts))
	next := 0
	killed := make(chan error, 1)
	go func() {
		var errs []error
		for act := range due {
			errs = append(errs, act(ctx))
		}
		killed <- errors.Join(errs...)
	}()
	report, err := sim.Run(ctx, gatewaysim.RunConfig{
		BaseURL:     func(string, string) string { return w.ingestURL },
		Concurrency: cfg.Concurrency, Rate: cfg.Rate,
		Progress: func() func(done, total int) {
			return func(done, total int) {
				w.mu.Lock()
				for next < len(acts) && done >= acts[next].at {
					due <- acts[next].act
					next++
				}
				w.mu.Unlock()
				progress(done, total)
			}
		}(),
	})
	close(due)
	return report, errors.Join(err, <-killed)
}

// serveAPI serves the gateways' lookup API on loopback.
func serveAPI(h http.Handler) (*http.Server, string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go s.Serve(l) //nolint:errcheck // it ends with Close
	return s, "http://" + l.Addr().String(), nil
}

// migrate prepares a database and a queue of the demo's own.
func migrate(ctx context.Context) error {
	_, err := app.Migrate(ctx, zap.NewNop(), false, true, func(postgres.Migration) {})
	return err
}
