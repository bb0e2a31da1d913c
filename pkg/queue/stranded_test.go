package queue_test

import (
	"context"
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

// What a power cut leaves: the consumer's place of a moment ago beside the
// messages of a while ago.
func TestMessagesBelowTheConsumersPlaceAreDeliveredAfterAll(t *testing.T) {
	t.Parallel()
	s := queuetest.NewServer(t)
	conn := s.Connect(t)
	if err := conn.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	start := func() {
		t.Helper()
		s.Start()
		queuetest.Eventually(t, 10*time.Second, "the broker answers", func() bool {
			_, _, err := conn.Lag(t.Context())
			return err == nil
		})
	}
	take := func(want int) (got int) {
		t.Helper()
		k, err := conn.Consumer(t.Context(), queue.ConsumerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		for until := time.Now().Add(3 * time.Second); got < want && time.Now().Before(until); {
			batch, err := k.Fetch(t.Context(), 100, 500*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range batch {
				if err := d.Ack(); err != nil {
					t.Fatal(err)
				}
				got++
			}
		}
		return got
	}
	if freed, err := conn.FreeStranded(t.Context()); freed || err != nil {
		t.Errorf("an empty stream: freed %t, %v", freed, err)
	}
	mustStore(t, conn, notices(1, 5)...)
	if freed, err := conn.FreeStranded(t.Context()); freed || err != nil {
		t.Errorf("messages that wait: freed %t, %v", freed, err)
	}
	messages := filepath.Join(s.Dir(), "jetstream", "$G", "streams", queue.StreamWebhooks, "msgs")
	s.Stop()
	old := filepath.Join(t.TempDir(), "msgs")
	if err := os.CopyFS(old, os.DirFS(messages)); err != nil {
		t.Fatal(err)
	}
	start()
	if n := take(5); n != 5 {
		t.Fatalf("%d of 5 delivered", n)
	}
	queuetest.Eventually(t, 10*time.Second, "nothing waits", func() bool {
		pending, inHand, err := conn.Lag(t.Context())
		return err == nil && pending+inHand == 0
	})
	s.Stop()
	if err := os.RemoveAll(messages); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(messages, os.DirFS(old)); err != nil {
		t.Fatal(err)
	}
	start()
	// A sweep is refused: the messages are there.
	for _, p := range conn.Publish(t.Context(), notices(1, 5)) {
		if p.Result != queue.Waiting {
			t.Fatalf("the server repairs it by itself now: %v", p)
		}
	}
	freed, err := conn.FreeStranded(t.Context())
	if err != nil || !freed {
		t.Fatalf("freed %t, %v", freed, err)
	}
	if n := take(5); n != 5 {
		t.Errorf("%d of 5 stranded messages were delivered", n)
	}
	if freed, err := conn.FreeStranded(t.Context()); freed || err != nil {
		t.Errorf("once more: freed %t, %v", freed, err)
	}
}

// A power cut can leave files on which the server makes no consumer, however
// often it is asked; our own broker removes them at its start. The stream is only the bell: it is made anew.
func TestAStreamWhoseConsumerCannotBeMadeIsMadeAnew(t *testing.T) {
	t.Parallel()
	s := queuetest.NewServer(t)
	conn := s.Connect(t)
	if err := conn.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustStore(t, conn, notices(1, 5)...)
	nc, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteConsumer(t.Context(), queue.StreamWebhooks, queue.ConsumerName); err != nil {
		t.Fatal(err)
	}
	place := filepath.Join(s.Dir(), "jetstream", "$G", "streams", queue.StreamWebhooks, "obs", queue.ConsumerName)
	queuetest.Eventually(t, 10*time.Second, "the server has removed the files of the consumer", func() bool {
		_, err := os.Stat(place)
		return os.IsNotExist(err)
	})
	if err := os.WriteFile(place, []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	rung := false
	conn.Lost = func(context.Context) error { rung = true; return nil }
	var created []string
	queuetest.Eventually(t, 10*time.Second, "the streams are checked", func() bool {
		var err error
		if created, err = conn.Check(t.Context()); err != nil {
			t.Log(err)
		}
		return err == nil
	})
	if !slices.Contains(created, queue.StreamWebhooks) || !slices.Contains(created, queue.ConsumerName) || !rung {
		t.Errorf("created %v, rung %t for what was in the stream", created, rung)
	}
	mustStore(t, conn, notices(1, 5)...)
}
