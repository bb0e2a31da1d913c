package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// domainEvents is what the stream of domain events holds of a broker now; nil
// while it has no such stream.
func domainEvents(t *testing.T, url string) (bodies []string) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		return nil
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "PAYMENTS")
	if err != nil {
		return nil
	}
	state := stream.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq && state.Msgs > 0; seq++ {
		msg, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, string(msg.Data))
	}
	return bodies
}

// The broker acknowledges before it flushes, so that a power cut can take what
// is marked as relayed. An application that had not read it yet must be told
// all the same. In this test the broker forgets everything, which is the worst
// that a cut was seen to do.
func TestDomainEventsThatTheBrokerLostAreToldAgain(t *testing.T) {
	s, w := handStack(t)
	s.up(1, 2)
	w.addrs = s.addrs
	for range 3 {
		for _, g := range gateways {
			one := newSale(g).paid()
			w.api.tells(g, one)
			w.take(g, g.body(newHook("paid", "evt_"+one.id, one)))
		}
	}
	s.settle(20 * time.Second)
	before := domainEvents(t, s.broker.URL())
	if len(before) < len(gateways) {
		t.Fatalf("only %d domain events were told", len(before))
	}
	s.broker.Kill()
	s.broker.Forget()
	s.broker.Start()
	var after []string
	told := func() bool {
		s.settle(20 * time.Second)
		after = domainEvents(t, s.broker.URL())
		return len(after) >= len(before)
	}
	eventually(t, 30*time.Second, "what was relayed and lost is relayed again", told)
	seen := map[string]bool{}
	for _, body := range after {
		seen[body] = true
	}
	for _, body := range before {
		if !seen[body] {
			t.Errorf("never told again: %s", body)
		}
	}
	verify(t, s.db)
}

// shop is an application that reads the domain events with a durable consumer
// and makes it again when it is not there.
type shop struct {
	js    jetstream.JetStream
	mu    sync.Mutex
	heard map[string]bool // bodies
}

func newShop(t *testing.T, url string) *shop {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{js: js, heard: map[string]bool{}}
	var reading sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	reading.Go(func() {
		for ctx.Err() == nil {
			if s.read(ctx) != nil {
				time.Sleep(20 * time.Millisecond)
			}
		}
	})
	t.Cleanup(func() { stop(); reading.Wait(); nc.Close() })
	return s
}

func (s *shop) read(ctx context.Context) error {
	consumer, err := s.js.CreateOrUpdateConsumer(ctx, "PAYMENTS", jetstream.ConsumerConfig{Durable: "shop", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		return err
	}
	batch, err := consumer.Fetch(100, jetstream.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	for m := range batch.Messages() {
		s.mu.Lock()
		s.heard[string(m.Data())] = true
		s.mu.Unlock()
		if err := m.DoubleAck(ctx); err != nil {
			return err
		}
	}
	return batch.Error()
}

func (s *shop) knows(bodies []string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, body := range bodies {
		if s.heard[body] {
			n++
		}
	}
	return n
}

func (s *shop) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.heard)
}

// A power cut can leave the place of an application's consumer and lose the
// messages that it counts, together with the file that says what the consumer
// is. The server then gives whoever makes the consumer the place of before:
// what is relayed again must not get numbers that this place calls done.
func TestDomainEventsAreToldAgainToAConsumerThatKeptItsPlace(t *testing.T) {
	for _, rest := range []string{"nothing", "the oldest"} {
		t.Run("where the stream kept "+rest, func(t *testing.T) { toldAgain(t, rest == "the oldest") })
	}
}

func toldAgain(t *testing.T, keepOldest bool) {
	s, w := handStack(t)
	s.up(1, 2)
	w.addrs = s.addrs
	reader := newShop(t, s.broker.URL())
	sell := func(rounds int) {
		for range rounds {
			for _, g := range gateways {
				one := newSale(g).paid()
				w.api.tells(g, one)
				w.take(g, g.body(newHook("paid", "evt_"+one.id, one)))
			}
		}
		s.settle(20 * time.Second)
	}
	hears := func(bodies []string, what string) {
		t.Helper()
		eventually(t, 30*time.Second, what, func() bool { return reader.knows(bodies) == len(bodies) })
	}
	messages := filepath.Join(s.broker.Dir(), "jetstream", "$G", "streams", "PAYMENTS", "msgs")
	kept := filepath.Join(t.TempDir(), "msgs")
	sell(1)
	oldest := domainEvents(t, s.broker.URL())
	s.broker.Kill()
	if err := os.CopyFS(kept, os.DirFS(messages)); err != nil {
		t.Fatal(err)
	}
	s.broker.Start()
	sell(3)
	all := domainEvents(t, s.broker.URL())
	hears(all, "everything is told")
	place := filepath.Join(filepath.Dir(messages), "obs", "shop")
	eventually(t, 10*time.Second, "the server writes down the place", func() bool {
		about, err := os.Stat(filepath.Join(place, "o.dat"))
		return err == nil && time.Since(about.ModTime()) > time.Second
	})
	s.broker.Kill()
	err := errors.Join(os.RemoveAll(messages), os.Remove(filepath.Join(place, "meta.inf")))
	lost := all
	if keepOldest {
		lost = all[len(oldest):]
		err = errors.Join(err, os.CopyFS(messages, os.DirFS(kept)))
	}
	if err != nil {
		t.Fatal(err)
	}
	reader.forget()
	s.broker.Start()
	hears(lost, "what was lost is told again")
	sell(1)
	hears(domainEvents(t, s.broker.URL())[len(all):], "what came since is told")
	verify(t, s.db)
}
