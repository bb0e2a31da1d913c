package queue_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/queue"
	"github.com/umavez/umavez/pkg/queue/queuetest"
)

func TestOfferNeverBlocksAndCountsWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	conn := queuetest.New(t)
	p := queue.NewPublisher(conn, queue.PublisherConfig{Capacity: 10}, zap.NewNop())
	begin := time.Now()
	taken := 0
	for _, n := range notices(1, 1000) {
		if p.Offer(n) {
			taken++
		}
	}
	if took := time.Since(begin); taken != 10 || took > time.Second {
		t.Errorf("%d taken in %s", taken, took)
	}
	if s := p.Stats(); s.Overflowed != 990 || s.Queued != 10 {
		t.Errorf("stats %+v", s)
	}
	if left := p.Drain(t.Context()); left != 0 {
		t.Errorf("%d left", left)
	}
	if s := p.Stats(); s.Published != 10 || s.Queued != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestEveryOfferedNoticeIsAccountedFor(t *testing.T) {
	t.Parallel()
	s, conn, _ := world(t, queue.Config{})
	p := queue.NewPublisher(conn, queue.PublisherConfig{}, zap.NewNop())
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	for _, n := range notices(1, 2000) {
		p.Offer(n)
	}
	queuetest.Eventually(t, 10*time.Second, "all published", func() bool { return p.Stats().Published == 2000 })
	p.Offer(notice(1))
	queuetest.Eventually(t, 5*time.Second, "one was there already", func() bool { return p.Stats().Waiting == 1 })

	s.Stop()
	queuetest.Eventually(t, 5*time.Second, "disconnected", func() bool { return !conn.Connected() })
	for _, n := range notices(3001, 3100) {
		p.Offer(n)
	}
	queuetest.Eventually(t, 10*time.Second, "failures counted", func() bool { return p.Stats().Failed == 100 })
	stop()
	wg.Wait()
	if got := p.Stats(); got.Published != 2000 || got.Waiting != 1 || got.Failed != 100 || got.Overflowed != 0 {
		t.Errorf("stats %+v", got)
	}
}

