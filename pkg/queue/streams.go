package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// The names of what lives in JetStream.
const (
	StreamWebhooks = "WEBHOOKS"
	StreamPayments = "PAYMENTS"
	ConsumerName   = "processor"
)

// webhooksStream holds one message for each event that is to be processed.
func (c *Conn) webhooksStream() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        StreamWebhooks,
		Description: "umavez: events to be processed; the truth is in PostgreSQL",
		Subjects:    []string{subjectPrefix + ">"},
		Storage:     jetstream.FileStorage,
		Replicas:    c.cfg.Replicas,
		// An acknowledged message goes, and frees its subject for the sweeper.
		Retention: jetstream.WorkQueuePolicy,
		// Together: while an event's message is here, publishing it again is
		// refused by the server, so no sweep can enlarge a backlog.
		Discard:              jetstream.DiscardNew,
		MaxMsgsPerSubject:    1,
		DiscardNewPerSubject: true,
		// The only limit. MaxAge and MaxMsgs would drop or refuse silently
		// what nobody asked to drop.
		MaxBytes: c.cfg.MaxBytes,
		MaxMsgs:  -1, MaxMsgSize: -1, MaxConsumers: -1,
		// No publication here has a message id, so the window does nothing; it
		// is small because the server's table of ids costs memory.
		Duplicates: time.Second,
	}
}

// paymentsStream holds domain events for applications.
func (c *Conn) paymentsStream() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        StreamPayments,
		Description: "umavez: what happened to payments, relayed from the outbox",
		Subjects:    []string{"payments.>"},
		Storage:     jetstream.FileStorage,
		Replicas:    c.cfg.Replicas,
		// Any number of applications read at their own pace, so messages stay
		// after an ack, and something must bound them. DiscardNew would fill
		// up with what everybody has read and then stop the relay for ever.
		// DiscardOld can only drop what is still in the outbox table.
		Retention: jetstream.LimitsPolicy,
		Discard:   jetstream.DiscardOld,
		MaxBytes:  c.cfg.PaymentsMaxBytes,
		MaxMsgs:   -1, MaxMsgSize: -1, MaxConsumers: -1, MaxMsgsPerSubject: -1,
		// Nats-Msg-Id is the outbox id: a relay that lost an answer repeats
		// itself without a second copy. It saves copies, correctness does not
		// rest on it; see Relay.
		Duplicates: 2 * time.Minute,
	}
}

// maxAckPending bounds the deliveries in hand over all processors.
const maxAckPending = 10_000

func (c *Conn) processorConsumer() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:     ConsumerName,
		Description: "umavez: the processors share it",
		AckPolicy:   jetstream.AckExplicitPolicy,
		// From the server's sending; nothing is fetched ahead of being worked
		// on, so it need only cover one batch.
		AckWait: c.cfg.AckWait,
		// Attempts are counted in the row, and dead events listed there. A
		// message that ran out of deliveries would sit in the stream, block
		// its subject and be seen by nobody.
		MaxDeliver:    -1,
		DeliverPolicy: jetstream.DeliverAllPolicy,
		MaxAckPending: maxAckPending,
		// No BackOff: it replaces AckWait and does not apply to naks.
	}
}

// Ensure creates the streams and the consumer, or updates them to what this
// version wants; `umavez migrate` calls it. Doing it twice, or twice at once,
// is harmless.
func (c *Conn) Ensure(ctx context.Context) error {
	for _, cfg := range []jetstream.StreamConfig{c.webhooksStream(), c.paymentsStream()} {
		if _, err := c.lookAt(ctx, cfg.Name); errors.Is(err, jetstream.ErrStreamNotFound) {
			if err := c.lost(ctx, cfg.Name); err != nil {
				return err
			}
		}
		ctx, cancel := bounded(ctx)
		_, err := c.js.CreateOrUpdateStream(ctx, cfg)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			_, err = c.js.UpdateStream(ctx, cfg) // another was faster
		}
		cancel()
		if err != nil {
			return fmt.Errorf("stream %s: %w", cfg.Name, c.classify(err))
		}
	}
	return c.ensureConsumer(ctx)
}

func (c *Conn) ensureConsumer(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if _, err := c.js.CreateOrUpdateConsumer(ctx, StreamWebhooks, c.processorConsumer()); err != nil {
		return fmt.Errorf("consumer %s: %w", ConsumerName, c.classify(err))
	}
	return nil
}

