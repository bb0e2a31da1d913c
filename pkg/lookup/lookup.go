// Package lookup asks gateways what is true now, without harming them or us:
// bounded concurrency, and per source a rate limit and a circuit breaker, with
// Retry-After obeyed. It holds no transaction and no lock while it waits.
package lookup

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// Config bounds the asking. LOOKUP_TIMEOUT plus the transaction's deadline
// must stay below the queue's ack wait.
type Config struct {
	Concurrency int           `envconfig:"LOOKUP_CONCURRENCY" default:"16"` // calls under way, all sources together
	Timeout     time.Duration `envconfig:"LOOKUP_TIMEOUT" default:"5s"`     // one lookup, waiting included
	// Open is how long a source is left alone after BreakAfter failures in a
	// row; then one question tries it. It is short because it is also how long
	// a gateway that is well again goes unnoticed, and one question in so many
	// seconds does not harm one that is not.
	BreakAfter uint32        `envconfig:"LOOKUP_BREAK_AFTER" default:"5"`
	Open       time.Duration `envconfig:"LOOKUP_BREAK_FOR" default:"2s"`
	// Transport carries the questions; nil is the network. Tests answer them
	// in the same process.
	Transport http.RoundTripper `ignored:"true"`
}

// Validate reports all faults at once.
func (c Config) Validate() error {
	var faults []error
	if c.Concurrency < 1 {
		faults = append(faults, errors.New("LOOKUP_CONCURRENCY must be at least 1"))
	}
	if c.Timeout <= 0 {
		faults = append(faults, errors.New("LOOKUP_TIMEOUT must be above zero"))
	}
	if c.BreakAfter < 1 {
		faults = append(faults, errors.New("LOOKUP_BREAK_AFTER must be at least 1"))
	}
	if c.Open <= 0 {
		faults = append(faults, errors.New("LOOKUP_BREAK_FOR must be above zero"))
	}
	return errors.Join(faults...)
}

// WaitError says that the gateway was not asked: the breaker is open, its
// Retry-After has not passed, or our rate limit has no room in time.
type WaitError struct {
	Why string
	For time.Duration
}

func (e *WaitError) Error() string {
	return fmt.Sprintf("gateway not asked: %s, again in %s", e.Why, e.For.Round(time.Second))
}

// Asker asks; it is safe for concurrent use.
type Asker struct {
	cfg    Config
	client *http.Client
	slots  chan struct{}

	mu    sync.Mutex
	gates map[string]*gate
}

type gate struct {
	slots   chan struct{} // half of all, so that one sick gateway leaves room for the others
	limiter *rate.Limiter
	// events is the part of the rate that questions about events may take:
	// strangers may be able to post those, and payments must not wait for them.
	events  *rate.Limiter
	breaker *gobreaker.CircuitBreaker[any]

	mu          sync.Mutex
	notBefore   time.Time
	openUntil   time.Time        // of the breaker
	certificate *tls.Certificate // that client shows
	client      *http.Client     // nil: the common one
}

