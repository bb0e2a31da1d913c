package processor

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/ledger"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/settlement"
)

// settleOnce runs the transaction of the given items once, and says which of
// the events it could claim.
func (p *Processor) settleOnce(ctx context.Context, items []*item) (claimed map[int64]bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.TxTimeout)
	defer cancel()
	events := make([]settlement.Handle, len(items))
	var refs []settlement.Ref
	for i, it := range items {
		events[i] = it.work.Handle()
		refs = append(refs, it.refs()...)
	}
	decided, err := p.store.Settle(ctx, events, refs, func(free map[int64]bool, held map[settlement.Ref]settlement.Held) (settlement.Decision, error) {
		claimed = free
		return p.decide(items, free, held)
	})
	if err != nil {
		return nil, err
	}
	p.report(items, decided)
	return claimed, nil
}

// state is a payment while a batch is decided.
type state struct {
	loaded, now payment.Payment
	registered  *settlement.Registration
	moves       []settlement.Move
}

// owner is the owner that the application registered, or "".
func (s *state) owner() string {
	if s.registered == nil || s.contradicted() != "" {
		return ""
	}
	return s.registered.Beneficiary
}

// contradicted says in what a captured payment is not what was registered;
// then its money is given to nobody on the registration's word.
func (s *state) contradicted() payment.Need {
	r := s.registered
	switch {
	case r == nil || !s.now.Captured.Known:
		return ""
	case r.Currency != "" && r.Currency != s.now.Currency:
		return payment.NeedCurrencyMatch
	case r.Expected.Known && r.Expected.Value != s.now.Captured.Value:
		return payment.NeedAmountMatch
	}
	return ""
}

// decide is the pure decision under the locks: each event in the order of its
// receipt, against the payment as the events before it left it.
func (p *Processor) decide(items []*item, claimed map[int64]bool, held map[settlement.Ref]settlement.Held) (d settlement.Decision, err error) {
	// A defect in a rule must not take the process down, again and again with
	// the same event: as an error it is isolated by splitting the batch.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("defect: deciding panicked: %v", r)
		}
	}()
	states := make(map[settlement.Ref]*state, len(held))
	for ref, h := range held {
		pay := withRegistration(h, ref)
		// What the registration adds is a change too, and is written.
		loaded := h.Payment
		loaded.Provider, loaded.Account, loaded.GatewayID, loaded.Registered = pay.Provider, pay.Account, pay.GatewayID, pay.Registered
		states[ref] = &state{loaded: loaded, now: pay, registered: h.Registered}
	}
	for _, it := range items {
		if !claimed[it.work.Event.ID] {
			continue
		}
		v, err := p.judge(it, states)
		if err != nil {
			return d, err
		}
		v.EventID, v.Turn = it.work.Event.ID, it.work.Turn
		d.Verdicts = append(d.Verdicts, v)
	}
	refs := slices.SortedFunc(maps.Keys(states), settlement.Ref.Compare)
	for _, ref := range refs {
		s := states[ref]
		if len(s.moves) > 0 || !reflect.DeepEqual(s.loaded, s.now) {
			d.Changes = append(d.Changes, settlement.Change{Payment: s.now, Moves: s.moves})
			d.Awaited = append(d.Awaited, p.awaited(ref, s)...)
		}
	}
	return d, nil
}

// awaited names what events of this source may have waited for that know only
// a reference: it, or the money under it, has come now.
func (p *Processor) awaited(ref settlement.Ref, s *state) []string {
	if s.now.Reference == "" || s.loaded.Reference != "" && s.loaded.Captured.Known == s.now.Captured.Known {
		return nil
	}
	prov, _, ok := p.sources.Lookup(ref.Provider, ref.Account)
	if !ok {
		return nil
	}
	if _, ok = provider.As[provider.Resolver](prov); !ok {
		return nil
	}
	return []string{settlement.ReferenceOf(ref.Provider, ref.Account, s.now.Reference)}
}

