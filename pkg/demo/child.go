package demo

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

// child is a process of this same program.
type child struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// spawn starts this program again with other arguments; its log is appended
// to a file of its name.
func (w *world) spawn(name string, env []string, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{log: filepath.Join(w.logs, name+".log"), done: make(chan struct{})}
	f, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // the child has its own descriptor
	c.cmd = exec.Command(self, args...)
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stdout, c.cmd.Stderr = f, f
	// Ctrl-C reaches the demo, which stops its children in order; a demo that
	// is killed takes them along.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(c.cmd.SysProcAttr)
	started := make(chan error, 1)
	go func() {
		// The kernel binds a child's life to the thread that started it, so
		// this thread is kept until the child has ended.
		runtime.LockOSThread()
		defer close(c.done)
		err := c.cmd.Start()
		started <- err
		if err == nil {
			_ = c.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return c, nil
}

func (c *child) exited() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// ended is a fatal error with the process's last words when it has ended.
func (c *child) ended() error {
	if !c.exited() {
		return nil
	}
	text, _ := os.ReadFile(c.log)
	last := "it said nothing"
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			last = line
		}
	}
	return errFatal{fmt.Errorf("%s ended at its start: %s", strings.TrimSuffix(filepath.Base(c.log), ".log"), last)}
}

// peakMiB is the most memory that the process has had resident, in MiB; 0
// where the system does not tell.
func (c *child) peakMiB() float64 {
	if c == nil || c.exited() {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
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

// kill ends the process without notice.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
}

// stop asks the process to end, and insists after a while.
func (c *child) stop() {
	if c == nil || c.exited() {
		return
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(15 * time.Second):
		c.kill()
	}
}