// New builds an Asker. Its client follows no redirects: base addresses come
// from configuration only.
func New(cfg Config) *Asker {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = cfg.Concurrency
	transport.DialContext = (&net.Dialer{Timeout: 3 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	transport.ResponseHeaderTimeout = cfg.Timeout
	carrier := cfg.Transport
	if carrier == nil {
		carrier = transport
	}
	return &Asker{
		cfg: cfg,
		client: &http.Client{
			Transport:     carrier,
			Timeout:       cfg.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		slots: make(chan struct{}, cfg.Concurrency),
		gates: make(map[string]*gate),
	}
}

// Close drops idle connections.
func (a *Asker) Close() {
	a.client.CloseIdleConnections()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range a.gates {
		g.mu.Lock()
		if g.client != nil {
			g.client.CloseIdleConnections()
		}
		g.mu.Unlock()
	}
}

func (a *Asker) gate(src provider.Source, traits provider.Traits) *gate {
	a.mu.Lock()
	defer a.mu.Unlock()
	if g, ok := a.gates[src.Name()]; ok {
		return g
	}
	perSecond, burst := traits.LookupRate, traits.LookupBurst
	if src.LookupRate > 0 {
		perSecond, burst = src.LookupRate, max(burst, int(src.LookupRate))
	}
	g := &gate{slots: make(chan struct{}, max(1, a.cfg.Concurrency/2)), limiter: rate.NewLimiter(rate.Limit(perSecond), max(burst, 1)),
		events: rate.NewLimiter(rate.Limit(perSecond/2), max(burst/2, 1))}
	g.breaker = gobreaker.NewCircuitBreaker[any](gobreaker.Settings{
		Name:         src.Name(),
		Timeout:      a.cfg.Open,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= a.cfg.BreakAfter },
		IsSuccessful: func(err error) bool { return err == nil || !passing(err) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				g.opened(a.cfg.Open)
			}
		},
	})
	a.gates[src.Name()] = g
	return g
}

// passing failures are those of a gateway in trouble. An answer that we do not
// like is still an answer.
func passing(err error) bool {
	var retry *provider.RetryError
	return errors.As(err, &retry) || errors.Is(err, context.DeadlineExceeded)
}

// Ask looks one payment up. Errors are those of provider.Provider's Lookup,
// and *WaitError.
func (a *Asker) Ask(ctx context.Context, src provider.Source, p provider.Provider, ref string) (payment.Claim, error) {
	return ask(ctx, a, src, p, false, func(ctx context.Context, client *http.Client) (payment.Claim, error) {
		return p.Lookup(ctx, client, ref)
	})
}

// Resolve asks what an event is about that names no payment. Errors are those
// of Ask.
func (a *Asker) Resolve(ctx context.Context, src provider.Source, p provider.Provider, r provider.Resolver, e *event.Event) ([]payment.Claim, error) {
	return ask(ctx, a, src, p, true, func(ctx context.Context, client *http.Client) ([]payment.Claim, error) {
		return r.Resolve(ctx, client, e)
	})
}

// ask puts one question within all bounds.
func ask[T any](ctx context.Context, a *Asker, src provider.Source, p provider.Provider, aboutEvent bool, question func(context.Context, *http.Client) (T, error)) (answer T, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	g := a.gate(src, p.Traits())
	if wait := g.blockedFor(); wait > 0 {
		return answer, &WaitError{Why: "it asked us to wait", For: wait}
	}
	// Whoever waits for one gateway holds nothing that another one needs: the
	// rate first, then the gateway's own slot, and the common one last.
	limiters := []*rate.Limiter{g.limiter}
	if aboutEvent {
		limiters = []*rate.Limiter{g.events, g.limiter}
	}
	for _, l := range limiters {
		if err := l.Wait(ctx); err != nil {
			return answer, &WaitError{Why: "its rate limit", For: a.cfg.Timeout}
		}
	}
	for _, slots := range []chan struct{}{g.slots, a.slots} {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return answer, &WaitError{Why: "all lookup slots are busy", For: a.cfg.Timeout}
		}
	}
	client := g.clientFor(a, p)
	_, err = g.breaker.Execute(func() (any, error) {
		answer, err = question(ctx, client)
		return nil, err
	})
	var none T
	switch {
	case errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests):
		return none, &WaitError{Why: "it failed too often", For: g.openFor()}
	case err != nil:
		var retry *provider.RetryError
		if errors.As(err, &retry) && retry.After > 0 {
			g.block(retry.After)
		}
		return none, err
	}
	return answer, nil
}

// clientFor is the common client, or one that shows the gateway's client
// certificate; it is made anew when the certificate was replaced.
func (g *gate) clientFor(a *Asker, p provider.Provider) *http.Client {
	part, ok := provider.As[provider.ClientCertificate](p)
	if !ok {
		return a.client
	}
	cert := part.ClientCertificate()
	if cert == nil || a.cfg.Transport != nil {
		return a.client
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.client == nil || g.certificate != cert {
		if g.client != nil {
			g.client.CloseIdleConnections()
		}
		transport := a.client.Transport.(*http.Transport).Clone()
		if transport.TLSClientConfig == nil {
			transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		transport.TLSClientConfig.Certificates = []tls.Certificate{*cert}
		client := *a.client
		client.Transport = transport
		g.client, g.certificate = &client, cert
	}
	return g.client
}

func (g *gate) blockedFor() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.notBefore)
}

// opened notes that the breaker leaves the gateway alone for so long.
func (g *gate) opened(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.openUntil = time.Now().Add(d)
}

// openFor is what is left of that; nothing while another question tries the
// gateway.
func (g *gate) openFor() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(0, time.Until(g.openUntil))
}

func (g *gate) block(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if until := time.Now().Add(d); until.After(g.notBefore) {
		g.notBefore = until
	}
}
