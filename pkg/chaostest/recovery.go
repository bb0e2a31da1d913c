package chaostest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/postgres"
)

// RecoveryConfig says how recovery is measured.
type RecoveryConfig struct {
	Dir, Programs string         // as in Config
	Seed          uint64         // of the gateways, and of which target each round takes
	Rounds        int            // of each kind of fault
	Kinds         *regexp.Regexp // of the kinds to play; nil: all
	Brokers       int            // 1 or 3
	Seconds       float64        // of probes after each healing; 0 is 5
	Payments      int            // of the gateways; 0 is enough for every kind
	Say           func(format string, args ...any)
}

// The bounds that are guarded.
const (
	recoveryP99 = 5.0 // seconds from acceptance to final, of new events after a fault was healed
	probeRate   = 20  // new events a second
	background  = 16  // webhooks a second beside them, during the faults too
)

// backgroundGateways are few, so that a fault of some seconds is met often
// enough by each of them to open the breakers of all processors.
var backgroundGateways = []string{"stripe", "asaas"}

// notFaults are cards of the deck after which nothing has to recover.
var notFaults = map[string]string{
	"gateways resend dead events": "an operator's repair, and no fault",
}

// Recovery plays each kind of fault by itself, heals it, and times new events
// from then on.
//
// Healed is the moment at which what was taken away is given back: the link
// carries bytes, the process runs again after a stop, a server or process that
// was killed has been started (its exec; PostgreSQL: when it takes
// connections), the step is disarmed, the API is in its usual mood. The start
// of umavez's own processes is therefore part of what is measured, and so is
// every reconnect, breaker and time-out; the start of PostgreSQL is not, since
// that is its own recovery and not umavez's. What nobody gives back (a deleted
// stream, a killed session) is healed as soon as it is gone: that umavez finds
// out and makes it again is part of the measure too.
func Recovery(ctx context.Context, cfg RecoveryConfig) (*RecoveryReport, error) {
	if cfg.Say == nil {
		cfg.Say = func(string, ...any) {}
	}
	if cfg.Seconds == 0 {
		cfg.Seconds = 5
	}
	if cfg.Rounds < 1 || cfg.Seconds < 1 || (cfg.Brokers != 1 && cfg.Brokers != 3) {
		return nil, errors.New("rounds and seconds must be at least 1, brokers 1 or 3")
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, err
	}
	r := &RecoveryReport{Seed: cfg.Seed, Brokers: cfg.Brokers, Bound: recoveryP99, Skipped: map[string]string{}}
	started := time.Now()
	err := measureRecovery(ctx, cfg, r)
	if err != nil {
		r.Error = err.Error()
	}
	r.Seconds = time.Since(started).Seconds()
	r.finish()
	return r, err
}

func measureRecovery(ctx context.Context, cfg RecoveryConfig, r *RecoveryReport) error {
	perRound := int(cfg.Seconds * probeRate)
	payments := cfg.Payments
	if payments == 0 {
		// Enough for some 75 kinds of 11 s each; one payment in four is one of
		// the background's, with nearly five webhooks.
		payments = max(75*cfg.Rounds*perRound*3/2, 75*cfg.Rounds*11*background*2)
	}
	as := installedShape(2, 3, gatewaysim.Config{
		Payments: payments, Gateways: gatewaysim.AllSources(), Beneficiaries: 8, Order: gatewaysim.OrderKeep,
		Shares: gatewaysim.Shares{Duplicates: 0.2, Concurrent: 0.5},
		API:    gatewaysim.API{Latency: time.Millisecond, Jitter: 2 * time.Millisecond, StaleFor: time.Second},
	}, nil)
	w, err := startWorld(ctx, Config{Dir: cfg.Dir, Programs: cfg.Programs, Say: cfg.Say}, Act{Brokers: cfg.Brokers, shape: as}, cfg.Seed, 0)
	defer w.stop()
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	cfg.Say("%d broker(s); logs in %s", cfg.Brokers, w.logs)
	feed, load := w.split()
	bg, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); w.loadLightly(bg, load) }()
	go w.sweeps.loop(bg, 4*time.Second, 10*time.Second)
	defer func() { stop(); <-ended }()

	next := func() []*gatewaysim.Delivery {
		n := min(perRound, len(feed))
		taken := feed[:n]
		feed = feed[n:]
		return taken
	}
	deck := append([]fault{{"nothing, for comparison", []target{{nil, func(context.Context, *rand.Rand) (string, error) { return "", nil }}}}}, w.deck()...)
	slices.SortStableFunc(deck[1:], func(a, b fault) int { return strings.Compare(a.kind, b.kind) })
	chance := rand.New(rand.NewPCG(cfg.Seed, 0x7265636f))
	for _, f := range deck {
		if why := notFaults[f.kind]; why != "" {
			r.Skipped[f.kind] = why
			continue
		}
		if cfg.Kinds != nil && !cfg.Kinds.MatchString(f.kind) {
			continue
		}
		k := &RecoveryKind{Kind: f.kind}
		r.Kinds = append(r.Kinds, k)
		for range cfg.Rounds {
			if err := w.recoveryRound(ctx, f, chance, next, k); err != nil {
				return err
			}
		}
		k.finish()
		cfg.Say("  %-46s %s", f.kind, k.line())
	}
	stop()
	<-ended
	return w.recovered(ctx, r)
}

