package app

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// gauges publishes what waits, for alerts on age and for autoscaling by lag.
type gauges struct {
	base *Base

	unfinished            *prometheus.GaugeVec
	oldest, unsent        prometheus.Gauge
	oldestUnsent          prometheus.Gauge
	queued, queueInFlight prometheus.Gauge
	failed                *prometheus.CounterVec
}

// gaugesEvery is how often what waits is counted.
const gaugesEvery = 15 * time.Second

// newGauges is a part of every role: when all processors are down, the others
// still say how old the oldest event is.
// outbox adds the domain events, for the roles that may read them.
func newGauges(b *Base, outbox bool) Part {
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		b.Metrics.MustRegister(g)
		return g
	}
	g := &gauges{
		base:          b,
		unfinished:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "umavez_unfinished_events", Help: "Events that are pending or parked."}, []string{"state"}),
		oldest:        gauge("umavez_oldest_pending_seconds", "Age of the oldest pending event. Alert on this: an event that nobody processes raises no error."),
		queued:        gauge("umavez_queue_pending", "Messages that wait in the queue. Scale processors by this."),
		queueInFlight: gauge("umavez_queue_ack_pending", "Messages that are with a processor."),
	}
	if outbox {
		g.unsent = gauge("umavez_outbox_unsent", "Domain events that are not relayed yet.")
		g.oldestUnsent = gauge("umavez_outbox_oldest_seconds", "Age of the oldest domain event that is not relayed.")
	}
	g.failed = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "umavez_gauges_failed_total",
		Help: "Times that what waits could not be counted; its gauges are NaN then."}, []string{"of"})
	b.Metrics.MustRegister(g.unfinished, g.failed)
	return Part{"gauges", g.run}
}

func (g *gauges) run(ctx context.Context) error {
	for {
		g.read(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(gaugesEvery):
		}
	}
}

func (g *gauges) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	b, err := g.base.DB.Backlog(ctx)
	g.set(err, "database", map[prometheus.Gauge]float64{
		g.unfinished.WithLabelValues("pending"): float64(b.Pending), g.unfinished.WithLabelValues("parked"): float64(b.Parked),
		g.oldest: b.OldestPending.Seconds(),
	})
	if g.unsent != nil {
		unsent, oldest, err := g.base.DB.Unsent(ctx)
		g.set(err, "outbox", map[prometheus.Gauge]float64{g.unsent: float64(unsent), g.oldestUnsent: oldest.Seconds()})
	}
	pending, inFlight, err := g.base.Queue.Lag(ctx)
	g.set(err, "queue", map[prometheus.Gauge]float64{g.queued: float64(pending), g.queueInFlight: float64(inFlight)})
}

// set shows values, or that they are not known: an old value that stays would
// hide the very outage that it should tell of.
func (g *gauges) set(err error, of string, values map[prometheus.Gauge]float64) {
	if err != nil {
		g.failed.WithLabelValues(of).Inc()
		g.base.Log.Warn("gauges.unknown", zap.String("of", of), zap.Error(err))
	}
	for gauge, v := range values {
		if err != nil {
			v = math.NaN()
		}
		gauge.Set(v)
	}
}
