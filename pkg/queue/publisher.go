package queue

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/event"
)

// PublisherConfig bounds a Publisher; zero values mean the defaults.
type PublisherConfig struct {
	// Capacity is how many notices may wait; default 131,072. One costs about
	// 100 bytes while it waits. What does not fit is left to the sweeper.
	Capacity int `envconfig:"PUBLISH_CAPACITY" default:"131072"`
}

// Publisher takes notices off the request path: the answer to a gateway never
// waits for the broker. What times out, fails or is unknown is counted, kept
// and published again when the broker takes it; what overflows, or does not get
// through within minutes, is left to the sweeper.
//
// While processors are behind, the newest goes first: the queue is served in
// its order, so whatever is put into it stands before the next event. Held
// back, a backlog delays itself alone, and its events are as safe as before,
// stored and found by the sweeper.
type Publisher struct {
	conn  *Conn
	log   *zap.Logger
	queue line
	again again // of Run's goroutine only

	taken, answered atomic.Uint64
	seen            atomic.Pointer[look]

	published, waiting, failed, recovered, overflowed atomic.Uint64
	lastWarning                                       time.Time // of Run's goroutine only
}

// PublisherStats counts since the start; Queued is now.
type PublisherStats struct {
	Published  uint64 // stored by the server
	Waiting    uint64 // refused: already in the stream
	Failed     uint64 // not stored or unknown at the first try
	Recovered  uint64 // of those that failed: stored, or found waiting, by a later try
	Overflowed uint64 // Offer returned false
	Queued     int
}

// NewPublisher returns a Publisher; Run makes it work.
func NewPublisher(conn *Conn, cfg PublisherConfig, log *zap.Logger) *Publisher {
	if cfg.Capacity <= 0 {
		cfg.Capacity = 131072
	}
	return &Publisher{conn: conn, log: log.Named("publisher"), queue: newLine(cfg.Capacity), again: again{most: cfg.Capacity}}
}

// Offer hands a notice over and never blocks; false means that there was no
// room and that the sweeper will find the event.
func (p *Publisher) Offer(n event.Notice) bool {
	if p.queue.put(n) {
		return true
	}
	p.overflowed.Add(1)
	return false
}

// Stats reads the counters.
func (p *Publisher) Stats() PublisherStats {
	return PublisherStats{
		Published: p.published.Load(), Waiting: p.waiting.Load(),
		Failed: p.failed.Load(), Recovered: p.recovered.Load(), Overflowed: p.overflowed.Load(), Queued: p.queue.len(),
	}
}

// Run publishes until ctx ends: whatever waits goes out together as soon as
// the last answers are in, so one notice alone is not delayed and many share
// a round trip. What failed is tried again as soon as the broker is back. Work
// in hand when ctx ends is finished.
func (p *Publisher) Run(ctx context.Context) error {
	looking := make(chan struct{})
	go func() {
		defer close(looking)
		p.lookAhead(ctx)
	}()
	defer func() { <-looking }()
	for {
		connected := p.conn.nextConnect()
		var due, held <-chan time.Time
		if wait := p.again.wait(); wait >= 0 {
			due = time.After(wait)
		}
		some, most := p.queue.some, p.most()
		if most == 0 {
			some, held = nil, time.After(lookEvery)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-some:
			batch := p.queue.take(most)
			p.taken.Add(uint64(len(batch)))
			p.publish(context.WithoutCancel(ctx), batch)
			p.answered.Add(uint64(len(batch)))
		case <-held:
		case <-connected:
			p.again.hurry()
		case <-due:
			p.retry(context.WithoutCancel(ctx))
		}
	}
}

// Drain publishes what still waits, after Run has returned and nobody offers
// any more. It returns how many were left when ctx ended.
func (p *Publisher) Drain(ctx context.Context) (left int) {
	for ctx.Err() == nil {
		batch := p.queue.take(takeAtOnce)
		if len(batch) == 0 {
			if len(p.again.kept) > 0 {
				p.retry(ctx) // one last time, as much as one call takes
			}
			return 0
		}
		p.publish(ctx, batch)
	}
	return p.queue.len()
}

// takeAtOnce is how many share one call of Publish.
const takeAtOnce = 4 * window

func (p *Publisher) publish(ctx context.Context, batch []event.Notice) {
	var failure error
	var failures []event.Notice
	for _, r := range p.conn.Publish(ctx, batch) {
		switch r.Result {
		case Stored:
			p.published.Add(1)
		case Waiting:
			p.waiting.Add(1)
		default:
			p.failed.Add(1)
			failures = append(failures, r.Notice)
			failure = r.Err
		}
	}
	p.again.keep(failures)
	// One line every ten seconds: a broker that is away fails every event.
	if failure != nil && time.Since(p.lastWarning) > 10*time.Second {
		p.lastWarning = time.Now()
		p.log.Warn("publish.failed", zap.Int("events", len(failures)), zap.Error(failure),
			zap.String("effect", "they are published again when the broker takes them, or by the sweeper"))
	}
}