// withRegistration is a payment as the rules see it: what the application
// registered counts as if the first event had said it.
func withRegistration(h settlement.Held, ref settlement.Ref) payment.Payment {
	pay := h.Payment
	pay.Provider, pay.Account, pay.GatewayID = ref.Provider, ref.Account, ref.GatewayID
	reg := h.Registered
	if reg == nil {
		return pay
	}
	if reg.Currency != "" && !pay.Captured.Known {
		pay.Currency = reg.Currency // it outranks what an event said before the capture
	}
	if pay.Reference == "" {
		pay.Reference = reg.Reference
	}
	if reg.Expected.Known && !pay.Captured.Known {
		pay.Expected, pay.Registered = reg.Expected, true
	}
	return pay
}

// judge decides one event: all of its claims, or none.
func (p *Processor) judge(it *item, states map[settlement.Ref]*state) (settlement.Verdict, error) {
	if it.verdict != nil {
		return p.limited(it, *it.verdict), nil
	}
	type step struct {
		s *state
		r payment.Result
	}
	var steps []step
	after := map[*state]payment.Payment{}
	applied, stale, disagrees := false, false, false
	take := func(s *state, r payment.Result) {
		after[s] = r.Payment
		steps = append(steps, step{s, r})
		applied, stale, disagrees = applied || r.Applied(), stale || r.Stale, disagrees || r.Disagrees
	}
	for _, c := range it.claims {
		s := states[it.refOf(c)]
		if _, ok := after[s]; !ok {
			after[s] = s.now
		}
		if n := s.contradicted(); n != "" && it.work.Event.Type == event.TypeRegistered {
			return p.limited(it, *it.parked(needReason(n), 0)), nil
		}
		r, v := p.resolve(it, c, after[s], s.owner())
		if v != nil {
			return p.limited(it, *v), nil
		}
		take(s, r)
	}
	for _, st := range steps {
		for _, t := range st.r.Transitions {
			m, err := move(it.work.Event.ID, st.s.now, t)
			if err != nil {
				return settlement.Verdict{}, fmt.Errorf("event %d: %w", it.work.Event.ID, err)
			}
			st.s.moves = append(st.s.moves, m)
		}
		st.s.now = st.r.Payment
	}
	v := settlement.Verdict{Status: event.StatusProcessed, Outcome: event.OutcomeRepeated, Attempts: it.work.Attempts}
	switch {
	case applied:
		v.Outcome = event.OutcomeApplied
	case stale:
		v.Outcome = event.OutcomeStale
		v.Reason = "late: the payment has moved on"
	}
	if disagrees {
		v.Reason = reasonDisagrees
		p.metrics.disagreements.WithLabelValues(it.work.Event.Provider).Inc()
	}
	return v, nil
}

