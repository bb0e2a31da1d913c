package queue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

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
	_, conn, _ := world(t, queue.Config{})
	p := queue.NewPublisher(conn, queue.PublisherConfig{}, zap.NewNop())
	for _, n := range notices(1, 100_000) {
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
	for _, n := range notices(100_001, 101_000) {
		p.Offer(n)
	}
	queuetest.Eventually(t, time.Minute, "all published", func() bool { return p.Stats().Published == 101_000 })
	stop()
	wg.Wait()
	if got := p.Stats(); got.Overflowed != 0 || got.Queued != 0 {
		t.Errorf("stats %+v", got)
	}
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
