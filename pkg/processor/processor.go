// Package processor turns deliveries into settled events. One batch at a time
// a worker loads the events, asks the gateways outside of any transaction, and
// settles everything in one transaction under the payments' locks:
//
//	fetch -> load -> facts -> lookups -> lock, claim, decide, write, commit -> ack
//
// What it promises: a fact is applied once, however often, late or concurrent
// its events are delivered. The promise is kept by the storage's claim and
// keys; nothing here relies on the queue delivering once or in order.
//
// Failure policy, in words. A deadlock runs the same transaction again. A
// refused row, or a fault of ours, splits the batch until the poison event is
// alone; that one counts an attempt. A database that is away gives the
// messages back. A commit whose answer was lost is neither acked nor given
// back: the next delivery finds out. A gateway that does not answer parks its
// events and nobody else's.
package processor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/failpoint"
	"github.com/umavez/umavez/pkg/lookup"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/settlement"
)

// Store is the storage that the processor needs.
type Store interface {
	Load(ctx context.Context, ids []int64) (settlement.Batch, error)
	// Held reads payments and registrations without a lock.
	Held(ctx context.Context, refs []settlement.Ref) (map[settlement.Ref]settlement.Held, error)
	// Referenced gives the gateway ids of a source's payments that carry a
	// reference, a few at most.
	Referenced(ctx context.Context, providerName, account, reference string) ([]string, error)
	Settle(ctx context.Context, events []settlement.Handle, refs []settlement.Ref, decide settlement.Decide) (settlement.Decision, error)
	Fail(ctx context.Context, event settlement.Handle, lastError string, backoff time.Duration, maxAttempts int) (dead bool, err error)
	ClaimDue(ctx context.Context, limit int, lease time.Duration) ([]int64, error)
}

// Sources finds the configured account of a gateway.
type Sources interface {
	Lookup(providerName, account string) (provider.Provider, provider.Source, bool)
}

// Delivery is one message of the queue.
type Delivery struct {
	EventID int64
	Ack     func() error
	Nak     func(delay time.Duration) error
}

// Fetch waits for at least one delivery up to wait, then takes what is there.
type Fetch func(ctx context.Context, most int, wait time.Duration) ([]Delivery, error)

// Processor works batches off.
type Processor struct {
	cfg     Config
	store   Store
	sources Sources
	asker   *lookup.Asker
	log     *zap.Logger
	metrics *Metrics

	// Moved is called after a commit that wrote domain events; the relay
	// listens. It must not block.
	Moved func()
	// Hook is called between steps, by tests only. The same steps are points
	// of failpoint, named processor.<step>.
	Hook func(step string) error
	// Jitter draws a duration below d, so that what failed together does not
	// come back together. Tests that repeat a run exactly draw it from a seed.
	Jitter func(d time.Duration) time.Duration
}

// asking tells a test whose question to a gateway is next: questions are asked
// at once, and a run that is to be repeated has to know one from the other.
func (p *Processor) asking(about string) {
	if p.Hook != nil {
		_ = p.Hook("asking about " + about) //nolint:errcheck // nothing to give up here
	}
}

// at is the point of a step: in a test, its hook and its failpoint.
func (p *Processor) at(ctx context.Context, step string) error {
	if p.Hook == nil && !failpoint.Enabled {
		return nil
	}
	return p.reach(ctx, step)
}

func (p *Processor) reach(ctx context.Context, step string) error {
	if p.Hook != nil {
		if err := p.Hook(step); err != nil {
			return err
		}
	}
	if !failpoint.Enabled {
		return nil
	}
	return failpoint.At(ctx, "processor."+step)
}

// New builds a Processor.
func New(cfg Config, store Store, sources Sources, asker *lookup.Asker, metrics *Metrics, log *zap.Logger) *Processor {
	// A gateway in trouble repeats itself: of each line, five a second and then
	// every hundredth.
	limited := log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		if !core.Enabled(zapcore.FatalLevel) {
			return core // it is silent, and a sampler has half a megabyte of counters
		}
		return zapcore.NewSamplerWithOptions(core, time.Second, 5, 100)
	}))
	return &Processor{cfg: cfg, store: store, sources: sources, asker: asker, metrics: metrics, log: limited,
		Moved: func() {}, Jitter: rand.N[time.Duration]}
}