// Check compares what is there with what must be. Settings that can lose work
// give ErrUnsafe with every field named; harmless differences are logged. What
// is missing is created and returned by name, after a moment and, when it is
// StreamWebhooks, after Lost.
func (c *Conn) Check(ctx context.Context) (created []string, err error) {
	var faults []error
	settled := sync.OnceFunc(func() { settle(ctx) })
	for _, want := range []jetstream.StreamConfig{c.webhooksStream(), c.paymentsStream()} {
		have, made, err := c.findStream(ctx, want, settled)
		if err != nil {
			return created, err
		}
		if made {
			created = append(created, want.Name)
			continue
		}
		if want.Name == StreamWebhooks {
			faults = append(faults, webhooksFaults(have)...)
		}
		faults = append(faults, streamFaults(want, have)...)
		if have.Replicas != want.Replicas || have.MaxBytes != want.MaxBytes {
			c.log.Info("queue.settings_differ", zap.String("stream", want.Name),
				zap.Int("replicas", have.Replicas), zap.Int("NATS_REPLICAS", want.Replicas),
				zap.Int64("max_bytes", have.MaxBytes), zap.Int64("wanted_max_bytes", want.MaxBytes))
		}
	}
	consumer, err := c.consumerConfig(ctx)
	switch {
	case errors.Is(err, ErrMissing):
		settled()
		err := c.ensureConsumer(ctx)
		if consumerStoreBroken(err) {
			if err = c.remakeWebhooks(ctx); err == nil && !slices.Contains(created, StreamWebhooks) {
				created = append(created, StreamWebhooks)
			}
		}
		if err != nil {
			return created, err
		}
		created = append(created, ConsumerName)
	case err != nil:
		return created, err
	default:
		faults = append(faults, consumerFaults(consumer)...)
	}
	if len(faults) > 0 {
		return created, fmt.Errorf("%w; run `umavez migrate`, or set them yourself:\n%w", ErrUnsafe, errors.Join(faults...))
	}
	if len(created) > 0 {
		c.log.Warn("queue.created_again", zap.Strings("names", created))
	}
	return created, nil
}

// consumerStoreBroken says whether the server cannot make the consumer because
// of what a power cut left of its files. It does not repair that by itself, not
// with a restart either.
func consumerStoreBroken(err error) bool {
	const storeFailed = 10012
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == storeFailed
}

// remakeWebhooks removes the stream of events with all its files and makes it
// again, with its consumer. Nothing is lost: Lost rings for everything pending.
func (c *Conn) remakeWebhooks(ctx context.Context) error {
	if err := c.lost(ctx, StreamWebhooks); err != nil {
		return err
	}
	limited, cancel := bounded(ctx)
	defer cancel()
	c.log.Error("queue.store_broken", zap.String("removed", StreamWebhooks))
	if err := c.js.DeleteStream(limited, StreamWebhooks); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("remove the stream %s, whose store is broken: %w", StreamWebhooks, c.classify(err))
	}
	if _, _, err := c.findStream(ctx, c.webhooksStream(), func() { settle(ctx) }); err != nil {
		return err
	}
	return c.ensureConsumer(ctx)
}

// settleDown, and up to twice that, is how long a stream has to be missing
// before it is made again. The server forgets the name of a stream that is
// deleted first, and its consumers and files afterwards: one that is made in
// between may lose them, and then takes or delivers nothing until the server is
// started again. A consumer hears of the deletion at once, and all of them do.
const settleDown = 500 * time.Millisecond

func settle(ctx context.Context) { pause(ctx, settleDown+rand.N(settleDown), nil) }

// findStream makes a stream that is missing; settled waits before that.
func (c *Conn) findStream(ctx context.Context, want jetstream.StreamConfig, settled func()) (have jetstream.StreamConfig, made bool, err error) {
	look := func() (jetstream.Stream, error) { return c.lookAt(ctx, want.Name) }
	stream, err := look()
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		settled()
		stream, err = look()
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err := c.lost(ctx, want.Name); err != nil {
			return have, false, err
		}
		ctx, cancel := bounded(ctx)
		defer cancel()
		stream, err = c.js.CreateStream(ctx, want)
		made = err == nil
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			stream, err = look()
		}
	}
	if err != nil {
		return have, false, fmt.Errorf("stream %s: %w", want.Name, c.classify(err))
	}
	return stream.CachedInfo().Config, made, nil
}

func (c *Conn) lookAt(ctx context.Context, stream string) (jetstream.Stream, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return c.js.Stream(ctx, stream)
}

// lost says that a stream is missing or will be.
func (c *Conn) lost(ctx context.Context, stream string) error {
	if stream != StreamWebhooks || c.Lost == nil {
		return nil
	}
	if err := c.Lost(ctx); err != nil {
		return fmt.Errorf("the stream %s is not made again yet: %w", stream, err)
	}
	return nil
}

