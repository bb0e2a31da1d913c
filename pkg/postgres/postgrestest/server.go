package postgrestest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/localpg"
)

// server is the PostgreSQL that this process's tests share.
type server struct {
	url     string
	prefix  string           // of the schemas of this process
	admin   *pgx.Conn        // makes schemas; holds the process's advisory lock
	cluster *localpg.Cluster // nil with DATABASE_URL
}

// Both are guarded by mu. A failure is remembered, so that a hundred tests do
// not wait for it a hundred times.
var (
	shared    *server
	sharedErr error
)

const schemaPrefix = "umavez_test_"

func openServer() (*server, error) {
	if shared == nil && sharedErr == nil {
		shared, sharedErr = newServer()
	}
	return shared, sharedErr
}

func newServer() (*server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	s := &server{url: os.Getenv("DATABASE_URL"), prefix: schemaPrefix + strings.ToLower(rand.Text()[:10])}
	if s.url == "" {
		var err error
		if s.cluster, err = StartShared(ctx); err != nil {
			return nil, err
		}
		s.url = s.cluster.URL("")
	}
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return nil, errors.New("cannot connect to the server that DATABASE_URL names") // the error would show the address
	}
	s.admin = conn
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, lockOf(s.prefix)); err != nil {
		return nil, err
	}
	return s, s.dropAbandoned(ctx)
}

// StartShared starts the cluster that tests share, in the first free of a few
// places: each is used by one process at a time and kept for the next run.
func StartShared(ctx context.Context) (*localpg.Cluster, error) {
	state, err := StateDir()
	if err != nil {
		return nil, err
	}
	for slot := range 16 {
		c, err := localpg.Start(ctx, localpg.Config{
			Dir: filepath.Join(state, fmt.Sprintf("test-pg-%d", slot)),
			Params: map[string]string{
				"max_connections": "300",
				// Tests make and drop many schemas at once.
				"max_locks_per_transaction": "256",
			},
		})
		if !errors.Is(err, localpg.ErrInUse) {
			return c, err
		}
	}
	return nil, errors.New("sixteen test clusters run already; set DATABASE_URL to share one")
}

func shutServer() {
	if shared == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if shared.admin != nil {
		// What we do not manage to drop, the next run does.
		_ = shared.dropSchemas(ctx, shared.prefix)
		_ = shared.admin.Close(ctx)
	}
	if shared.cluster != nil {
		if err := shared.cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "test cluster:", err)
		}
	}
	shared = nil
}

// lockOf is the advisory lock that a process holds as long as it lives, so
// that others can tell its schemas from abandoned ones.
func lockOf(prefix string) int64 {
	h := fnv.New64a()
	h.Write([]byte(prefix))
	return int64(h.Sum64())
}

var processPrefix = regexp.MustCompile(`^(` + schemaPrefix + `[a-z0-9]+)_\d+$`)

// dropAbandoned drops the schemas of processes that ended without doing so.
func (s *server) dropAbandoned(ctx context.Context) error {
	rows, err := s.admin.Query(ctx, `SELECT nspname FROM pg_namespace WHERE starts_with(nspname, $1)`, schemaPrefix)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	done := map[string]bool{s.prefix: true}
	for _, name := range names {
		m := processPrefix.FindStringSubmatch(name)
		if m == nil || done[m[1]] {
			continue
		}
		done[m[1]] = true
		var abandoned bool
		if err := s.admin.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, lockOf(m[1])).Scan(&abandoned); err != nil {
			return err
		}
		if !abandoned {
			continue
		}
		_ = s.dropSchemas(ctx, m[1])
		if _, err := s.admin.Exec(ctx, `SELECT pg_advisory_unlock($1)`, lockOf(m[1])); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) dropSchemas(ctx context.Context, prefix string) error {
	rows, err := s.admin.Query(ctx, `SELECT quote_ident(nspname) FROM pg_namespace WHERE starts_with(nspname, $1)`, prefix+"_")
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := s.admin.Exec(ctx, `SET lock_timeout = '5s'; DROP SCHEMA `+name+` CASCADE`); err != nil {
			return err
		}
	}
	return nil
}
