package processor

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// RelayOnce sends up to limit domain events of the outbox. leading is false
// when another process is the relay at the moment.
type RelayOnce func(ctx context.Context, limit int) (relayed int, leading bool, err error)

// Relay brings the outbox to the queue: at once when this process wrote to it,
// and every so often for what others wrote or a relay that died left behind.
type Relay struct {
	once  RelayOnce
	every time.Duration
	wake  chan struct{}
	log   *zap.Logger
}

// relayBatch is how many domain events one transaction marks.
const relayBatch = 1000

// relayTimeout bounds one batch, and with it how long a stop waits for it.
const relayTimeout = 8 * time.Second

// NewRelay builds a Relay that looks at least every so often.
func NewRelay(once RelayOnce, every time.Duration, log *zap.Logger) *Relay {
	return &Relay{once: once, every: every, wake: make(chan struct{}, 1), log: log}
}

// Wake says that there is something to relay. It never blocks.
func (r *Relay) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run relays until ctx ends. A broker that is away only delays: what is not
// acknowledged stays in the outbox.
func (r *Relay) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		// A batch that was begun is finished, so that what was sent is marked.
		once, cancel := context.WithTimeout(context.WithoutCancel(ctx), relayTimeout)
		relayed, _, err := r.once(once, relayBatch)
		cancel()
		if err != nil && ctx.Err() == nil {
			r.log.Warn("outbox.not_relayed", zap.Error(err))
		}
		if relayed == relayBatch && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-r.wake:
		case <-time.After(r.every):
		}
	}
	return nil
}
