package virtual

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/lookup"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/processor"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/settlement"
	"github.com/umavez/umavez/pkg/sweep"
	"github.com/umavez/umavez/pkg/sweeper"
)

// world is one schedule.
type world struct {
	seed    uint64
	sched   *sched
	plan    plan
	faults  faults
	store   *store
	broker  *broker
	gateway *gateway
	real    *realGateway // nil: no real gateway's bodies take part
	log     *zap.Logger

	pods       []*pod
	processors []*proc // those that run now
	strangers  int
	running    sync.WaitGroup // all goroutines
	active     sync.WaitGroup // what has to end before the faults stop
	stopping   bool           // processes are not started again
	aborted    bool           // everything ends at its next step

	mu        sync.Mutex // guards what follows
	seen      map[string]int
	violation string
}

// outcome is what a schedule ended with.
type outcome struct {
	seed      uint64
	violation string // "": none
	seen      map[string]int
	steps     int
	sum       uint64
	trace     []traced
	virtual   time.Duration
}

// mostSteps is far above what a schedule needs; one that does not end is at
// fault.
const mostSteps = 200_000

// options change a schedule for a test.
type options struct {
	broken broken
	keep   int // steps of the trace; 0: the usual, below zero: all
}

// play runs the schedule of a seed.
func play(t *testing.T, seed uint64, o options) (out outcome) {
	synctest.Test(t, func(*testing.T) {
		w := newWorld(seed)
		w.store.broken = o.broken
		if o.keep != 0 {
			w.sched.keep = o.keep
		}
		go func() {
			defer w.sched.finish()
			w.direct()
		}()
		w.sched.run()
		out = outcome{seed, w.violation, w.seen, w.sched.steps, w.sched.sum, w.sched.trace, time.Since(w.sched.begun)}
	})
	return out
}

func newWorld(seed uint64) *world {
	w := &world{seed: seed, sched: newSched(seed), seen: map[string]int{}}
	w.log = zap.NewNop()
	w.store, w.broker = newStore(w), newBroker(w)
	w.plan = w.drawPlan()
	w.faults = w.plan.faults
	w.gateway = &gateway{w: w, account: "default", byRef: map[string]*pay{}, secrets: []string{"old"}, signing: "old", lag: 10 * time.Second}
	w.processors = make([]*proc, w.plan.processors)
	return w
}

// direct is the whole story: life under faults, healing, and the comparison.
func (w *world) direct() {
	world := w.newProc(outside, outside+" director")
	ended := make(chan struct{})
	go func() { // it may end anywhere, once the schedule is aborted
		defer close(ended)
		w.tellStory(world)
	}()
	<-ended
	w.stop()
	w.sched.await(&w.running)
}

func (w *world) tellStory(world *proc) {
	world.step("begin")
	for i := range w.plan.pods {
		w.pods = append(w.pods, &pod{w: w, n: i})
	}
	for i := range w.processors {
		w.goWorld(fmt.Sprint("supervisor ", i), func(sup *proc) { w.supervise(sup, i) })
	}
	for n := range w.plan.payments {
		p := w.gateway.newPay(n)
		w.begin("payment", func(world *proc) { w.gateway.live(world, p) })
		w.begin("application", func(world *proc) { w.apply(world, p) })
	}
	w.startExtras()
	w.sched.await(&w.active)
	world.step("quiet")
	w.heal(world)
	if w.plan.resendLate {
		w.late(world)
	}
	w.checkEnd()
}

// begin starts something that has to end before the faults stop.
func (w *world) begin(name string, do func(*proc)) {
	w.active.Add(1)
	w.goWorld(name, func(world *proc) {
		defer w.active.Done()
		do(world)
	})
}

