// Package lookup asks gateways what is true now, without harming them or us:
// bounded concurrency, and per source a rate limit and a circuit breaker, with
// Retry-After obeyed. It holds no transaction and no lock while it waits.
package lookup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// Config bounds the asking. LOOKUP_TIMEOUT plus the transaction's deadline
// must stay below the queue's ack wait.
type Config struct {
	Concurrency int           `envconfig:"LOOKUP_CONCURRENCY" default:"16"` // calls under way, all sources together
	Timeout     time.Duration `envconfig:"LOOKUP_TIMEOUT" default:"5s"`     // one lookup, waiting included
	// Open is how long a source is left alone after BreakAfter failures in a row.
	BreakAfter uint32        `envconfig:"LOOKUP_BREAK_AFTER" default:"5"`
	Open       time.Duration `envconfig:"LOOKUP_BREAK_FOR" default:"15s"`
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
	breaker *gobreaker.CircuitBreaker[payment.Claim]

	mu        sync.Mutex
	notBefore time.Time
}

// New builds an Asker. Its client follows no redirects: base addresses come
// from configuration only.
func New(cfg Config) *Asker {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = cfg.Concurrency
	transport.DialContext = (&net.Dialer{Timeout: 3 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	transport.ResponseHeaderTimeout = cfg.Timeout
	return &Asker{
		cfg: cfg,
		client: &http.Client{
			Transport:     transport,
			Timeout:       cfg.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		slots: make(chan struct{}, cfg.Concurrency),
		gates: make(map[string]*gate),
	}
}

// Close drops idle connections.
func (a *Asker) Close() { a.client.CloseIdleConnections() }

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
	g := &gate{slots: make(chan struct{}, max(1, a.cfg.Concurrency/2)), limiter: rate.NewLimiter(rate.Limit(perSecond), max(burst, 1))}
	g.breaker = gobreaker.NewCircuitBreaker[payment.Claim](gobreaker.Settings{
		Name:         src.Name(),
		Timeout:      a.cfg.Open,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= a.cfg.BreakAfter },
		IsSuccessful: func(err error) bool { return err == nil || !passing(err) },
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
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	g := a.gate(src, p.Traits())
	if wait := g.blockedFor(); wait > 0 {
		return payment.Claim{}, &WaitError{Why: "it asked us to wait", For: wait}
	}
	// Whoever waits for one gateway holds nothing that another one needs: the
	// rate first, then the gateway's own slot, and the common one last.
	if err := g.limiter.Wait(ctx); err != nil {
		return payment.Claim{}, &WaitError{Why: "its rate limit", For: a.cfg.Timeout}
	}
	for _, slots := range []chan struct{}{g.slots, a.slots} {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return payment.Claim{}, &WaitError{Why: "all lookup slots are busy", For: a.cfg.Timeout}
		}
	}
	claim, err := g.breaker.Execute(func() (payment.Claim, error) {
		return p.Lookup(ctx, a.client, ref)
	})
	switch {
	case errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests):
		return payment.Claim{}, &WaitError{Why: "it failed too often", For: a.cfg.Open}
	case err != nil:
		var retry *provider.RetryError
		if errors.As(err, &retry) && retry.After > 0 {
			g.block(retry.After)
		}
		return payment.Claim{}, err
	}
	return claim, nil
}

func (g *gate) blockedFor() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.notBefore)
}

func (g *gate) block(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if until := time.Now().Add(d); until.After(g.notBefore) {
		g.notBefore = until
	}
}
