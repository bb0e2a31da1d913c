package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Occupied says in words which streams of umavez are there and what they hold;
// it is empty when this account has none of them. A stream without messages
// and consumers counts too: somebody made it.
func (c *Conn) Occupied(ctx context.Context) (string, error) {
	var found []string
	for _, name := range []string{StreamWebhooks, StreamPayments} {
		info, err := c.streamInfo(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("stream %s: %w", name, c.classify(err))
		}
		found = append(found, fmt.Sprintf("stream %s (messages %d, consumers %d)", name, info.State.Msgs, info.State.Consumers))
	}
	return strings.Join(found, ", "), nil
}

func (c *Conn) streamInfo(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	stream, err := c.js.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	return stream.CachedInfo(), nil
}

// Remove deletes both streams with all messages and consumers: for whoever
// made them on somebody's broker for a while, after Occupied found nothing.
func (c *Conn) Remove(ctx context.Context) error {
	var errs []error
	for _, name := range []string{StreamWebhooks, StreamPayments} {
		ctx, cancel := bounded(ctx)
		err := c.js.DeleteStream(ctx, name)
		cancel()
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			errs = append(errs, fmt.Errorf("stream %s: %w", name, c.classify(err)))
		}
	}
	return errors.Join(errs...)
}
