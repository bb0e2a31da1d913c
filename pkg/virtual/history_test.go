package virtual

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/settlement"
)

// newPay draws a payment that has no history yet.
func (g *gateway) newPay(n int) *pay {
	w, r := g.w, g.w.sched.rng
	p := &pay{n: n, price: 1000 + r.Int64N(3)*500, owner: fmt.Sprintf("loja-%d", r.IntN(2)),
		ref: settlement.Ref{Provider: gatewayName, Account: g.account, GatewayID: fmt.Sprintf("pay_%d", n)}}
	speaks := []dialect{byID, byID, bundled, totals}
	if w.plan.mode == provider.LookupAlways {
		speaks = append(speaks, bells, scanty, oneKey)
	} else if w.plan.mode == provider.LookupInDoubt {
		speaks = append(speaks, scanty)
	}
	p.dialect = speaks[r.IntN(len(speaks))]
	g.pays = append(g.pays, p)
	g.byRef[p.ref.GatewayID] = p
	return p
}

// live plays a payment's history: it makes things true, and has them told.
func (g *gateway) live(world *proc, p *pay) {
	w, r := g.w, g.w.sched.rng
	world.step(p.ref.GatewayID + " begins")
	attempts := 1 + r.IntN(3)
	statuses := []payment.Status{payment.StatusPending, payment.StatusAuthorized, payment.StatusFailed, payment.StatusExpired, payment.StatusCanceled}
	straight := r.IntN(4) == 0 // heard of when it is paid
	for i := range attempts {
		if straight && i < attempts-1 {
			continue
		}
		s := statuses[r.IntN(len(statuses))]
		if i == 0 {
			s = payment.StatusPending
		}
		if len(p.truths) > 0 && s == p.last().attempt {
			continue
		}
		g.becomes(world, p, func(t *truth) { t.attempt = s }, !straight, string(s), payment.Fact{Kind: payment.FactStatus, Status: s})
	}
	if r.IntN(8) == 0 {
		return // never paid
	}
	paid := payment.Fact{Kind: payment.FactStatus, Status: payment.StatusPaid}
	var facts []payment.Fact
	fee := trueFee{p.id("fee"), 10 + r.Int64N(40)}
	withFee := r.IntN(2) == 0
	facts = append(facts, paid)
	if withFee {
		facts = append(facts, payment.Fact{Kind: payment.FactFee, ID: fee.id, Amount: payment.Of(fee.amount)})
	}
	g.becomes(world, p, func(t *truth) {
		t.paid = true
		if withFee {
			t.fees = append(t.fees, fee)
		}
	}, true, "paid", facts...)
	if r.IntN(3) == 0 {
		w.saw("two events of one fact")
		g.becomes(world, p, func(*truth) {}, true, "received", paid)
	}
	for range r.IntN(5) {
		g.act(world, p)
	}
}

// act draws one thing that may happen to a paid payment.
func (g *gateway) act(world *proc, p *pay) {
	r := g.w.sched.rng
	t := p.last()
	var may []func()
	if len(t.fees) < 2 {
		may = append(may, func() {
			f := trueFee{p.id("fee"), 10 + r.Int64N(40)}
			g.becomes(world, p, func(t *truth) { t.fees = append(t.fees, f) }, true, "fee", payment.Fact{Kind: payment.FactFee, ID: f.id, Amount: payment.Of(f.amount)})
		})
	}
	left := p.price - t.refunded() - t.chargedBack()
	for _, o := range t.refunds {
		if o.state == payment.RefundPending {
			left -= o.amount
		}
	}
	if left > 0 {
		may = append(may, func() { g.refund(world, p, left) }, func() { g.refund(world, p, left) })
		if p.dialect != totals {
			may = append(may, func() {
				d := trueDispute{p.id("dp"), 1 + r.Int64N(left), payment.DisputeOpen}
				if r.IntN(4) == 0 {
					d.state = payment.DisputeLost
				}
				g.becomes(world, p, func(t *truth) { t.disputes = append(t.disputes, d) }, true, "dispute", disputeFact(d))
			})
		}
	}
	for i, o := range t.refunds {
		if o.state == payment.RefundPending {
			may = append(may, func() { g.refundMoves(world, p, i, payment.RefundSucceeded) }, func() { g.refundMoves(world, p, i, payment.RefundFailed) })
		} else if o.state == payment.RefundSucceeded && p.dialect != totals && r.IntN(3) == 0 {
			may = append(may, func() { g.refundMoves(world, p, i, payment.RefundFailed) })
		}
	}
	for i, o := range t.disputes {
		for _, s := range map[payment.DisputeState][]payment.DisputeState{payment.DisputeOpen: {payment.DisputeLost, payment.DisputeWon}, payment.DisputeLost: {payment.DisputeOpen}}[o.state] {
			may = append(may, func() {
				o.state = s
				g.becomes(world, p, func(t *truth) { t.disputes[i].state = s }, true, "dispute", disputeFact(o))
			})
		}
	}
	if len(may) > 0 {
		may[r.IntN(len(may))]()
	}
}

