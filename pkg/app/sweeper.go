package app

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/registry"
	"github.com/umavez/umavez/pkg/queue"
	"github.com/umavez/umavez/pkg/sweeper"
)

// Sweeper is the role that rings the bell again for what got stuck.
type Sweeper struct {
	*Base
	*sweeper.Sweeper
	Gateways []string // those of SOURCES
}

// sweeperSettings are all that the role reads.
type sweeperSettings struct {
	conns   connections
	cfg     sweeper.Config
	sources *registry.Set
}

// load reports all faults at once. adjust may change the settings before they
// are checked.
func (s *sweeperSettings) load(log *zap.Logger, adjust func(*sweeper.Config)) (err error) {
	read := distinct(load(&s.conns.postgres, &s.conns.queue), settings(&s.cfg))
	if adjust != nil {
		adjust(&s.cfg)
	}
	s.sources, err = loadSources(log)
	return distinct(read, s.cfg.Validate(), err)
}

// NewSweeper reads the settings and opens what the sweeper needs. adjust may
// change the settings before they are used: a command's flags.
func NewSweeper(ctx context.Context, log *zap.Logger, reg prometheus.Registerer, adjust func(*sweeper.Config)) (*Sweeper, error) {
	var set sweeperSettings
	if err := set.load(log, adjust); err != nil {
		return nil, err
	}
	base, err := set.conns.open(ctx, "sweeper", log, reg)
	if err != nil {
		return nil, err
	}
	var gateways []string
	var canLookup []string
	for _, e := range set.sources.Entries() {
		gateways = append(gateways, e.Source.Provider)
		if e.Provider.Traits().CanLookup && e.Source.Lookup != provider.LookupNever {
			canLookup = append(canLookup, e.Source.Provider+"/"+accountOf(e.Source.Account))
		}
	}
	s := &Sweeper{base, sweeper.New(set.cfg, base.DB, publisher(base.Queue), canLookup, log.Named("sweeper")), gateways}
	s.Vanished = s.streamVanished
	return s, nil
}

// streamVanished makes a stream or consumer again that was lost, and says
// whether the messages of all pending events went with it. Messages that are
// there and would never be delivered are freed.
func (s *Sweeper) streamVanished(ctx context.Context) (bool, error) {
	created, err := s.Queue.Check(ctx)
	if err == nil {
		_, err = s.Queue.FreeStranded(ctx)
	}
	return slices.Contains(created, queue.StreamWebhooks), err
}

func accountOf(a string) string {
	if a == "" {
		return "default"
	}
	return a
}

// Parts are the loop and the gauges.
func (s *Sweeper) Parts() []Part { return []Part{newGauges(s.Base, true), {"sweeper", s.Loop}} }

func publisher(conn *queue.Conn) sweeper.Publish {
	states := map[queue.Result]sweeper.PublishState{
		queue.Stored: sweeper.Stored, queue.Waiting: sweeper.Waiting, queue.Failed: sweeper.Failed,
	}
	return func(ctx context.Context, notices []event.Notice) []sweeper.PublishState {
		conn.AwaitRoom(ctx)
		out := make([]sweeper.PublishState, len(notices))
		for i, p := range conn.Publish(ctx, notices) {
			out[i] = states[p.Result]
		}
		return out
	}
}
