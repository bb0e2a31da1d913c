package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv("DAEMON_TEST_CHILD"); mode != "" {
		child(mode)
	}
	goleak.VerifyTestMain(m)
}

// child is a binary of its own, to be signalled.
func child(mode string) {
	Main("child", func(ctx context.Context) error {
		switch mode {
		case "config":
			return &ConfigError{errors.New("A is not set\nB is not set")}
		case "code":
			return fmt.Errorf("sweep: %w", &ExitError{Code: 7, Err: errors.New("seven")})
		}
		d := New(Config{AdminAddr: "off", ShutdownGrace: time.Minute}, zap.NewNop(), prometheus.NewRegistry())
		d.Go("part", func(ctx context.Context) error {
			fmt.Println("ready")
			<-ctx.Done()
			fmt.Println("stopping")
			if mode == "stubborn" {
				<-d.Work().Done()
			}
			return nil
		})
		return d.Run(ctx)
	})
}

func build(cfg Config) *Daemon {
	if cfg.AdminAddr == "" {
		cfg.AdminAddr = "off"
	}
	if cfg.ShutdownGrace == 0 {
		cfg.ShutdownGrace = 5 * time.Second
	}
	return New(cfg, zap.NewNop(), prometheus.NewRegistry())
}

// diary records what happens in which order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func TestShutdownGoesBackwardsThroughPartsAndClosers(t *testing.T) {
	d, log := build(Config{}), &diary{}
	var up sync.WaitGroup
	for _, name := range []string{"publisher", "server"} {
		up.Add(1)
		d.Go(name, func(ctx context.Context) error {
			up.Done()
			<-ctx.Done()
			log.add(name + " stops")
			time.Sleep(20 * time.Millisecond) // work in hand
			log.add(name + " ended")
			return nil
		})
	}
	for _, name := range []string{"pool", "queue"} {
		d.Close(name, func(context.Context) error { log.add("close " + name); return nil })
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() { up.Wait(); stop() }()
	if err := d.Run(ctx); err != nil {
		t.Fatal(err)
	}
	want := []string{"server stops", "server ended", "publisher stops", "publisher ended", "close queue", "close pool"}
	if !slices.Equal(log.lines, want) {
		t.Errorf("order:\n%s", strings.Join(log.lines, "\n"))
	}
}

func TestAPartThatDiesEndsTheProcessAndIsNamed(t *testing.T) {
	broken := errors.New("stream is gone")
	for name, run := range map[string]func(context.Context) error{
		"with an error": func(context.Context) error { return broken },
		"with a panic":  func(context.Context) error { panic("stream is gone") },
		"without error": func(context.Context) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			d, log := build(Config{ShutdownDelay: time.Minute}), &diary{}
			d.Go("other", func(ctx context.Context) error { <-ctx.Done(); log.add("other ended"); return nil })
			d.Go("consumer", run)
			d.Close("pool", func(context.Context) error { log.add("closed"); return nil })
			err := d.Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), "consumer: ") {
				t.Errorf("error: %v", err)
			}
			if name == "with an error" && !errors.Is(err, broken) {
				t.Errorf("the cause is lost: %v", err)
			}
			if !slices.Equal(log.lines, []string{"other ended", "closed"}) {
				t.Errorf("order: %v", log.lines)
			}
		})
	}
}

func TestWorkInHandIsCancelledOnlyWhenTheGraceIsOver(t *testing.T) {
	d := build(Config{ShutdownGrace: 100 * time.Millisecond})
	started := make(chan struct{})
	var cut time.Time
	d.Go("slow", func(ctx context.Context) error {
		close(started)
		<-ctx.Done()
		<-d.Work().Done()
		cut = time.Now()
		return nil
	})
	closed := false
	d.Close("pool", func(context.Context) error { closed = true; return nil })
	ctx, stop := context.WithCancel(t.Context())
	var stopped time.Time
	go func() { <-started; stopped = time.Now(); stop() }()
	if err := d.Run(ctx); !errors.Is(err, ErrGraceOver) {
		t.Errorf("error: %v", err)
	}
	if after := cut.Sub(stopped); after < 90*time.Millisecond || !closed {
		t.Errorf("cut after %s, closed %v", after, closed)
	}
}

func TestAPartThatNeverReturnsDoesNotHoldTheProcess(t *testing.T) {
	d := build(Config{ShutdownGrace: 50 * time.Millisecond})
	release, ended := make(chan struct{}), make(chan struct{})
	d.Go("deaf", func(context.Context) error { <-release; close(ended); return nil })
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	begin := time.Now()
	err := d.Run(ctx)
	if !errors.Is(err, ErrGraceOver) || !strings.Contains(err.Error(), "deaf") || time.Since(begin) > 5*time.Second {
		t.Errorf("error after %s: %v", time.Since(begin), err)
	}
	close(release)
	<-ended
}

