// Package localpg runs a private PostgreSQL server for development, the demo
// and tests, from the programs that are installed on this machine.
//
// It promises: a durable cluster (fsync and synchronous_commit on) that only
// this machine can reach (127.0.0.1, a random port, a random password in a
// 0600 file, no unix socket); one owner a directory; a server that ends with
// its owner. It does not install anything and is no way to run production.
package localpg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Config says where the cluster lives and how it runs.
type Config struct {
	// Dir holds the cluster, its password and its log; it is created. When
	// this process is root and the user that PostgreSQL runs as cannot reach
	// it, a directory under the system's temporary one is used instead; see
	// Cluster.Dir and Cluster.Moved.
	Dir string
	// LogFile takes the server's messages; default postgres.log in Dir.
	LogFile string
	// Database is created with the cluster; default "umavez".
	Database string
	// Params are server settings (max_connections, ...) that win over ours,
	// except for the address and the port. One with the value "" is left to
	// the server's own files.
	Params map[string]string
	// Throwaway creates the cluster without flushing it to disk, which is
	// quicker: a power cut in its first minutes may break it. Commits are
	// durable all the same. For tests that kill processes, not machines.
	Throwaway bool
	// DataDir holds the data alone, when they are to lie on another disk than
	// Dir. It and its neighbour DataDir+".new" must belong to the user that
	// PostgreSQL runs as, or to nobody yet in a directory where that user may
	// make them. Default "data" in Dir.
	DataDir string
	// InitArgs are further arguments of initdb, such as "--wal-segsize=1".
	InitArgs []string
	// StartTimeout bounds recovery and start; default 60 s.
	StartTimeout time.Duration
}

// ErrInUse says that another process owns the cluster's directory.
var ErrInUse = errors.New("directory is in use by another process")

// user is the cluster's superuser.
const user = "umavez"

// Cluster is a running server, or one that was stopped or killed.
type Cluster struct {
	cfg      Config
	dir      string
	moved    bool
	programs Programs
	owner    owner
	lock     *os.File
	password string
	port     int

	mu   sync.Mutex
	proc *process // nil when stopped
}

// Start creates the cluster in cfg.Dir when there is none, else uses the one
// that is there, and returns once the server takes connections. A server that
// a dead owner left behind is stopped first.
func Start(ctx context.Context, cfg Config) (_ *Cluster, err error) {
	if cfg.Dir == "" {
		return nil, errors.New("localpg: Dir is empty")
	}
	if cfg.Database == "" {
		cfg.Database = user
	}
	if cfg.StartTimeout <= 0 {
		cfg.StartTimeout = time.Minute
	}
	c := &Cluster{cfg: cfg}
	if c.owner, err = findOwner(); err != nil {
		return nil, err
	}
	if err := c.prepareDir(); err != nil {
		return nil, err
	}
	if c.lock, err = lockFile(filepath.Join(c.dir, "lock")); err != nil {
		return nil, fmt.Errorf("local PostgreSQL in %s: %w", c.dir, err)
	}
	defer func() {
		if err != nil {
			c.lock.Close() //nolint:errcheck // the lock goes with the descriptor
		}
	}()
	if c.programs, err = Find(c.majorOnDisk()); err != nil {
		return nil, err
	}
	if err := c.initialize(ctx); err != nil {
		return nil, err
	}
	if err := c.clearLeftover(ctx); err != nil {
		return nil, err
	}
	for attempt := 0; ; attempt++ {
		if c.port, err = freePort(); err != nil {
			return nil, err
		}
		err = c.launch(ctx)
		if !errors.Is(err, errPortTaken) || attempt == 4 {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Dir is where the cluster really lives.
func (c *Cluster) Dir() string { return c.dir }

// Moved reports that Config.Dir could not be used, since the user that
// PostgreSQL runs as cannot reach it, and that Dir is elsewhere.
func (c *Cluster) Moved() bool { return c.moved }

// URL is the address of a database, with the password; "" means
// Config.Database.
func (c *Cluster) URL(database string) string {
	if database == "" {
		database = c.cfg.Database
	}
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(user, c.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Done is closed when the present server process ends, wanted or not.
func (c *Cluster) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proc == nil {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return c.proc.done
}

// Stop ends the server in order (connections are cut, data is checkpointed)
// and gives the directory free. Stopping twice is harmless.
func (c *Cluster) Stop() error {
	err := c.end(fastStop)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lock != nil {
		c.lock.Close() //nolint:errcheck // the lock goes with the descriptor
		c.lock = nil
	}
	return err
}

// Kill ends the server at once, as a crash would: no checkpoint, so that the
// next start recovers from the log. The directory stays ours for Restart.
func (c *Cluster) Kill() error { return c.end(immediateStop) }

// PowerOff ends every process of the server at once, so that none of them gets
// to write or say another word, and returns when all are gone. Restart starts
// the server again. Only Linux tells which processes there are.
func (c *Cluster) PowerOff() error {
	c.mu.Lock()
	p := c.proc
	c.proc = nil
	c.mu.Unlock()
	if p == nil {
		return nil
	}
	return p.powerOff()
}

// Restart starts the server again on the same port, after Kill or PowerOff, or
// after stopping the one that runs.
func (c *Cluster) Restart(ctx context.Context) error {
	if c.lock == nil {
		return errors.New("local PostgreSQL: Restart after Stop; use Start")
	}
	if err := c.end(fastStop); err != nil {
		return err
	}
	if err := c.clearLeftover(ctx); err != nil {
		return err
	}
	return c.launch(ctx)
}

// Remove stops the server and deletes all its data.
func (c *Cluster) Remove() error {
	err := c.end(immediateStop)
	return errors.Join(err, c.Stop(), os.RemoveAll(c.dir))
}

func (c *Cluster) end(how stopMode) error {
	c.mu.Lock()
	p := c.proc
	c.proc = nil
	c.mu.Unlock()
	if p == nil {
		return nil
	}
	return p.stop(how)
}

func (c *Cluster) dataDir() string {
	if c.cfg.DataDir != "" {
		return c.cfg.DataDir
	}
	return filepath.Join(c.dir, "data")
}

func (c *Cluster) logFile() string {
	if c.cfg.LogFile != "" {
		return c.cfg.LogFile
	}
	return filepath.Join(c.dir, "postgres.log")
}

// params are the command line's settings. The address, the port and the
// socket come last: they are the promise that nobody else gets in.
func (c *Cluster) params() []string {
	set := map[string]string{
		"fsync":                      "on",
		"synchronous_commit":         "on",
		"full_page_writes":           "on",
		"password_encryption":        "scram-sha-256",
		"timezone":                   "UTC",
		"log_timezone":               "UTC",
		"log_min_messages":           "warning",
		"logging_collector":          "off",
		"max_connections":            "100",
		"max_wal_size":               "2GB",
		"shared_buffers":             "128MB",
		"dynamic_shared_memory_type": "posix",
	}
	for name, value := range c.cfg.Params {
		if set[name] = value; value == "" {
			delete(set, name)
		}
	}
	set["listen_addresses"] = "127.0.0.1"
	set["port"] = strconv.Itoa(c.port)
	set["unix_socket_directories"] = ""
	args := make([]string, 0, 2*len(set))
	for name, value := range set {
		args = append(args, "--"+strings.ReplaceAll(name, "_", "-")+"="+value)
	}
	slices.Sort(args)
	return args
}

func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close() //nolint:errcheck // nothing was sent
	return l.Addr().(*net.TCPAddr).Port, nil
}
