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

// Workers hear at once that their stream is deleted, and make it again while
// the server is still busy with that. What they make must take messages and
// deliver them: one that does neither stays so until the server is restarted.
func TestAStreamThatIsMadeAgainWhileItIsDeletedTakesAndDelivers(t *testing.T) {
	t.Parallel()
	server := queuetest.NewProcess(t)
	connect := func() *queue.Conn { return queuetest.Connect(t, queue.Config{URL: server.URL()}) }
	first, processor := connect(), connect()
	if err := first.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	defer workers.Wait()
	defer stop()
	delivered := make(chan int64, 10_000)
	for range 2 {
		consumer, err := processor.Consumer(t.Context(), queue.ConsumerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		workers.Go(func() {
			defer consumer.Close()
			for ctx.Err() == nil {
				got, _ := consumer.Fetch(ctx, 10, 5*time.Second)
				for _, d := range got {
					delivered <- d.EventID
					_ = d.Ack()
				}
			}
		})
	}
	id := int64(0)
	ring := func() bool {
		id++
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return first.Publish(limited, []event.Notice{{ID: id, Provider: "gw", Account: "default", PaymentRef: "pay_1"}})[0].Result == queue.Stored
	}
	for range 12 {
		for range 20 {
			ring()
		}
		if err := connect().Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		queuetest.Eventually(t, 10*time.Second, "the stream takes a message", ring)
		newest := id
		for deadline := time.After(12 * time.Second); ; {
			var got int64
			select {
			case got = <-delivered:
			case <-deadline:
				t.Fatal("the stream takes messages and delivers none")
			}
			if got == newest {
				break
			}
		}
	}
}
