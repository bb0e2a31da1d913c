//go:build unix

package localpg

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	osuser "os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// owner is the user that the programs run as. PostgreSQL refuses root, so a
// root process lends it another.
type owner struct {
	name     string
	uid, gid int
	switched bool // the programs run as another user than this process
}

func findOwner() (owner, error) {
	if os.Geteuid() != 0 {
		return owner{name: "of this process", uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := osuser.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil && uid != 0 {
			return owner{name: name, uid: uid, gid: gid, switched: true}, nil
		}
	}
	return owner{}, errors.New("local PostgreSQL: it cannot run as root and there is no user postgres or nobody; run as another user or set DATABASE_URL")
}

// reaches says whether the owner may pass through every directory of a path.
func (o owner) reaches(path string) bool {
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return false
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return false
		}
		bits := info.Mode().Perm()
		switch {
		case int(st.Uid) == o.uid:
			bits >>= 6
		case int(st.Gid) == o.gid:
			bits >>= 3
		}
		if bits&1 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// owns accepts what belongs to the owner or to this process.
func (o owner) owns(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (int(st.Uid) == o.uid || int(st.Uid) == os.Geteuid())
}

func (o owner) give(path string) error {
	if !o.switched {
		return nil
	}
	return os.Chown(path, o.uid, o.gid)
}

func (o owner) run(cmd *exec.Cmd) {
	// Its own group: an interrupt typed at the terminal reaches us first, and
	// we stop the server last.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if o.switched {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}
	}
	dieWithParent(cmd.SysProcAttr)
}

// stopMode is the signal that PostgreSQL takes for a way to stop.
type stopMode = syscall.Signal

const (
	fastStop      stopMode = syscall.SIGINT  // connections are cut, a checkpoint is written
	immediateStop stopMode = syscall.SIGQUIT // as a crash
)

func signal(pid int, how stopMode) error {
	if err := syscall.Kill(pid, how); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// process is a started server; err is set before done is closed.
type process struct {
	pid  int
	done chan struct{}
	err  error
}

// startProcess starts and awaits the server on one locked thread: the kernel
// sends the parent-death signal when the starting thread ends, not the
// process, and Go ends threads as it likes.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// stop signals and waits; a server that does not end in time is stopped
// harder, and at last killed.
func (p *process) stop(how stopMode) error {
	for _, s := range []syscall.Signal{how, syscall.SIGQUIT, syscall.SIGKILL} {
		select {
		case <-p.done:
			return nil
		default:
		}
		if err := signal(p.pid, s); err != nil {
			return fmt.Errorf("stop PostgreSQL: %w", err)
		}
		select {
		case <-p.done:
			return nil
		case <-time.After(15 * time.Second):
		}
	}
	return fmt.Errorf("stop PostgreSQL: process %d does not end", p.pid)
}

// powerOff kills the postmaster and its children. Each child is a session of its
// own, so the group does not reach them; the postmaster is halted first, so that
// it has no more of them.
func (p *process) powerOff() error {
	select {
	case <-p.done:
	default:
		if err := signal(p.pid, syscall.SIGSTOP); err != nil {
			return fmt.Errorf("halt PostgreSQL: %w", err)
		}
	}
	all := append(childrenOf(p.pid), p.pid)
	for _, pid := range all {
		if err := signal(pid, syscall.SIGKILL); err != nil {
			return fmt.Errorf("kill PostgreSQL: %w", err)
		}
	}
	<-p.done
	for range 1500 {
		if !slices.ContainsFunc(all[:len(all)-1], alive) {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("kill PostgreSQL: some of the processes %v do not end", all)
}

// childrenOf lists the processes whose parent is pid.
func childrenOf(pid int) (children []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		if _, fields, ok := statOf(path); ok && len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			children = append(children, child)
		}
	}
	return children
}

// statOf reads a process's name, and its fields from the state on.
func statOf(path string) (name string, fields []string, ok bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", nil, false
	}
	end := strings.LastIndex(string(text), ") ")
	if end < 0 {
		return "", nil, false
	}
	_, name, _ = strings.Cut(string(text[:end]), "(")
	return name, strings.Fields(string(text[end+2:])), true
}

// alive says whether a process is there and not a corpse.
func alive(pid int) bool {
	name, fields, ok := statOf(fmt.Sprintf("/proc/%d/stat", pid))
	return ok && strings.HasPrefix(name, "postgres") && fields[0] != "Z"
}

// isPostmaster says whether a live process is the server of a data directory.
// Where /proc does not tell, a live process is believed to be it.
func isPostmaster(pid int, dataDir string) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	if runtime.GOOS != "linux" {
		return true
	}
	if _, fields, ok := statOf(fmt.Sprintf("/proc/%d/stat", pid)); !ok || fields[0] == "Z" {
		return false // gone, or dead and not yet awaited by its parent
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	return strings.Contains(string(cmdline), "postgres") && strings.Contains(string(cmdline), dataDir)
}

// lockFile takes a lock that the kernel frees when this process ends.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close() //nolint:errcheck // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrInUse
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}
