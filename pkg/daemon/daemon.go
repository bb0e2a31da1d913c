// Package daemon is the shell that the binaries share: logger, signals, the
// admin server, a group of parts that live and die together, and the order of
// shutdown.
//
// A shutdown goes: not ready; wait SHUTDOWN_DELAY, so that load balancers
// notice; stop the parts, the last added first, each finishing what it has in
// hand; run the closers, the last added first. What is not done within
// SHUTDOWN_GRACE is cancelled. When one part ends by itself, the process ends
// and says which and why; the orchestrator starts it again.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Config is what every binary takes.
type Config struct {
	// LogLevel is debug, info, warn or error.
	LogLevel string `envconfig:"LOG_LEVEL" default:"info"`
	// AdminAddr serves /healthz, /readyz, /metrics and pprof; "off" for none.
	AdminAddr string `envconfig:"ADMIN_ADDR" default:":9090"`
	// ShutdownGrace is for everything from the signal to the exit, without
	// ShutdownDelay. Their sum belongs below the pod's grace period (30 s).
	ShutdownGrace time.Duration `envconfig:"SHUTDOWN_GRACE" default:"25s"`
	// ShutdownDelay is between "not ready" and the stop of the first part: as
	// long as load balancers take to notice. 0 where a preStop hook waits.
	ShutdownDelay time.Duration `envconfig:"SHUTDOWN_DELAY" default:"0s"`
}

// Validate reports all faults at once.
func (c Config) Validate() error {
	var faults []error
	if _, err := parseLevel(c.LogLevel); err != nil {
		faults = append(faults, err)
	}
	if c.AdminAddr != "off" && c.AdminAddr != "" {
		if _, port, err := net.SplitHostPort(c.AdminAddr); err != nil {
			faults = append(faults, errors.New("ADMIN_ADDR is neither host:port, for example :9090, nor off"))
		} else if _, err := net.LookupPort("tcp", port); err != nil {
			faults = append(faults, errors.New("ADMIN_ADDR has no valid port; it must be host:port, for example :9090, or off"))
		}
	}
	if c.ShutdownGrace <= 0 {
		faults = append(faults, fmt.Errorf("SHUTDOWN_GRACE is %s; it must be positive, for example 25s", c.ShutdownGrace))
	}
	if c.ShutdownDelay < 0 {
		faults = append(faults, fmt.Errorf("SHUTDOWN_DELAY is %s; it must not be negative", c.ShutdownDelay))
	}
	return errors.Join(faults...)
}

// ErrGraceOver says that a shutdown did not finish in time; something was
// cancelled in the middle of its work.
var ErrGraceOver = errors.New("shutdown did not finish within SHUTDOWN_GRACE")

// Daemon is one process: parts that run, checks that say whether it is ready,
// and closers for what the parts use.
type Daemon struct {
	cfg      Config
	log      *zap.Logger
	registry *prometheus.Registry

	parts   []*part
	closers []closer
	checks  []check
	admin   map[string]http.Handler

	ready      atomic.Bool
	work       context.Context
	cancelWork context.CancelCauseFunc
}

type part struct {
	name string
	run  func(context.Context) error
	stop context.CancelFunc
	done chan struct{}
	err  error
}

type closer struct {
	name  string
	close func(context.Context) error
}

// New returns a Daemon without parts. The registry is served at /metrics.
func New(cfg Config, log *zap.Logger, registry *prometheus.Registry) *Daemon {
	d := &Daemon{cfg: cfg, log: log, registry: registry, admin: map[string]http.Handler{}}
	d.work, d.cancelWork = context.WithCancelCause(context.Background())
	return d
}

// Go adds a part. Its context ends when it should take no more work; it then
// finishes what it has in hand and returns nil. Parts are stopped in reverse
// order: add what others depend on first.
func (d *Daemon) Go(name string, run func(ctx context.Context) error) {
	d.parts = append(d.parts, &part{name: name, run: run, done: make(chan struct{})})
}

// Close adds a closer, run after all parts, the last added first. Its context
// is what is left of the grace.
func (d *Daemon) Close(name string, f func(ctx context.Context) error) {
	d.closers = append(d.closers, closer{name, f})
}

