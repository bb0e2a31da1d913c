package app

import (
	"context"
	"errors"
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

// NewProcessor reads the settings and opens what the processor needs.
func NewProcessor(ctx context.Context, log *zap.Logger, reg prometheus.Registerer) (*Processor, error) {
	var conns connections
	var cfg processor.Config
	if err := errors.Join(conns.load(), load(&cfg)); err != nil {
		return nil, err
	}
	sources, err := loadSources(log)
	if err != nil {
		return nil, err
	}
	// Each worker needs one connection; the relay and the claim of due events
	// need one each. Fewer would make them wait for each other.
	conns.postgres.MaxConns = max(conns.postgres.MaxConns, int32(cfg.Workers)+2)
	base, err := conns.open(ctx, "processor", log, reg)
	if err != nil {
		return nil, err
	}
	return &Processor{Base: base, cfg: cfg, sources: sources, asker: lookup.New(cfg.Lookup)}, nil
}

// Close gives everything back.
func (p *Processor) Close() {
	p.asker.Close()
	p.Base.Close()
}

// Parts are the workers and the relay.
func (p *Processor) Parts() []Part {
	worker := processor.New(p.cfg, p.DB, p.sources, p.asker, processor.NewMetrics(p.Metrics), p.Log.Named("processor"))
	relay := processor.NewRelay(func(ctx context.Context, limit int) (int, bool, error) {
		return p.DB.RelayOutbox(ctx, limit, p.send)
	}, p.cfg.RelayEvery, p.Log.Named("relay"))
	worker.Moved = relay.Wake
	return []Part{
		{"workers", func(ctx context.Context) error { return p.work(ctx, worker) }},
		{"relay", relay.Run},
		{"gauges", newGauges(p.Base, 10*time.Second).run},
	}
}

// work gives each worker a consumer of its own: a consumer has one batch in
// hand at a time.
func (p *Processor) work(ctx context.Context, worker *processor.Processor) error {
	fetches := make([]processor.Fetch, p.cfg.Workers)
	for i := range fetches {
		consumer, err := p.consumer(ctx)
		if err != nil {
			return err
		}
		if consumer == nil {
			return nil // ctx ended before the broker was there
		}
		defer consumer.Close()
		fetches[i] = fetchFrom(consumer)
	}
	p.Log.Info("processor.started", zap.Int("workers", p.cfg.Workers), zap.Int("batch", p.cfg.Batch))
	return worker.Run(ctx, fetches...)
}

// consumer waits for a broker that is away, and refuses one whose settings
// can lose work.
func (p *Processor) consumer(ctx context.Context) (*queue.Consumer, error) {
	for {
		c, err := p.Queue.Consumer(ctx, queue.ConsumerConfig{MaxBatch: p.cfg.Batch})
		switch {
		case err == nil:
			return c, nil
		case ctx.Err() != nil:
			return nil, nil
		case errors.Is(err, queue.ErrUnsafe):
			return nil, err
		}
		p.Log.Warn("queue.not_ready", zap.Error(err))
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(time.Second):
		}
	}
}

func fetchFrom(c *queue.Consumer) processor.Fetch {
	return func(ctx context.Context, most int, wait time.Duration) ([]processor.Delivery, error) {
		got, err := c.Fetch(ctx, most, wait)
		out := make([]processor.Delivery, len(got))
		for i, d := range got {
			out[i] = processor.Delivery{EventID: d.EventID, Ack: d.Ack, Nak: d.Nak}
		}
		return out, err
	}
}

func (p *Processor) send(ctx context.Context, rows []postgres.Outgoing) (int, error) {
	out := make([]queue.Outgoing, len(rows))
	for i, r := range rows {
		out[i] = queue.Outgoing(r)
	}
	return p.Queue.Relay(ctx, out)
}
