package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/failpoint"
)

// checkTimeout bounds one readiness check; a probe usually waits 1 to 3 s.
const checkTimeout = 2 * time.Second

type check struct {
	name string
	f    func(context.Context) error
}

// Ready adds a condition of /readyz. Add what makes this process useless for
// its callers when it is away, and nothing else: a check that fails takes the
// process out of the load balancer.
func (d *Daemon) Ready(name string, f func(ctx context.Context) error) {
	d.checks = append(d.checks, check{name, f})
}

// Handle adds a page to the admin server.
func (d *Daemon) Handle(pattern string, h http.Handler) { d.admin[pattern] = h }

// startAdmin listens before any part runs, so that a taken port is an error
// at start, and serves until the last part and closer are done.
func (d *Daemon) startAdmin() (stop func(), err error) {
	if d.cfg.AdminAddr == "off" || d.cfg.AdminAddr == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", d.cfg.AdminAddr)
	if err != nil {
		return nil, &ConfigError{fmt.Errorf("ADMIN_ADDR %s: %w", d.cfg.AdminAddr, errors.Unwrap(err))}
	}
	s := &http.Server{Handler: d.AdminHandler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.log.Error("admin.serve", zap.Error(err))
		}
	}()
	d.log.Info("admin.listening", zap.String("addr", l.Addr().String()))
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if s.Shutdown(ctx) != nil {
			_ = s.Close() // a profile in progress is not worth waiting for
		}
		<-done
	}, nil
}

// AdminHandler serves /healthz, /readyz, /metrics and /debug/pprof/. It is
// for the cluster's inside: never expose it.
func (d *Daemon) AdminHandler() http.Handler {
	mux := http.NewServeMux()
	// Alive means that the process answers. Dependencies do not belong here:
	// a restart repairs none of them.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", d.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(d.registry, promhttp.HandlerOpts{Registry: d.registry}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	if failpoint.Enabled {
		mux.HandleFunc("GET /failpoints", showFailpoints)
		mux.HandleFunc("PUT /failpoints", replaceFailpoints)
		mux.HandleFunc("PUT /failpoints/clock", shiftClock)
	}
	for pattern, h := range d.admin {
		mux.Handle(pattern, h)
	}
	return mux
}

func (d *Daemon) readyz(w http.ResponseWriter, r *http.Request) {
	if !d.ready.Load() {
		text(w, http.StatusServiceUnavailable, "not ready: starting or stopping\n")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	lines := make([]string, len(d.checks))
	var wg sync.WaitGroup
	for i, c := range d.checks {
		wg.Go(func() {
			if err := c.f(ctx); err != nil {
				lines[i] = fmt.Sprintf("not ready: %s: %v\n", c.name, err)
			}
		})
	}
	wg.Wait()
	lines = slices.DeleteFunc(lines, func(s string) bool { return s == "" })
	if len(lines) > 0 {
		text(w, http.StatusServiceUnavailable, strings.Join(lines, ""))
		return
	}
	text(w, http.StatusOK, "ready\n")
}

func text(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(body))
}

// HTTP returns a part that serves on l: when it is stopped it takes no more
// connections and finishes the requests in hand, at most until the grace is
// over.
func (d *Daemon) HTTP(s *http.Server, l net.Listener) func(context.Context) error {
	return func(ctx context.Context) error {
		failed := make(chan error, 1)
		go func() { failed <- s.Serve(l) }()
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
		}
		err := s.Shutdown(d.work)
		if err != nil {
			_ = s.Close()
			err = fmt.Errorf("requests in hand were cut off: %w", context.Cause(d.work))
		}
		<-failed
		return err
	}
}
