package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Occupied says in words what somebody keeps in the streams of umavez: messages
// or consumers. It is empty when the streams are not there, or are there and
// hold and serve nobody.
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
		if info.State.Msgs > 0 || info.State.Consumers > 0 {
			found = append(found, fmt.Sprintf("stream %s with %d messages and %d consumers", name, info.State.Msgs, info.State.Consumers))
		}
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
