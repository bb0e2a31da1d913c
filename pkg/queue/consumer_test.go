package queue_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/umavez/umavez/pkg/queue"
	"github.com/umavez/umavez/pkg/queue/queuetest"
)

func TestFetchTakesWhatIsThereWithoutWaitingForMore(t *testing.T) {
	t.Parallel()
	conn := queuetest.New(t)
	k := consumer(t, conn, queue.ConsumerConfig{})
	mustStore(t, conn, notices(1, 30)...)

	begin := time.Now()
	got := fetch(t, k, 100)
	if took := time.Since(begin); len(got) != 30 || took > time.Second {
		t.Errorf("%d deliveries in %s", len(got), took)
	}
	if got[4].EventID != 5 || got[4].Provider != "asaas" || got[4].Account != "default" || got[4].Attempt != 1 {
		t.Errorf("fifth delivery: %+v", got[4])
	}
	mustStore(t, conn, notices(101, 140)...)
	if got := fetch(t, k, 25); len(got) != 25 {
		t.Errorf("%d deliveries, asked for 25", len(got))
	}
	if got := fetch(t, k, 25); len(got) != 15 {
		t.Errorf("%d deliveries, 15 were left", len(got))
	}
}

func TestFetchWakesWithTheFirstMessage(t *testing.T) {
	t.Parallel()
	conn := queuetest.New(t)
	k := consumer(t, conn, queue.ConsumerConfig{})
	type answer struct {
		n   int
		err error
		at  time.Time
	}
	answers := make(chan answer, 1)
	go func() {
		got, err := k.Fetch(context.Background(), 100, 10*time.Second)
		answers <- answer{len(got), err, time.Now()}
	}()
	select {
	case a := <-answers:
		t.Fatalf("returned with nothing there: %+v", a)
	case <-time.After(100 * time.Millisecond):
	}
	sent := time.Now()
	mustStore(t, conn, notice(1))
	if a := <-answers; a.n != 1 || a.err != nil || a.at.Sub(sent) > 2*time.Second {
		t.Errorf("%d deliveries, %v, after %s", a.n, a.err, a.at.Sub(sent))
	}
}

func TestFetchWithNothingThereIsNoError(t *testing.T) {
	t.Parallel()
	conn := queuetest.New(t)
	k := consumer(t, conn, queue.ConsumerConfig{})
	for range 3 {
		begin := time.Now()
		got, err := k.Fetch(t.Context(), 10, 100*time.Millisecond)
		if took := time.Since(begin); err != nil || len(got) != 0 || took < 90*time.Millisecond || took > time.Second {
			t.Errorf("%d deliveries, %v, after %s", len(got), err, took)
		}
	}
}