// Run works until ctx ends, then finishes the batches in hand. Each fetch is
// one worker's own source of deliveries, with one batch under way.
func (p *Processor) Run(ctx context.Context, fetches ...Fetch) error {
	var wg sync.WaitGroup
	failed := make(chan error, len(fetches))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for _, fetch := range fetches {
		wg.Go(func() {
			if err := p.work(ctx, fetch); err != nil {
				failed <- err
				stop()
			}
		})
	}
	wg.Go(func() { p.workDue(ctx) })
	wg.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func (p *Processor) work(ctx context.Context, fetch Fetch) error {
	for ctx.Err() == nil {
		deliveries, err := fetch(ctx, p.cfg.Batch, 5*time.Second)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("fetch from the queue: %w", err)
		}
		if len(deliveries) > 0 && !p.Handle(context.WithoutCancel(ctx), deliveries) {
			// The database is away: the queue's backlog need not run past it.
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
	return nil
}

// workDue takes parked and failed events when their time has come, straight
// from the database: long waits are not held in the queue.
func (p *Processor) workDue(ctx context.Context) {
	for {
		claimCtx, cancel := context.WithTimeout(ctx, p.cfg.TxTimeout)
		ids, err := p.store.ClaimDue(claimCtx, p.cfg.Batch, p.cfg.AckWait)
		cancel()
		if err != nil && ctx.Err() == nil {
			p.log.Warn("due.claim_failed", zap.Error(err))
		}
		if len(ids) > 0 {
			p.Process(context.WithoutCancel(ctx), ids)
			if len(ids) == p.cfg.Batch && ctx.Err() == nil {
				continue
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(p.cfg.DueEvery):
		}
	}
}

// Handle processes deliveries and settles each message exactly once, or not at
// all where the outcome is unknown. It reports whether anything got through.
func (p *Processor) Handle(ctx context.Context, deliveries []Delivery) (through bool) {
	ids := make([]int64, len(deliveries))
	for i, d := range deliveries {
		ids[i] = d.EventID
	}
	results := p.Process(ctx, ids)
	if p.at(ctx, "processed") != nil {
		return true // nothing is acked; the next delivery finds out
	}
	for _, d := range deliveries {
		var err error
		switch results[d.EventID] {
		case Done:
			through = true
			err = d.Ack()
		case Elsewhere:
			through = true
			err = d.Nak(time.Second + p.Jitter(2*time.Second))
		case Again:
			err = d.Nak(time.Second + p.Jitter(2*time.Second))
		case Unknown: // neither: the next delivery finds out
		}
		if err != nil {
			p.log.Warn("delivery.not_settled", zap.Int64("event_id", d.EventID), zap.Error(err))
		}
		if p.at(ctx, "message_settled") != nil {
			return true
		}
	}
	return through
}

// Result is what is to become of an event's message.
type Result int

// The results. Done: the row says what happens next. Again: nothing was
// committed. Elsewhere: somebody else had the event's row. Unknown: nobody can
// say.
const (
	Done Result = iota
	Again
	Elsewhere
	Unknown
)

// Process brings the events as far as they can go and says what is to become
// of their messages. Parked events of the same payments come along.
func (p *Processor) Process(ctx context.Context, ids []int64) map[int64]Result {
	results := make(map[int64]Result, len(ids))
	started := time.Now()
	loadCtx, cancel := context.WithTimeout(ctx, p.cfg.TxTimeout)
	batch, err := p.store.Load(loadCtx, ids)
	cancel()
	if err == nil {
		err = p.at(ctx, "loaded")
	}
	var items []*item
	if err == nil {
		items, err = p.prepare(ctx, batch)
	}
	if err != nil {
		p.log.Warn("batch.not_loaded", zap.Int("events", len(ids)), zap.Error(err))
		for _, id := range ids {
			results[id] = Again
		}
		return results
	}
	unknown := func() {
		for _, id := range ids {
			results[id] = Unknown
		}
	}
	if p.at(ctx, "looked_up") != nil {
		unknown()
		return results
	}
	p.metrics.settledBefore.Add(float64(foundFinal(ids, batch)))
	p.settle(ctx, items, results)
	if p.at(ctx, "settled") != nil {
		unknown()
	}
	p.metrics.batch(len(items), time.Since(started))
	return results
}

// foundFinal counts the events that were asked for and are not unfinished.
func foundFinal(ids []int64, batch settlement.Batch) int {
	n := len(ids)
	for _, w := range batch.Works {
		if !w.Sibling {
			n--
		}
	}
	return n
}

// maxReruns bounds how often one transaction is run again after deadlocks.
const maxReruns = 5

// settle runs the transaction, again after a deadlock, and splits it around
// what the database or our own code refuses.
func (p *Processor) settle(ctx context.Context, items []*item, results map[int64]Result) {
	if len(items) == 0 {
		return
	}
	claimed, err := p.settleOnce(ctx, items)
	for rerun := 1; errors.Is(err, settlement.ErrRetry) && rerun <= maxReruns; rerun++ {
		p.metrics.reruns.Inc()
		time.Sleep(p.Jitter(time.Duration(rerun) * 20 * time.Millisecond))
		claimed, err = p.settleOnce(ctx, items)
	}
	mark := func(r Result) {
		for _, it := range items {
			results[it.work.Event.ID] = r
		}
	}
	switch {
	case err == nil:
		mark(Done)
		for _, it := range items {
			// Somebody settled it meanwhile, or told it again, or a sweep had
			// its row for a moment. Only the next delivery can tell these apart,
			// and the last two must not lose their message.
			if id := it.work.Event.ID; !claimed[id] {
				results[id] = Elsewhere
			}
		}
	case errors.Is(err, settlement.ErrUnknownOutcome):
		p.metrics.unknown.Inc()
		p.log.Warn("batch.outcome_unknown", zap.Int("events", len(items)), zap.Error(err))
		mark(Unknown)
	case errors.Is(err, settlement.ErrUnavailable), errors.Is(err, settlement.ErrRetry) && len(items) == 1:
		p.log.Warn("batch.given_back", zap.Int("events", len(items)), zap.Error(err))
		mark(Again)
	case len(items) > 1:
		p.metrics.splits.Inc()
		p.log.Warn("batch.split", zap.Int("events", len(items)), zap.Error(err))
		half := splitPoint(items)
		p.settle(ctx, items[:half], results)
		p.settle(ctx, items[half:], results)
	default:
		p.fail(ctx, items[0], err, results)
	}
}

// splitPoint halves a batch, between two payments where that is possible.
func splitPoint(items []*item) int {
	half := len(items) / 2
	for i := half; i < len(items); i++ {
		if items[i].ref != items[i-1].ref {
			return i
		}
	}
	for i := half; i > 0; i-- {
		if items[i].ref != items[i-1].ref {
			return i
		}
	}
	return half
}

// fail counts an attempt of a poison event, in a transaction of its own.
func (p *Processor) fail(ctx context.Context, it *item, cause error, results map[int64]Result) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.TxTimeout)
	defer cancel()
	e := &it.work.Event
	backoff := p.failBackoff(it.work.Attempts)
	dead, err := p.store.Fail(ctx, it.work.Handle(), cause.Error(), backoff, p.cfg.MaxAttempts)
	if err != nil {
		p.log.Warn("failure.not_counted", zap.Int64("event_id", e.ID), zap.Error(err))
		results[e.ID] = Again
		return
	}
	results[e.ID] = Done
	outcome := "failed"
	if dead {
		outcome = string(event.StatusDead)
	}
	p.metrics.outcome(e.Provider, outcome)
	p.log.Error("event.failed", zap.Int64("event_id", e.ID), zap.String("provider", e.Provider),
		zap.Int("attempts", it.work.Attempts+1), zap.Bool("dead", dead), zap.Error(cause))
}

// failBackoff is 5 s, 10 s, 20 s ... at most 10 minutes, and up to a quarter
// more so that what failed together does not come back together.
func (p *Processor) failBackoff(attempts int) time.Duration {
	d := min(5*time.Second<<min(attempts, 10), 10*time.Minute)
	return d + p.Jitter(d/4)
}
