package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

const (
	// publishTimeout is how long a publish waits for the server's answer. What
	// is published behind it waits as long, and what got no answer is tried
	// again, so it is short.
	publishTimeout = 2 * time.Second
	// apiTimeout bounds one question to the JetStream API.
	apiTimeout = 5 * time.Second
	// maxUnanswered bounds the client's memory of publishes on their way, over
	// all users of one Conn; window bounds those of one call. More
	// on their way did not make BenchmarkPublish faster, and rather slower on
	// two busy cores.
	maxUnanswered = 16384
	window        = 256
)

// Conn is a connection to NATS that is kept up for ever.
type Conn struct {
	cfg Config
	log *zap.Logger
	nc  *nats.Conn
	js  jetstream.JetStream

	// Lost is called before StreamWebhooks is made again, or removed for that;
	// set it before use, or leave it nil. It makes everything pending due, since
	// its messages are gone. While it fails the stream stays missing, and the
	// next who looks calls it again: once the stream is there, nobody can see
	// that its messages were never rung for.
	Lost func(context.Context) error

	mu          sync.Mutex
	reconnected chan struct{} // closed, and replaced, by each reconnect
}

// Connect returns at once, even while the broker is away: it keeps trying in
// the background, and what needs the broker meanwhile fails fast with
// ErrUnavailable. An error means that the settings cannot be right.
func Connect(ctx context.Context, cfg Config, log *zap.Logger) (*Conn, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Conn{cfg: cfg, log: log.Named("queue"), reconnected: make(chan struct{})}
	opts := []nats.Option{
		nats.Name(cfg.Name),
		// Binaries and broker start in any order.
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		// A thousand clients must not return in the same millisecond.
		nats.ReconnectJitter(500*time.Millisecond, time.Second),
		// Buffering while disconnected would answer "sent" for what may never
		// be; without it a publish fails at once and the row stays pending.
		nats.ReconnectBufSize(-1),
		// A dead peer is noticed within 30 s, not the default's 6 minutes.
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.Timeout(2 * time.Second),
		nats.ConnectHandler(func(*nats.Conn) { c.onUp("queue.connected") }),
		nats.ReconnectHandler(func(*nats.Conn) { c.onUp("queue.reconnected") }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				c.log.Warn("queue.disconnected", zap.Error(err))
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			c.log.Warn("queue.error", zap.Error(err))
		}),
	}
	if cfg.Creds != "" {
		opts = append(opts, nats.UserCredentials(cfg.Creds))
	}
	nc, err := nats.Connect(cfg.URL, opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	c.nc = nc
	c.js, err = jetstream.New(nc,
		jetstream.WithPublishAsyncMaxPending(maxUnanswered),
		jetstream.WithPublishAsyncTimeout(publishTimeout),
		jetstream.WithDefaultTimeout(apiTimeout))
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("JetStream: %w", err)
	}
	if ctx.Err() != nil {
		nc.Close()
		return nil, ctx.Err()
	}
	return c, nil
}

func (c *Conn) onUp(event string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.reconnected)
	c.reconnected = make(chan struct{})
	c.log.Info(event)
}

// nextConnect is closed by the next connect or reconnect.
func (c *Conn) nextConnect() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reconnected
}

// Connected says whether the broker is reachable now, for /readyz.
func (c *Conn) Connected() bool { return c.nc.IsConnected() }

// Broker names the process of the server that this client is connected to: each
// start of a server has a name of its own. It is "" while there is none.
func (c *Conn) Broker() string {
	if !c.nc.IsConnected() {
		return ""
	}
	return c.nc.ConnectedServerId()
}

// WaitConnected waits for the broker; for commands that cannot work without.
func (c *Conn) WaitConnected(ctx context.Context) error {
	for {
		next := c.nextConnect()
		if c.Connected() {
			return nil
		}
		select {
		case <-ctx.Done():
			err := c.nc.LastError()
			if err == nil {
				err = ctx.Err()
			}
			return classified{ErrUnavailable, err}
		case <-next:
		}
	}
}

// Close sends what was written (acks above all) and ends the connection.
func (c *Conn) Close() {
	if c.nc.IsConnected() {
		if err := c.nc.FlushTimeout(2 * time.Second); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			c.log.Warn("queue.flush", zap.Error(err))
		}
	}
	c.nc.Close()
}

// bounded gives a question to the server a deadline of its own.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, apiTimeout, fmt.Errorf("no answer of JetStream within %s", apiTimeout))
}

// classify is the package's, and says where a broker that is away was looked
// for: the client's own text speaks of its buffers.
func (c *Conn) classify(err error) error {
	if errors.Is(err, nats.ErrReconnectBufExceeded) {
		return classified{ErrUnavailable, errors.New("cannot reach NATS at " + c.cfg.places())}
	}
	return classify(err)
}
