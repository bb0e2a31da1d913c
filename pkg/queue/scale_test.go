package queue_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/queue"
	"github.com/umavez/umavez/pkg/queue/queuetest"
)

// delivered counts what workers got, over all of them.
type delivered struct {
	mu      sync.Mutex
	seen    map[int64]int
	last    time.Time
	longest time.Duration // without any delivery
}

func (d *delivered) note(ids []*queue.Delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.longest = max(d.longest, time.Since(d.last))
	d.last = time.Now()
	for _, one := range ids {
		d.seen[one.EventID]++
	}
}

func (d *delivered) events() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.seen)
}

// Ten workers become one and ten again while thousands wait. Half of those
// that go close in order, the others vanish with what they have.
func TestCase_E19_ScalingDownAndUpStallsNothing(t *testing.T) {
	t.Parallel()
	const events, ackWait = 4000, 2 * time.Second
	s, conn, _ := world(t, queue.Config{AckWait: ackWait})
	got := &delivered{seen: map[int64]int{}, last: time.Now()}
	worker := func(ctx context.Context, orderly bool) {
		c := s.Connect(t)
		k, err := c.Consumer(ctx, queue.ConsumerConfig{})
		if err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			return
		}
		for {
			batch, err := k.Fetch(ctx, 20, time.Second)
			if ctx.Err() != nil && !orderly {
				c.Close() // with the batch in hand
				return
			}
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			got.note(batch)
			for _, d := range batch {
				_ = d.Ack()
			}
			if ctx.Err() != nil {
				k.Close()
				c.Close()
				return
			}
			time.Sleep(rand.N(20 * time.Millisecond))
		}
	}
	crew := func(n int) (leave func()) {
		ctx, stop := context.WithCancel(context.Background())
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() { worker(ctx, i%2 == 0) })
		}
		return func() { stop(); all.Wait() }
	}
	mustStore(t, conn, notices(1, events)...)
	one := crew(1)
	defer one()
	for range 2 {
		many := crew(9)
		time.Sleep(300 * time.Millisecond)
		many()
		time.Sleep(300 * time.Millisecond)
	}
	many := crew(9)
	defer many()
	queuetest.Eventually(t, 60*time.Second, "everything is delivered", func() bool { return got.events() == events })
	got.mu.Lock()
	defer got.mu.Unlock()
	if got.longest > ackWait+2*time.Second {
		t.Errorf("while messages waited nothing was delivered for %s", got.longest)
	}
}
