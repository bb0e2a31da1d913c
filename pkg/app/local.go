package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/localpg"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/queue"
)

// Local is what runs beside the roles on a developer's machine: a private
// PostgreSQL and an embedded NATS, each only where no address was given.
type Local struct {
	Postgres *localpg.Cluster // nil: DATABASE_URL was given
	NATS     *queue.Embedded  // nil: NATS_URL was given
}

// StartLocal starts what is missing below dir and sets DATABASE_URL and
// NATS_URL for this process and its children.
func StartLocal(ctx context.Context, dir string) (*Local, error) {
	l := &Local{}
	if os.Getenv("DATABASE_URL") == "" {
		if err := l.startPostgres(ctx, dir); err != nil {
			return nil, err
		}
	}
	if os.Getenv("NATS_URL") == "" {
		n, err := queue.StartEmbedded(filepath.Join(dir, "nats"), 0)
		if err != nil {
			l.Stop()
			return nil, err
		}
		l.NATS = n
		os.Setenv("NATS_URL", n.URL()) //nolint:errcheck // the name is valid
	}
	return l, nil
}

func (l *Local) startPostgres(ctx context.Context, dir string) error {
	cluster, err := localpg.Start(ctx, localpg.Config{
		Dir:    filepath.Join(dir, "postgres"),
		Params: map[string]string{"max_connections": "100", "shared_buffers": "256MB"},
	})
	if err != nil {
		return err
	}
	l.Postgres = cluster
	os.Setenv("DATABASE_URL", cluster.URL("")) //nolint:errcheck // the name is valid
	return nil
}

// StartLocalPostgres is StartLocal without the broker.
func StartLocalPostgres(ctx context.Context, dir string) (*Local, error) {
	l := &Local{}
	if os.Getenv("DATABASE_URL") != "" {
		return l, nil
	}
	return l, l.startPostgres(ctx, dir)
}

// Stop ends what was started.
func (l *Local) Stop() {
	if l.NATS != nil {
		l.NATS.Shutdown()
	}
	if l.Postgres != nil {
		_ = l.Postgres.Stop()
	}
}

// Migrated is what Migrate did, or would do.
type Migrated struct {
	Database []postgres.Migration `json:"database"`
	Queue    bool                 `json:"queue"` // streams and consumer were created or brought up to date
}

// Migrate brings the database's schema, and the streams and the consumer of
// the queue, up to date. With dryRun it says what it would run.
func Migrate(ctx context.Context, log *zap.Logger, dryRun, queueToo bool, progress func(postgres.Migration)) (m Migrated, err error) {
	var conns connections
	if err := conns.load(); err != nil {
		return m, err
	}
	db, err := postgres.Open(ctx, conns.postgres)
	if err != nil {
		return m, err
	}
	defer db.Close()
	if m.Database, err = db.Migrate(ctx, dryRun, progress); err != nil {
		return m, err
	}
	if dryRun || !queueToo {
		return m, nil
	}
	conn, err := queue.Connect(ctx, conns.queue, log)
	if err != nil {
		return m, err
	}
	defer conn.Close()
	if err := conn.Ensure(ctx); err != nil {
		if errors.Is(err, queue.ErrUnavailable) {
			return m, fmt.Errorf("the database is migrated, the queue is not: %w; is NATS_URL right? --skip-queue leaves it out", err)
		}
		return m, err
	}
	m.Queue = true
	return m, nil
}
