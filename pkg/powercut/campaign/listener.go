package campaign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// listener is the shop's application: it reads the domain events, keeps a
// durable place, and knows each by (payment_id, seq), as it is told to.
type listener struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	stop context.CancelFunc
	done chan struct{}

	mu   sync.Mutex
	told map[string]int // "payment/seq" -> how often
	last error          // of the last read
}

func listen(ctx context.Context, url string) (*listener, error) {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.RetryOnFailedConnect(true))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(2*time.Second))
	if err != nil {
		nc.Close()
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	l := &listener{nc: nc, js: js, stop: stop, done: make(chan struct{}), told: map[string]int{}}
	go l.run(ctx)
	return l, nil
}

func (l *listener) close() {
	l.stop()
	<-l.done
	l.nc.Close()
}

// run reads for ever; a consumer that the broker forgot is made again.
func (l *listener) run(ctx context.Context) {
	defer close(l.done)
	for ctx.Err() == nil {
		err := l.read(ctx)
		l.mu.Lock()
		l.last = err
		l.mu.Unlock()
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

func (l *listener) read(ctx context.Context) error {
	consumer, err := l.js.CreateOrUpdateConsumer(ctx, "PAYMENTS", jetstream.ConsumerConfig{Durable: "shop", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 2 * time.Second})
	if err != nil {
		return err
	}
	batch, err := consumer.Fetch(500, jetstream.FetchMaxWait(300*time.Millisecond))
	if err != nil {
		return err
	}
	for m := range batch.Messages() {
		l.mu.Lock()
		l.told[keyOf(m.Data())]++
		l.mu.Unlock()
		_ = m.Ack()
	}
	return batch.Error()
}

// keyOf is how an application knows a domain event.
func keyOf(payload []byte) string {
	var e struct {
		PaymentID int64 `json:"payment_id"`
		Seq       int64 `json:"seq"`
	}
	_ = json.Unmarshal(payload, &e)
	return fmt.Sprintf("%d/%d", e.PaymentID, e.Seq)
}

func (l *listener) heard(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told[key] > 0
}

// place says where the consumer stands, and which of the domain events that it
// did not bring are in the stream.
func (l *listener) place(ctx context.Context, missing []string) (where string, held int) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	stream, err := l.js.Stream(ctx, "PAYMENTS")
	if err != nil {
		return fmt.Sprintf("the stream does not answer: %v", err), 0
	}
	state := stream.CachedInfo().State
	at := map[string]uint64{} // the newest copy
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		if m, err := stream.GetMsg(ctx, seq); err == nil {
			at[keyOf(m.Data)] = seq
		}
	}
	low, high := uint64(0), uint64(0)
	for _, key := range missing {
		if seq := at[key]; seq > 0 {
			held++
			high = max(high, seq)
			if low == 0 || seq < low {
				low = seq
			}
		}
	}
	where = fmt.Sprintf("the stream (%d to %d) holds %d of them, from %d to %d", state.FirstSeq, state.LastSeq, held, low, high)
	consumer, err := stream.Consumer(ctx, "shop")
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		return fmt.Sprintf("%s; the consumer does not answer: %v; the application last heard: %v", where, err, l.last), held
	}
	info := consumer.CachedInfo()
	return fmt.Sprintf("%s; the consumer delivered up to %d, its ack floor is %d, %d wait for an ack and %d for delivery", where,
		info.Delivered.Stream, info.AckFloor.Stream, info.NumAckPending, info.NumPending), held
}

// streams is the newest sequence of each stream, as far as the broker answers.
func (l *listener) streams(ctx context.Context) map[string]uint64 {
	last := map[string]uint64{}
	for _, name := range []string{"WEBHOOKS", "PAYMENTS"} {
		if s, err := l.js.Stream(ctx, name); err == nil {
			last[name] = s.CachedInfo().State.LastSeq
		}
	}
	return last
}

// lost counts what the broker knew before a cut and does not know now. What
// was published since makes it count too little, never too much.
func (l *listener) lost(ctx context.Context, before map[string]uint64, loss *SyncLoss) error {
	for name, newest := range before {
		if newest == 0 {
			continue
		}
		now, err := l.newest(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			loss.Vanished++
		} else if err != nil {
			return fmt.Errorf("stream %s after a cut: %w", name, err)
		}
		if gone := int(newest) - int(now); gone > 0 && name == "WEBHOOKS" {
			loss.Events += gone
		} else if gone > 0 {
			loss.Domain += gone
		}
	}
	return nil
}

// newest asks until the broker answers: the client comes back by itself.
func (l *listener) newest(ctx context.Context, name string) (uint64, error) {
	until := time.Now().Add(10 * time.Second)
	for {
		s, err := l.js.Stream(ctx, name)
		if err == nil {
			return s.CachedInfo().State.LastSeq, nil
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) || time.Now().After(until) || ctx.Err() != nil {
			return 0, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
