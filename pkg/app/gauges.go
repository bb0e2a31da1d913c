package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// gauges publishes what waits, for alerts on age and for autoscaling by lag.
type gauges struct {
	base  *Base
	every time.Duration

	unfinished            *prometheus.GaugeVec
	oldest, unsent        prometheus.Gauge
	oldestUnsent          prometheus.Gauge
	queued, queueInFlight prometheus.Gauge
}

func newGauges(b *Base, every time.Duration) *gauges {
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		b.Metrics.MustRegister(g)
		return g
	}
	g := &gauges{
		base: b, every: every,
		unfinished:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "umavez_unfinished_events", Help: "Events that are pending or parked."}, []string{"state"}),
		oldest:        gauge("umavez_oldest_pending_seconds", "Age of the oldest pending event. Alert on this: an event that nobody processes raises no error."),
		unsent:        gauge("umavez_outbox_unsent", "Domain events that are not relayed yet."),
		oldestUnsent:  gauge("umavez_outbox_oldest_seconds", "Age of the oldest domain event that is not relayed."),
		queued:        gauge("umavez_queue_pending", "Messages that wait in the queue. Scale processors by this."),
		queueInFlight: gauge("umavez_queue_ack_pending", "Messages that are with a processor."),
	}
	b.Metrics.MustRegister(g.unfinished)
	return g
}

func (g *gauges) run(ctx context.Context) error {
	for {
		g.read(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(g.every):
		}
	}
}

func (g *gauges) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if b, err := g.base.DB.Backlog(ctx); err != nil {
		g.base.Log.Debug("gauges.database", zap.Error(err))
	} else {
		g.unfinished.WithLabelValues("pending").Set(float64(b.Pending))
		g.unfinished.WithLabelValues("parked").Set(float64(b.Parked))
		g.oldest.Set(b.OldestPending.Seconds())
		g.unsent.Set(float64(b.Unsent))
		g.oldestUnsent.Set(b.OldestUnsent.Seconds())
	}
	if pending, inFlight, err := g.base.Queue.Lag(ctx); err != nil {
		g.base.Log.Debug("gauges.queue", zap.Error(err))
	} else {
		g.queued.Set(float64(pending))
		g.queueInFlight.Set(float64(inFlight))
	}
}