func TestFetchObeysItsContextAndLosesNothing(t *testing.T) {
	t.Parallel()
	conn := queuetest.New(t)
	k := consumer(t, conn, queue.ConsumerConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.Fetch(ctx, 10, time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := k.Fetch(ctx, 10, 5*time.Second); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error: %v", err)
	}
	mustStore(t, conn, notice(1)) // may reach the abandoned request
	if got := fetch(t, k, 10); len(got) != 1 || got[0].EventID != 1 {
		t.Errorf("%d deliveries", len(got))
	}
}

func TestAnUnsettledDeliveryComesAgainAfterAckWait(t *testing.T) {
	t.Parallel()
	_, conn, _ := world(t, queue.Config{AckWait: time.Second})
	k := consumer(t, conn, queue.ConsumerConfig{})
	mustStore(t, conn, notice(1))
	begin := time.Now()
	if first := fetch(t, k, 10)[0]; first.Attempt != 1 {
		t.Errorf("attempt %d", first.Attempt)
	}
	second := fetch(t, k, 10)[0]
	if took := time.Since(begin); second.EventID != 1 || second.Attempt != 2 || took < 800*time.Millisecond {
		t.Errorf("attempt %d after %s", second.Attempt, took)
	}
	if err := second.Ack(); err != nil {
		t.Fatal(err)
	}
	if got, err := k.Fetch(t.Context(), 10, 1500*time.Millisecond); err != nil || len(got) != 0 {
		t.Errorf("%d deliveries after the ack, %v", len(got), err)
	}
}

func TestANakDelaysTheRedelivery(t *testing.T) {
	t.Parallel()
	conn := queuetest.New(t)
	k := consumer(t, conn, queue.ConsumerConfig{})
	mustStore(t, conn, notice(1))
	if err := fetch(t, k, 1)[0].Nak(300 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	again := fetch(t, k, 1)[0]
	if took := time.Since(begin); took < 200*time.Millisecond || again.Attempt != 2 {
		t.Errorf("attempt %d after %s", again.Attempt, took)
	}
	if err := again.Nak(0); err != nil {
		t.Fatal(err)
	}
	if third := fetch(t, k, 1)[0]; third.Attempt != 3 {
		t.Errorf("attempt %d", third.Attempt)
	}
}

func TestTwoConsumersShareTheStream(t *testing.T) {
	t.Parallel()
	s, conn, _ := world(t, queue.Config{})
	a, b := consumer(t, conn, queue.ConsumerConfig{}), consumer(t, s.Connect(t), queue.ConsumerConfig{})
	mustStore(t, conn, notices(1, 400)...)
	seen := map[int64]int{}
	for len(seen) < 400 {
		for _, k := range []*queue.Consumer{a, b} {
			got, err := k.Fetch(t.Context(), 50, 500*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range got {
				seen[d.EventID]++
				if err := d.Ack(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("event %d was delivered %d times", id, n)
		}
	}
}

func TestCase_G2_ClosingGivesBackWhatNobodyFetched(t *testing.T) {
	t.Parallel()
	s, conn, _ := world(t, queue.Config{})
	a, b := consumer(t, conn, queue.ConsumerConfig{}), consumer(t, s.Connect(t), queue.ConsumerConfig{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _ = a.Fetch(ctx, 10, 20*time.Second) // leaves a request at the server
	mustStore(t, conn, notice(1))
	if pending, ack, err := conn.Lag(t.Context()); err != nil || pending+ack != 1 {
		t.Fatalf("pending %d, in hand %d, %v", pending, ack, err)
	}
	a.Close()
	if got := fetch(t, b, 10); len(got) != 1 { // well within AckWait
		t.Errorf("%d deliveries", len(got))
	}
}

func TestAMalformedSubjectIsTerminatedAndCounted(t *testing.T) {
	t.Parallel()
	_, conn, js := world(t, queue.Config{})
	k := consumer(t, conn, queue.ConsumerConfig{})
	for _, subject := range []string{"webhooks.x", "webhooks.asaas.default.pay.notanumber", "webhooks.asaas.default.pay.1.2", "webhooks.a.b.c.-4"} {
		if _, err := js.Publish(t.Context(), subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	mustStore(t, conn, notice(9))
	if got := fetch(t, k, 10); len(got) != 1 || got[0].EventID != 9 {
		t.Fatalf("%d deliveries", len(got))
	} else if err := got[0].Ack(); err != nil {
		t.Fatal(err)
	}
	if k.Malformed() != 4 {
		t.Errorf("%d malformed", k.Malformed())
	}
	queuetest.Eventually(t, 2*time.Second, "nothing is left", func() bool {
		pending, ack, err := conn.Lag(t.Context())
		return err == nil && pending+ack == 0
	})
}

func TestCase_E21_WhatWasDeletedWhileConsumingIsMadeAgain(t *testing.T) {
	t.Parallel()
	for name, drop := range map[string]func(context.Context, jetstream.JetStream) error{
		"stream": func(ctx context.Context, js jetstream.JetStream) error {
			return js.DeleteStream(ctx, queue.StreamWebhooks)
		},
		"consumer": func(ctx context.Context, js jetstream.JetStream) error {
			return js.DeleteConsumer(ctx, queue.StreamWebhooks, queue.ConsumerName)
		},
	} {
		for moment, waiting := range map[string]bool{"while it waits": true, "between fetches": false} {
			t.Run("the "+name+" "+moment, func(t *testing.T) {
				t.Parallel()
				_, conn, js := world(t, queue.Config{})
				var lost atomic.Int64
				conn.Lost = func(context.Context) error { lost.Add(1); return nil }
				k := consumer(t, conn, queue.ConsumerConfig{})
				gone := make(chan error, 1)
				remove := func() { gone <- drop(context.Background(), js) }
				if waiting {
					time.AfterFunc(100*time.Millisecond, remove)
				} else {
					remove()
				}
				if got, err := k.Fetch(t.Context(), 10, 3*time.Second); err != nil || len(got) != 0 {
					t.Fatalf("%d deliveries, %v", len(got), err)
				}
				if err := <-gone; err != nil {
					t.Fatal(err)
				}
				if want := map[string]int64{"stream": 1}[name]; lost.Load() != want {
					t.Errorf("the stream was said to be lost %d times, want %d", lost.Load(), want)
				}
				if _, _, err := conn.Lag(t.Context()); err != nil {
					t.Errorf("the consumer is not there again: %v", err)
				}
				mustStore(t, conn, notice(5))
				if got := fetch(t, k, 10); len(got) != 1 {
					t.Errorf("%d deliveries", len(got))
				}
			})
		}
	}
}

func TestConsumingGoesOnAfterTheServerRestarts(t *testing.T) {
	t.Parallel()
	s, conn, _ := world(t, queue.Config{})
	k := consumer(t, conn, queue.ConsumerConfig{})
	mustStore(t, conn, notices(1, 20)...)
	for _, d := range fetch(t, k, 10) {
		if err := d.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	s.Stop()
	if _, err := k.Fetch(t.Context(), 10, 300*time.Millisecond); !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("fetch without a server: %v", err)
	}
	s.Start()
	seen := map[int64]bool{}
	queuetest.Eventually(t, 15*time.Second, "the other ten events", func() bool {
		got, _ := k.Fetch(t.Context(), 100, time.Second)
		for _, d := range got {
			seen[d.EventID] = true
			_ = d.Ack()
		}
		return len(seen) >= 10
	})
}

func TestABrokerThatForgotEverythingIsSetUpAgain(t *testing.T) {
	t.Parallel()
	s, conn, js := world(t, queue.Config{})
	lost := 0
	conn.Lost = func(context.Context) error { lost++; return nil }
	k := consumer(t, conn, queue.ConsumerConfig{})
	mustStore(t, conn, notice(1))
	s.Forget()
	s.Start()
	queuetest.Eventually(t, 15*time.Second, "streams made again", func() bool {
		_, _ = k.Fetch(t.Context(), 10, 500*time.Millisecond)
		_, _, noConsumer := conn.Lag(t.Context())
		_, noPayments := js.Stream(t.Context(), queue.StreamPayments)
		return lost == 1 && noConsumer == nil && noPayments == nil
	})
	mustStore(t, conn, notice(1)) // what the sweeper does next
	if got := fetch(t, k, 10); got[0].EventID != 1 {
		t.Errorf("event %d", got[0].EventID)
	}
}

func TestEventsSurviveAKilledServer(t *testing.T) {
	t.Parallel()
	p := queuetest.NewProcess(t)
	conn := queuetest.Connect(t, queue.Config{URL: p.URL()})
	if err := conn.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	k := consumer(t, conn, queue.ConsumerConfig{})
	mustStore(t, conn, notices(1, 100)...)
	p.Kill()
	queuetest.Eventually(t, 10*time.Second, "disconnected", func() bool { return !conn.Connected() })
	p.Start()
	seen := map[int64]bool{}
	queuetest.Eventually(t, 20*time.Second, "all events", func() bool {
		got, _ := k.Fetch(t.Context(), 100, time.Second)
		for _, d := range got {
			seen[d.EventID] = true
			_ = d.Ack()
		}
		return len(seen) == 100
	})
}

// A paused consumer holds its messages back, as a stalled one does.
func TestCase_E19_AStalledConsumerIsRebuiltAndThenReported(t *testing.T) {
	t.Parallel()
	_, conn, js := world(t, queue.Config{})
	k := consumer(t, conn, queue.ConsumerConfig{StallAfter: 200 * time.Millisecond})
	if _, err := js.PauseConsumer(t.Context(), queue.StreamWebhooks, queue.ConsumerName, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	mustStore(t, conn, notice(1))
	var err error
	for begin := time.Now(); err == nil && time.Since(begin) < 5*time.Second; {
		_, err = k.Fetch(t.Context(), 10, 100*time.Millisecond)
	}
	if !errors.Is(err, queue.ErrStalled) {
		t.Fatalf("error: %v", err)
	}
	if _, err := js.ResumeConsumer(t.Context(), queue.StreamWebhooks, queue.ConsumerName); err != nil {
		t.Fatal(err)
	}
	if got := fetch(t, k, 10); len(got) != 1 {
		t.Errorf("%d deliveries", len(got))
	}
}

func TestAnIdleConsumerIsNotStalled(t *testing.T) {
	t.Parallel()
	conn := queuetest.New(t)
	k := consumer(t, conn, queue.ConsumerConfig{StallAfter: 20 * time.Millisecond})
	for range 10 {
		if _, err := k.Fetch(t.Context(), 10, 30*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}
