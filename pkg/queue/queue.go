// Package queue is the only user of NATS: the connection, the streams'
// settings, the publisher of ingest, the consumer of the processor and the
// relay of domain events.
//
// PostgreSQL is the truth and JetStream the bell. A message says where an
// event is, never what it says; losing every message may delay events and
// loses none, because the sweeper publishes again whatever is unfinished. So
// nothing here is ever retried until it works: what is not known to be stored
// is reported as failed and left to the sweeper.
//
// Order is promised for domain events of one payment only (see Relay).
package queue

import (
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// The errors that callers tell apart.
var (
	// ErrUnavailable: the broker is away, slow, or lost the connection while
	// we waited. What was asked may or may not have been done.
	ErrUnavailable = errors.New("NATS unavailable")
	// ErrMissing: a stream or the consumer does not exist.
	ErrMissing = errors.New("stream or consumer is missing; run `umavez migrate`")
	// ErrUnsafe: a stream or the consumer has settings that can lose work.
	ErrUnsafe = errors.New("unsafe JetStream settings")
	// ErrStalled: messages wait, none are delivered, and a new subscription
	// did not help. The process should end and be started again.
	ErrStalled = errors.New("consumer is stalled")
)

// classify maps errors of the client to this package's, keeping the text.
func classify(err error) error {
	var class error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrMissing), errors.Is(err, ErrUnsafe), errors.Is(err, ErrStalled):
		return err
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrConsumerNotFound),
		errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, jetstream.ErrConsumerDoesNotExist):
		class = ErrMissing
	case errors.As(err, new(*jetstream.APIError)):
		return err // the server understood and refused
	default:
		class = ErrUnavailable
	}
	return classified{class: class, cause: err}
}

// classified reads as its class and its cause, and is both.
type classified struct{ class, cause error }

func (e classified) Error() string   { return e.class.Error() + ": " + e.cause.Error() }
func (e classified) Unwrap() []error { return []error{e.class, e.cause} }
