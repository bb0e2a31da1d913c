package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/failpoint"
)

// ConsumerConfig bounds a Consumer; zero values mean the defaults.
type ConsumerConfig struct {
	// MaxBatch is the largest batch that Fetch may ask for; default 1,000.
	MaxBatch int
	// StallAfter is how long messages may wait with none delivered before the
	// subscription is made anew, and again before ErrStalled; default 30 s.
	StallAfter time.Duration
}

// Consumer takes deliveries for the processor.
//
// It asks for a batch only when its caller wants one, so nothing is held that
// nobody works on while its AckWait runs. One request says "as many as there
// are up to the maximum, or else the first that comes": a server that has a
// backlog fills the batch, an idle one answers with the first message, and
// neither waits for a timer. The client library has no word for that request,
// hence the protocol here.
type Consumer struct {
	conn *Conn
	cfg  ConsumerConfig
	log  *zap.Logger

	sub   *nats.Subscription
	inbox string
	msgs  chan *nats.Msg
	pulls uint64
	dirty bool // a request may still bring messages that nobody waits for
	// Of the newest request: where its answers go, and what ends it early.
	reply     string
	reconnect <-chan struct{}

	lastDelivery time.Time
	rebuilt      bool // since the last delivery, by the watchdog

	malformed atomic.Uint64
}

// Consumer checks the streams and settings, and subscribes.
func (c *Conn) Consumer(ctx context.Context, cfg ConsumerConfig) (*Consumer, error) {
	if cfg.MaxBatch <= 0 {
		cfg.MaxBatch = 1000
	}
	if cfg.StallAfter <= 0 {
		cfg.StallAfter = 30 * time.Second
	}
	if _, err := c.Check(ctx); err != nil {
		return nil, err
	}
	k := &Consumer{conn: c, cfg: cfg, log: c.log.Named("consumer"), lastDelivery: time.Now()}
	return k, k.subscribe()
}

// Malformed counts messages whose subject was not ours; they were terminated.
func (k *Consumer) Malformed() uint64 { return k.malformed.Load() }

// Close gives back what arrived and was not fetched. Deliveries in hand can
// still be settled, until the Conn is closed. It takes as long as a request
// lives, half a second at most.
func (k *Consumer) Close() {
	k.outlive()
	k.giveBack()
}

// outlive waits for the end of a request that nobody waits for any more, and
// gives back what it brings. To drop the subscription instead is quicker, and
// wrong once in a few hundred stops: a message that the server sends at that
// very moment reaches nobody, and waits for its whole AckWait.
func (k *Consumer) outlive() {
	if k.sub == nil || !k.dirty || !k.conn.Connected() {
		return
	}
	over := time.NewTimer(longestRequest + 250*time.Millisecond)
	defer over.Stop()
	for {
		select {
		case <-over.C:
			return
		case <-k.reconnect:
			return // the server forgot the request with the connection
		case m := <-k.msgs:
			switch status := m.Header.Get(statusHeader); {
			case status == "":
				_ = respond(m, nakNow)
			case m.Subject == k.reply && status != statusHeartbeat:
				k.dirty = false
				return
			}
		}
	}
}

// subscribe begins a new inbox and gives back what came to the old one.
func (k *Consumer) subscribe() error {
	k.giveBack()
	inbox := k.conn.nc.NewInbox()
	// A full channel would drop messages: room for two batches and their
	// status messages, while only one request is ever open.
	msgs := make(chan *nats.Msg, 2*k.cfg.MaxBatch+64)
	sub, err := k.conn.nc.ChanSubscribe(inbox+".*", msgs)
	if err != nil {
		return classified{ErrUnavailable, err}
	}
	k.sub, k.inbox, k.msgs, k.dirty = sub, inbox, msgs, false
	return nil
}

func (k *Consumer) giveBack() {
	if k.sub == nil {
		return
	}
	// The server drops requests without interest. What it had sent before it
	// heard of that is still on its way: a round trip brings it here, or it
	// would wait for its whole AckWait.
	_ = k.sub.Drain()
	if k.conn.nc.IsConnected() {
		_ = k.conn.nc.FlushTimeout(time.Second)
	}
	k.sub = nil
	for {
		select {
		case m := <-k.msgs:
			if m.Header.Get(statusHeader) == "" {
				_ = respond(m, nakNow)
			}
		default:
			return
		}
	}
}

// ending says why a request brought nothing more.
type ending int

const (
	expired ending = iota // its time is over
	busy                  // not served now; ask again soon
	lost                  // the consumer, the stream or the request is gone
	stopped               // ctx ended
)

// longestRequest bounds one request, and with it how long a stop takes. An idle
// consumer asks again as often.
const longestRequest = 500 * time.Millisecond

