// Package queuetest gives each test a JetStream of its own: in this process,
// which takes a few milliseconds, or in a process that can be killed.
package queuetest

import (
	"context"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/queue"
)

// New returns a connection to a server of this test's own, with the streams
// made.
func New(t testing.TB) *queue.Conn {
	t.Helper()
	conn := NewServer(t).Connect(t)
	if err := conn.Ensure(context.Background()); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Server is an in-process NATS server that a test may stop and start again
// with its data, on the same address.
type Server struct {
	t        testing.TB
	dir      string
	port     int
	embedded *queue.Embedded
}

// NewServer starts a server of this test's own.
func NewServer(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, dir: t.TempDir(), port: freePort(t)}
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// URL is the server's address, for NATS_URL.
func (s *Server) URL() string { return address(s.port) }

// Dir is where the server keeps its data.
func (s *Server) Dir() string { return s.dir }

// Removed are the consumers that the last start removed.
func (s *Server) Removed() []string { return s.embedded.Removed }

// Start starts a stopped server on its data.
func (s *Server) Start() {
	s.t.Helper()
	if s.embedded != nil {
		return
	}
	var err error
	if s.embedded, err = queue.StartEmbedded(s.dir, s.port); err != nil {
		s.t.Fatal(err)
	}
}

// Stop ends the server in order; its data stays.
func (s *Server) Stop() {
	if s.embedded != nil {
		s.embedded.Shutdown()
		s.embedded = nil
	}
}

// Forget stops the server and deletes all its data: the worst a broker can do.
func (s *Server) Forget() {
	s.t.Helper()
	s.Stop()
	if err := os.RemoveAll(s.dir); err != nil {
		s.t.Fatal(err)
	}
}

// Connect opens a connection that is closed with the test.
func (s *Server) Connect(t testing.TB) *queue.Conn {
	t.Helper()
	return Connect(t, queue.Config{URL: s.URL()})
}

// Connect opens a connection that is closed with the test.
func Connect(t testing.TB, cfg queue.Config) *queue.Conn {
	t.Helper()
	conn, err := queue.Connect(context.Background(), cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func address(port int) string { return "nats://127.0.0.1:" + strconv.Itoa(port) }

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // only opened
	return l.Addr().(*net.TCPAddr).Port
}

// Eventually polls until a condition holds, and fails the test when it does
// not within a deadline.
func Eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}