func TestReadinessFollowsStartChecksAndShutdown(t *testing.T) {
	d := build(Config{})
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		d.AdminHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	var away error
	d.Ready("database", func(context.Context) error { return away })
	if code, _ := get("/readyz"); code != 503 {
		t.Errorf("ready before the start: %d", code)
	}
	started, during := make(chan struct{}), 0
	d.Go("part", func(ctx context.Context) error {
		close(started)
		<-ctx.Done()
		during, _ = get("/readyz")
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	<-started
	for code := 0; code != 200; code, _ = get("/readyz") {
		time.Sleep(time.Millisecond)
	}
	away = errors.New("away")
	if code, body := get("/readyz"); code != 503 || !strings.Contains(body, "database: away") {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := get("/healthz"); code != 200 {
		t.Errorf("healthz follows the database: %d", code)
	}
	away = nil
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if during != 503 {
		t.Errorf("readyz during the shutdown: %d", during)
	}
}

func TestTheDelayLiesBetweenNotReadyAndTheStop(t *testing.T) {
	d := build(Config{ShutdownDelay: 100 * time.Millisecond})
	started := make(chan struct{})
	var stopped time.Time
	d.Go("part", func(ctx context.Context) error { close(started); <-ctx.Done(); stopped = time.Now(); return nil })
	ctx, stop := context.WithCancel(t.Context())
	var signalled time.Time
	go func() { <-started; signalled = time.Now(); stop() }()
	if err := d.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if after := stopped.Sub(signalled); after < 90*time.Millisecond {
		t.Errorf("stopped after %s", after)
	}
}

func TestTheAdminServerServesUntilTheLastCloser(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close() //nolint:errcheck // only to find a free port
	d := build(Config{AdminAddr: addr})
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "umavez_test_total", Help: "Test."})
	d.registry.MustRegister(counter)
	counter.Inc()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) string {
		resp, err := client.Get("http://" + addr + path)
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close() //nolint:errcheck // read whole
		body, _ := io.ReadAll(resp.Body)
		return string(body)
	}
	d.Close("last", func(context.Context) error {
		if got := get("/healthz"); got != "ok\n" {
			t.Errorf("healthz at the end: %s", got)
		}
		return nil
	})
	d.Go("part", func(ctx context.Context) error {
		if got := get("/metrics"); !strings.Contains(got, "umavez_test_total 1") {
			t.Errorf("metrics: %s", got)
		}
		if got := get("/debug/pprof/goroutine?debug=1"); !strings.Contains(got, "goroutine profile") {
			t.Errorf("pprof: %.80s", got)
		}
		return errors.New("enough")
	})
	if err := d.Run(t.Context()); err == nil || err.Error() != "part: enough" {
		t.Errorf("error: %v", err)
	}
}

func TestATakenAdminPortIsAnErrorAtTheStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // only opened
	d, closed := build(Config{AdminAddr: l.Addr().String()}), false
	d.Close("pool", func(context.Context) error { closed = true; return nil })
	if err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "ADMIN_ADDR") || !closed {
		t.Errorf("error %v, closed %v", err, closed)
	}
}

func TestHTTPFinishesTheRequestInHand(t *testing.T) {
	d := build(Config{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		stop() // the signal comes in the middle of the request
		time.Sleep(50 * time.Millisecond)
		text(w, 200, "done")
	})}
	d.Go("server", d.HTTP(server, l))
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close() //nolint:errcheck // read whole
	if string(body) != "done" {
		t.Errorf("answer %q", body)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestSignalsAndExitCodesOfARealProcess(t *testing.T) {
	for _, c := range []struct {
		mode   string
		first  syscall.Signal
		second syscall.Signal
		code   int
		stderr string
	}{
		{mode: "plain", first: syscall.SIGTERM, code: 0},
		{mode: "plain", first: syscall.SIGINT, code: 0},
		{mode: "stubborn", first: syscall.SIGTERM, second: syscall.SIGTERM, code: 128 + 15},
		{mode: "stubborn", first: syscall.SIGINT, second: syscall.SIGINT, code: 128 + 2},
		{mode: "config", code: ExitConfig, stderr: "child: A is not set\nchild: B is not set\n"},
		{mode: "code", code: 7, stderr: "child: sweep: seven\n"},
	} {
		t.Run(fmt.Sprint(c.mode, " ", c.first), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), "DAEMON_TEST_CHILD="+c.mode)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for _, step := range []struct {
				say  string
				send syscall.Signal
			}{{"ready\n", c.first}, {"stopping\n", c.second}} {
				if step.send == 0 {
					continue
				}
				buf := make([]byte, len(step.say))
				if _, err := io.ReadFull(out, buf); err != nil || string(buf) != step.say {
					t.Fatalf("child said %q, %v", buf, err)
				}
				if err := cmd.Process.Signal(step.send); err != nil {
					t.Fatal(err)
				}
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != c.code || c.stderr != "" && stderr.String() != c.stderr {
				t.Errorf("exit code %d, stderr %q", code, stderr.String())
			}
		})
	}
}

func TestLogLinesAreJSONWithAnEventName(t *testing.T) {
	var out bytes.Buffer
	log := newLogger(zapcore.WarnLevel, zapcore.AddSync(&out))
	log.Info("below.the_level")
	log.Named("queue").Warn("queue.disconnected", zap.Duration("duration", 1500*time.Millisecond))
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if line["event"] != "queue.disconnected" || line["room"] != "queue" || line["level"] != "warn" || line["duration"] != "1.5s" {
		t.Errorf("line: %v", line)
	}
	if _, err := Logger("loud"); ExitCode(err) != ExitConfig || !strings.Contains(err.Error(), "LOG_LEVEL") {
		t.Errorf("error: %v", err)
	}
}

func TestConfigFaultsAreReportedTogether(t *testing.T) {
	err := Config{LogLevel: "loud", ShutdownDelay: -1}.Validate()
	for _, name := range []string{"LOG_LEVEL", "SHUTDOWN_GRACE", "SHUTDOWN_DELAY"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in %v", name, err)
		}
	}
}