// startExtras starts what disturbs and what repairs.
func (w *world) startExtras() {
	r := w.sched.rng
	within := []time.Duration{10 * time.Second, 5 * time.Minute, 3 * time.Hour}[r.IntN(3)]
	for range w.plan.mishaps {
		w.begin("mishap", func(world *proc) {
			world.sleep(w.sched.below(within), "mishap")
			w.mishap(world)
		})
	}
	for range w.plan.passes {
		w.begin("sweep", func(world *proc) {
			world.sleep(w.sched.below(2*within), "sweep")
			w.sweep("sweeper", false)
		})
	}
	if w.plan.rotate {
		w.begin("rotation", func(world *proc) {
			world.sleep(w.sched.below(within), "rotation")
			w.gateway.secrets = []string{"new", "old"}
			world.sleep(w.sched.below(within), "rotation")
			w.gateway.signing = "new"
			world.sleep(w.sched.below(within), "rotation")
			w.gateway.secrets = []string{"new"}
		})
	}
	if !w.plan.trusted {
		for n := range r.IntN(3) {
			w.begin("forger", func(world *proc) {
				world.sleep(w.sched.below(time.Minute), "forger")
				w.gateway.forge(w.gateway.pays[w.sched.rng.IntN(len(w.gateway.pays))], n)
			})
		}
	}
	if r.IntN(4) == 0 {
		t := &tell{p: w.gateway.pays[0], Key: "junk", Type: junkType, Ref: "x", forged: true}
		t.seal()
		w.sendLater(t, 0, w.sched.below(time.Second))
	}
	if w.plan.real {
		w.startReal()
	}
}

// apply is the application: it registers a payment at some time, or not.
func (w *world) apply(world *proc, p *pay) {
	r := w.sched.rng
	world.step("application " + p.ref.GatewayID)
	if r.IntN(4) == 0 {
		return
	}
	delays := []time.Duration{0, 100 * time.Millisecond, 5 * time.Second, 10 * time.Minute, 3 * time.Hour}
	world.sleep(delays[r.IntN(len(delays))], "application "+p.ref.GatewayID)
	w.register(world, p)
}

func (w *world) register(world *proc, p *pay) (done bool) {
	reg := settlement.Registration{Beneficiary: p.owner, Reference: "order-" + p.ref.GatewayID}
	if w.sched.rng.IntN(2) == 0 {
		reg.Expected, reg.Currency = payment.Of(p.price), "BRL"
	}
	if err := (db{w.store, world}).register(context.Background(), p.ref, reg); err != nil {
		w.saw("registration refused")
		return false
	}
	return true
}

// supervise runs one processor, and another one when it has died or was
// rolled out.
func (w *world) supervise(sup *proc, i int) {
	for life := 1; ; life++ {
		sup.step("start")
		if w.stopping {
			return
		}
		p := w.newProc("processor", fmt.Sprintf("processor %d.%d", i+1, life))
		w.processors[i] = p
		w.runProcessor(p)
		sup.step("ended")
		if w.stopping {
			return
		}
		sup.sleep(w.sched.below(5*time.Second), "restart")
	}
}

// metrics are shared by all schedules: nothing depends on them.
var metrics = processor.NewMetrics(prometheus.NewRegistry())

func (w *world) runProcessor(p *proc) {
	cfg := processor.Config{
		Lookup: lookup.Config{Concurrency: 16, Timeout: 5 * time.Second, BreakAfter: 5, Open: 15 * time.Second, Transport: w.transport(p)},
		Batch:  200, Workers: w.plan.workers, MaxAttempts: w.plan.maxAttempts, ParkLimit: parkLimit, AgreeLimit: 15 * time.Minute,
		UnknownPayment: "create", TxTimeout: 5 * time.Second, AckWait: w.broker.ackWait, DueEvery: time.Second, RelayEvery: time.Second,
	}
	if w.plan.park {
		cfg.UnknownPayment = "park"
	}
	asker := lookup.New(cfg.Lookup)
	store := db{w.store, p}
	work := processor.New(cfg, patient{store}, sources{w, p}, asker, metrics, w.log)
	work.Jitter = w.sched.below
	work.Hook = func(step string) error {
		if strings.HasPrefix(step, "asking") { // of several at once, the breaker may let only the first one ask
			p.step(step)
		}
		return nil
	}
	l := bell{w.broker, p}
	met := ""
	relay := processor.NewRelay(func(ctx context.Context, limit int) (int, bool, error) {
		if p.awaitOutbox(l, &met) {
			return 0, false, nil
		}
		if err := l.meet(ctx, &met); err != nil {
			return 0, false, err
		}
		return store.RelayOutbox(ctx, limit, l.relay)
	}, cfg.RelayEvery, w.log)
	work.Moved = relay.Wake
	fetches := make([]processor.Fetch, cfg.Workers)
	for i := range fetches {
		fetches[i] = l.fetch(fmt.Sprint(i))
	}
	var both sync.WaitGroup
	both.Go(func() { _ = work.Run(p.ctx, fetches...) })
	both.Go(func() { _ = relay.Run(p.ctx) })
	w.sched.await(&both)
}

const parkLimit = 72 * time.Hour

// patient asks for due events when there are some: asking each second and
// finding none takes no time here.
type patient struct{ db }

