package processor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/lookup"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/settlement"
)

// item is one event of a batch on its way through.
type item struct {
	work   settlement.Work
	ref    settlement.Ref // the payment it is sorted by; zero when it concerns none
	claims []payment.Claim
	policy payment.Policy
	mode   provider.LookupMode

	// resolver is set for an event that names no payment, and says what it is
	// about.
	resolver provider.Resolver
	// awaits is the reference by which a payment is found, in the form of
	// Verdict.WaitingFor: it is not there, or its money is not.
	awaits string
	// answered: the claims are what the gateway answered when it was asked
	// about this very event, so no lookup can know better.
	answered bool
	// joined are the payments that were found by a reference, which names an
	// order and not an attempt to pay it.
	joined map[settlement.Ref]bool

	// verdict is set when the event needs no decision under a lock, or could
	// not be prepared for one.
	verdict *settlement.Verdict
	// answers are the lookups made for this batch, shared by its items.
	answers map[settlement.Ref]answer
	now     time.Time // the database's clock when the batch was loaded
}

// answer is what a lookup gave: a snapshot, or why there is none.
type answer struct {
	snapshot *payment.Snapshot
	reason   string
	wait     time.Duration // at least so long until the next try
}

// refs are the payments that an item needs locked.
func (it *item) refs() []settlement.Ref {
	if it.verdict != nil {
		return nil
	}
	refs := make([]settlement.Ref, len(it.claims))
	for i, c := range it.claims {
		refs[i] = it.refOf(c)
	}
	return refs
}

func (it *item) refOf(c payment.Claim) settlement.Ref {
	return settlement.Ref{Provider: it.work.Event.Provider, Account: it.work.Event.Account, GatewayID: c.GatewayID}
}

// prepare reads the facts of a batch and asks the gateways what is in doubt.
// The items come back sorted by payment, then by event.
// An error is the storage's.
func (p *Processor) prepare(ctx context.Context, batch settlement.Batch) ([]*item, error) {
	items := make([]*item, 0, len(batch.Works))
	answers := map[settlement.Ref]answer{}
	for _, w := range batch.Works {
		it := &item{work: w, now: batch.Now, answers: answers}
		p.read(it)
		items = append(items, it)
	}
	if err := p.resolveAll(ctx, items); err != nil {
		return nil, err
	}
	if err := p.holdAll(ctx, items, batch.Held); err != nil {
		return nil, err
	}
	p.parkUnknown(items, batch.Held)
	slices.SortStableFunc(items, func(a, b *item) int {
		return cmp.Or(a.ref.Compare(b.ref), cmp.Compare(a.work.Event.ID, b.work.Event.ID))
	})
	p.ask(ctx, items, batch)
	return items, nil
}

// read turns an event into claims, or into a verdict.
func (p *Processor) read(it *item) {
	e := &it.work.Event
	if e.PaymentRef != "" {
		it.ref = settlement.RefOf(e)
	}
	prov, src, ok := p.sources.Lookup(e.Provider, e.Account)
	if !ok {
		it.park("source_not_configured: add it to SOURCES", 5*time.Minute)
		return
	}
	traits := prov.Traits()
	it.mode = src.Lookup
	if !traits.CanLookup {
		it.mode = provider.LookupNever
	}
	it.policy = payment.Policy{TrustBody: traits.BodyAuthenticated || src.UnsafeTrust, Lag: src.LookupLag}
	switch {
	case e.Own():
		it.policy.TrustBody = true // it is our own
		it.claims = []payment.Claim{{GatewayID: e.PaymentRef, Reason: e.Type}}
	case e.Body == nil && e.PaymentRef != "" && it.mode == provider.LookupAlways:
		// What it said is gone; what has become of its payment can be asked.
		it.claims = []payment.Claim{{GatewayID: e.PaymentRef, Reason: e.Type}}
	case e.Body == nil:
		it.settle(event.StatusQuarantined, "body_gone: dropped by retention before it was processed")
		return
	default:
		claims, err := facts(prov, e)
		if errors.Is(err, provider.ErrUnresolved) && it.mode != provider.LookupNever {
			if resolver, ok := provider.As[provider.Resolver](prov); ok {
				it.resolver = resolver
				return
			}
		}
		if err != nil {
			it.settle(event.StatusQuarantined, err.Error())
			return
		}
		if slices.ContainsFunc(claims, func(c payment.Claim) bool { return c.GatewayID == "" }) {
			it.settle(event.StatusQuarantined, "defect: a claim names no payment")
			return
		}
		if len(claims) == 0 {
			it.settle(event.StatusIgnored, provider.ReasonInformational)
			return
		}
		it.claims = claims
	}
}

// parkUnknown sets aside what concerns payments that nobody has registered,
// where the operator wants that.
func (p *Processor) parkUnknown(items []*item, held map[settlement.Ref]settlement.Held) {
	if p.cfg.UnknownPayment != "park" {
		return
	}
	for _, it := range items {
		for _, c := range it.claims {
			if h := held[it.refOf(c)]; it.verdict == nil && !h.Exists && h.Registered == nil {
				it.park("payment_unknown: waits until the application registers it", 0)
			}
		}
	}
}

// facts calls the provider and turns a panic of its decoder into an error: one
// strange body must not take the batch down.
func facts(prov provider.Provider, e *event.Event) (claims []payment.Claim, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("defect: reading the facts of a %s event panicked", e.Provider)
		}
	}()
	claims, err = prov.Facts(e)
	return completed(claims, e), err
}

// completed adds what an event says of all its claims.
func completed(claims []payment.Claim, e *event.Event) []payment.Claim {
	for i := range claims {
		if claims[i].Reason == "" {
			claims[i].Reason = e.Type
		}
		if claims[i].At.IsZero() {
			claims[i].At = e.OccurredAt
		}
	}
	return claims
}

