package queue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/queue"
	"github.com/umavez/umavez/pkg/queue/queuetest"
)

// Consumers notice at once that their stream was deleted, and make it again.
// What they make must take messages.
func TestAStreamThatIsMadeAgainWhileItIsDeletedTakesMessages(t *testing.T) {
	t.Parallel()
	server := queuetest.NewProcess(t)
	first := queuetest.Connect(t, queue.Config{URL: server.URL()})
	if err := first.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	defer workers.Wait()
	defer stop()
	for range 2 {
		conn := queuetest.Connect(t, queue.Config{URL: server.URL()})
		consumer, err := conn.Consumer(t.Context(), queue.ConsumerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		workers.Go(func() {
			defer consumer.Close()
			for ctx.Err() == nil {
				got, _ := consumer.Fetch(ctx, 10, 5*time.Second)
				for _, d := range got {
					_ = d.Ack()
				}
			}
		})
	}
	id := int64(0)
	for round := range 60 {
		for range 30 {
			id++
			first.Publish(t.Context(), []event.Notice{{ID: id, Provider: "gw", Account: "default", PaymentRef: "pay_1"}})
		}
		if err := first.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		queuetest.Eventually(t, 8*time.Second, "the stream is there and takes a message", func() bool {
			id++
			limited, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			p := first.Publish(limited, []event.Notice{{ID: id, Provider: "gw", Account: "default", PaymentRef: "pay_1"}})[0]
			if p.Result != queue.Stored {
				t.Logf("round %d: %v", round, p.Err)
			}
			return p.Result == queue.Stored
		})
	}
}
