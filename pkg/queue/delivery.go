package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/failpoint"
)

// Delivery is one hand-over of an event to the processor. It is settled once,
// by Ack or Nak; one that is not settled comes again after AckWait, which is
// right when it is unknown whether a commit took place.
type Delivery struct {
	EventID           int64
	Provider, Account string
	Attempt           uint64 // 1 for the first delivery of the message
	msg               *nats.Msg
}

var (
	ackNow  = []byte("+ACK")
	nakNow  = []byte("-NAK")
	termNow = []byte("+TERM")
	working = []byte("+WPI")
)

// Ack says that the row tells what happens next; the message goes. The answer
// is not awaited: a lost ack means a redelivery that finds the row settled.
func (d *Delivery) Ack() error {
	if err := failpoint.At(context.Background(), "queue.ack_asked"); err != nil {
		return fmt.Errorf("settle event %d: %w", d.EventID, err)
	}
	if err := d.settle(ackNow); err != nil {
		return err
	}
	return failpoint.At(context.Background(), "queue.ack_sent")
}

// Nak asks for the message again after a delay. Long waits belong into the
// row (parked), not here: they would count as lag.
func (d *Delivery) Nak(delay time.Duration) error {
	if err := failpoint.At(context.Background(), "queue.nak_asked"); err != nil {
		return fmt.Errorf("settle event %d: %w", d.EventID, err)
	}
	word := nakNow
	if delay > 0 {
		word = fmt.Appendf(nil, `-NAK {"delay": %d}`, delay.Nanoseconds())
	}
	if err := d.settle(word); err != nil {
		return err
	}
	return failpoint.At(context.Background(), "queue.nak_sent")
}

func (d *Delivery) settle(word []byte) error {
	if err := respond(d.msg, word); err != nil {
		return fmt.Errorf("settle event %d: %w", d.EventID, classify(err))
	}
	return nil
}

func respond(m *nats.Msg, word []byte) error {
	if m == nil {
		return errors.New("delivery without message")
	}
	return m.Respond(word)
}

// delivery reads a message; nil when it is not ours. That one is terminated:
// it names no event, and no retry will make it.
func (k *Consumer) delivery(m *nats.Msg) *Delivery {
	meta, err := m.Metadata()
	if err != nil {
		k.log.Warn("queue.message_without_metadata", zap.Error(err))
		return nil
	}
	at, err := ParseSubject(m.Subject)
	if err != nil {
		k.malformed.Add(1)
		k.log.Warn("queue.malformed_subject", zap.Uint64("stream_sequence", meta.Sequence.Stream), zap.Error(err))
		if err := respond(m, termNow); err != nil {
			k.log.Warn("queue.terminate", zap.Error(err))
		}
		return nil
	}
	return &Delivery{EventID: at.EventID, Provider: at.Provider, Account: at.Account, Attempt: meta.NumDelivered, msg: m}
}
