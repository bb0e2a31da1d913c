package localpg

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// prepareDir makes the directory, reachable by the user that PostgreSQL runs
// as and by nobody else.
func (c *Cluster) prepareDir() error {
	dir, err := filepath.Abs(c.cfg.Dir)
	if err != nil {
		return fmt.Errorf("local PostgreSQL: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("local PostgreSQL: %w", err)
	}
	// The directory may have been made through a link; ask for the truth.
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return fmt.Errorf("local PostgreSQL: %w", err)
	}
	if !c.owner.reaches(parent) {
		sum := sha256.Sum256([]byte(dir))
		dir = filepath.Join(os.TempDir(), "umavez-pg-"+hex.EncodeToString(sum[:8]))
		c.moved = true
		if !c.owner.reaches(os.TempDir()) {
			return fmt.Errorf("local PostgreSQL: the user %s, which it must run as, can reach neither %s nor %s; choose another directory", c.owner.name, parent, os.TempDir())
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("local PostgreSQL: %w", err)
	}
	// In a shared temporary directory somebody else may have been first.
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("local PostgreSQL: %w", err)
	}
	if !info.IsDir() || !c.owner.owns(info) {
		return fmt.Errorf("local PostgreSQL: %s belongs to somebody else; remove it or choose another directory", dir)
	}
	if err := c.owner.give(dir); err != nil {
		return fmt.Errorf("local PostgreSQL: %w", err)
	}
	c.dir = dir
	return os.Chmod(dir, 0o700)
}

// majorOnDisk is the version that made the data; 0 when there is none.
func (c *Cluster) majorOnDisk() int {
	text, err := os.ReadFile(filepath.Join(c.dataDir(), "PG_VERSION"))
	if err != nil {
		return 0
	}
	major, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return major
}

// initialize runs initdb beside the final place and renames, so that a start
// that was interrupted leaves nothing that looks like a cluster.
func (c *Cluster) initialize(ctx context.Context) error {
	passwordFile := filepath.Join(c.dir, "password")
	if c.majorOnDisk() != 0 {
		text, err := os.ReadFile(passwordFile)
		if err != nil {
			return fmt.Errorf("local PostgreSQL: %w; remove %s to begin anew", err, c.dir)
		}
		c.password = strings.TrimSpace(string(text))
		return nil
	}
	fresh := c.dataDir() + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("local PostgreSQL: %w", err)
	}
	c.password = rand.Text()
	if err := os.WriteFile(passwordFile, []byte(c.password+"\n"), 0o600); err != nil {
		return fmt.Errorf("local PostgreSQL: %w", err)
	}
	if err := c.owner.give(passwordFile); err != nil {
		return fmt.Errorf("local PostgreSQL: %w", err)
	}
	args := []string{"--pgdata=" + fresh, "--username=" + user, "--pwfile=" + passwordFile,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-instructions"}
	if c.cfg.Throwaway {
		args = append(args, "--no-sync")
	}
	args = append(args, c.cfg.InitArgs...)
	initdb := c.command(ctx, "initdb", args...)
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb in %s: %w: %s", c.dir, err, lastLines(string(out)))
	}
	// Single-user mode needs neither a client program nor a driver.
	create := c.command(ctx, "postgres", "--single", "-D", fresh, "postgres")
	create.Stdin = strings.NewReader(`CREATE DATABASE "` + strings.ReplaceAll(c.cfg.Database, `"`, `""`) + "\"\n")
	if out, err := create.CombinedOutput(); err != nil || strings.Contains(string(out), "ERROR:") {
		return fmt.Errorf("create database %s in %s: %v: %s", c.cfg.Database, c.dir, err, lastLines(string(out)))
	}
	if err := os.Rename(fresh, c.dataDir()); err != nil {
		return fmt.Errorf("local PostgreSQL: %w", err)
	}
	return nil
}

// command prepares a PostgreSQL program with its own user and a bare
// environment: PG* variables of the caller must not reach it.
func (c *Cluster) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.programs.Bin, name), args...)
	cmd.Dir = c.dir
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=" + c.programs.Bin + ":/usr/bin:/bin", "HOME=" + c.dir}
	c.owner.run(cmd)
	return cmd
}

