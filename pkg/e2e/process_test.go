package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is one of the binaries, running.
type process struct {
	t     testing.TB
	name  string
	admin string // address of /readyz and /metrics
	log   string // file
	cmd   *exec.Cmd
	done  chan struct{}
}

// start runs a binary with the given environment and nothing of ours but what
// any process has. Its output is appended to a file of its name in dir.
func start(t testing.TB, dir, name, program string, env map[string]string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() //nolint:errcheck // the child has its own descriptor
	if env["ADMIN_ADDR"] == "" {
		p.admin = freeAddr(t)
	}
	p.cmd = exec.Command(binary(t, program), args...)
	p.cmd.Env = environment(env)
	if p.admin != "" {
		p.cmd.Env = append(p.cmd.Env, "ADMIN_ADDR="+p.admin)
	}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(p.cmd.SysProcAttr)
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the kernel binds the child's life to this thread
		defer close(p.done)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the end of %s's log:\n%s", name, tail(p.output(), 3000))
		}
	})
	return p
}

// environment is a child's: ours is none of its business, but for where
// programs and temporary files are.
func environment(env map[string]string) []string {
	list := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir()}
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	return list
}

// run runs a binary to its end and returns its output and exit code.
func run(t testing.TB, program string, env map[string]string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(binary(t, program), args...)
	cmd.Env = environment(env)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatalf("run %s: %v", program, err)
	}
	timer := time.AfterFunc(60*time.Second, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Wait(); err != nil && cmd.ProcessState == nil {
		t.Fatalf("run %s: %v", program, err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends the process as a crash does.
func (p *process) kill() {
	if !p.ended() {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Errorf("signal %s: %v", p.name, err)
	}
}

// wait waits for the end and returns the exit code.
func (p *process) wait(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(within):
		p.t.Fatalf("%s did not end within %s", p.name, within)
	}
	return p.cmd.ProcessState.ExitCode()
}

// stop asks for an orderly end and wants exit code 0.
func (p *process) stop(s os.Signal) {
	p.t.Helper()
	p.signal(s)
	if code := p.wait(30 * time.Second); code != 0 {
		p.t.Errorf("%s ended with code %d after %s", p.name, code, s)
	}
}

func (p *process) output() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// page is an admin page; "" when there is no answer.
func (p *process) page(path string) (status int, body string) {
	client := http.Client{Timeout: 3 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + p.admin + path)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close() //nolint:errcheck // read
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// ready waits until the process says that it is.
func (p *process) ready() *process {
	p.t.Helper()
	eventually(p.t, 20*time.Second, p.name+" is ready", func() bool {
		if p.ended() {
			p.t.Fatalf("%s ended with code %d:\n%s", p.name, p.cmd.ProcessState.ExitCode(), tail(p.output(), 3000))
		}
		status, _ := p.page("/readyz")
		return status == http.StatusOK
	})
	return p
}

func eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

// handedOut are the addresses that freeAddr gave: a process may not have bound
// its own yet when the kernel offers the same one again.
var handedOut sync.Map

func freeAddr(t testing.TB) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		l.Close() //nolint:errcheck // only the number is wanted
		if _, given := handedOut.LoadOrStore(addr, true); !given {
			return addr
		}
	}
	t.Fatal("no address is free")
	return ""
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	_, rest, _ := strings.Cut(s[len(s)-n:], "\n")
	return fmt.Sprintf("(%d bytes before)\n%s", len(s)-len(rest), rest)
}

// metric is the sum of a metric's series on the metrics page of a process.
func (p *process) metric(name string) (sum float64) {
	p.t.Helper()
	return p.labelled(name, "")
}

// labelled is the same of the series that have a label, `name="value"`.
func (p *process) labelled(name, label string) (sum float64) {
	p.t.Helper()
	_, page := p.page("/metrics")
	for line := range strings.SplitSeq(page, "\n") {
		if !strings.HasPrefix(line, name+"{") && !strings.HasPrefix(line, name+" ") {
			continue
		}
		if !strings.Contains(line, label) {
			continue
		}
		var v float64
		if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &v); err != nil {
			p.t.Fatalf("metric %s: %v", name, err)
		}
		sum += v
	}
	return sum
}
