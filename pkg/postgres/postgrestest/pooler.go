package postgrestest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/localpg"
)

// poolerScript ends the pooler with the pipe that it is given as its input,
// and so with the process of the test.
const poolerScript = `"$@" & child=$!; trap 'kill -9 $child' EXIT; cat >/dev/null; kill -INT $child; wait $child; trap - EXIT`

// Pooler starts a PgBouncer in transaction mode before a cluster, with so many
// sessions there, and returns the DATABASE_URL behind it. more are further
// lines of its settings. `make` installs the program; without it the test
// fails.
func Pooler(t testing.TB, c *localpg.Cluster, sessions int, more ...string) string {
	t.Helper()
	program := "/usr/sbin/pgbouncer"
	if found, err := exec.LookPath("pgbouncer"); err == nil {
		program = found
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatal("PgBouncer is not installed; run scripts/ensure-pgbouncer.sh")
	}
	target, err := url.Parse(c.URL(""))
	if err != nil {
		t.Fatal("the cluster has no address") // the error would show it
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "umavez-pooler-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck // scratch
	// It gives up the rights of root before it reads its settings again.
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	password, _ := target.User.Password()
	name := strings.TrimPrefix(target.Path, "/")
	settings := fmt.Sprintf(`[databases]
%s = host=127.0.0.1 port=%s dbname=%s user=%s password='%s'
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = %d
max_client_conn = 300
%s
`, name, target.Port(), name, target.User.Username(), password, port, sessions, strings.Join(more, "\n"))
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"-c", poolerScript, "pooler", program, "-q"}
	if os.Geteuid() == 0 {
		args = append(args, "-u", "nobody")
	}
	cmd := exec.Command("sh", append(args, file)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	log := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the pooler's log: %s", log)
		}
	})
	address := fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", target.User.Username(), port, name)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := pgx.Connect(context.Background(), address)
		if err == nil {
			_ = conn.Close(context.Background())
			return address
		}
		if time.Now().After(deadline) {
			t.Fatalf("the pooler does not answer: %v", err)
		}
	}
}
