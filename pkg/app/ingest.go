package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/failpoint"
	"github.com/umavez/umavez/pkg/ingest"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/registry"
	"github.com/umavez/umavez/pkg/queue"
)

// Ingest is the role that receives webhooks.
type Ingest struct {
	*Base
	cfg       ingest.Config
	publish   queue.PublisherConfig
	sources   *registry.Set
	listener  net.Listener
	publisher *queue.Publisher
}

// ingestSettings are all that the role reads.
type ingestSettings struct {
	conns   connections
	cfg     ingest.Config
	publish queue.PublisherConfig
	sources *registry.Set
}

// load reports all faults at once.
func (s *ingestSettings) load(log *zap.Logger) (err error) {
	read := load(&s.conns.postgres, &s.conns.queue, &s.cfg, &s.publish)
	fits := s.cfg.ValidateDatabase(s.conns.postgres.StatementTimeout, s.conns.postgres.MaxConns)
	s.sources, err = loadSources(log)
	if err == nil {
		err = s.verifiesClients()
	}
	return distinct(read, fits, err)
}

// verifiesClients refuses a source whose every request would be refused, since
// nobody here verifies the certificate that its gateway shows.
func (s *ingestSettings) verifiesClients() error {
	if s.cfg.TLSClientCAFile != "" || s.cfg.ClientVerifiedHeader != "" {
		return nil
	}
	var faults []error
	for _, e := range s.sources.Entries() {
		if v, ok := provider.As[provider.ClientVerifier](e.Provider); ok && v.NeedsClientVerified() {
			faults = append(faults, fmt.Errorf("source %s accepts only senders with a verified client certificate, and nothing verifies one: "+
				"set INGEST_TLS_CLIENT_CA_FILE, or INGEST_CLIENT_VERIFIED_HEADER with INGEST_TRUSTED_PROXIES", e.Source.Name()))
		}
	}
	return errors.Join(faults...)
}

// NewIngest reads the settings, opens what receiving needs and binds the
// public address, so that a taken port is an error at start.
func NewIngest(ctx context.Context, log *zap.Logger, reg prometheus.Registerer) (_ *Ingest, err error) {
	var s ingestSettings
	if err := s.load(log); err != nil {
		return nil, err
	}
	in := &Ingest{cfg: s.cfg, publish: s.publish, sources: s.sources}
	if in.Base, err = s.conns.open(ctx, "ingest", log, reg); err != nil {
		return nil, err
	}
	if in.listener, err = net.Listen("tcp", in.cfg.Addr); err != nil {
		in.Base.Close()
		return nil, fmt.Errorf("INGEST_ADDR: %w", err)
	}
	in.publisher = queue.NewPublisher(in.Queue, in.publish, log)
	registerPublisher(reg, in.publisher)
	return in, nil
}

// Addr is the address that webhooks are received on.
func (in *Ingest) Addr() net.Addr { return in.listener.Addr() }

// Parts is the server with its publisher: when it ends, requests in hand are
// answered, the queue is flushed, and what waits to be published goes out.
func (in *Ingest) Parts() []Part { return []Part{newGauges(in.Base, false), {"ingest", in.serve}} }

func (in *Ingest) serve(ctx context.Context) error {
	parts := ingest.Parts{
		Sources: in.sources, Store: in.DB, Publisher: in.publisher,
		Refused:          func(err error) bool { return errors.Is(err, postgres.ErrRefusedRow) },
		RecordRejections: in.recordRejections,
		Log:              in.Log, Metrics: in.Metrics,
	}
	if failpoint.Enabled {
		parts.Now = failpoint.Clock
	}
	room := ingest.New(in.cfg, parts)
	// The publisher outlives the server by a little: what was committed last
	// is rung for too.
	publishing, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- in.publisher.Run(publishing) }()
	in.Log.Info("ingest.started", zap.String("addr", in.listener.Addr().String()))
	err := room.Serve(ctx, in.listener)
	stop()
	err = errors.Join(err, <-ended)
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if left := in.publisher.Drain(drain); left > 0 {
		in.Log.Warn("publish.left_to_sweeper", zap.Int("events", left))
	}
	return err
}

func (in *Ingest) recordRejections(ctx context.Context, rejected []ingest.Rejection) error {
	rows := make([]postgres.Rejection, len(rejected))
	for i, r := range rejected {
		rows[i] = postgres.Rejection{Provider: r.Provider, Account: r.Account, Reason: string(r.Reason), Detail: r.Detail}
	}
	return in.DB.RecordRejections(ctx, rows)
}

func registerPublisher(reg prometheus.Registerer, p *queue.Publisher) {
	count := func(result string, get func(queue.PublisherStats) uint64) {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "umavez_publish_total", Help: "Notices by what the queue said; failed ones are tried again for some minutes, and they and overflowed ones are left to the sweeper.",
			ConstLabels: prometheus.Labels{"result": result},
		}, func() float64 { return float64(get(p.Stats())) }))
	}
	count("published", func(s queue.PublisherStats) uint64 { return s.Published })
	count("waiting", func(s queue.PublisherStats) uint64 { return s.Waiting })
	count("failed", func(s queue.PublisherStats) uint64 { return s.Failed })
	reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "umavez_publish_recovered_total", Help: "Notices that failed and that a later try got through.",
	}, func() float64 { return float64(p.Stats().Recovered) }))
	count("overflowed", func(s queue.PublisherStats) uint64 { return s.Overflowed })
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "umavez_publish_queued", Help: "Notices that wait to be published, or are held back while processors are behind.",
	}, func() float64 { return float64(p.Stats().Queued) }))
}
