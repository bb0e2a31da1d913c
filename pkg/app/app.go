// Package app puts the rooms together: it reads the settings of one role from
// the environment, opens what the role needs, and gives the parts that a
// process runs. The binaries and the all-in-one `umavez dev` are these parts
// in one or in several processes; nothing here decides anything.
package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/daemon"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/provider/registry"
	"github.com/umavez/umavez/pkg/queue"
)

// Part is one thing that runs until its context ends.
type Part struct {
	Name string
	Run  func(context.Context) error
}

// Base is what every role has open.
type Base struct {
	DB      *postgres.DB
	Queue   *queue.Conn
	Log     *zap.Logger
	Metrics prometheus.Registerer
}

// connections is how to reach the two servers.
type connections struct {
	postgres postgres.Config
	queue    queue.Config
}

func (c *connections) load() error { return load(&c.postgres, &c.queue) }

// open connects to both servers and refuses a database that would make the
// promises untrue. The broker may be away; the database may not.
func (c *connections) open(ctx context.Context, role string, log *zap.Logger, reg prometheus.Registerer) (*Base, error) {
	db, err := postgres.Open(ctx, c.postgres)
	if err != nil {
		return nil, err
	}
	for _, check := range []func(context.Context) error{db.Ping, db.CheckSchema, db.CheckDurability, db.CheckTimeouts} {
		checkCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := check(checkCtx)
		cancel()
		if err != nil {
			db.Close()
			return nil, err
		}
	}
	c.queue.Name = "umavez-" + role
	conn, err := queue.Connect(ctx, c.queue, log.Named("queue"))
	if err != nil {
		db.Close()
		return nil, err
	}
	conn.Lost = ringForAll(db, log)
	registerPool(reg, db)
	return &Base{DB: db, Queue: conn, Log: log, Metrics: reg}, nil
}

// ringForAll makes everything pending due: the messages of all of it are gone.
// What somebody holds is in hand, and keeps nobody else waiting.
func ringForAll(db *postgres.DB, log *zap.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		n, err := db.RingForAll(ctx)
		log.Error("queue.stream_vanished", zap.Int("events_due", n), zap.Error(err))
		if errors.Is(err, postgres.ErrRetry) {
			return nil
		}
		return err
	}
}

// OpenDatabase connects to DATABASE_URL alone, for commands that read. A
// database that does not answer is an error of settings.
func OpenDatabase(ctx context.Context) (*postgres.DB, error) {
	var cfg postgres.Config
	if err := load(&cfg); err != nil {
		return nil, &daemon.ConfigError{Err: err}
	}
	return openDatabase(ctx, cfg)
}

func openDatabase(ctx context.Context, cfg postgres.Config) (*postgres.DB, error) {
	db, err := postgres.Open(ctx, cfg)
	if err != nil {
		return nil, &daemon.ConfigError{Err: err}
	}
	if err := db.Ping(ctx); err != nil {
		db.Close()
		return nil, &daemon.ConfigError{Err: fmt.Errorf("DATABASE_URL: %w", err)}
	}
	return db, nil
}

// OpenQueue connects to NATS_URL alone and waits a moment for it.
func OpenQueue(ctx context.Context) (*queue.Conn, error) {
	var cfg queue.Config
	if err := load(&cfg); err != nil {
		return nil, &daemon.ConfigError{Err: err}
	}
	conn, err := queue.Connect(ctx, cfg, zap.NewNop())
	if err != nil {
		return nil, &daemon.ConfigError{Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := conn.WaitConnected(ctx); err != nil {
		conn.Close()
		return nil, &daemon.ConfigError{Err: err}
	}
	return conn, nil
}

// Close gives the connections back, the queue's first.
func (b *Base) Close() {
	b.Queue.Close()
	b.DB.Close()
}

// Ready says whether the database answers with a schema that fits.
func (b *Base) Ready(ctx context.Context) error { return b.DB.CheckSchema(ctx) }

// loadSources reads the configured accounts of gateways.
func loadSources(log *zap.Logger) (*registry.Set, error) {
	set, err := registry.Load(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	set.OnReload(func(err error) {
		if err != nil {
			log.Error("sources.not_reloaded", zap.Error(err))
			return
		}
		log.Info("sources.reloaded")
	})
	names := make([]string, 0, 4)
	for _, e := range set.Entries() {
		names = append(names, e.Source.Name()+" (lookup "+string(e.Source.Lookup)+")")
	}
	log.Info("sources.loaded", zap.String("sources", strings.Join(names, ", ")))
	return set, nil
}

func registerPool(reg prometheus.Registerer, db *postgres.DB) {
	stat := func(name, help string, get func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, get))
	}
	stat("umavez_db_connections_used", "Database connections in use.", func() float64 { return float64(db.Pool.Stat().AcquiredConns()) })
	stat("umavez_db_connections_max", "Database connections at most.", func() float64 { return float64(db.Pool.Stat().MaxConns()) })
}
