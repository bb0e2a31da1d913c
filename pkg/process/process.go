// Package process runs programs as children whose life and death are in the
// starter's hands: for the demo and for campaigns of faults, where a kill has
// to be a kill.
package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Spec says what to start.
type Spec struct {
	Name    string   // of the log file, without its ending
	Program string   // path; "" is this same program
	Args    []string //
	Env     []string // added to this process's own, NAME=value
	LogDir  string   // output is appended to <Name>.log in it
}

// Process is a child that runs, or has ended.
type Process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// Start starts a child. A starter that is killed takes its children along,
// where the system can do that.
func Start(s Spec) (*Process, error) {
	if s.Program == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		s.Program = self
	}
	p := &Process{name: s.Name, log: filepath.Join(s.LogDir, s.Name+".log"), done: make(chan struct{})}
	f, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // the child has its own descriptor
	p.cmd = exec.Command(s.Program, s.Args...)
	p.cmd.Env = append(os.Environ(), s.Env...)
	p.cmd.Stdout, p.cmd.Stderr = f, f
	// Ctrl-C reaches the starter, which stops its children in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(p.cmd.SysProcAttr)
	started := make(chan error, 1)
	go func() {
		// The kernel binds a child's life to the thread that started it, so
		// this thread is kept until the child has ended.
		runtime.LockOSThread()
		defer close(p.done)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	return p, nil
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended says whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// ExitCode is that of a process that has ended: -1 when a signal ended it.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// LastWords is the last line of the process's output.
func (p *Process) LastWords() string { return lastLine(p.log) }

func lastLine(file string) string {
	text, _ := os.ReadFile(file)
	last := "it said nothing"
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			last = line
		}
	}
	return last
}

// EarlyEnd is an error with the process's last words when it has ended, for
// those who wait until it is ready.
func (p *Process) EarlyEnd() error {
	if !p.Ended() {
		return nil
	}
	return fmt.Errorf("%s ended at its start: %s", p.name, p.LastWords())
}

// PeakMiB is the most memory that the process has had resident, in MiB; 0
// where the system does not tell.
func (p *Process) PeakMiB() float64 {
	if p == nil || p.Ended() {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if _, err := fmt.Sscanf(line, "VmHWM: %f kB", &kib); err == nil {
			return kib / 1024
		}
	}
	return 0
}

// Signal sends a signal; to a process that has ended it does nothing.
func (p *Process) Signal(s os.Signal) {
	if p != nil && !p.Ended() {
		_ = p.cmd.Process.Signal(s)
	}
}

// Kill ends the process without notice and waits for its end.
func (p *Process) Kill() {
	if p == nil || p.Ended() {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Stop asks the process to end, and insists after the grace period.
func (p *Process) Stop(grace time.Duration) {
	if p == nil || p.Ended() {
		return
	}
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		p.Kill()
	}
}
