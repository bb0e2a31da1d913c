package app

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/queue"
	"github.com/umavez/umavez/pkg/sweeper"
)

// Sweeper is the role that rings the bell again for what got stuck.
type Sweeper struct {
	*Base
	*sweeper.Sweeper
}

// NewSweeper reads the settings and opens what the sweeper needs. adjust may
// change the settings before they are used: a command's flags.
func NewSweeper(ctx context.Context, log *zap.Logger, reg prometheus.Registerer, adjust func(*sweeper.Config)) (*Sweeper, error) {
	var conns connections
	var cfg sweeper.Config
	if err := errors.Join(conns.load(), settings(&cfg)); err != nil {
		return nil, err
	}
	if adjust != nil {
		adjust(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	sources, err := loadSources(log)
	if err != nil {
		return nil, err
	}
	base, err := conns.open(ctx, "sweeper", log, reg)
	if err != nil {
		return nil, err
	}
	var canLookup []string
	for _, e := range sources.Entries() {
		if e.Provider.Traits().CanLookup {
			canLookup = append(canLookup, e.Source.Provider+"/"+accountOf(e.Source.Account))
		}
	}
	return &Sweeper{base, sweeper.New(cfg, base.DB, publisher(base.Queue), canLookup, log.Named("sweeper"))}, nil
}

func accountOf(a string) string {
	if a == "" {
		return "default"
	}
	return a
}

// Parts is the loop.
func (s *Sweeper) Parts() []Part { return []Part{{"sweeper", s.Loop}} }

func publisher(conn *queue.Conn) sweeper.Publish {
	states := map[queue.Result]sweeper.PublishState{
		queue.Stored: sweeper.Stored, queue.Waiting: sweeper.Waiting, queue.Failed: sweeper.Failed,
	}
	return func(ctx context.Context, notices []event.Notice) []sweeper.PublishState {
		out := make([]sweeper.PublishState, len(notices))
		for i, p := range conn.Publish(ctx, notices) {
			out[i] = states[p.Result]
		}
		return out
	}
}
