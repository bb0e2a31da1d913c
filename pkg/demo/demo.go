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
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/schollz/progressbar/v3"
	"go.uber.org/zap"
	"golang.org/x/term"

	"github.com/umavez/umavez/pkg/app"
	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/postgres"
)

// Config says how large the storm is.
type Config struct {
	Dir         string // for servers, logs and the JSON report
	Seed        uint64
	Payments    int
	Concurrency int
	Rate        float64       // webhooks a second; 0 is as fast as they are taken
	Settle      time.Duration // for everything to become final after the storm
	Output      string        // "table" or "json": what Run writes to out
}

// Run plays the demo and writes its report. The error says that something
// differs, or that the demo could not be played.
func Run(ctx context.Context, cfg Config, out io.Writer) error {
	begin := time.Now()
	say := func(format string, args ...any) {
		if cfg.Output == "table" {
			fmt.Fprintf(out, format+"\n", args...)
		}
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return err
	}
	shares := gatewaysim.Shares{Duplicates: 0.30, Concurrent: 0.5, WrongSignatures: 0.03, Malformed: 0.005, Tests: 0.005, Lost: 0.015}
	sim, err := gatewaysim.New(gatewaysim.Config{
		Seed: cfg.Seed, Payments: cfg.Payments, Beneficiaries: 25, Shares: shares,
		API: gatewaysim.API{Latency: time.Millisecond, Jitter: 2 * time.Millisecond, TooMany: 0.0005, ServerErrors: 0.002, Stale: 0.01, StaleFor: 500 * time.Millisecond},
	})
	if err != nil {
		return err
	}
	say("umavez demo, seed %d: %d payments at 3 gateways, %d webhooks", cfg.Seed, cfg.Payments, len(sim.Deliveries()))
	w, err := startWorld(ctx, cfg, sim)
	if err != nil {
		return err
	}
	defer w.stop()
	say("  PostgreSQL, NATS and the roles are up; logs are in %s", w.logs)

	storm, err := w.storm(ctx, cfg, sim)
	if err != nil {
		return fmt.Errorf("storm: %w", err)
	}
	say("  the storm is over after %s; waiting until everything is final", storm.Elapsed.Round(100*time.Millisecond))
	settled, err := w.settle(ctx, cfg)
	if err != nil {
		return err
	}
	r, err := w.check(ctx, sim, storm)
	if err != nil {
		return err
	}
	r.Kills, r.SettleSeconds, r.Reconciled, r.Sweeps = w.kills, settled.took.Seconds(), settled.reconciled, settled.sweeps
	r.TotalSeconds = time.Since(begin).Seconds()
	path := filepath.Join(cfg.Dir, "demo-report.json")
	if err := r.write(path); err != nil {
		return err
	}
	if cfg.Output == "json" {
		err = r.print(out)
	} else {
		r.table(out)
		say("\nThe same as JSON: %s", path)
	}
	if err == nil && !r.OK() {
		err = fmt.Errorf("the result differs from the truth: %d mismatches, %d violations; see above, and %s", r.Mismatches, r.Violations, path)
	}
	return err
}

// storm sends all webhooks and kills what is to be killed on the way.
func (w *world) storm(ctx context.Context, cfg Config, sim *gatewaysim.Sim) (gatewaysim.Report, error) {
	total := len(sim.Deliveries())
	progress := func(int, int) {}
	if cfg.Output == "table" && term.IsTerminal(int(os.Stderr.Fd())) {
		bar := progressbar.NewOptions(total, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription("  storm"),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("webhooks"),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
		progress = func(done, _ int) { _ = bar.Set(done) }
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
