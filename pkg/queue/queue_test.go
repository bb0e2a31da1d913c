package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/queue"
	"github.com/umavez/umavez/pkg/queue/queuetest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.init.0.func1"))
}

func notice(id int64) event.Notice {
	return event.Notice{ID: id, Provider: "asaas", Account: "default", PaymentRef: fmt.Sprintf("pay_%d", id)}
}

func notices(from, to int64) (all []event.Notice) {
	for id := from; id <= to; id++ {
		all = append(all, notice(id))
	}
	return all
}

// mustStore publishes and fails the test unless all are stored.
func mustStore(t *testing.T, conn *queue.Conn, all ...event.Notice) {
	t.Helper()
	for _, p := range conn.Publish(t.Context(), all) {
		if p.Result != queue.Stored {
			t.Fatalf("event %d: %s %v", p.Notice.ID, p.Result, p.Err)
		}
	}
}

func count(published []queue.Published) map[queue.Result]int {
	n := map[queue.Result]int{}
	for _, p := range published {
		n[p.Result]++
	}
	return n
}

func consumer(t *testing.T, conn *queue.Conn, cfg queue.ConsumerConfig) *queue.Consumer {
	t.Helper()
	k, err := conn.Consumer(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// fetch fails the test when there is nothing within two seconds.
func fetch(t *testing.T, k *queue.Consumer, limit int) []*queue.Delivery {
	t.Helper()
	got, err := k.Fetch(t.Context(), limit, 2*time.Second)
	if err != nil || len(got) == 0 {
		t.Fatalf("fetched %d: %v", len(got), err)
	}
	return got
}

// raw is a client of the same server without any of our settings.
func raw(t *testing.T, url string) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

// world is a server, a connection with streams, and a client beside it.
func world(t *testing.T, cfg queue.Config) (*queuetest.Server, *queue.Conn, jetstream.JetStream) {
	t.Helper()
	s := queuetest.NewServer(t)
	cfg.URL = s.URL()
	conn := queuetest.Connect(t, cfg)
	if err := conn.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, js := raw(t, s.URL())
	return s, conn, js
}

func TestAnEventInTheStreamIsRefusedUntilItIsAcknowledged(t *testing.T) {
	t.Parallel()
	conn := queuetest.New(t)
	mustStore(t, conn, notices(1, 50)...)

	again := conn.Publish(t.Context(), notices(1, 60))
	if n := count(again); n[queue.Waiting] != 50 || n[queue.Stored] != 10 {
		t.Fatalf("second publication: %v", n)
	}
	for i, p := range again {
		if p.Notice.ID != int64(i+1) {
			t.Fatalf("answer %d is about event %d", i, p.Notice.ID)
		}
	}
	// The server counts a consumer's pending messages a moment later.
	queuetest.Eventually(t, 5*time.Second, "60 messages wait in the stream", func() bool {
		pending, _, err := conn.Lag(t.Context())
		return err == nil && pending == 60
	})

	k := consumer(t, conn, queue.ConsumerConfig{})
	one := fetch(t, k, 1)[0]
	if r := conn.Publish(t.Context(), notices(one.EventID, one.EventID))[0]; r.Result != queue.Waiting {
		t.Errorf("an event in a processor's hands was published again: %s", r.Result)
	}
	if err := one.Ack(); err != nil {
		t.Fatal(err)
	}
	queuetest.Eventually(t, 2*time.Second, "the subject is free", func() bool {
		return conn.Publish(t.Context(), notices(one.EventID, one.EventID))[0].Result == queue.Stored
	})
}

// The message id of the first publication must not swallow the repair: there
// is none.
func TestCase_E1_AnEventFailedWithinTheDuplicateWindowIsPublishedAgain(t *testing.T) {
	t.Parallel()
	_, conn, js := world(t, queue.Config{})
	// Even where somebody widened the window.
	stream, err := js.Stream(t.Context(), queue.StreamWebhooks)
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.Duplicates = 2 * time.Minute
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	k := consumer(t, conn, queue.ConsumerConfig{})
	for round := range 3 {
		queuetest.Eventually(t, 2*time.Second, "published", func() bool {
			return conn.Publish(t.Context(), notices(7, 7))[0].Result == queue.Stored
		})
		d := fetch(t, k, 10)
		if len(d) != 1 || d[0].EventID != 7 {
			t.Fatalf("round %d brought %d deliveries", round, len(d))
		}
		if err := d[0].Ack(); err != nil {
			t.Fatal(err)
		}
	}
}

// Every publish that was acknowledged is in the stream, whatever the limit
// refused.
func TestCase_E13_WhatAFullStreamRefusesIsReportedAsFailed(t *testing.T) {
	t.Parallel()
	_, conn, js := world(t, queue.Config{MaxBytes: 1 << 20})
	all := notices(1, 20000)
	published := conn.Publish(t.Context(), all)
	n := count(published)
	unknown := 0 // on a busy machine some answers come too late
	for _, p := range published {
		if errors.Is(p.Err, queue.ErrUnavailable) {
			unknown++
		}
	}
	if n[queue.Failed] == unknown || n[queue.Stored] == 0 || n[queue.Stored]+n[queue.Failed] != len(all) {
		t.Fatalf("results %v of %d: the stream should have become full, and not look like waiting", n, len(all))
	}
	stream, err := js.Stream(t.Context(), queue.StreamWebhooks)
	if err != nil {
		t.Fatal(err)
	}
	if have := stream.CachedInfo().State.Msgs; have < uint64(n[queue.Stored]) || have > uint64(n[queue.Stored]+unknown) {
		t.Errorf("%d messages are in the stream, %d were called stored, and of %d nobody knows", have, n[queue.Stored], unknown)
	}

	// After the backlog is worked off, the rest goes in: nothing is missing.
	k := consumer(t, conn, queue.ConsumerConfig{})
	seen := map[int64]bool{}
	for round := 0; len(seen) < len(all); round++ {
		if round > 200 {
			t.Fatalf("%d of %d events seen", len(seen), len(all))
		}
		batch, err := k.Fetch(t.Context(), 1000, 200*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range batch {
			seen[d.EventID] = true
			if err := d.Ack(); err != nil {
				t.Fatal(err)
			}
		}
		if len(batch) == 0 {
			var missing []event.Notice
			for _, n := range all {
				if !seen[n.ID] {
					missing = append(missing, n)
				}
			}
			conn.Publish(t.Context(), missing)
		}
	}
}

func TestADuplicateAnswerIsNeverStored(t *testing.T) {
	t.Parallel()
	_, conn, js := world(t, queue.Config{})
	if _, err := js.Publish(t.Context(), "payments.paid.asaas.p1", []byte(`{}`), jetstream.WithMsgID("41")); err != nil {
		t.Fatal(err)
	}
	// A stranger used the id 41: the server answers "duplicate" to our 41.
	n, err := conn.Relay(t.Context(), []queue.Outgoing{{ID: 41, Subject: "payments.paid.asaas.p2", Payload: []byte(`{"id":41}`)}})
	if err != nil || n != 1 {
		t.Fatalf("relayed %d, %v", n, err)
	}
	stream, err := js.Stream(t.Context(), queue.StreamPayments)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := stream.GetLastMsgForSubject(t.Context(), "payments.paid.asaas.p2")
	if err != nil || string(msg.Data) != `{"id":41}` {
		t.Errorf("the falsely duplicate event is not in the stream: %v", err)
	}
}

func TestPublishFailsFastWhileTheBrokerIsAway(t *testing.T) {
	t.Parallel()
	s, conn, _ := world(t, queue.Config{})
	s.Stop()
	queuetest.Eventually(t, 5*time.Second, "disconnected", func() bool { return !conn.Connected() })
	begin := time.Now()
	n := conn.Publish(t.Context(), notices(1, 500))
	if took := time.Since(begin); took > time.Second {
		t.Errorf("took %s", took)
	}
	if c := count(n); c[queue.Failed] != 500 {
		t.Errorf("results %v", c)
	}
	if !errors.Is(n[0].Err, queue.ErrUnavailable) {
		t.Errorf("error: %v", n[0].Err)
	}
	s.Start()
	queuetest.Eventually(t, 10*time.Second, "published again", func() bool {
		return conn.Publish(t.Context(), notices(1, 1))[0].Result == queue.Stored
	})
}

func TestPublishWithoutStreamFails(t *testing.T) {
	t.Parallel()
	conn := queuetest.NewServer(t).Connect(t)
	r := conn.Publish(t.Context(), notices(1, 1))[0]
	if r.Result != queue.Failed || !errors.Is(r.Err, queue.ErrMissing) {
		t.Errorf("%s %v", r.Result, r.Err)
	}
}

func TestABinaryMayStartBeforeTheBroker(t *testing.T) {
	t.Parallel()
	s := queuetest.NewServer(t)
	s.Stop()
	conn := queuetest.Connect(t, queue.Config{URL: s.URL()})
	if conn.Connected() {
		t.Fatal("connected to a stopped server")
	}
	if _, err := conn.Check(t.Context()); !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("check: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := conn.WaitConnected(ctx); !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("wait: %v", err)
	}
	s.Start()
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := conn.WaitConnected(ctx); err != nil {
		t.Fatal(err)
	}
	created, err := conn.Check(t.Context())
	if err != nil || len(created) != 3 {
		t.Errorf("created %v, %v", created, err)
	}
}

func TestConfigurationFaultsAreReportedTogetherWithoutThePassword(t *testing.T) {
	t.Parallel()
	_, err := queue.Connect(t.Context(), queue.Config{
		URL: "nats://me:canary@:bad port:1", Creds: "/nonexistent", Replicas: 9, MaxBytes: 1, PaymentsMaxBytes: 1, AckWait: 1,
	}, zap.NewNop())
	if err == nil {
		t.Fatal("accepted")
	}
	for _, name := range []string{"NATS_URL", "NATS_CREDS", "NATS_REPLICAS", "NATS_MAX_BYTES", "NATS_PAYMENTS_MAX_BYTES", "NATS_ACK_WAIT"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named", name)
		}
	}
	if strings.Contains(err.Error(), "canary") {
		t.Error("the password is shown")
	}
}

func BenchmarkPublish(b *testing.B) {
	conn := queuetest.New(b)
	for _, size := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			id := int64(size) << 40
			for b.Loop() {
				batch := make([]event.Notice, size)
				for i := range batch {
					id++
					batch[i] = notice(id)
				}
				if n := count(conn.Publish(context.Background(), batch)); n[queue.Stored] != size {
					b.Fatal(n)
				}
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func BenchmarkFetchAndAck(b *testing.B) {
	conn := queuetest.New(b)
	k, err := conn.Consumer(context.Background(), queue.ConsumerConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	var id int64
	taken := 0
	for b.Loop() {
		b.StopTimer()
		batch := make([]event.Notice, 1000)
		for i := range batch {
			id++
			batch[i] = notice(id)
		}
		conn.Publish(context.Background(), batch)
		b.StartTimer()
		for got := 0; got < len(batch); {
			ds, err := k.Fetch(context.Background(), 200, time.Second)
			if err != nil {
				b.Fatal(err)
			}
			for _, d := range ds {
				if err := d.Ack(); err != nil {
					b.Fatal(err)
				}
			}
			got += len(ds)
			taken += len(ds)
		}
	}
	b.ReportMetric(float64(taken)/b.Elapsed().Seconds(), "events/s")
}