// resolve decides one claim against one payment, or says why it cannot now.
func (p *Processor) resolve(it *item, c payment.Claim, current payment.Payment, owner string) (payment.Result, *settlement.Verdict) {
	ref := it.refOf(c)
	a, asked := it.answers[ref]
	unpaid := it.joined[ref] && !current.Captured.Known
	if it.answered && !unpaid { // what was asked for other events of the payment knows less
		a, asked = answer{}, false
	}
	if asked && a.snapshot == nil && it.work.Event.Type != event.TypeRegistered {
		return payment.Result{}, it.parked(a.reason, a.wait)
	}
	if it.work.Event.Type == event.TypeReconcile && !asked {
		return payment.Result{}, it.parked("lookup_not_possible: this source has no lookup", time.Hour)
	}
	if unpaid {
		// The one attempt that we know of may be another than the one that was
		// paid: which it was is for the attempt's own event, or a lookup.
		c.Captured = payment.Minor{}
		c.Facts = slices.Clone(c.Facts)
		for i := range c.Facts {
			if c.Facts[i].Status == payment.StatusRefunded {
				c.Facts[i].Amount = payment.Minor{} // it would stand for the capture
			}
		}
	}
	policy := it.policy
	policy.Owner = owner
	policy.Settle = it.contradictedFor() >= p.cfg.AgreeLimit
	var looked payment.Result // the attempt as it was looked up, before the claim
	if unpaid && it.answered && a.snapshot != nil {
		// It is asked for its receipt alone: it shows no disputes, and one that
		// was not paid says nothing of what its order's other attempt went through.
		bare := payment.Claim{GatewayID: c.GatewayID, Reason: c.Reason}
		r, _ := payment.Resolve(current, a.snapshot, bare, policy)
		if a = (answer{}); r.Need == "" && r.Payment.Captured.Known {
			looked, current = r, r.Payment
		}
	}
	r, dropped := payment.Resolve(current, a.snapshot, c, policy)
	if len(looked.Transitions) > 0 {
		r.Transitions = slices.Concat(looked.Transitions, r.Transitions)
	}
	r.Disagrees = r.Disagrees || looked.Disagrees || policy.Settle && r.Stale
	unsure := r.Need != "" || r.Applied() || r.Doubt
	switch {
	case dropped && unsure:
		// Another processor asked later than we did and was quicker.
		return r, it.parked("snapshot_outdated: asking again", 0)
	case r.Need == payment.NeedAgreement && a.snapshot == nil:
		return r, it.parked("lookup_needed", 0)
	case r.Need != "":
		return r, it.parked(needReason(r.Need), 0)
	case a.snapshot == nil && r.Doubt && it.mode == provider.LookupInDoubt:
		return r, it.parked("lookup_needed", 0)
	}
	if it.mode == provider.LookupAlways && !it.answered && a.snapshot == nil && r.Applied() && it.work.Event.Type != event.TypeRegistered {
		// The payment looked settled when the batch was loaded, and is not.
		return r, it.parked("lookup_needed", 0)
	}
	return r, nil
}

// reasonDisagrees marks events for the list of reconciliation.
const reasonDisagrees = "disagrees: the gateway's API, this event and what was booked do not agree; nothing was changed for it"

// move is a transition with its ledger entries and its domain event.
func move(eventID int64, pay payment.Payment, t payment.Transition) (settlement.Move, error) {
	entries, err := ledger.Entries(&pay, t)
	if err != nil {
		return settlement.Move{}, err
	}
	payload, err := domainEvent(eventID, t)
	if err != nil {
		return settlement.Move{}, err
	}
	return settlement.Move{EventID: eventID, Transition: t, Entries: entries, Subject: subject(&pay, t), Payload: payload}, nil
}

// report counts and logs what was committed.
func (p *Processor) report(items []*item, d settlement.Decision) {
	byID := make(map[int64]*item, len(items))
	for _, it := range items {
		byID[it.work.Event.ID] = it
	}
	for _, v := range d.Verdicts {
		it := byID[v.EventID]
		e := &it.work.Event
		outcome := string(v.Outcome)
		if outcome == "" {
			outcome = string(v.Status)
		}
		p.metrics.outcome(e.Provider, outcome)
		if v.Status == event.StatusParked {
			p.metrics.waits.WithLabelValues(code(v.Reason)).Inc()
		}
		if v.Settled() {
			p.metrics.settled(e.Provider, it.now.Sub(e.ReceivedAt))
		}
		level := zap.DebugLevel
		switch v.Status {
		case event.StatusDead:
			level = zap.ErrorLevel
		case event.StatusQuarantined:
			level = zap.WarnLevel
		}
		if ce := p.log.Check(level, "delivery.settled"); ce != nil {
			ce.Write(zap.Int64("event_id", e.ID), zap.String("provider", e.Provider), zap.String("account", e.Account),
				zap.String("type", e.Type), zap.String("outcome", outcome), zap.String("reason", v.Reason))
		}
	}
	for _, c := range d.Changes {
		if len(c.Moves) > 0 {
			p.Moved()
			return
		}
	}
}
