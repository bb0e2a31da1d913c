package app

import (
	"context"
	"errors"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
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
		if e.Provider.Traits().CanLookup && e.Source.Lookup != provider.LookupNever {
			canLookup = append(canLookup, e.Source.Provider+"/"+accountOf(e.Source.Account))
		}
	}
	s := &Sweeper{base, sweeper.New(cfg, base.DB, publisher(base.Queue), canLookup, log.Named("sweeper"))}
	s.Vanished = s.streamVanished
	return s, nil
}

// streamVanished makes a stream or consumer again that was lost, and says
// whether the messages of all pending events went with it.
func (s *Sweeper) streamVanished(ctx context.Context) (bool, error) {
	created, err := s.Queue.Check(ctx)
	return slices.Contains(created, queue.StreamWebhooks), err
}

func accountOf(a string) string {
	if a == "" {
		return "default"
	}
	return a
}

// Parts are the loop and the gauges.
func (s *Sweeper) Parts() []Part { return []Part{newGauges(s.Base), {"sweeper", s.Loop}} }

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