// recoveryRound injects a fault once, heals it, and sends probes.
func (w *world) recoveryRound(ctx context.Context, f fault, chance *rand.Rand, next func() []*gatewaysim.Delivery, k *RecoveryKind) error {
	if err := w.awaitReady(ctx, 60*time.Second); err != nil {
		return fmt.Errorf("before %q: %w", f.kind, err)
	}
	var detail string
	err := errors.New("it has no target in this world")
	for try := 0; try < 8 && err != nil && len(f.targets) > 0 && ctx.Err() == nil; try++ {
		t := f.targets[chance.IntN(len(f.targets))]
		detail, err = t.hit(ctx, rand.New(rand.NewPCG(chance.Uint64(), chance.Uint64())))
		detail = fmt.Sprint(t.takes, " ", detail)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		k.NotInjected = err.Error()
		return nil
	}
	// A process that was sent to sleep is healed when it wakes.
	switch {
	case strings.Contains(f.kind, "delay beyond"):
		wait(ctx, w.as.beyond)
	case strings.Contains(f.kind, "at a step: delay"):
		wait(ctx, time.Second)
	}
	if err := w.awaitRunning(ctx, 10*time.Second); err != nil {
		return fmt.Errorf("after %q: %w", f.kind, err)
	}
	ds := next()
	if len(ds) == 0 {
		return errors.New("there are no more payments to probe with")
	}
	k.Rounds++
	k.take(detail, w.probes(ctx, ds, probeRate, time.Now()))
	return ctx.Err()
}

// awaitRunning waits until every process has been started, ready or not.
func (w *world) awaitRunning(ctx context.Context, limit time.Duration) error {
	for deadline := time.Now().Add(limit); ; {
		var down *node
		for _, n := range append(append([]*node{}, w.nodes...), w.brokers...) {
			if n.process().Ended() {
				down = n
			}
		}
		if down == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s was not started again within %s", down.name, limit)
		}
		if !wait(ctx, 5*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// split gives the first webhook of most payments as probes, and all webhooks
// of the others as a load beside them.
func (w *world) split() (feed, load []*gatewaysim.Delivery) {
	ds := w.sim.Deliveries()
	seen := map[int]bool{}
	for i := range ds {
		d := &ds[i]
		switch {
		case d.Payment%4 > 0 && slices.Contains(backgroundGateways, d.Gateway):
			load = append(load, d)
		case !seen[d.Payment] && d.Kind == gatewaysim.DeliveryFirst && d.Events() == 1: // one that tells of others would make theirs duplicates
			seen[d.Payment] = true
			feed = append(feed, d)
		}
	}
	// The schedule keeps the time of all payments' histories; a payment's
	// gateway is not to depend on the place in it.
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(feed), func(i, j int) { feed[i], feed[j] = feed[j], feed[i] })
	return feed, load
}

// loadLightly sends webhooks of other payments all the while, each a few times
// at most.
func (w *world) loadLightly(ctx context.Context, load []*gatewaysim.Delivery) {
	tick := time.NewTicker(time.Second / background)
	defer tick.Stop()
	for _, d := range load {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if d.Kind == gatewaysim.DeliveryLost {
			continue
		}
		go func() {
			if d.Kind == gatewaysim.DeliveryFirst {
				d.Publish()
			}
			for try := range 5 {
				sent := d.Request(time.Now(), try)
				if status, err := post(ctx, w.gate("", "")+sent.Target(d.Path), sent); err == nil && d.Success(status) || !wait(ctx, time.Second) {
					return
				}
			}
		}()
	}
}

// recovered checks that no harm was done on the way.
func (w *world) recovered(ctx context.Context, r *RecoveryReport) error {
	if err := w.drain(ctx); err != nil {
		r.Found = append(r.Found, err.Error())
	}
	results, err := w.db.Verify(ctx, postgres.VerifyOptions{PendingLimit: time.Minute, BodiesSince: 24 * time.Hour, Rows: 10}, nil)
	if err != nil {
		return err
	}
	for _, one := range results {
		for _, v := range one.Rows {
			r.Found = append(r.Found, fmt.Sprintf("invariant %d, %s: %s %s", v.Invariant, v.Check, v.Subject, v.Detail))
		}
	}
	return nil
}