func (g *gateway) refund(world *proc, p *pay, left int64) {
	r := g.w.sched.rng
	o := trueRefund{p.id("re"), 1 + r.Int64N(left), payment.RefundSucceeded}
	if r.IntN(3) == 0 {
		o.amount = left
	}
	if r.IntN(4) == 0 && p.dialect != totals {
		o.state = payment.RefundPending
	}
	fact := refundFact(o)
	if p.dialect == totals {
		fact = payment.Fact{Kind: payment.FactRefundTotal, Amount: payment.Of(p.last().refunded() + o.amount)}
	}
	g.becomes(world, p, func(t *truth) { t.refunds = append(t.refunds, o) }, true, "refund", fact)
}

func (g *gateway) refundMoves(world *proc, p *pay, i int, s payment.RefundState) {
	o := p.last().refunds[i]
	o.state = s
	g.becomes(world, p, func(t *truth) { t.refunds[i].state = s }, true, "refund", refundFact(o))
}

// becomes makes something true after a while, and tells of it.
func (g *gateway) becomes(world *proc, p *pay, change func(*truth), told bool, what string, facts ...payment.Fact) {
	w, r := g.w, g.w.sched.rng
	gaps := []time.Duration{40 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second, 7 * time.Second, time.Minute, 20 * time.Minute, 3 * time.Hour}
	gap := gaps[r.IntN(len(gaps))]
	if w.plan.mode != provider.LookupAlways {
		gap = max(gap, 2*time.Second) // nobody else can tell what was first within a second
	}
	world.sleep(gap, p.ref.GatewayID)
	var next truth
	if len(p.truths) > 0 {
		next = p.last().clone()
	}
	change(&next)
	next.since = time.Now()
	p.truths = append(p.truths, next)
	if !told {
		return
	}
	at := time.Now().Truncate(time.Second)
	c := p.base(at, what)
	c.Facts = facts
	if next.paid {
		c.Captured = payment.Of(p.price)
	}
	switch p.dialect {
	case bundled:
		c.Facts = p.facts(&next)
	case bells, oneKey:
		c = payment.Claim{GatewayID: p.ref.GatewayID, Reason: what, At: at}
	case scanty:
		c.Captured = payment.Minor{}
		c.Expected = payment.Minor{}
		for i := range c.Facts {
			if f := &c.Facts[i]; f.Kind == payment.FactFee && r.IntN(2) == 0 {
				f.Amount = payment.Minor{}
			}
		}
	}
	g.tell(p, what, c)
}

// tell words an event and sends it: not at all, once, or several times.
func (g *gateway) tell(p *pay, what string, c payment.Claim) {
	w, r := g.w, g.w.sched.rng
	t := &tell{p: p, Key: fmt.Sprintf("%s-%d", p.ref.GatewayID, len(p.tells)+1), Type: what, Ref: p.ref.GatewayID, At: c.At, Claims: []payment.Claim{c}}
	if p.dialect == oneKey {
		t.Key, t.Reopen = p.ref.GatewayID+"-only", true
	}
	if w.sched.chance(w.plan.poison) {
		t.Type = poisonType
	}
	t.seal()
	p.tells = append(p.tells, t)
	copies := 1 + max(0, r.IntN(5)-2)
	if w.sched.chance(w.plan.lost) {
		w.saw("webhook never sent")
		copies = 0
	}
	delays := []time.Duration{20 * time.Millisecond, 50 * time.Millisecond, 400 * time.Millisecond, 3 * time.Second, 30 * time.Second, 10 * time.Minute, 3 * time.Hour}
	for i := range copies {
		d := delays[r.IntN(len(delays))]
		w.sendLater(t, i, d)
	}
}

func (t *tell) seal() {
	var err error
	if t.body, err = json.Marshal(t); err != nil {
		panic(err)
	}
}

// poisonType marks events whose verdicts the database refuses for a while,
// junkType those whose rows it refuses at receipt.
const (
	poisonType = "poison"
	junkType   = "junk"
)

// forge sends what nobody at the gateway wrote, to a source whose bodies are
// not authenticated.
func (g *gateway) forge(p *pay, n int) {
	g.w.saw("forged body")
	c := p.base(time.Now().Truncate(time.Second), "paid")
	c.Captured, c.Beneficiary = payment.Of(1+g.w.sched.rng.Int64N(9999)), "thief"
	c.Facts = []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusPaid},
		{Kind: payment.FactRefund, ID: "forged", Amount: payment.Of(1), Refund: payment.RefundSucceeded}}
	t := &tell{p: p, Key: fmt.Sprintf("forged-%d", n), Type: "paid", Ref: p.ref.GatewayID, At: c.At, Claims: []payment.Claim{c}, forged: true}
	t.seal()
	g.w.sendLater(t, 0, g.w.sched.below(time.Minute))
}
