package queue_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/queue"
)

// Publishes meet stops, again and again. Whatever the moment, the message is
// in somebody's hands at once, and nobody waits for the 30 s of the ack wait.
func TestCase_G2_AMessageThatMeetsAStopIsGivenBackAtOnce(t *testing.T) {
	t.Parallel()
	const lanes, rounds = 4, 100
	var met, kept atomic.Int64
	var all sync.WaitGroup
	for range lanes {
		s, conn, _ := world(t, queue.Config{})
		other := s.Connect(t)
		all.Go(func() {
			for round := range int64(rounds) {
				k, err := conn.Consumer(t.Context(), queue.ConsumerConfig{})
				if err != nil {
					t.Error(err)
					return
				}
				ctx, stop := context.WithCancel(t.Context())
				got := make(chan []*queue.Delivery, 1)
				go func() {
					batch, _ := k.Fetch(ctx, 10, 20*time.Second)
					got <- batch
				}()
				time.Sleep(5 * time.Millisecond) // the request is open
				published := make(chan []queue.Published, 1)
				go func() {
					published <- other.Publish(t.Context(), notices(round+1, round+1))
				}()
				for wait := time.Now().Add(rand.N(500 * time.Microsecond)); time.Now().Before(wait); {
					runtime.Gosched() // a sleep is too coarse
				}
				stop()
				batch := <-got
				k.Close()
				if p := <-published; p[0].Result != queue.Stored {
					t.Errorf("%s %v", p[0].Result, p[0].Err)
				}
				for _, d := range batch {
					_ = d.Ack()
				}
				if len(batch) > 0 {
					kept.Add(1)
					continue
				}
				met.Add(1)
				next, err := other.Consumer(t.Context(), queue.ConsumerConfig{})
				if err != nil {
					t.Error(err)
					return
				}
				again, err := next.Fetch(t.Context(), 10, 3*time.Second)
				if err != nil || len(again) != 1 {
					t.Errorf("round %d: %d deliveries within 3 s, %v", round+1, len(again), err)
				}
				for _, d := range again {
					_ = d.Ack()
				}
				next.Close()
			}
		})
	}
	all.Wait()
	t.Logf("%d messages met a stop, %d were just in time for the worker", met.Load(), kept.Load())
	if met.Load() == 0 || kept.Load() == 0 {
		t.Error("the stops met no publishes: nothing was tried")
	}
}
