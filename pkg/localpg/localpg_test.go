package localpg

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) {
	// As a child: own a cluster until killed, to see what becomes of it.
	if dir := os.Getenv("LOCALPG_TEST_OWN"); dir != "" {
		c, err := Start(context.Background(), Config{Dir: dir, Throwaway: true})
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println(c.proc.pid)
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0) // without Stop
	}
	os.Exit(m.Run())
}

func start(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = dirFor(t)
	}
	cfg.Throwaway = true
	c, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Remove(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// dirFor is a directory that every user can reach, unlike t.TempDir.
func dirFor(t *testing.T) string {
	t.Helper()
	parent, err := os.MkdirTemp("", "umavez-localpg-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(parent) }) //nolint:errcheck // scratch
	return filepath.Join(parent, "pg")
}

func query[T any](t *testing.T, address, sql string) (v T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // the answer was read
	if err := conn.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func TestClusterIsDurableAndPrivate(t *testing.T) {
	t.Parallel()
	c := start(t, Config{Params: map[string]string{"max_connections": "33"}})

	for setting, want := range map[string]string{
		"fsync": "on", "synchronous_commit": "on", "listen_addresses": "127.0.0.1",
		"unix_socket_directories": "", "password_encryption": "scram-sha-256", "max_connections": "33",
	} {
		if got := query[string](t, c.URL(""), "SELECT current_setting('"+setting+"')"); got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
	if got := query[string](t, c.URL(""), "SELECT current_database()"); got != "umavez" {
		t.Errorf("database is %q", got)
	}
	info, err := os.Stat(filepath.Join(c.Dir(), "password"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("password file: %v %v", info, err)
	}
	u, _ := url.Parse(c.URL(""))
	u.User = url.UserPassword("umavez", "wrong")
	if conn, err := pgx.Connect(t.Context(), u.String()); err == nil {
		conn.Close(t.Context()) //nolint:errcheck // it must not have opened
		t.Error("a wrong password was let in")
	}
}

func TestCommittedRowsSurviveACrashAndANewStart(t *testing.T) {
	t.Parallel()
	c := start(t, Config{})
	dir := c.cfg.Dir
	query[string](t, c.URL(""), "WITH made AS (SELECT 1) SELECT 'x' FROM made")
	conn, err := pgx.Connect(t.Context(), c.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	before := c.URL("")
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the connection survived the crash")
	}
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.URL("") != before {
		t.Error("the address changed with a restart")
	}
	if n := query[int](t, c.URL(""), "SELECT count(*) FROM kept"); n != 1 {
		t.Errorf("%d rows after the crash", n)
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	again := start(t, Config{Dir: dir})
	if n := query[int](t, again.URL(""), "SELECT count(*) FROM kept"); n != 1 {
		t.Errorf("%d rows after a new start", n)
	}
}

func TestADirectoryHasOneOwner(t *testing.T) {
	t.Parallel()
	c := start(t, Config{})
	if _, err := Start(t.Context(), Config{Dir: c.cfg.Dir}); !errors.Is(err, ErrInUse) {
		t.Errorf("second owner: %v", err)
	}
	if n := query[int](t, c.URL(""), "SELECT 1"); n != 1 {
		t.Error("the first owner's server was disturbed")
	}
}

func TestServerEndsWithItsKilledOwnerAndCanBeTakenOver(t *testing.T) {
	t.Parallel()
	dir := dirFor(t)
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), "LOCALPG_TEST_OWN="+dir)
	stdin, _ := child.StdinPipe()
	stdout, _ := child.StdoutPipe()
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer stdin.Close() //nolint:errcheck // the child is gone
	line, err := bufio.NewReader(stdout).ReadString('\n')
	pid, convErr := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || convErr != nil {
		t.Fatalf("child said %q", line)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()

	c := start(t, Config{Dir: dir}) // waits for or stops the orphan
	if n := query[int](t, c.URL(""), "SELECT 1"); n != 1 {
		t.Error("no answer")
	}
	if err := syscall.Kill(pid, 0); err == nil && isPostmaster(pid, c.dataDir()) {
		t.Errorf("the orphan %d still runs", pid)
	}
}

func TestStaleProcessFileOfAStrangerIsRemoved(t *testing.T) {
	t.Parallel()
	c := start(t, Config{})
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	// Our own pid lives and is not a server: what a reboot can leave behind.
	text := fmt.Sprintf("%d\n%s\n0\n1\n\n127.0.0.1\n0\nready\n", os.Getpid(), c.dataDir())
	if err := os.WriteFile(c.pidPath(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestUnreachableDirectoryIsReplaced(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		// Nobody lends a user here; the directory must be used as it is.
		c := start(t, Config{})
		if c.Moved() {
			t.Error("moved without need")
		}
		return
	}
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	c := start(t, Config{Dir: filepath.Join(closed, "pg")})
	if !c.Moved() || strings.HasPrefix(c.Dir(), closed) {
		t.Errorf("Dir %s, moved %v", c.Dir(), c.Moved())
	}
}

func TestInterruptedInitIsDoneAnew(t *testing.T) {
	t.Parallel()
	dir := dirFor(t)
	if err := os.MkdirAll(filepath.Join(dir, "data.new", "base"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := start(t, Config{Dir: dir})
	if n := query[int](t, c.URL(""), "SELECT 1"); n != 1 {
		t.Error("no answer")
	}
}

func TestStartFailureShowsTheServersWords(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), Config{Dir: dirFor(t), Throwaway: true, Params: map[string]string{"no_such_setting": "1"}})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("error: %v", err)
	}
}

func TestMissingProgramsNameWhatToInstall(t *testing.T) {
	t.Parallel()
	_, err := Find(9)
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "install") && !strings.Contains(err.Error(), "apk add") && !strings.Contains(err.Error(), "pacman") {
		t.Errorf("error: %v", err)
	}
}

func TestStartObeysItsDeadline(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	dir := dirFor(t)
	if _, err := Start(ctx, Config{Dir: dir}); err == nil {
		t.Error("started within a millisecond")
	}
}

func TestFreePortIsFree(t *testing.T) {
	t.Parallel()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	l.Close() //nolint:errcheck // only opened
}
