package queue_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/umavez/umavez/pkg/queue"
	"github.com/umavez/umavez/pkg/queue/queuetest"
)

// What a power cut leaves: messages of a while ago, the place of a moment ago,
// and not all that belongs to it. Whoever reads the domain events must hear
// what is relayed again, wherever the cut went through.
func TestAReaderHearsWhatIsRelayedAgainWhateverACutLeftOfItsConsumer(t *testing.T) {
	t.Parallel()
	gone := func(name string) func(stream string) error {
		return func(stream string) error { return os.Remove(filepath.Join(stream, name)) }
	}
	for what, cut := range map[string]func(stream string) error{
		"all of it":                   func(string) error { return nil }, // the server sees that the place lies beyond the stream
		"not its settings":            gone("obs/shop/meta.inf"),
		"not the sum of its settings": gone("obs/shop/meta.sum"),
		"not the stream's settings":   gone("meta.inf"),
		"not the sum of the stream's": gone("meta.sum"),
		"half of its settings":        func(stream string) error { return os.Truncate(filepath.Join(stream, "obs/shop/meta.inf"), 20) },
		"zeros for its place":         func(stream string) error { return zeros(filepath.Join(stream, "obs/shop/o.dat")) },
		"half of its place":           func(stream string) error { return os.Truncate(filepath.Join(stream, "obs/shop/o.dat"), 3) },
		"not its settings, and no messages": func(stream string) error {
			if err := os.RemoveAll(filepath.Join(stream, "msgs")); err != nil {
				return err
			}
			return gone("obs/shop/meta.inf")(stream)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := queuetest.NewServer(t)
			conn := s.Connect(t)
			if err := conn.Ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			shop := newReader(t, s.URL())
			rows := outbox(20, 3)
			mustRelay(t, conn, rows[:5])
			shop.wants(t, rows[:5])
			stream := filepath.Join(s.Dir(), "jetstream", "$G", "streams", queue.StreamPayments)
			s.Stop()
			old := filepath.Join(t.TempDir(), "msgs")
			if err := os.CopyFS(old, os.DirFS(filepath.Join(stream, "msgs"))); err != nil {
				t.Fatal(err)
			}
			s.Start()
			answers(t, conn)
			mustRelay(t, conn, rows[5:15])
			shop.wants(t, rows[5:15])
			s.Stop()
			if err := os.RemoveAll(filepath.Join(stream, "msgs")); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(filepath.Join(stream, "msgs"), os.DirFS(old)); err != nil {
				t.Fatal(err)
			}
			if err := cut(stream); err != nil {
				t.Fatal(err)
			}
			s.Start()
			answers(t, conn)
			clear(shop.heard)
			mustRelay(t, conn, rows[5:20])
			shop.wants(t, rows[5:20])
		})
	}
}

// A broker that was stopped in order keeps every consumer.
func TestAStartKeepsTheConsumersThatAreWhole(t *testing.T) {
	t.Parallel()
	s := queuetest.NewServer(t)
	conn := s.Connect(t)
	if err := conn.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	shop := newReader(t, s.URL())
	rows := outbox(5, 2)
	mustRelay(t, conn, rows)
	shop.wants(t, rows)
	for range 2 {
		s.Stop()
		s.Start()
		answers(t, conn)
		if removed := s.Removed(); len(removed) > 0 {
			t.Errorf("removed %v", removed)
		}
	}
	clear(shop.heard)
	more := outbox(7, 2)[5:]
	mustRelay(t, conn, more)
	shop.wants(t, more)
	if len(shop.heard) != len(more) {
		t.Errorf("heard %v: its place is gone", shop.heard)
	}
	s.Stop()
	if err := os.Remove(filepath.Join(s.Dir(), "jetstream", "$G", "streams", queue.StreamPayments, "obs", "shop", "meta.inf")); err != nil {
		t.Fatal(err)
	}
	s.Start()
	if removed := s.Removed(); !slices.Equal(removed, []string{"PAYMENTS/shop"}) {
		t.Errorf("removed %v", removed)
	}
}

func zeros(file string) error {
	about, err := os.Stat(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, make([]byte, about.Size()), 0o600)
}

func answers(t *testing.T, conn *queue.Conn) {
	t.Helper()
	queuetest.Eventually(t, 10*time.Second, "the broker answers, with its streams", func() bool {
		_, err := conn.Check(t.Context())
		return err == nil
	})
}

func mustRelay(t *testing.T, conn *queue.Conn, rows []queue.Outgoing) {
	t.Helper()
	if n, err := conn.Relay(t.Context(), rows); n != len(rows) || err != nil {
		t.Fatalf("relayed %d of %d, %v", n, len(rows), err)
	}
}

// reader is an application with a durable consumer, which it makes where it is
// not there.
type reader struct {
	js    jetstream.JetStream
	heard map[string]bool // outbox ids
}

func newReader(t *testing.T, url string) *reader {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return &reader{js: js, heard: map[string]bool{}}
}

func (r *reader) read(t *testing.T) error {
	consumer, err := r.js.CreateOrUpdateConsumer(t.Context(), queue.StreamPayments, jetstream.ConsumerConfig{Durable: "shop", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		return err
	}
	batch, err := consumer.Fetch(100, jetstream.FetchMaxWait(200*time.Millisecond))
	if err != nil {
		return err
	}
	for m := range batch.Messages() {
		r.heard[m.Headers().Get(queue.HeaderOutboxID)] = true
		if err := m.DoubleAck(t.Context()); err != nil {
			return err
		}
	}
	return batch.Error()
}

func (r *reader) wants(t *testing.T, rows []queue.Outgoing) {
	t.Helper()
	var err error
	missing := len(rows)
	for until := time.Now().Add(10 * time.Second); missing > 0 && time.Now().Before(until); {
		err = r.read(t)
		missing = 0
		for _, row := range rows {
			if !r.heard[fmt.Sprint(row.ID)] {
				missing++
			}
		}
	}
	if missing > 0 {
		t.Fatalf("%d of %d were never heard; last error: %v", missing, len(rows), err)
	}
}
