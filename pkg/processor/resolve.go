package processor

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/settlement"
)

// resolveAll asks the gateways about the events that name no payment: a
// notification code, a chargeback's own number. Few gateways have such events.
func (p *Processor) resolveAll(ctx context.Context, items []*item) error {
	var wg sync.WaitGroup
	for _, it := range items {
		if it.resolver != nil {
			wg.Go(func() { p.resolveOne(ctx, it) })
		}
	}
	wg.Wait()
	for _, it := range items {
		if it.resolver == nil || it.verdict != nil {
			continue
		}
		if err := p.join(ctx, it); err != nil {
			return err
		}
	}
	return nil
}

func (p *Processor) resolveOne(ctx context.Context, it *item) {
	e := &it.work.Event
	defer func() {
		if recover() != nil {
			it.park("lookup_unreadable: reading the answer panicked", 0)
		}
	}()
	p.asking("event " + strconv.FormatInt(e.ID, 10))
	prov, src, ok := p.sources.Lookup(e.Provider, e.Account)
	if !ok {
		it.park("source_not_configured: add it to SOURCES", 0)
		return
	}
	err := p.at(ctx, "resolve_asked")
	var claims []payment.Claim
	if err == nil {
		claims, err = p.asker.Resolve(ctx, src, prov, it.resolver, e)
	}
	if err == nil {
		err = p.at(ctx, "resolve_answered")
	}
	if err != nil {
		a := unanswered(err)
		p.log.Warn("resolve.failed", zap.String("provider", e.Provider), zap.String("account", e.Account),
			zap.String("reason", a.reason), zap.Error(err))
		it.park(a.reason, a.wait)
		return
	}
	if len(claims) == 0 {
		it.settle(event.StatusIgnored, provider.ReasonInformational)
		return
	}
	it.claims = completed(claims, e)
	it.answered = true
	for _, c := range claims {
		// A payment that is named and not described is looked up as always.
		it.answered = it.answered && len(c.Facts) > 0
	}
	it.policy.TrustBody = it.policy.TrustBody || it.answered
}

// join finds the payments of claims that know the application's reference and
// not the gateway's id.
func (p *Processor) join(ctx context.Context, it *item) error {
	e := &it.work.Event
	for i := range it.claims {
		c := &it.claims[i]
		if c.GatewayID != "" {
			continue
		}
		if c.Reference == "" {
			it.settle(event.StatusQuarantined, "the gateway's answer names neither a payment nor a reference")
			return nil
		}
		readCtx, cancel := context.WithTimeout(ctx, p.cfg.TxTimeout)
		ids, err := p.store.Referenced(readCtx, e.Provider, e.Account, c.Reference)
		cancel()
		it.awaits = settlement.ReferenceOf(e.Provider, e.Account, c.Reference)
		switch {
		case err != nil:
			return fmt.Errorf("payments of a reference: %w", err)
		case len(ids) == 0:
			it.park("payment_unknown: no payment of this source carries the reference that the gateway gives; waits for it", 0)
			return nil
		case len(ids) > 1:
			it.park("reference_ambiguous: "+strconv.Itoa(len(ids))+" payments of this source carry the reference that the gateway gives; book it by hand", 0)
			return nil
		}
		c.GatewayID = ids[0]
		if it.joined == nil {
			it.joined = map[settlement.Ref]bool{}
		}
		it.joined[it.refOf(*c)] = true
	}
	it.ref = it.refOf(it.claims[0])
	return nil
}

// holdAll reads the payments of claims that are not the event's own: of an
// order with several charges, or found by asking.
func (p *Processor) holdAll(ctx context.Context, items []*item, held map[settlement.Ref]settlement.Held) error {
	missing := map[settlement.Ref]bool{}
	for _, it := range items {
		for _, ref := range it.refs() {
			if _, ok := held[ref]; !ok {
				missing[ref] = true
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	refs := make([]settlement.Ref, 0, len(missing))
	for ref := range missing {
		refs = append(refs, ref)
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.TxTimeout)
	defer cancel()
	more, err := p.store.Held(ctx, refs)
	if err != nil {
		return fmt.Errorf("payments of a batch: %w", err)
	}
	for ref, h := range more {
		held[ref] = h
	}
	return nil
}
