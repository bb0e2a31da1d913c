package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/lookup"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/processor"
	"github.com/umavez/umavez/pkg/provider/registry"
	"github.com/umavez/umavez/pkg/queue"
)

// Processor is the role that turns deliveries into settled events and relays
// their domain events.
type Processor struct {
	*Base
	cfg     processor.Config
	sources *registry.Set
	asker   *lookup.Asker
}

// processorSettings are all that the role reads.
type processorSettings struct {
	conns   connections
	cfg     processor.Config
	sources *registry.Set
}

// load reports all faults at once.
func (s *processorSettings) load(log *zap.Logger) (err error) {
	read := load(&s.conns.postgres, &s.conns.queue, &s.cfg)
	s.sources, err = loadSources(log)
	return distinct(read, err)
}

// NewProcessor reads the settings and opens what the processor needs.
func NewProcessor(ctx context.Context, log *zap.Logger, reg prometheus.Registerer) (*Processor, error) {
	var s processorSettings
	if err := s.load(log); err != nil {
		return nil, err
	}
	conns, cfg := s.conns, s.cfg
	// Each worker needs one connection; the relay and the claim of due events
	// need one each. Fewer would make them wait for each other.
	conns.postgres.MaxConns = max(conns.postgres.MaxConns, int32(cfg.Workers)+2)
	base, err := conns.open(ctx, "processor", log, reg)
	if err != nil {
		return nil, err
	}
	return &Processor{Base: base, cfg: cfg, sources: s.sources, asker: lookup.New(cfg.Lookup)}, nil
}

// Close gives everything back.
func (p *Processor) Close() {
	p.asker.Close()
	p.Base.Close()
}

// Parts are the workers and the relay.
func (p *Processor) Parts() []Part {
	worker := processor.New(p.cfg, p.DB, p.sources, p.asker, processor.NewMetrics(p.Metrics), p.Log.Named("processor"))
	met := "" // the relay is one goroutine
	relay := processor.NewRelay(func(ctx context.Context, limit int) (int, bool, error) {
		if err := p.meetBroker(ctx, &met); err != nil {
			return 0, false, err
		}
		return p.DB.RelayOutbox(ctx, limit, p.sendTo(met))
	}, p.cfg.RelayEvery, p.Log.Named("relay"))
	worker.Moved = relay.Wake
	return []Part{
		{"workers", func(ctx context.Context) error { return p.work(ctx, worker) }},
		{"relay", relay.Run},
		newGauges(p.Base, true),
	}
}

// work gives each worker a consumer of its own: a consumer has one batch in
// hand at a time.
func (p *Processor) work(ctx context.Context, worker *processor.Processor) error {
	fetches := make([]processor.Fetch, p.cfg.Workers)
	for i := range fetches {
		w := &workerQueue{p: p}
		defer w.close()
		fetches[i] = w.fetch
	}
	p.Log.Info("processor.started", zap.Int("workers", p.cfg.Workers), zap.Int("batch", p.cfg.Batch))
	return worker.Run(ctx, fetches...)
}

// workerQueue is one worker's hold on the queue. A broker that is away is waited
// for, now and later: what is due in the database is worked off meanwhile.
type workerQueue struct {
	p        *Processor
	consumer *queue.Consumer // nil: not yet
}

func (w *workerQueue) fetch(ctx context.Context, most int, wait time.Duration) ([]processor.Delivery, error) {
	got, err := w.take(ctx, most, wait)
	switch {
	case err == nil || ctx.Err() != nil:
	case errors.Is(err, queue.ErrUnsafe), errors.Is(err, queue.ErrStalled):
		return nil, err
	default:
		w.p.Log.Warn("queue.not_ready", zap.Error(err))
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		return nil, nil
	}
	out := make([]processor.Delivery, len(got))
	for i, d := range got {
		out[i] = processor.Delivery{EventID: d.EventID, Ack: d.Ack, Nak: d.Nak}
	}
	return out, nil
}

func (w *workerQueue) take(ctx context.Context, most int, wait time.Duration) (got []*queue.Delivery, err error) {
	if w.consumer == nil {
		w.consumer, err = w.p.Queue.Consumer(ctx, queue.ConsumerConfig{MaxBatch: w.p.cfg.Batch})
		if err != nil {
			w.consumer = nil
			return nil, err
		}
	}
	return w.consumer.Fetch(ctx, most, wait)
}

func (w *workerQueue) close() {
	if w.consumer != nil {
		w.consumer.Close()
	}
}

// meetBroker relays again what a broker may have lost by the start of which we
// are the first to know.
func (p *Processor) meetBroker(ctx context.Context, met *string) error {
	id := p.Queue.Broker()
	if id == "" || id == *met || p.cfg.RelayAgain == 0 {
		return nil
	}
	again, isNew, err := p.DB.MeetBroker(ctx, id, p.cfg.RelayAgain)
	if err != nil {
		return err
	}
	*met = id
	if isNew {
		p.Log.Info("outbox.broker_met", zap.String("broker", id), zap.Int("relayed_again", again), zap.Duration("of_the_last", p.cfg.RelayAgain))
	}
	return nil
}

var errNotMet = fmt.Errorf("%w: it is away, or was started a moment ago and is not met yet", queue.ErrUnavailable)

// sendTo sends to the broker that was met. One that came a moment ago is met
// before it gets anything: what is relayed to it would count as what its
// predecessor took last, and hide what that one lost.
func (p *Processor) sendTo(met string) func(context.Context, []postgres.Outgoing) (int, error) {
	return func(ctx context.Context, rows []postgres.Outgoing) (int, error) {
		if id := p.Queue.Broker(); (id == "" || id != met) && p.cfg.RelayAgain > 0 {
			return 0, errNotMet
		}
		out := make([]queue.Outgoing, len(rows))
		for i, r := range rows {
			out[i] = queue.Outgoing(r)
		}
		return p.Queue.Relay(ctx, out)
	}
}