func (c *Conn) consumerConfig(ctx context.Context) (jetstream.ConsumerConfig, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	consumer, err := c.js.Consumer(ctx, StreamWebhooks, ConsumerName)
	if err != nil {
		return jetstream.ConsumerConfig{}, fmt.Errorf("consumer %s: %w", ConsumerName, c.classify(err))
	}
	return consumer.CachedInfo().Config, nil
}

// fault says which setting, what it is, and why that loses work.
func fault(where, field string, value any, why string) error {
	return fmt.Errorf("%s: %s is %v: %s", where, field, value, why)
}

// streamFaults are those of both streams.
func streamFaults(want, have jetstream.StreamConfig) (faults []error) {
	add := func(bad bool, field string, value any, why string) {
		if bad {
			faults = append(faults, fault("stream "+want.Name, field, value, why))
		}
	}
	add(!slices.Equal(have.Subjects, want.Subjects), "Subjects", have.Subjects, fmt.Sprintf("must be %v", want.Subjects))
	add(have.Storage != jetstream.FileStorage, "Storage", have.Storage, "memory forgets with a restart; use file")
	add(have.NoAck, "NoAck", have.NoAck, "publishes could not be confirmed")
	add(have.Sealed, "Sealed", have.Sealed, "it takes no messages")
	add(have.Mirror != nil, "Mirror", "set", "it takes no messages of ours")
	add(have.SubjectTransform != nil, "SubjectTransform", "set", "subjects must stay as they are")
	add(have.MaxMsgSize > 0 && have.MaxMsgSize < 64<<10, "MaxMsgSize", have.MaxMsgSize, "messages would be refused; use -1")
	return faults
}

func webhooksFaults(have jetstream.StreamConfig) (faults []error) {
	add := func(bad bool, field string, value any, why string) {
		if bad {
			faults = append(faults, fault("stream "+StreamWebhooks, field, value, why))
		}
	}
	add(have.Retention != jetstream.WorkQueuePolicy, "Retention", have.Retention, "an acknowledged message must free its subject; use workqueue")
	add(have.Discard != jetstream.DiscardNew, "Discard", have.Discard, "old messages would be dropped silently; use new")
	add(have.MaxMsgsPerSubject != 1, "MaxMsgsPerSubject", have.MaxMsgsPerSubject, "must be 1, so that sweeps cannot enlarge a backlog")
	add(!have.DiscardNewPerSubject, "DiscardNewPerSubject", have.DiscardNewPerSubject, "must be true, so that a second copy is refused")
	add(have.MaxAge > 0, "MaxAge", have.MaxAge, "messages would vanish while a processor is down; use 0")
	add(have.MaxMsgs > 0, "MaxMsgs", have.MaxMsgs, "only MaxBytes may limit it; use -1")
	return faults
}

func consumerFaults(have jetstream.ConsumerConfig) (faults []error) {
	add := func(bad bool, field string, value any, why string) {
		if bad {
			faults = append(faults, fault("consumer "+ConsumerName, field, value, why))
		}
	}
	add(have.AckPolicy != jetstream.AckExplicitPolicy, "AckPolicy", have.AckPolicy, "each message is acknowledged once its row says what happens next; use explicit")
	add(have.MaxDeliver > 0, "MaxDeliver", have.MaxDeliver, "messages would stay undelivered and block their subject; use -1")
	add(len(have.BackOff) > 0, "BackOff", have.BackOff, "it replaces AckWait; remove it")
	add(have.FilterSubject != "" || len(have.FilterSubjects) > 0, "FilterSubject", have.FilterSubject, "events outside it would never be processed; remove it")
	add(have.DeliverPolicy != jetstream.DeliverAllPolicy, "DeliverPolicy", have.DeliverPolicy, "older messages would never be delivered; use all")
	add(have.AckWait < minAckWait, "AckWait", have.AckWait, fmt.Sprintf("work in hand would be delivered twice; use at least %s", minAckWait))
	add(have.MaxAckPending >= 0 && have.MaxAckPending < 100, "MaxAckPending", have.MaxAckPending, "a single batch would fill it")
	add(have.InactiveThreshold > 0, "InactiveThreshold", have.InactiveThreshold, "it would be deleted while processors are down; use 0")
	return faults
}

// Lag is how many messages wait to be delivered, and how many were delivered
// and not yet settled. Autoscaling goes by their sum.
func (c *Conn) Lag(ctx context.Context) (pending, ackPending uint64, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	consumer, err := c.js.Consumer(ctx, StreamWebhooks, ConsumerName)
	if err != nil {
		return 0, 0, fmt.Errorf("lag of %s: %w", ConsumerName, c.classify(err))
	}
	info := consumer.CachedInfo()
	return info.NumPending, uint64(max(0, info.NumAckPending)), nil
}
