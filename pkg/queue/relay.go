package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/umavez/umavez/pkg/failpoint"
)

// Outgoing is one row of the outbox.
type Outgoing struct {
	ID      int64  // of the row; subscribers deduplicate by it
	Subject string // payments.<status>.<provider>.<payment token>
	Payload []byte // JSON
}

// HeaderOutboxID carries the outbox row's id on every domain event. A reader
// that must not act twice remembers it: delivery is at least once.
const HeaderOutboxID = "Umavez-Outbox-Id"

// Relay publishes domain events to PAYMENTS in their order and returns how
// many of the first ones are stored; the caller marks those as relayed and
// comes back with the rest.
//
// Order is kept within a payment: a message goes out only when the one before
// it of the same payment is stored, and nothing new goes out after a failure.
// Messages of different payments share round trips. One of a different payment
// behind the first failure may be stored too; its next relay is recognized by
// its id. Two relays at once for the same payment would void the order: the
// caller holds a lock.
func (c *Conn) Relay(ctx context.Context, rows []Outgoing) (n int, err error) {
	futures := make([]jetstream.PubAckFuture, len(rows))
	lastOf := make(map[string]int, len(rows)) // payment -> its newest row on the way
	settled, next := 0, 0
	settle := func() error {
		err := failpoint.At(ctx, "queue.relay_sent")
		if err == nil {
			err = c.relayed(ctx, rows[settled], futures[settled])
		}
		if err == nil {
			err = failpoint.At(ctx, "queue.relay_stored")
		}
		if err == nil {
			settled++
		}
		return err
	}
	for ; next < len(rows); next++ {
		key := paymentOf(rows[next].Subject)
		for next > settled && (next-settled >= window || lastOf[key] > settled) { // lastOf counts from 1, so that absent is 0
			if err := settle(); err != nil {
				return settled, err // a future tells its error once: to ask again would be to wait for ever
			}
		}
		if err = failpoint.At(ctx, "queue.relay_asked"); err == nil {
			futures[next], err = c.send(rows[next], strconv.FormatInt(rows[next].ID, 10))
		}
		if err != nil {
			err = fmt.Errorf("relay outbox row %d: %w", rows[next].ID, classify(err))
			break
		}
		lastOf[key] = next + 1
	}
	for settled < next {
		if err := settle(); err != nil {
			return settled, err
		}
	}
	return settled, err
}

// paymentOf is the part of a subject behind the status.
func paymentOf(subject string) string {
	parts := strings.SplitN(subject, ".", 3)
	return parts[len(parts)-1]
}

func (c *Conn) send(row Outgoing, msgID string) (jetstream.PubAckFuture, error) {
	if !strings.HasPrefix(row.Subject, "payments.") || strings.ContainsAny(row.Subject, "*> \t\r\n") {
		return nil, errors.New("its subject is not one of payments")
	}
	m := &nats.Msg{Subject: row.Subject, Data: row.Payload, Header: nats.Header{
		jetstream.MsgIDHeader: {msgID},
		HeaderOutboxID:        {strconv.FormatInt(row.ID, 10)},
	}}
	return c.js.PublishMsgAsync(m, jetstream.WithRetryAttempts(0))
}

// relayed waits until a row is certainly stored. "Duplicate" is usually our
// own earlier try whose answer was lost; it is believed only when the message
// that the server names is there and is the one. Otherwise the row is
// published once more under an id of its own: a second copy is allowed, a
// missing one is not.
func (c *Conn) relayed(ctx context.Context, row Outgoing, f jetstream.PubAckFuture) error {
	var ack *jetstream.PubAck
	select {
	case ack = <-f.Ok():
	case err := <-f.Err():
		return fmt.Errorf("relay outbox row %d: %w", row.ID, classify(err))
	case <-ctx.Done():
		return fmt.Errorf("relay outbox row %d: %w", row.ID, classify(ctx.Err()))
	}
	if !ack.Duplicate || c.isStored(ctx, row, ack.Sequence) {
		return nil
	}
	again, err := c.send(row, strconv.FormatInt(row.ID, 10)+"."+nuid.Next())
	if err == nil {
		_, err = await(ctx, again)
	}
	if err != nil {
		return fmt.Errorf("relay outbox row %d again: %w", row.ID, classify(err))
	}
	return nil
}

func (c *Conn) isStored(ctx context.Context, row Outgoing, seq uint64) bool {
	ctx, cancel := bounded(ctx)
	defer cancel()
	stream, err := c.js.Stream(ctx, StreamPayments)
	if err != nil {
		return false
	}
	msg, err := stream.GetMsg(ctx, seq)
	return err == nil && msg.Subject == row.Subject &&
		msg.Header.Get(HeaderOutboxID) == strconv.FormatInt(row.ID, 10)
}