// A broker that is slower than the database for minutes must not cost its
// events the sweeper's minutes: as installed, what an overload of ten minutes
// can leave behind finds room.
func TestALongLineIsPublishedWhole(t *testing.T) {
	t.Parallel()
	_, conn, _ := world(t, queue.Config{Ahead: -1})
	p := queue.NewPublisher(conn, queue.PublisherConfig{}, zap.NewNop())
	for _, n := range notices(1, 20_000) {
		if !p.Offer(n) {
			t.Fatal("no room")
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	// The line is served while it is added to.
	for _, n := range notices(20_001, 21_000) {
		p.Offer(n)
	}
	queuetest.Eventually(t, time.Minute, "all published", func() bool { return p.Stats().Published == 21_000 })
	stop()
	wg.Wait()
	if got := p.Stats(); got.Overflowed != 0 || got.Queued != 0 {
		t.Errorf("stats %+v", got)
	}
}

// While processors are behind, what stands in the queue stands before the next
// event. So little stands there, and the newest is put there first.
func TestABacklogIsHeldBackAndTheNewestGoesFirst(t *testing.T) {
	t.Parallel()
	_, conn, _ := world(t, queue.Config{Ahead: 100})
	p := queue.NewPublisher(conn, queue.PublisherConfig{}, zap.NewNop())
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer wg.Wait()
	defer stop()
	for _, n := range notices(1, 1000) {
		p.Offer(n)
	}
	wg.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	queuetest.Eventually(t, 5*time.Second, "some are published", func() bool { return p.Stats().Published >= 100 })
	time.Sleep(500 * time.Millisecond) // in which looks at the queue allow no more
	if s := p.Stats(); s.Published != 100 || s.Queued != 900 {
		t.Errorf("with no processor: %+v", s)
	}
	p.Offer(notice(5000))
	k := consumer(t, conn, queue.ConsumerConfig{})
	var order []int64
	for len(order) < 1001 {
		for _, d := range fetch(t, k, 50) {
			order = append(order, d.EventID)
			if err := d.Ack(); err != nil {
				t.Error(err)
			}
		}
	}
	if order[0] != 901 || order[99] != 1000 {
		t.Errorf("first came %v", order[:100])
	}
	if at := slices.Index(order, 5000); at < 100 || at >= 200 {
		t.Errorf("a new event came as number %d, and not with the next 100 behind those that stood there", at)
	}
}

func TestWhoRingsForManyWaitsWhileProcessorsCatchUp(t *testing.T) {
	t.Parallel()
	_, conn, _ := world(t, queue.Config{Ahead: 50})
	k := consumer(t, conn, queue.ConsumerConfig{})
	began := time.Now()
	conn.AwaitRoom(t.Context())
	if took := time.Since(began); took > time.Second {
		t.Errorf("an empty queue was waited for, for %s", took)
	}
	storeAll(t, conn, notices(1, 400))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn.AwaitRoom(t.Context())
	}()
	for left := 400; left > 0; {
		// The consumer may have one request's worth on its way to it.
		if left > 200 {
			select {
			case <-ended:
				t.Fatalf("%d were left to be fetched, and it did not wait", left)
			case <-time.After(200 * time.Millisecond):
			}
		}
		for _, d := range fetch(t, k, 50) {
			left--
			if err := d.Ack(); err != nil {
				t.Error(err)
			}
		}
	}
	<-ended

	storeAll(t, conn, notices(1001, 1400))
	began = time.Now()
	conn.AwaitRoom(t.Context()) // and nobody fetches
	if took := time.Since(began); took < time.Second || took > 20*time.Second {
		t.Errorf("it waited for %s for processors that do nothing", took)
	}
}

// storeAll publishes until all are in the stream: on a busy machine some
// answers come too late.
func storeAll(t *testing.T, conn *queue.Conn, all []event.Notice) {
	t.Helper()
	queuetest.Eventually(t, 20*time.Second, "all are in the stream", func() bool {
		return count(conn.Publish(t.Context(), all))[queue.Failed] == 0
	})
}

func TestDrainStopsAtItsDeadline(t *testing.T) {
	t.Parallel()
	conn := queuetest.New(t)
	p := queue.NewPublisher(conn, queue.PublisherConfig{}, zap.NewNop())
	for _, n := range notices(1, 5) {
		p.Offer(n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if left := p.Drain(ctx); left != 5 {
		t.Errorf("%d left", left)
	}
}

func TestWhatFailedWhileTheBrokerWasAwayIsPublishedWhenItIsBack(t *testing.T) {
	t.Parallel()
	s, conn, _ := world(t, queue.Config{})
	p := queue.NewPublisher(conn, queue.PublisherConfig{Capacity: 1000}, zap.NewNop())
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer wg.Wait()
	defer stop()
	s.Stop()
	queuetest.Eventually(t, 5*time.Second, "disconnected", func() bool { return !conn.Connected() })
	for _, n := range notices(1, 1000) {
		p.Offer(n)
	}
	queuetest.Eventually(t, 10*time.Second, "failures counted", func() bool { return p.Stats().Failed == 1000 })
	for _, n := range notices(2001, 2010) { // beyond what is kept
		p.Offer(n)
	}
	queuetest.Eventually(t, 10*time.Second, "failures counted", func() bool { return p.Stats().Failed == 1010 })
	s.Start()
	queuetest.Eventually(t, 5*time.Second, "all that was kept is published", func() bool { return p.Stats().Recovered == 1000 })
	pending, _, err := conn.Lag(t.Context())
	if err != nil || pending != 1000 {
		t.Errorf("%d wait in the stream, %v", pending, err)
	}
	if got := p.Stats(); got.Published != 0 || got.Failed != 1010 || got.Queued != 0 {
		t.Errorf("stats %+v", got)
	}
}
