package queue_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/umavez/umavez/pkg/queue"
	"github.com/umavez/umavez/pkg/queue/queuetest"
)

func TestEnsureIsHarmlessTwiceAndAtOnce(t *testing.T) {
	t.Parallel()
	s := queuetest.NewServer(t)
	conn := s.Connect(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := conn.Ensure(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if created, err := conn.Check(t.Context()); err != nil || len(created) != 0 {
		t.Errorf("created %v, %v", created, err)
	}
}

func TestSettingsAreThoseOfTheDesign(t *testing.T) {
	t.Parallel()
	_, _, js := world(t, queue.Config{AckWait: 20 * time.Second})
	stream, err := js.Stream(t.Context(), queue.StreamWebhooks)
	if err != nil {
		t.Fatal(err)
	}
	c := stream.CachedInfo().Config
	if c.Discard != jetstream.DiscardNew || !c.DiscardNewPerSubject || c.MaxMsgsPerSubject != 1 || c.Retention != jetstream.WorkQueuePolicy ||
		c.Storage != jetstream.FileStorage || c.MaxAge != 0 || c.MaxMsgs > 0 || c.MaxBytes != 4<<30 {
		t.Errorf("stream: %+v", c)
	}
	consumer, err := stream.Consumer(t.Context(), queue.ConsumerName)
	if err != nil {
		t.Fatal(err)
	}
	k := consumer.CachedInfo().Config
	if k.AckPolicy != jetstream.AckExplicitPolicy || k.MaxDeliver != -1 || len(k.BackOff) != 0 || k.AckWait != 20*time.Second {
		t.Errorf("consumer: %+v", k)
	}
}

func TestCheckRefusesSettingsThatLoseWork(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*jetstream.StreamConfig){
		"Discard": func(c *jetstream.StreamConfig) {
			c.Discard, c.DiscardNewPerSubject = jetstream.DiscardOld, false
		},
		"DiscardNewPerSubject": func(c *jetstream.StreamConfig) { c.DiscardNewPerSubject = false },
		"MaxMsgsPerSubject":    func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 },
		"MaxAge":               func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"MaxMsgs":              func(c *jetstream.StreamConfig) { c.MaxMsgs = 1000 },
		"Retention":            func(c *jetstream.StreamConfig) { c.Retention = jetstream.LimitsPolicy },
		"Storage":              func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"NoAck":                func(c *jetstream.StreamConfig) { c.NoAck = true },
		"Subjects":             func(c *jetstream.StreamConfig) { c.Subjects = []string{"webhooks.asaas.>"} },
		"MaxMsgSize":           func(c *jetstream.StreamConfig) { c.MaxMsgSize = 10 },
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			s, conn, js := world(t, queue.Config{})
			stream, err := js.Stream(t.Context(), queue.StreamWebhooks)
			if err != nil {
				t.Fatal(err)
			}
			cfg := stream.CachedInfo().Config
			change(&cfg)
			if err := js.DeleteStream(t.Context(), queue.StreamWebhooks); err != nil {
				t.Fatal(err)
			}
			if _, err := js.CreateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			_, err = conn.Check(t.Context())
			if !errors.Is(err, queue.ErrUnsafe) || !strings.Contains(err.Error(), "stream WEBHOOKS: "+field+" is ") {
				t.Errorf("error: %v", err)
			}
			if _, err := s.Connect(t).Consumer(t.Context(), queue.ConsumerConfig{}); !errors.Is(err, queue.ErrUnsafe) {
				t.Errorf("a consumer was opened: %v", err)
			}
		})
	}
}

func TestCheckRefusesConsumerSettingsThatLoseWork(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*jetstream.ConsumerConfig){
		"MaxDeliver":        func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 3 },
		"BackOff":           func(c *jetstream.ConsumerConfig) { c.BackOff = []time.Duration{time.Second, time.Minute} },
		"FilterSubject":     func(c *jetstream.ConsumerConfig) { c.FilterSubject = "webhooks.asaas.>" },
		"InactiveThreshold": func(c *jetstream.ConsumerConfig) { c.InactiveThreshold = time.Minute },
		"MaxAckPending":     func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 1 },
		"AckWait":           func(c *jetstream.ConsumerConfig) { c.AckWait = 100 * time.Millisecond },
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			_, conn, js := world(t, queue.Config{})
			cfg := jetstream.ConsumerConfig{Durable: queue.ConsumerName, AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: -1, AckWait: 30 * time.Second, MaxAckPending: 1000}
			change(&cfg)
			if err := js.DeleteConsumer(t.Context(), queue.StreamWebhooks, queue.ConsumerName); err != nil {
				t.Fatal(err)
			}
			if _, err := js.CreateConsumer(t.Context(), queue.StreamWebhooks, cfg); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Check(t.Context()); !errors.Is(err, queue.ErrUnsafe) || !strings.Contains(err.Error(), "consumer processor: "+field+" is ") {
				t.Errorf("error: %v", err)
			}
			if err := conn.Ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Check(t.Context()); err != nil {
				t.Errorf("after Ensure: %v", err)
			}
		})
	}
}

func TestCheckMakesWhatVanishedAndSaysSo(t *testing.T) {
	t.Parallel()
	_, conn, js := world(t, queue.Config{})
	if err := js.DeleteStream(t.Context(), queue.StreamWebhooks); err != nil {
		t.Fatal(err)
	}
	created, err := conn.Check(t.Context())
	if err != nil || len(created) != 2 || created[0] != queue.StreamWebhooks || created[1] != queue.ConsumerName {
		t.Errorf("created %v, %v", created, err)
	}
}

// Between the making of a stream and the ringing for what was in the old one a
// process can die, or the database be away. Nobody would ring then: the stream
// is there.
func TestTheStreamOfEventsIsNotMadeBeforeEverythingPendingIsDue(t *testing.T) {
	t.Parallel()
	for name, makes := range map[string]func(context.Context, *queue.Conn) error{
		"a processor or a sweeper": func(ctx context.Context, c *queue.Conn) error { _, err := c.Check(ctx); return err },
		"migrate":                  func(ctx context.Context, c *queue.Conn) error { return c.Ensure(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, conn, js := world(t, queue.Config{})
			away := errors.New("the database is away")
			rung := 0
			conn.Lost = func(context.Context) error {
				if rung++; rung < 3 {
					return away
				}
				if _, err := js.Stream(t.Context(), queue.StreamWebhooks); !errors.Is(err, jetstream.ErrStreamNotFound) {
					t.Errorf("it is there already: %v", err)
				}
				return nil
			}
			if err := makes(t.Context(), conn); err != nil || rung != 0 {
				t.Fatalf("nothing is missing: rung %d times, %v", rung, err)
			}
			if err := js.DeleteStream(t.Context(), queue.StreamWebhooks); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := makes(t.Context(), conn); !errors.Is(err, away) {
					t.Errorf("made although nobody rang: %v", err)
				}
			}
			if err := makes(t.Context(), conn); err != nil {
				t.Error(err)
			}
			if err := makes(t.Context(), conn); err != nil || rung != 3 {
				t.Errorf("rung %d times, %v", rung, err)
			}
		})
	}
}
