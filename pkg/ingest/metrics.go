package ingest

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
)

// metrics are this room's. Labels come from configuration and from fixed
// sets, never from a request.
type metrics struct {
	requests    *prometheus.CounterVec // provider, class
	events      *prometheus.CounterVec // provider, outcome
	rejected    *prometheus.CounterVec // provider, reason
	skewed      *prometheus.CounterVec // provider, reason
	overflow    *prometheus.CounterVec // what
	panics      *prometheus.CounterVec // where
	failed      prometheus.Counter
	unpublished prometheus.Counter
	unrecorded  prometheus.Counter
	batchRows   prometheus.Histogram
	commitTime  prometheus.Histogram
	ackTime     prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer, depth, bytes func() float64) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "umavez_ingest_" + name, Help: help}, labels)
	}
	single := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "umavez_ingest_" + name, Help: help})
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "umavez_ingest_" + name, Help: help, Buckets: buckets})
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "umavez_ingest_" + name, Help: help}, value)
	}
	seconds := []float64{.0005, .001, .002, .005, .01, .015, .025, .05, .1, .25, .5, 1, 2.5, 5}
	m := &metrics{
		requests:    counter("requests_total", "Answered requests by provider and status class.", "provider", "class"),
		events:      counter("events_total", "Events that are stored, by provider and outcome: new, ignored, quarantined, duplicate, revived.", "provider", "outcome"),
		rejected:    counter("rejected_total", "Requests that were refused for their credentials or for an empty body, by provider and reason.", "provider", "reason"),
		skewed:      counter("clock_skew_total", "Requests with a right digest and a time-stamp out of tolerance: a clock is wrong, or it is a replay.", "provider", "reason"),
		overflow:    counter("overflow_total", "Requests answered 503 for want of room, by what was full: queue, memory, requests; wait: the queue would take too long.", "what"),
		panics:      counter("panics_total", "Recovered panics; each is a bug.", "where"),
		failed:      single("batches_failed_total", "Batches that were not stored, or not wholly."),
		unpublished: single("notices_refused_total", "Events left to the sweeper because the publisher had no room."),
		unrecorded:  single("rejections_unrecorded_total", "Refused requests that are missing from the list of refused requests."),
		batchRows:   histogram("batch_events", "Events of one batch.", []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}),
		commitTime:  histogram("commit_seconds", "Time to store one batch.", seconds),
		ackTime:     histogram("ack_seconds", "Time from the headers to a success answer.", seconds),
	}
	if reg != nil {
		reg.MustRegister(m.requests, m.events, m.rejected, m.skewed, m.overflow, m.panics, m.failed, m.unpublished,
			m.unrecorded, m.batchRows, m.commitTime, m.ackTime,
			gauge("queue_requests", "Verified requests that wait for a flusher.", depth),
			gauge("queue_bytes", "Their bodies.", bytes))
	}
	return m
}

func (m *metrics) batch(events int, took time.Duration, err error) {
	m.batchRows.Observe(float64(events))
	m.commitTime.Observe(took.Seconds())
	if err != nil {
		m.failed.Inc()
	}
}

func (m *metrics) stored(a *event.Arrival, s event.Stored) {
	outcome := "new"
	switch {
	case s.ID == 0:
		return
	case !s.New && s.Publish:
		outcome = "revived"
	case !s.New:
		outcome = "duplicate"
	case a.Settle != "":
		outcome = string(a.Settle)
	}
	m.events.WithLabelValues(a.Provider, outcome).Inc()
}

func (m *metrics) reject(name string, reason provider.Reason) {
	m.rejected.WithLabelValues(name, string(reason)).Inc()
	if reason == provider.ReasonTooOld || reason == provider.ReasonTooNew {
		m.skewed.WithLabelValues(name, string(reason)).Inc()
	}
}

var classes = [...]string{"0xx", "1xx", "2xx", "3xx", "4xx", "5xx"}

func (m *metrics) answered(provider string, status int) {
	m.requests.WithLabelValues(provider, classes[min(status/100, len(classes)-1)]).Inc()
}
