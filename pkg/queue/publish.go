package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/failpoint"
)

// Result is what became of one publication.
type Result string

// The results.
const (
	Stored  Result = "stored"  // the server has it
	Waiting Result = "waiting" // refused: its message is in the stream already
	Failed  Result = "failed"  // not stored, or nobody knows; see Err
)

// Published is the answer for one Notice.
type Published struct {
	Notice event.Notice
	Result Result
	Err    error // for Failed only
}

// Publish puts notices on the queue and waits for the server's answers, up to
// 256 on their way at once. The answers are in the order of the notices.
// It never fails as a whole: when ctx ends, the rest is Failed.
func (c *Conn) Publish(ctx context.Context, notices []event.Notice) []Published {
	out := make([]Published, len(notices))
	futures := make([]jetstream.PubAckFuture, len(notices))
	settled := 0
	settle := func() {
		if f := futures[settled]; f != nil {
			err := failpoint.At(ctx, "queue.publish_sent")
			if err == nil {
				_, err = await(ctx, f)
			}
			out[settled] = published(notices[settled], err)
			futures[settled] = nil
		}
		settled++
	}
	for i, n := range notices {
		for i-settled >= window {
			settle()
		}
		err := ctx.Err()
		if err == nil {
			err = failpoint.At(ctx, "queue.publish_asked")
		}
		if err != nil {
			out[i] = published(n, err)
			continue
		}
		// No Nats-Msg-Id: inside the duplicate window it would swallow the
		// sweeper's repair of an event that was processed and failed.
		f, err := c.js.PublishMsgAsync(&nats.Msg{Subject: Subject(n)}, jetstream.WithRetryAttempts(0))
		if err != nil {
			out[i] = published(n, err)
			continue
		}
		futures[i] = f
	}
	for settled < len(notices) {
		settle()
	}
	return out
}

// await waits for the answer of one publication.
func await(ctx context.Context, f jetstream.PubAckFuture) (*jetstream.PubAck, error) {
	select {
	case ack := <-f.Ok():
		return ack, duplicateError(ack)
	case err := <-f.Err():
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// errDuplicate: the server says that it has seen the message id. That is not
// "stored": after a leader change servers have said so of messages that they
// never kept.
var errDuplicate = errors.New("the server took it for a duplicate")

func duplicateError(ack *jetstream.PubAck) error {
	if ack.Duplicate {
		return errDuplicate
	}
	return nil
}

func published(n event.Notice, err error) Published {
	switch {
	case err == nil:
		return Published{Notice: n, Result: Stored}
	case isWaiting(err):
		return Published{Notice: n, Result: Waiting}
	}
	return Published{Notice: n, Result: Failed, Err: fmt.Errorf("publish event %d: %w", n.ID, classify(err))}
}

// storeFailed is the server's code for every refusal of its store. One of
// them, told apart only by its words, says that the subject has its message.
const (
	storeFailed    jetstream.ErrorCode = 10077
	subjectIsTaken                     = "maximum messages per subject exceeded"
)

func isWaiting(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == storeFailed && strings.Contains(api.Description, subjectIsTaken)
}