// Work is the context of work in hand: it ends only when the grace is over,
// or when Run has returned.
func (d *Daemon) Work() context.Context { return d.work }

// Run starts the parts and returns after an orderly shutdown, when ctx ends
// (the error is then nil) or when a part ended by itself. It runs once.
func (d *Daemon) Run(ctx context.Context) error {
	defer d.cancelWork(context.Canceled)
	adminStop, err := d.startAdmin()
	if err != nil {
		return errors.Join(err, d.closeAll())
	}
	defer adminStop()

	ended := make(chan *part, len(d.parts))
	for _, p := range d.parts {
		partCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
		p.stop = stop
		go func() {
			defer close(p.done)
			p.err = d.guard(partCtx, p)
			ended <- p
		}()
	}
	d.ready.Store(true)
	d.log.Info("daemon.started", zap.Int("parts", len(d.parts)))

	var cause error
	select {
	case <-ctx.Done():
		d.log.Info("daemon.stopping", zap.NamedError("cause", context.Cause(ctx)))
	case p := <-ended:
		cause = p.err
		if cause == nil {
			cause = errors.New("ended by itself")
		}
		cause = fmt.Errorf("%s: %w", p.name, cause)
		d.log.Error("daemon.part_ended", zap.String("part", p.name), zap.Error(cause))
	}
	d.ready.Store(false)
	if cause == nil && d.cfg.ShutdownDelay > 0 {
		d.delay(ended)
	}
	return d.shutdown(cause)
}

// delay lets load balancers notice, unless a part ends meanwhile.
func (d *Daemon) delay(ended <-chan *part) {
	t := time.NewTimer(d.cfg.ShutdownDelay)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ended:
	}
}

// guard turns a panic into an error: the other parts finish their work in
// order, and then the process ends.
func (d *Daemon) guard(ctx context.Context, p *part) (err error) {
	defer func() {
		if r := recover(); r != nil {
			d.log.Error("daemon.panic", zap.String("part", p.name), zap.Any("panic", r), zap.ByteString("stack", debug.Stack()))
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return p.run(ctx)
}

func (d *Daemon) shutdown(cause error) error {
	begin := time.Now()
	grace := time.AfterFunc(d.cfg.ShutdownGrace, func() { d.cancelWork(ErrGraceOver) })
	defer grace.Stop()
	errs := []error{cause}
	for i := len(d.parts) - 1; i >= 0; i-- {
		p := d.parts[i]
		p.stop()
		if !d.await(p.done) {
			d.log.Error("daemon.part_abandoned", zap.String("part", p.name))
			errs = append(errs, fmt.Errorf("%s: %w", p.name, ErrGraceOver))
			continue
		}
		if p.err != nil && !errors.Is(cause, p.err) && !errors.Is(p.err, context.Canceled) {
			errs = append(errs, fmt.Errorf("%s: %w", p.name, p.err))
		}
	}
	errs = append(errs, d.closeAll())
	if context.Cause(d.work) == ErrGraceOver && !errors.Is(errors.Join(errs...), ErrGraceOver) {
		errs = append(errs, ErrGraceOver)
	}
	err := errors.Join(errs...)
	d.log.Info("daemon.stopped", zap.Duration("duration", time.Since(begin)), zap.Error(err))
	return err
}

// lastMoment is for parts to notice that their work was cancelled.
const lastMoment = time.Second

// await waits for a part, until the grace is over and a moment longer.
func (d *Daemon) await(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-d.work.Done():
	}
	t := time.NewTimer(lastMoment)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// closeAll runs the closers; one that hangs is left behind when the grace is
// over, so that the others get their turn.
func (d *Daemon) closeAll() error {
	var errs []error
	for i := len(d.closers) - 1; i >= 0; i-- {
		c := d.closers[i]
		done := make(chan struct{})
		var err error
		go func() {
			defer close(done)
			err = c.close(d.work)
		}()
		if !d.await(done) {
			errs = append(errs, fmt.Errorf("close %s: %w", c.name, ErrGraceOver))
		} else if err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", c.name, err))
		}
	}
	return errors.Join(errs...)
}
