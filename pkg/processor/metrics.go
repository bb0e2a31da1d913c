package processor

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics mirror the outcomes. Labels are few and never free text.
type Metrics struct {
	outcomes      *prometheus.CounterVec
	lookups       *prometheus.CounterVec
	lookupS       *prometheus.HistogramVec
	toFinal       *prometheus.HistogramVec
	batchN        prometheus.Histogram
	batchS        prometheus.Histogram
	reruns        prometheus.Counter
	disagreements *prometheus.CounterVec
	splits        prometheus.Counter
	unknown       prometheus.Counter
	waits         *prometheus.CounterVec
	settledBefore prometheus.Counter
}

// NewMetrics registers the processor's metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "umavez_events_settled_total",
			Help: "Events by what became of them: applied, repeated, stale, ignored, quarantined, parked, failed, dead."}, []string{"provider", "outcome"}),
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "umavez_lookups_total",
			Help: "Questions to gateways by result."}, []string{"provider", "result"}),
		lookupS: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "umavez_lookup_seconds",
			Help: "Duration of lookups, waiting for their turn included.", Buckets: prometheus.ExponentialBuckets(0.002, 2, 12)}, []string{"provider"}),
		toFinal: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "umavez_received_to_final_seconds",
			Help: "Age of an event when its batch was taken up, for settled events.", Buckets: prometheus.ExponentialBuckets(0.002, 2.5, 14)}, []string{"provider"}),
		batchN: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "umavez_batch_events",
			Help: "Events a batch.", Buckets: prometheus.ExponentialBuckets(1, 2, 11)}),
		batchS: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "umavez_batch_seconds",
			Help: "Duration of a batch, lookups included.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}),
		disagreements: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "umavez_disagreements_total",
			Help: "Events whose gateway calls a fee or a status otherwise than it was booked; their reason begins with disagrees."}, []string{"provider"}),
		reruns:  prometheus.NewCounter(prometheus.CounterOpts{Name: "umavez_batch_reruns_total", Help: "Transactions run again after a deadlock or lock time-out."}),
		splits:  prometheus.NewCounter(prometheus.CounterOpts{Name: "umavez_batch_splits_total", Help: "Batches split around an event that cannot be settled."}),
		unknown: prometheus.NewCounter(prometheus.CounterOpts{Name: "umavez_commits_unknown_total", Help: "Commits whose answer was lost."}),
	}
	m.waits = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "umavez_events_parked_total",
		Help: "Times that events were parked, by the fixed part of the reason."}, []string{"reason"})
	m.settledBefore = prometheus.NewCounter(prometheus.CounterOpts{Name: "umavez_deliveries_settled_before_total",
		Help: "Deliveries whose event was settled already: redelivered after a lost ack, or rung for twice."})
	reg.MustRegister(m.waits, m.settledBefore, m.outcomes, m.lookups, m.lookupS, m.toFinal, m.batchN, m.batchS, m.reruns, m.splits, m.unknown, m.disagreements)
	return m
}

func (m *Metrics) outcome(provider, outcome string) {
	m.outcomes.WithLabelValues(provider, outcome).Inc()
}

func (m *Metrics) settled(provider string, age time.Duration) {
	m.toFinal.WithLabelValues(provider).Observe(age.Seconds())
}

func (m *Metrics) batch(events int, d time.Duration) {
	m.batchN.Observe(float64(events))
	m.batchS.Observe(d.Seconds())
}

// lookup counts one question; reason is "" or starts with its fixed code.
func (m *Metrics) lookup(provider, reason string, d time.Duration) {
	result, _, _ := strings.Cut(reason, ":")
	if result == "" {
		result = "answered"
	}
	m.lookups.WithLabelValues(provider, result).Inc()
	m.lookupS.WithLabelValues(provider).Observe(d.Seconds())
}
