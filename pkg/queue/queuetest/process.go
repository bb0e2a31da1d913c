package queuetest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/queue"
)

// Process is a NATS server in a process of its own: this test binary, run
// again.
type Process struct {
	t    testing.TB
	plan plan
	cmd  *exec.Cmd
	in   io.Closer // the server ends when it is closed, also by our death
}

// plan is what a server's process is told.
type plan struct {
	Dir  string
	Port int
	// Of a cluster; "" for a server alone.
	Name   string
	Routes []int // the ports at which its servers meet, its own first
}

// envPlan holds the plan of a test binary that is to be a server.
const envPlan = "UMAVEZ_QUEUETEST_PLAN"

// In the child this runs before any test and never returns.
func init() {
	text := os.Getenv(envPlan)
	if text == "" {
		return
	}
	var p plan
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		var stop func()
		if stop, err = p.start(); err == nil {
			fmt.Println("ready")
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop()
			os.Exit(0)
		}
	}
	fmt.Println(err)
	os.Exit(1)
}

// start runs the server here. One alone is the product's own embedded server.
func (p plan) start() (stop func(), err error) {
	if p.Name != "" {
		return p.startMember()
	}
	e, err := queue.StartEmbedded(p.Dir, p.Port)
	if err != nil {
		return nil, err
	}
	return e.Shutdown, nil
}

// NewProcess starts a server process of this test's own.
func NewProcess(t testing.TB) *Process {
	t.Helper()
	return newProcess(t, plan{Dir: filepath.Join(t.TempDir(), "nats"), Port: freePort(t)})
}

// NewProcessIn starts a server process whose streams are in a directory of the
// test's.
func NewProcessIn(t testing.TB, dir string) *Process {
	t.Helper()
	return newProcess(t, plan{Dir: dir, Port: freePort(t)})
}

func newProcess(t testing.TB, p plan) *Process {
	t.Helper()
	s := &Process{t: t, plan: p}
	s.Start()
	t.Cleanup(s.Kill)
	return s
}

// Dir holds its streams.
func (p *Process) Dir() string { return p.plan.Dir }

// URL is the server's address, for NATS_URL.
func (p *Process) URL() string { return address(p.plan.Port) }

// Start starts a server that was killed or stopped on what it left on disk.
func (p *Process) Start() {
	p.t.Helper()
	if err := p.launch(); err != nil {
		p.t.Fatalf("NATS process: %v", err)
	}
}

func (p *Process) launch() error {
	if p.cmd != nil {
		return nil
	}
	text, err := json.Marshal(p.plan)
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envPlan+"="+string(text))
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.in = cmd, in
	if line, err := bufio.NewReader(out).ReadString('\n'); strings.TrimSpace(line) != "ready" {
		return fmt.Errorf("%s %w", line, errors.Join(err, errors.New("it did not get ready")))
	}
	return nil
}

// Kill ends the server as a crash does.
func (p *Process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	_ = p.in.Close()
	p.cmd = nil
}

// Stop ends the server in order, as a rolling update does.
func (p *Process) Stop() {
	if p.cmd == nil {
		return
	}
	_ = p.in.Close()
	_ = p.cmd.Wait()
	p.cmd = nil
}

// Forget kills the server and deletes all its data: the worst that a power cut
// does.
func (p *Process) Forget() {
	p.t.Helper()
	p.Kill()
	if err := os.RemoveAll(p.plan.Dir); err != nil {
		p.t.Fatal(err)
	}
}