// Fetch waits up to wait for the first message and then takes at once what
// there is, at most max. No message in time is no error. While the broker is
// away it waits, and says ErrUnavailable at the end of wait. One call at a
// time.
func (k *Consumer) Fetch(ctx context.Context, limit int, wait time.Duration) ([]*Delivery, error) {
	limit = max(1, min(limit, k.cfg.MaxBatch))
	deadline := time.Now().Add(wait)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := failpoint.At(ctx, "queue.fetch_asked"); err != nil {
			return nil, err
		}
		batch, end, err := k.pull(ctx, limit, min(longestRequest, max(time.Until(deadline), time.Millisecond)))
		if len(batch) > 0 {
			k.lastDelivery, k.rebuilt = time.Now(), false
			if err := failpoint.At(ctx, "queue.fetch_answered"); err != nil {
				return nil, err
			}
			return batch, nil
		}
		if end == lost {
			err = k.repair(ctx)
			if errors.Is(err, ErrUnsafe) {
				return nil, err
			}
		}
		if end == stopped {
			return nil, ctx.Err()
		}
		if time.Now().After(deadline) {
			if err != nil {
				return nil, err
			}
			return nil, k.watch(ctx)
		}
		if end == expired {
			continue
		}
		pause(ctx, min(50*time.Millisecond, time.Until(deadline)), k.conn.nextConnect())
	}
}

// pull makes one request and collects its answers.
func (k *Consumer) pull(ctx context.Context, limit int, wait time.Duration) (batch []*Delivery, end ending, err error) {
	if k.sub == nil || k.dirty {
		if err := k.subscribe(); err != nil {
			return nil, busy, err
		}
	}
	k.reconnect = k.conn.nextConnect()
	k.pulls++
	k.reply = k.inbox + "." + strconv.FormatUint(k.pulls, 10)
	if err := k.request(k.reply, limit, wait); err != nil {
		return nil, busy, classified{ErrUnavailable, err}
	}
	k.dirty = true // until the server ends this request

	// The server ends the request; this is for the case that it cannot.
	over := time.NewTimer(wait + time.Second)
	defer over.Stop()
	for {
		select {
		case <-ctx.Done():
			return batch, stopped, nil
		case <-k.reconnect:
			return batch, busy, nil // the server forgot our request with the connection
		case <-over.C:
			return batch, lost, nil
		case m := <-k.msgs:
			status := m.Header.Get(statusHeader)
			if status == "" {
				if d := k.delivery(m); d != nil {
					batch = append(batch, d)
				}
				if len(batch) == limit {
					k.dirty = false // the request is used up
					return batch, expired, nil
				}
				continue
			}
			if m.Subject != k.reply || status == statusHeartbeat {
				continue // an older request's end, or a sign of life
			}
			k.dirty = false
			return batch, endingOf(status, m.Header.Get(descriptionHeader)), nil
		}
	}
}

// The status messages of the pull protocol.
const (
	statusHeader      = "Status"
	descriptionHeader = "Description"
	statusHeartbeat   = "100"
)

func endingOf(status, description string) ending {
	switch status {
	case "408":
		if strings.Contains(description, "Requests Pending") {
			return busy // others were first and get what there is
		}
		return expired
	case "409":
		if strings.Contains(description, "Deleted") || strings.Contains(description, "push based") {
			return lost
		}
		return busy // leadership change, too many requests, shutdown
	case "503":
		return lost
	}
	return busy // 404: nothing left
}

// pullRequest is the body of a request: no_wait with expires means "what there
// is, or the first that comes".
type pullRequest struct {
	Batch   int           `json:"batch"`
	Expires time.Duration `json:"expires"`
	NoWait  bool          `json:"no_wait"`
}

func (k *Consumer) request(reply string, batch int, wait time.Duration) error {
	body, err := json.Marshal(pullRequest{Batch: batch, Expires: wait, NoWait: true})
	if err != nil {
		return err
	}
	return k.conn.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+StreamWebhooks+"."+ConsumerName, reply, body)
}

// repair looks after a consumer that does not answer: what vanished is made
// again, and the subscription with it.
func (k *Consumer) repair(ctx context.Context) error {
	if _, err := k.conn.Check(ctx); err != nil {
		return err
	}
	return k.subscribe()
}

// watch is called when a request ended empty. Messages that wait while we get
// none mean that the server has lost our subscription (or its own mind): a new
// one is tried, and then the process had better end.
func (k *Consumer) watch(ctx context.Context) error {
	if time.Since(k.lastDelivery) < k.cfg.StallAfter {
		return nil
	}
	pending, ackPending, err := k.conn.Lag(ctx)
	if errors.Is(err, ErrMissing) {
		return k.repair(ctx)
	}
	if err != nil {
		return err
	}
	// With everything allowed in hand elsewhere, waiting is right.
	stalled := pending > 0 && ackPending < maxAckPending
	defer func() { k.lastDelivery = time.Now() }()
	switch {
	case !stalled:
		k.rebuilt = false
		return nil
	case k.rebuilt:
		return fmt.Errorf("%w: %d messages wait and none was delivered for %s, also with a new subscription", ErrStalled, pending, 2*k.cfg.StallAfter)
	}
	k.log.Warn("queue.stalled", zap.Uint64("pending", pending), zap.Duration("for", k.cfg.StallAfter))
	k.rebuilt = true
	return k.subscribe()
}

// pause waits a little, or until the next connect.
func pause(ctx context.Context, d time.Duration, connect <-chan struct{}) {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-connect:
	case <-t.C:
	}
}