// ClaimDue implements processor.Store. The caller's deadline is for the claim,
// and not for the time in which nothing is asked.
func (d patient) ClaimDue(ctx context.Context, limit int, lease time.Duration) ([]int64, error) {
	given := 48 * time.Hour
	if at, ok := ctx.Deadline(); ok {
		given = time.Until(at)
	}
	ctx = d.p.ctx
	for {
		d.p.step("due?")
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		wait := d.s.untilDue()
		if wait <= 0 {
			ctx, cancel := context.WithTimeout(ctx, given)
			defer cancel()
			return d.db.ClaimDue(ctx, limit, lease)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-d.s.changed.ch:
		case <-ctx.Done():
		case <-d.p.killed:
		}
		timer.Stop()
	}
}

// untilDue is how long it takes until some event is due by itself.
func (s *store) untilDue() time.Duration {
	wait := 48 * time.Hour
	for _, w := range s.work {
		if w.due() {
			wait = min(wait, time.Until(w.nextAt))
		}
	}
	return wait
}

// awaitOutbox waits until there is something to relay, or a broker to meet; it
// says whether it had to wait.
func (p *proc) awaitOutbox(l bell, met *string) (waited bool) {
	for {
		p.step("unsent?")
		s := p.w.store
		if id := l.server(); id != "" && id != *met {
			return waited
		}
		if p.ctx.Err() != nil || slices.ContainsFunc(s.outbox, func(o outboxRow) bool { return o.relayed.IsZero() }) {
			return waited
		}
		waited = true
		select {
		case <-s.written.ch:
		case <-l.b.started.ch:
		case <-p.ctx.Done():
		case <-p.killed:
		}
	}
}

// sweep makes one pass of a sweeper, in a process of its own.
func (w *world) sweep(name string, everything bool) {
	if w.store.broken.noSweep {
		return
	}
	w.strangers++
	p := w.newProc("sweeper", fmt.Sprintf("%s %d", name, w.strangers))
	cfg := sweeper.Config{Every: 5 * time.Minute, Limit: 1000, ParkLimit: parkLimit, BodyRetention: bodyRetention, KeyRetention: keyRetention,
		ReconcileAfter: time.Hour, ReconcileWithin: 30 * 24 * time.Hour, ReconcileAll: everything}
	var can []string
	if w.plan.mode != provider.LookupNever {
		can = []string{gatewayName + "/" + w.gateway.account}
	}
	if w.real != nil {
		can = append(can, w.real.canLookup()...)
	}
	l := bell{w.broker, p}
	s := sweeper.New(cfg, db{w.store, p}, l.Publish, can, w.log)
	s.Vanished = l.vanished
	done := make(chan struct{})
	w.goAs(p, func() {
		defer close(done)
		if _, err := s.Pass(p.ctx, sweep.Filter{}, false); err != nil {
			w.saw("sweep cut short")
		}
	})
	<-done
}

const (
	bodyRetention = 30 * 24 * time.Hour
	keyRetention  = 400 * 24 * time.Hour
)

// tick counts steps; a schedule that does not end is at fault.
func (w *world) tick() {
	if w.sched.steps > mostSteps {
		w.violated("the schedule does not end")
		runtime.Goexit()
	}
}

// stop ends all processes.
func (w *world) stop() {
	w.aborted, w.stopping = true, true
	for _, p := range w.processors {
		if p != nil {
			p.die()
		}
	}
	for _, d := range w.pods {
		d.close()
	}
	w.store.changed.ring()
	w.store.written.ring()
	w.broker.changed.ring()
	w.broker.started.ring()
}

// saw counts that something occurred.
func (w *world) saw(what string) {
	w.mu.Lock()
	w.seen[what]++
	w.mu.Unlock()
}

// violated notes the first violation and ends the schedule.
func (w *world) violated(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.violation == "" {
		w.violation = fmt.Sprintf(format, args...)
		w.sched.say("VIOLATION", w.violation)
		w.aborted = true
	}
}

// refusesVerdict plays a database that refuses what an event leads to.
func (w *world) refusesVerdict(t *tx, v settlement.Verdict) error {
	if e := t.s.events[v.EventID]; w.faults.poisoned && e != nil && e.Type == poisonType {
		w.saw("verdict refused by the database")
		return refused("value")
	}
	return nil
}

// refusesArrival plays a database that refuses a row at receipt.
func (w *world) refusesArrival(a *event.Arrival) bool { return a.Type == junkType }
