package ingest

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/failpoint"
)

// The reasons why a unit is not taken.
var (
	errFull    = errors.New("intake queue is full")
	errClosing = errors.New("shutting down")
)

// unit is the events of one request: they are answered together.
type unit struct {
	arrivals []event.Arrival
	bytes    int64
	state    atomic.Int32
	done     chan struct{} // closed when stored and err are set
	stored   []event.Stored
	err      error
}

const (
	unitWaiting int32 = iota
	unitTaken
	unitAbandoned
)

func newUnit(arrivals []event.Arrival) *unit {
	u := &unit{arrivals: arrivals, done: make(chan struct{})}
	for i := range arrivals {
		u.bytes += int64(len(arrivals[i].Body))
	}
	return u
}

// abandon gives a unit up that no flusher has taken yet: its sender was told
// to come back, so writing it would only delay the others.
func (u *unit) abandon() { u.state.CompareAndSwap(unitWaiting, unitAbandoned) }

// committer stores units by group commit.
type committer struct {
	config  Config
	store   Store
	refused func(error) bool
	offer   func(event.Notice) bool
	metrics *metrics
	log     *zap.Logger

	pace   pace
	queue  chan *unit
	door   chan struct{} // each lets one in that waits for room in the queue
	bytes  atomic.Int64  // waiting in the queue
	mu     sync.RWMutex  // guards closed against a send on the closed queue
	closed bool
	wg     sync.WaitGroup
}

func (c *committer) start() {
	for range c.config.Flushers {
		c.wg.Add(1)
		go func() {
			defer c.wg.Done()
			c.flush()
		}()
	}
}

// submit hands a unit over without waiting.
func (c *committer) submit(u *unit) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return errClosing
	}
	if c.wait() > 2*c.config.QueueWait { // many were let in at once, or the database has become slow since
		return errFull
	}
	if c.bytes.Add(u.bytes) > c.config.QueueBytes {
		c.bytes.Add(-u.bytes)
		return errFull
	}
	select {
	case c.queue <- u:
		return nil
	default:
		c.bytes.Add(-u.bytes)
		return errFull
	}
}

// close takes no more units and waits until those in the queue are stored.
func (c *committer) close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.queue)
	}
	c.mu.Unlock()
	c.wg.Wait()
}

func (c *committer) flush() {
	var batch []*unit
	var next *unit
	for {
		batch, next = c.collect(batch[:0], next)
		if len(batch) == 0 {
			return
		}
		c.letIn()
		c.commit(batch)
		clear(batch)
	}
}

// collect waits for one unit and takes what else is there, up to the bounds of
// a batch. next is a unit that was taken and did not fit; it opens the next
// batch. An empty batch means that the queue is closed and empty.
func (c *committer) collect(batch []*unit, next *unit) ([]*unit, *unit) {
	rows, bytes := 0, int64(0)
	add := func(u *unit) bool {
		if len(batch) > 0 && (rows+len(u.arrivals) > c.config.BatchRows || bytes+u.bytes > c.config.BatchBytes) {
			return false
		}
		if u.state.CompareAndSwap(unitWaiting, unitTaken) || u.state.Load() == unitTaken {
			batch = append(batch, u)
			rows += len(u.arrivals)
			bytes += u.bytes
		}
		return true
	}
	if next != nil {
		add(next)
	}
	for len(batch) == 0 {
		u, open := <-c.queue
		if !open {
			return batch, nil
		}
		c.bytes.Add(-u.bytes)
		add(u)
	}
	for rows < c.config.BatchRows && bytes < c.config.BatchBytes {
		select {
		case u, open := <-c.queue:
			if !open {
				return batch, nil
			}
			c.bytes.Add(-u.bytes)
			if !add(u) {
				return batch, u
			}
		default:
			return batch, nil
		}
	}
	return batch, nil
}

// commit stores a batch under its own deadline: it is nobody's request, so no
// sender who hangs up can take the others down.
func (c *committer) commit(batch []*unit) {
	ctx, cancel := context.WithTimeout(context.Background(), c.config.CommitTimeout)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			c.metrics.panics.WithLabelValues("flusher").Inc()
			c.log.Error("ingest.panic", zap.Any("panic", r), zap.ByteString("stack", debug.Stack()))
			for _, u := range batch {
				select {
				case <-u.done:
				default:
					u.err = errors.New("panic while storing")
					close(u.done)
				}
			}
		}
	}()
	arrivals := batch[0].arrivals
	if len(batch) > 1 {
		arrivals = make([]event.Arrival, 0, len(batch))
		for _, u := range batch {
			arrivals = append(arrivals, u.arrivals...)
		}
	}
	started := c.pace.begin()
	defer func() { c.pace.end(started) }()
	stored := make([]event.Stored, len(arrivals))
	err := failpoint.At(ctx, "ingest.taken")
	if err == nil {
		err = c.insert(ctx, arrivals, stored)
	}
	if err == nil {
		err = failpoint.At(ctx, "ingest.stored")
	}
	c.metrics.batch(len(arrivals), time.Since(started), err)
	if err != nil {
		c.log.Error("batch.failed", zap.Int("events", len(arrivals)), zap.Duration("duration", time.Since(started)), zap.Error(err))
	}
	rest := stored
	for _, u := range batch {
		u.stored, rest = rest[:len(u.arrivals)], rest[len(u.arrivals):]
		u.err = outcome(u.stored, err)
		close(u.done)
	}
	for i := range stored {
		c.metrics.stored(&arrivals[i], stored[i])
		if a := &arrivals[i]; stored[i].Publish {
			if failpoint.At(ctx, "ingest.offering") != nil || !c.offer(event.Notice{ID: stored[i].ID, Provider: a.Provider, Account: a.Account, PaymentRef: a.PaymentRef}) {
				c.metrics.unpublished.Inc()
			}
		}
	}
}

// outcome is nil when every event of a unit is stored, whatever befell the
// others of its batch.
func outcome(stored []event.Stored, err error) error {
	for i := range stored {
		if stored[i].ID == 0 {
			if err == nil {
				err = errors.New("the store returned no result")
			}
			return err
		}
	}
	return nil
}

// insert stores arrivals, in halves when the database refuses one of them, so
// that a bad row costs its neighbours a little time and nothing else. A row
// that is refused alone is stored bare; arrivals is changed accordingly.
func (c *committer) insert(ctx context.Context, arrivals []event.Arrival, stored []event.Stored) error {
	got, err := c.store.InsertEvents(ctx, arrivals)
	copy(stored, got)
	if err == nil || !c.refused(err) {
		return err
	}
	if half := len(arrivals) / 2; half > 0 {
		return errors.Join(
			c.insert(ctx, arrivals[:half], stored[:half]),
			c.insert(ctx, arrivals[half:], stored[half:]))
	}
	c.log.Error("event.refused", zap.String("provider", arrivals[0].Provider), zap.String("account", arrivals[0].Account), zap.Error(err))
	if arrivals[0].Reason == reasonRefusedByDB {
		return err
	}
	arrivals[0] = bare(&arrivals[0])
	got, err = c.store.InsertEvents(ctx, arrivals)
	copy(stored, got)
	if err != nil {
		return fmt.Errorf("store a refused event bare: %w", err)
	}
	return nil
}
