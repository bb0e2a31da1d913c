package ingest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
)

// Sources finds the provider of an address. It is asked for each request, so
// that rotated secrets are seen.
type Sources interface {
	Lookup(providerName, accountName string) (provider.Provider, provider.Source, bool)
}

// Store keeps events. A result with an ID is stored and flushed, also when an
// error says that others are not.
type Store interface {
	InsertEvents(ctx context.Context, arrivals []event.Arrival) ([]event.Stored, error)
}

// Publisher rings the bell. Offer never waits; false leaves the event to the
// sweeper.
type Publisher interface {
	Offer(event.Notice) bool
}

// Parts are what an Ingest works with.
type Parts struct {
	Sources   Sources
	Store     Store
	Publisher Publisher
	// Refused tells that an error of the Store is about the data itself, so
	// that asking again gives the same answer. nil: never.
	Refused func(error) bool
	// RecordRejections writes the list of refused requests. nil: none is kept.
	RecordRejections func(context.Context, []Rejection) error
	Log              *zap.Logger           // nil: silent
	Metrics          prometheus.Registerer // nil: not registered
	Now              func() time.Time      // nil: time.Now; the clock of signatures
}

// Ingest is the handler of webhooks and what stores them behind it.
type Ingest struct {
	config     Config
	parts      Parts
	log        *zap.Logger
	now        func() time.Time
	metrics    *metrics
	committer  *committer
	rejections *rejections
	mux        *http.ServeMux
	senders    senders
	tls        *tlsFiles // nil: plain HTTP
	large      budget
	inHand     atomic.Int64
	closeOnce  sync.Once
}

// New builds an Ingest; Start makes it work. It panics when a part that
// cannot be done without is missing.
func New(c Config, p Parts) *Ingest {
	if p.Sources == nil || p.Store == nil || p.Publisher == nil {
		panic("ingest: Sources, Store and Publisher are required")
	}
	if p.Refused == nil {
		p.Refused = func(error) bool { return false }
	}
	if p.RecordRejections == nil {
		p.RecordRejections = func(context.Context, []Rejection) error { return nil }
	}
	if p.Log == nil {
		p.Log = zap.NewNop()
	}
	in := &Ingest{config: c, parts: p, now: p.Now}
	var err error
	if in.senders, err = newSenders(c); err != nil {
		panic("ingest: the Config is not valid: " + err.Error())
	}
	if in.tls, err = newTLS(c); err != nil {
		panic("ingest: the Config is not valid: " + err.Error())
	}
	if in.now == nil {
		in.now = time.Now
	}
	// Strangers decide how often most of these lines are written: of each, ten
	// a second and then every thousandth.
	in.log = p.Log.Named("ingest").WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		if !core.Enabled(zapcore.FatalLevel) {
			return core // it is silent, and a sampler has half a megabyte of counters
		}
		return zapcore.NewSamplerWithOptions(core, time.Second, 10, 1000)
	}))
	in.large.left.Store(c.LargeBytes)
	cm := &committer{
		config: c, store: p.Store, refused: p.Refused, offer: p.Publisher.Offer, log: in.log,
		queue: make(chan *unit, c.QueueRequests), door: make(chan struct{}),
	}
	in.metrics = newMetrics(p.Metrics,
		func() float64 { return float64(len(cm.queue)) },
		func() float64 { return float64(cm.bytes.Load()) })
	cm.metrics = in.metrics
	in.committer = cm
	in.rejections = &rejections{
		record: p.RecordRejections, metrics: in.metrics, log: in.log,
		groups: map[rejectionGroup]*rejectionCount{}, stop: make(chan struct{}),
	}
	in.mux = in.routes()
	return in
}

// Start starts the flushers and the writer of rejections; Close ends them.
func (in *Ingest) Start() {
	in.committer.start()
	in.rejections.start()
}

// Close stores what is in the queue and ends. Requests that come later are
// answered 503.
func (in *Ingest) Close() {
	in.closeOnce.Do(func() {
		in.committer.close()
		in.rejections.close()
	})
}

// Server is the public listener's server, with all its time-outs.
func (in *Ingest) Server() *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // an ingress may speak it to us
	server := &http.Server{
		Addr:                         in.config.Addr,
		Handler:                      in,
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            in.config.HeaderTimeout,
		ReadTimeout:                  in.config.HeaderTimeout + in.config.AdmitWait + in.config.BodyTimeout,
		WriteTimeout:                 in.config.WriteTimeout,
		IdleTimeout:                  in.config.IdleTimeout,
		MaxHeaderBytes:               in.config.HeaderLimit,
		Protocols:                    &protocols,
		// The server's own lines name addresses of senders.
		ErrorLog: zap.NewStdLog(zap.NewNop()),
	}
	if in.tls != nil {
		protocols.SetHTTP2(true)
		server.TLSConfig = in.tls.config()
	}
	return server
}

func (in *Ingest) accept(server *http.Server, l net.Listener) error {
	if in.tls != nil {
		return server.ServeTLS(l, "", "")
	}
	return server.Serve(l)
}

// Serve starts, receives on l until ctx ends, and then stops in order: no new
// connections, the requests in hand are answered, the queue is flushed.
func (in *Ingest) Serve(ctx context.Context, l net.Listener) error {
	in.Start()
	server := in.Server()
	ended := make(chan error, 1)
	go func() { ended <- in.accept(server, l) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), in.config.DrainTimeout)
		defer cancel()
		if err = server.Shutdown(drain); err != nil {
			err = errors.Join(errors.New("requests were still in hand when INGEST_DRAIN_TIMEOUT passed"), server.Close())
		}
		<-ended
	}
	in.Close()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
