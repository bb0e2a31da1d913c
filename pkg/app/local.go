package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/daemon"
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
		if os.Getenv("NATS_URL") != "" {
			// Its messages are of another database, and would be taken away.
			return nil, &daemon.ConfigError{Err: errors.New("NATS_URL is set and DATABASE_URL is not: the streams of a NATS account belong to one database; set both or neither")}
		}
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
	DryRun   bool                 `json:"dry_run"`
	From     int32                `json:"from_version"`
	To       int32                `json:"to_version"`
	Database []postgres.Migration `json:"database"` // run, or to be run
	Queue    bool                 `json:"queue"`    // streams and consumer were created or brought up to date
	// MissingRoles could not be created by this user and must be by an
	// administrator.
	MissingRoles []string `json:"missing_roles"`
}

// ErrQueueNotMigrated says that the database was migrated and the queue not.
var ErrQueueNotMigrated = errors.New("the database is migrated, the queue is not")

// Migrate brings the database's schema, and the streams and the consumer of
// the queue, up to date. With dryRun it says what it would run.
func Migrate(ctx context.Context, log *zap.Logger, dryRun, queueToo bool, progress func(postgres.Migration)) (m Migrated, err error) {
	m = Migrated{DryRun: dryRun, Database: []postgres.Migration{}, MissingRoles: []string{}, To: postgres.SchemaVersion()}
	var conns connections
	if err := conns.load(); err != nil {
		return m, &daemon.ConfigError{Err: err}
	}
	db, err := openDatabase(ctx, conns.postgres)
	if err != nil {
		return m, err
	}
	defer db.Close()
	ran, err := db.Migrate(ctx, dryRun, progress)
	if err != nil {
		return m, err
	}
	m.Database = append(m.Database, ran...)
	m.From = m.To - int32(len(ran))
	if dryRun {
		return m, nil
	}
	if m.MissingRoles, err = db.MissingRoles(ctx); err != nil || !queueToo {
		return m, err
	}
	conn, err := queue.Connect(ctx, conns.queue, log)
	if err != nil {
		return m, &daemon.ConfigError{Err: err}
	}
	defer conn.Close()
	conn.Lost = ringForAll(db, log)
	wait, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_ = conn.WaitConnected(wait) // Ensure says what is wrong
	if err := conn.Ensure(ctx); err != nil {
		return m, fmt.Errorf("%w: %w", ErrQueueNotMigrated, err)
	}
	m.Queue = true
	return m, nil
}
