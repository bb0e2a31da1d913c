package chaostest

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/umavez/umavez/pkg/queue"
)

// reader is an application that listens for domain events all the while.
type reader struct {
	cc jetstream.ConsumeContext

	mu     sync.Mutex
	newest map[int64]int64 // payment -> seq that all before are known of
	gaps   []gap
	copies int
	total  int
	broken bool // the broker lost its memory
}

// gap is a domain event that came before one that precedes it.
type gap struct{ Payment, After, Came int64 }

// startReader consumes PAYMENTS in order from its beginning. An ordered
// consumer is made again by the client wherever it was, after any trouble.
func startReader(ctx context.Context, js jetstream.JetStream) (*reader, error) {
	r := &reader{newest: map[int64]int64{}}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	c, err := js.OrderedConsumer(ctx, queue.StreamPayments, jetstream.OrderedConsumerConfig{InactiveThreshold: 10 * time.Minute, MaxResetAttempts: -1})
	if err != nil {
		return nil, err
	}
	r.cc, err = c.Consume(r.take)
	return r, err
}

func (r *reader) take(m jetstream.Msg) {
	var e struct {
		PaymentID int64 `json:"payment_id"`
		Seq       int64 `json:"seq"`
	}
	if json.Unmarshal(m.Data(), &e) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total++
	switch last := r.newest[e.PaymentID]; {
	case e.Seq <= last:
		r.copies++
	case e.Seq == last+1:
		r.newest[e.PaymentID] = e.Seq
	default:
		r.gaps = append(r.gaps, gap{e.PaymentID, last, e.Seq})
		r.newest[e.PaymentID] = e.Seq
	}
}

func (r *reader) stop() { r.cc.Stop() }

// forget says that the broker lost what it had stored of domain events; what
// the reader has heard is no measure any more.
func (r *reader) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = true
}