// ask makes one lookup for each payment that any of its events needs one for.
func (p *Processor) ask(ctx context.Context, items []*item, batch settlement.Batch) {
	type question struct {
		prov provider.Provider
		src  provider.Source
	}
	questions := map[settlement.Ref]question{}
	after := map[settlement.Ref]payment.Payment{} // as it would be after the items before
	for _, it := range items {
		if it.verdict != nil || it.mode == provider.LookupNever {
			continue
		}
		for _, c := range it.claims {
			ref := it.refOf(c)
			if _, asked := questions[ref]; asked || !p.worthAsking(it, c, ref, batch.Held, after) {
				continue
			}
			prov, src, ok := p.sources.Lookup(ref.Provider, ref.Account)
			if ok {
				questions[ref] = question{prov, src}
			}
		}
	}
	if len(questions) == 0 {
		return
	}
	answers := items[0].answers
	var mu sync.Mutex
	var wg sync.WaitGroup
	for ref, q := range questions {
		wg.Go(func() {
			a := p.lookup(ctx, q.src, q.prov, ref, batch.Now)
			mu.Lock()
			answers[ref] = a
			mu.Unlock()
		})
	}
	wg.Wait()
}

// worthAsking is needsLookup, but for what the gateway has answered already.
// Then one thing is left to ask: whether the payment that carries the reference
// was paid at all, since what takes money back does not say of which attempt.
func (p *Processor) worthAsking(it *item, c payment.Claim, ref settlement.Ref, held map[settlement.Ref]settlement.Held, after map[settlement.Ref]payment.Payment) bool {
	if it.answered {
		return it.joined[ref] && !held[ref].Payment.Captured.Known
	}
	return p.needsLookup(it, c, ref, held, after)
}

// needsLookup says whether the gateway has to be asked before this claim is
// decided.
func (p *Processor) needsLookup(it *item, c payment.Claim, ref settlement.Ref, held map[settlement.Ref]settlement.Held, after map[settlement.Ref]payment.Payment) (needed bool) {
	defer func() {
		if recover() != nil { // a defect in a rule: decide meets it again and isolates the event
			needed = true
		}
	}()
	e := &it.work.Event
	if e.Type == event.TypeRegistered {
		return false
	}
	if e.Type == event.TypeReconcile {
		return true
	}
	h := held[ref]
	if it.mode == provider.LookupAlways {
		// A snapshot that began after the event was received, and contains
		// what it claims, has answered already.
		if !h.Exists || !h.Payment.ObservedAt.After(it.received()) {
			return true
		}
		r := payment.Apply(withRegistration(h, ref), c)
		return r.Need != "" || r.Applied() || r.Doubt
	}
	if len(c.Facts) == 0 && !c.Expected.Known {
		return true // it only says that something changed; the gateway knows what
	}
	state, ok := after[ref]
	if !ok {
		state = withRegistration(h, ref)
	}
	r := payment.Apply(state, c)
	after[ref] = r.Payment
	return r.Need != "" || r.Doubt
}

// received is when the event came in for this turn of its work. A repeat that
// put it back to work may tell of something that the looks before it have not
// seen.
func (it *item) received() time.Time {
	if w := &it.work; w.Turn > 1 && w.Since.After(w.Event.ReceivedAt) {
		return w.Since
	}
	return it.work.Event.ReceivedAt
}

func (p *Processor) lookup(ctx context.Context, src provider.Source, prov provider.Provider, ref settlement.Ref, now time.Time) (a answer) {
	p.asking(ref.GatewayID)
	started := time.Now()
	defer func() {
		if r := recover(); r != nil {
			a = answer{reason: "lookup_unreadable: reading the answer panicked", wait: 10 * time.Minute}
		}
		p.metrics.lookup(src.Provider, a.reason, time.Since(started))
	}()
	err := p.at(ctx, "lookup_asked")
	var claim payment.Claim
	if err == nil {
		claim, err = p.asker.Ask(ctx, src, prov, ref.GatewayID)
	}
	if err == nil {
		err = p.at(ctx, "lookup_answered")
	}
	if err == nil {
		if !strings.HasPrefix(claim.Reason, "lookup") { // a gateway may add a word
			claim.Reason = "lookup"
		}
		if claim.GatewayID != ref.GatewayID {
			err = provider.ErrMismatch
		} else {
			return answer{snapshot: &payment.Snapshot{Claim: claim, ObservedAt: now}}
		}
	}
	a = unanswered(err)
	p.log.Warn("lookup.failed", zap.String("provider", ref.Provider), zap.String("account", ref.Account),
		zap.String("reason", a.reason), zap.Error(err))
	return a
}

// unanswered says how long to wait after a lookup that gave no answer.
func unanswered(err error) answer {
	var retry *provider.RetryError
	var wait *lookup.WaitError
	switch {
	case errors.As(err, &wait):
		return answer{reason: "lookup_waits: " + wait.Why, wait: wait.For}
	case errors.As(err, &retry):
		return answer{reason: "lookup_unavailable: " + retry.Error(), wait: retry.After}
	case errors.Is(err, provider.ErrNotFound):
		return answer{reason: "lookup_not_found: the gateway does not know the payment"}
	case errors.Is(err, provider.ErrMismatch):
		return answer{reason: "lookup_mismatch: the answer is about something else", wait: 10 * time.Minute}
	case errors.Is(err, provider.ErrRefused):
		return answer{reason: "lookup_refused: check the API key", wait: time.Minute}
	case errors.Is(err, provider.ErrUnreadable):
		return answer{reason: "lookup_unreadable: " + err.Error(), wait: 10 * time.Minute}
	}
	return answer{reason: "lookup_failed: " + err.Error()}
}
