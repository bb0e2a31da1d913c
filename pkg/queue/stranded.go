package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// strandedFor is how long a message must lie below what was acknowledged before
// it counts as stranded: the server removes messages a moment after their ack.
const strandedFor = time.Second

// FreeStranded looks for messages that the consumer will never deliver, and
// makes the consumer anew when there are some: everything in the stream is then
// delivered again, and what was settled is found settled.
//
// They come of power cuts. The server keeps the consumer's place and the
// stream's messages in different files and syncs neither at once, so that the
// place of a moment ago may meet the messages of ten seconds ago: new messages
// get numbers that the consumer believes to be done. Each of them holds its
// subject, so a sweep is refused and takes the event for queued.
//
// In a work queue an acknowledged message goes. One that is still there at or
// below the consumer's floor, now and a second later, is stranded.
func (c *Conn) FreeStranded(ctx context.Context) (freed bool, err error) {
	first, err := c.stranded(ctx)
	if err != nil || first == 0 {
		return false, err
	}
	pause(ctx, strandedFor, nil)
	if again, err := c.stranded(ctx); err != nil || again != first {
		return false, err
	}
	limited, cancel := bounded(ctx)
	defer cancel()
	if err := c.js.DeleteConsumer(limited, StreamWebhooks, ConsumerName); err != nil {
		return false, fmt.Errorf("consumer %s with stranded messages: %w", ConsumerName, c.classify(err))
	}
	if err := c.ensureConsumer(ctx); err != nil {
		return false, err
	}
	c.log.Error("queue.stranded_messages_freed", zap.Uint64("first", first))
	return true, nil
}

// stranded is the number of the oldest message, if it should have gone; else 0.
func (c *Conn) stranded(ctx context.Context) (seq uint64, err error) {
	limited, cancel := bounded(ctx)
	defer cancel()
	// The consumer first: what it had done by then is gone by the second look.
	consumer, err := c.js.Consumer(limited, StreamWebhooks, ConsumerName)
	if err != nil {
		if err = c.classify(err); errors.Is(err, ErrMissing) {
			return 0, nil // it is made again with everything to deliver
		}
		return 0, fmt.Errorf("place of %s: %w", ConsumerName, err)
	}
	stream, err := c.js.Stream(limited, StreamWebhooks)
	if err != nil {
		return 0, fmt.Errorf("stream %s: %w", StreamWebhooks, c.classify(err))
	}
	state := stream.CachedInfo().State
	if state.Msgs == 0 || state.FirstSeq > consumer.CachedInfo().AckFloor.Stream {
		return 0, nil
	}
	return state.FirstSeq, nil
}
