package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/umavez/umavez/pkg/app"
	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
	"github.com/umavez/umavez/pkg/queue"
)

// world is the product in this process: two ingests, a processor, a broker
// and the gateways' APIs, over a database of its own.
type world struct {
	db      *postgres.DB
	api     *fakeAPI
	addrs   []string
	metrics []*prometheus.Registry // of the ingests
	log     *logBuffer
	conn    *queue.Conn
	turn    atomic.Uint64
	closers []func()
}

// shared is the world of all cases that ask for nothing special; each uses
// payments of its own.
var shared sharedWorld

type sharedWorld struct {
	once sync.Once
	w    *world
	tb   *longLived
}

// inWorld gives a test the shared world.
func inWorld(t *testing.T) *testWorld {
	t.Helper()
	shared.once.Do(func() {
		shared.tb = &longLived{TB: t}
		shared.w = newWorld(shared.tb, nil)
	})
	if shared.w == nil {
		t.Fatal("the shared world did not start")
	}
	return &testWorld{world: shared.w, t: t}
}

func (s *sharedWorld) close() {
	if s.tb != nil {
		s.tb.end()
	}
}

// longLived lends a world to all tests of the run: what it would clean up at
// the end of the first one waits until the end of all.
type longLived struct {
	testing.TB
	mu       sync.Mutex
	cleanups []func()
}

func (l *longLived) Cleanup(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cleanups = append(l.cleanups, f)
}

func (l *longLived) Context() context.Context { return context.Background() }

func (l *longLived) Errorf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (l *longLived) TempDir() string {
	dir, err := os.MkdirTemp("", "umavez-e2e-world-")
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck // scratch
	return dir
}

func (l *longLived) end() {
	for i := len(l.cleanups) - 1; i >= 0; i-- {
		l.cleanups[i]()
	}
}

// ownWorld starts a world for one test, with some settings changed.
func ownWorld(t *testing.T, changes map[string]string) *testWorld {
	t.Helper()
	return &testWorld{world: newWorld(t, changes), t: t}
}

// ownWorldOf starts a world for one test, with the gateways of a simulator.
func ownWorldOf(t *testing.T, sim *gatewaysim.Sim) *testWorld {
	t.Helper()
	server := httptest.NewServer(sim.APIHandler())
	t.Cleanup(server.Close)
	return ownWorld(t, sim.Settings(server.URL))
}

// settingsMu guards the environment: worlds read it while they start.
var settingsMu sync.Mutex

func newWorld(t testing.TB, changes map[string]string) *world {
	t.Helper()
	w := &world{db: postgrestest.New(t), api: newFakeAPI(t), log: &logBuffer{}}
	broker, err := queue.StartEmbedded(filepath.Join(t.TempDir(), "nats"), 0)
	if err != nil {
		t.Fatal(err)
	}
	w.closers = append(w.closers, broker.Shutdown)
	env := worldSettings(w.api.url)
	maps.Copy(env, map[string]string{
		"DATABASE_URL": postgrestest.URL(t), "NATS_URL": broker.URL(), "INGEST_ADDR": "127.0.0.1:0",
		"PROCESSOR_DUE_EVERY": "20ms", "PROCESSOR_RELAY_EVERY": "20ms", "LOOKUP_BREAK_AFTER": "1000000",
	})
	maps.Copy(env, changes)
	withSettings(env, func() { w.start(t) })
	return w
}

// withSettings runs fn with these settings in the environment; roles read them when
// they are built.
func withSettings(env map[string]string, fn func()) {
	settingsMu.Lock()
	defer settingsMu.Unlock()
	for name, value := range env {
		before, had := os.LookupEnv(name)
		os.Setenv(name, value) //nolint:errcheck // the names are valid
		defer func() {
			if had {
				os.Setenv(name, before) //nolint:errcheck // it was set
			} else {
				os.Unsetenv(name) //nolint:errcheck // the names are valid
			}
		}()
	}
	fn()
}

func (w *world) start(t testing.TB) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	t.Cleanup(func() {
		stop()
		parts.Wait()
		for i := len(w.closers) - 1; i >= 0; i-- {
			w.closers[i]()
		}
	})
	if _, err := app.Migrate(ctx, zap.NewNop(), false, true, nil); err != nil {
		t.Fatal(err)
	}
	log := w.log.logger()
	run := func(role app.Role) {
		w.closers = append(w.closers, role.Close)
		for _, p := range role.Parts() {
			parts.Go(func() {
				if err := p.Run(ctx); err != nil {
					t.Errorf("%s: %v", p.Name, err)
				}
			})
		}
	}
	for range 2 {
		reg := prometheus.NewRegistry()
		in, err := app.NewIngest(ctx, log, reg)
		if err != nil {
			t.Fatal(err)
		}
		w.addrs, w.metrics = append(w.addrs, in.Addr().String()), append(w.metrics, reg)
		w.conn = in.Queue
		run(in)
	}
	proc, err := app.NewProcessor(ctx, log, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	run(proc)
}

// logBuffer collects what the roles log.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) Sync() error { return nil }

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *logBuffer) logger() *zap.Logger {
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), b, zap.DebugLevel))
}

// testWorld is a world in the hands of one test.
type testWorld struct {
	*world
	t *testing.T
}

// in is the same world in the hands of a subtest.
func (w *testWorld) in(t *testing.T) *testWorld { return &testWorld{world: w.world, t: t} }

func (w *testWorld) addr() string { return w.addrs[int(w.turn.Add(1))%len(w.addrs)] }

// ingestMetric is the sum of a metric over both ingests, of series that have
// the given labels.
func (w *testWorld) ingestMetric(name string, labels ...string) (sum float64) {
	w.t.Helper()
	for _, reg := range w.metrics {
		families, err := reg.Gather()
		if err != nil {
			w.t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != name {
				continue
			}
			for _, m := range f.GetMetric() {
				has := map[string]bool{}
				for _, l := range m.GetLabel() {
					has[l.GetName()+"="+l.GetValue()] = true
				}
				all := true
				for _, l := range labels {
					all = all && has[l]
				}
				if all {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}

// reply is an ingest's answer.
type reply struct {
	status int
	body   string
	err    error
	kind   string // its content type
}

var client = &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}

// post sends a request to one of the ingests.
func (w *testWorld) post(r request) reply {
	req, err := http.NewRequest(http.MethodPost, "http://"+w.addr()+r.target, bytes.NewReader(r.body))
	if err != nil {
		return reply{err: err}
	}
	req.Header = r.header.Clone()
	return doRequest(req)
}

func doRequest(req *http.Request) reply {
	resp, err := client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close() //nolint:errcheck // read
	var text bytes.Buffer
	_, err = text.ReadFrom(resp.Body)
	return reply{resp.StatusCode, text.String(), err, resp.Header.Get("Content-Type")}
}