// pidFile is what a postmaster writes about itself.
type pidFile struct {
	pid   int
	port  int
	state string // "starting", "ready", "stopping"
}

func (c *Cluster) pidPath() string { return filepath.Join(c.dataDir(), "postmaster.pid") }

func (c *Cluster) readPid() (p pidFile, ok bool) {
	text, err := os.ReadFile(c.pidPath())
	if err != nil {
		return p, false
	}
	lines := strings.Split(string(text), "\n")
	line := func(i int) string {
		if i < len(lines) {
			return strings.TrimSpace(lines[i])
		}
		return ""
	}
	p.pid, _ = strconv.Atoi(line(0))
	p.port, _ = strconv.Atoi(line(3))
	p.state = line(7)
	return p, p.pid > 0
}

// clearLeftover deals with the postmaster.pid of an owner that died. We hold
// the directory's lock, so a server that still runs is an orphan: it is
// stopped. A file whose process is gone, or is by now a stranger that got the
// same number after a reboot, is removed: PostgreSQL would refuse to start.
func (c *Cluster) clearLeftover(ctx context.Context) error {
	p, ok := c.readPid()
	if !ok {
		return nil
	}
	if !isPostmaster(p.pid, c.dataDir()) {
		if err := os.Remove(c.pidPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("local PostgreSQL: stale process file: %w", err)
		}
		return nil
	}
	for _, how := range []stopMode{fastStop, immediateStop} {
		if err := signal(p.pid, how); err != nil {
			return fmt.Errorf("local PostgreSQL: stop the server left running (process %d): %w", p.pid, err)
		}
		for range 100 {
			if !isPostmaster(p.pid, c.dataDir()) {
				return nil
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	return fmt.Errorf("local PostgreSQL: a server (process %d) runs in %s and does not stop", p.pid, c.dir)
}

var errPortTaken = errors.New("port is taken")

// launch starts the server and waits until its own process file says that it
// takes connections.
func (c *Cluster) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.StartTimeout, fmt.Errorf("not ready within %s", c.cfg.StartTimeout))
	defer cancel()
	logFile, err := c.openLog()
	if err != nil {
		return err
	}
	defer logFile.Close() //nolint:errcheck // the server has its own descriptor
	begin, _ := logFile.Seek(0, 2)

	// Not bound to ctx: the server outlives its start.
	cmd := c.command(context.WithoutCancel(ctx), "postgres", append([]string{"-D", c.dataDir()}, c.params()...)...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	p, err := startProcess(cmd)
	if err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	for {
		if f, ok := c.readPid(); ok && f.pid == p.pid && f.state == "ready" {
			c.mu.Lock()
			c.proc = p
			c.mu.Unlock()
			return nil
		}
		select {
		case <-p.done:
			said := c.logSince(begin)
			if strings.Contains(said, "could not create any TCP/IP sockets") || strings.Contains(said, "Address already in use") {
				return errPortTaken
			}
			return fmt.Errorf("PostgreSQL in %s ended while starting (%v): %s", c.dir, p.err, lastLines(said))
		case <-ctx.Done():
			_ = p.stop(immediateStop)
			return fmt.Errorf("start PostgreSQL in %s: %w: %s", c.dir, context.Cause(ctx), lastLines(c.logSince(begin)))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// maxLog is the size in bytes from which a start begins a new log.
const maxLog = 8 << 20

func (c *Cluster) openLog() (*os.File, error) {
	mode := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if info, err := os.Stat(c.logFile()); err == nil && info.Size() > maxLog {
		mode |= os.O_TRUNC
	}
	f, err := os.OpenFile(c.logFile(), mode, 0o600)
	if err != nil {
		return nil, fmt.Errorf("local PostgreSQL: log: %w", err)
	}
	return f, nil
}

func (c *Cluster) logSince(offset int64) string {
	text, err := os.ReadFile(c.logFile())
	if err != nil || offset > int64(len(text)) {
		return ""
	}
	return string(text[offset:])
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-6):], "; ")
}
