package payment_test

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/umavez/umavez/pkg/payment"
)

// truth is what a model gateway knows of one payment at one moment. It is
// written without looking at the state machine: it is its judge.
type truth struct {
	since    time.Time
	attempt  payment.Status
	paid     bool
	undone   bool
	refunds  []modelRefund
	disputes []modelDispute
	fees     []string
	undos    []string // all of them; the last one stands while undone
}

type modelRefund struct {
	id     string
	amount int64
	state  payment.RefundState
	taken  bool // succeeded once
}

type modelDispute struct {
	id     string
	amount int64
	state  payment.DisputeState
	taken  bool
}

const (
	modelPrice = int64(10000)
	modelFee   = int64(7)
)

func (tr truth) clone() truth {
	tr.refunds, tr.disputes = slices.Clone(tr.refunds), slices.Clone(tr.disputes)
	tr.fees, tr.undos = slices.Clone(tr.fees), slices.Clone(tr.undos)
	return tr
}

func (tr *truth) sums() (refunded, back int64) {
	for _, r := range tr.refunds {
		if r.state == succeeded {
			refunded += r.amount
		}
	}
	for _, d := range tr.disputes {
		if d.state == opened || d.state == lost {
			back += d.amount
		}
	}
	if tr.undone {
		refunded += modelPrice
	}
	return refunded, back
}

func (tr *truth) left() int64 {
	refunded, back := tr.sums()
	return modelPrice - refunded - back
}

func (tr *truth) status() payment.Status {
	if !tr.paid || tr.undone {
		return tr.attempt
	}
	s := payment.StatusPaid
	refunded, _ := tr.sums()
	if refunded > 0 {
		s = payment.StatusPartiallyRefunded
	}
	if refunded == modelPrice {
		s = payment.StatusRefunded
	}
	for _, d := range tr.disputes {
		if d.state == lost && s != disputed {
			s = lostStatus
		}
		if d.state == opened {
			s = disputed
		}
	}
	return s
}

// answer is what the gateway's API says when its read side is at this truth.
func (tr *truth) answer() payment.Claim {
	c := payment.Claim{GatewayID: "pay_1", Currency: "BRL", Reason: "lookup"}
	switch {
	case tr.paid && !tr.undone:
		c.Captured = payment.Of(modelPrice)
		c.Facts = append(c.Facts, status(paid))
	case tr.attempt != "":
		c.Facts = append(c.Facts, status(tr.attempt))
	}
	for _, r := range tr.refunds {
		c.Facts = append(c.Facts, refund(r.id, r.amount, r.state))
	}
	for _, d := range tr.disputes {
		c.Facts = append(c.Facts, dispute(d.id, d.amount, d.state))
	}
	if tr.paid && !tr.undone {
		for _, id := range tr.fees {
			c.Facts = append(c.Facts, fee(id, modelFee))
		}
	}
	return c
}

// books is all that must have been booked once the story is told. With
// passing, money that went there and back counts; without, only what stayed.
func (tr *truth) books(passing bool) []string {
	var b []string
	add := func(there, back bool, kind, ref string, amount int64) {
		if there && (passing || !back) {
			b = append(b, fmt.Sprintf("%s %s %d", kind, ref, amount))
		}
		if there && back && passing {
			b = append(b, fmt.Sprintf("%s_reversal %s %d", kind, ref, amount))
		}
	}
	add(tr.paid, false, "capture", "payment:pay_1", modelPrice)
	for _, r := range tr.refunds {
		add(r.taken, r.state == failedRefund, "refund", "refund:"+r.id, r.amount)
	}
	for _, d := range tr.disputes {
		add(d.taken, d.state == won, "chargeback", "dispute:"+d.id, d.amount)
	}
	for i, u := range tr.undos {
		add(true, i < len(tr.undos)-1 || !tr.undone, "refund", "refund:"+u, modelPrice)
	}
	for _, f := range tr.fees {
		add(true, false, "fee", "fee:"+f, modelFee)
	}
	slices.Sort(b)
	return b
}

// gateway is a timeline of truths, and the events it sends about them.
type gateway struct {
	t      *rapid.T
	now    time.Time
	truths []truth
	events []modelEvent
	ids    int
}

type modelEvent struct {
	claim payment.Claim
	sent  time.Time
}

func (g *gateway) last() *truth { return &g.truths[len(g.truths)-1] }

// at gives the truth that held at a moment.
func (g *gateway) at(t time.Time) *truth {
	found := &g.truths[0]
	for i := range g.truths {
		if !g.truths[i].since.After(t) {
			found = &g.truths[i]
		}
	}
	return found
}

// change makes something true, and sends what events say about it.
func (g *gateway) change(apply func(*truth), reason string, facts ...payment.Fact) {
	g.now = g.now.Add(time.Duration(rapid.SampledFrom([]int{40, 300, 900, 1700, 6000, 30000}).Draw(g.t, "ms later")) * time.Millisecond)
	next := g.last().clone()
	apply(&next)
	next.since = g.now
	g.truths = append(g.truths, next)
	c := payment.Claim{GatewayID: "pay_1", Currency: "BRL", Reason: reason, At: g.now.Truncate(time.Second), Facts: facts}
	if next.paid {
		c.Captured = payment.Of(modelPrice)
	}
	for range rapid.IntRange(1, 2).Draw(g.t, "deliveries") {
		delay := time.Duration(rapid.SampledFrom([]int{50, 400, 2500, 9000, 90000}).Draw(g.t, "ms on the way")) * time.Millisecond
		g.events = append(g.events, modelEvent{c, g.now.Add(delay)})
	}
}

func (g *gateway) id(prefix string) string {
	g.ids++
	return fmt.Sprint(prefix, "_", g.ids)
}

func drawGateway(t *rapid.T, withUndo bool) *gateway {
	g := &gateway{t: t, now: at(0), truths: []truth{{since: at(-3600)}}}
	for range rapid.IntRange(0, 3).Draw(t, "attempts") {
		s := rapid.SampledFrom([]payment.Status{pending, authorized, failed, expired, canceled}).Draw(t, "attempt")
		g.change(func(tr *truth) { tr.attempt = s }, string(s), status(s))
	}
	if rapid.IntRange(0, 6).Draw(t, "never paid") == 0 && g.last().attempt != "" {
		return g
	}
	g.change(func(tr *truth) { tr.paid = true }, "paid", status(paid))
	for range rapid.IntRange(0, 6).Draw(t, "acts") {
		g.act(withUndo)
	}
	return g
}

func (g *gateway) act(withUndo bool) {
	tr := g.last()
	var pick []func()
	if !tr.undone {
		pick = append(pick, func() {
			id := g.id("fee")
			g.change(func(tr *truth) { tr.fees = append(tr.fees, id) }, "fee", fee(id, modelFee))
		}, func() { g.change(func(*truth) {}, "settled", status(paid)) })
	}
	if left := tr.left(); left > 0 {
		pick = append(pick, func() {
			r := modelRefund{g.id("re"), rapid.Int64Range(1, left).Draw(g.t, "refund"), succeeded, true}
			if rapid.IntRange(0, 2).Draw(g.t, "asynchronous") == 0 {
				r.state, r.taken = payment.RefundPending, false
			}
			g.change(func(tr *truth) { tr.refunds = append(tr.refunds, r) }, "refund", refund(r.id, r.amount, r.state))
		}, func() {
			d := modelDispute{g.id("dp"), rapid.Int64Range(1, left).Draw(g.t, "disputed"), opened, true}
			if rapid.IntRange(0, 2).Draw(g.t, "born") == 0 {
				d.state = lost
			}
			g.change(func(tr *truth) { tr.disputes = append(tr.disputes, d) }, "dispute", dispute(d.id, d.amount, d.state))
		})
	}
	for i, r := range tr.refunds {
		if r.state == payment.RefundPending && tr.left() >= r.amount {
			pick = append(pick, func() {
				g.change(func(tr *truth) { tr.refunds[i].state, tr.refunds[i].taken = succeeded, true }, "refund", refund(r.id, r.amount, succeeded))
			})
		}
		if r.state != failedRefund {
			pick = append(pick, func() {
				g.change(func(tr *truth) { tr.refunds[i].state = failedRefund }, "refund", refund(r.id, r.amount, failedRefund))
			})
		}
	}
	for i, d := range tr.disputes {
		to := map[payment.DisputeState][]payment.DisputeState{opened: {lost, won}, lost: {opened}}[d.state]
		for _, s := range to {
			pick = append(pick, func() {
				g.change(func(tr *truth) { tr.disputes[i].state = s }, "dispute", dispute(d.id, d.amount, s))
			})
		}
	}
	if withUndo && len(tr.refunds)+len(tr.disputes) == 0 {
		if tr.undone {
			pick = []func(){func() { g.change(func(tr *truth) { tr.undone = false }, "received", status(paid)) },
				func() { g.change(func(tr *truth) { tr.attempt = expired }, "overdue", status(expired)) }}
		} else {
			pick = append(pick, func() {
				id := g.id("un")
				g.change(func(tr *truth) { tr.undone, tr.undos, tr.attempt = true, append(tr.undos, id), pending }, "undone", undo(id))
			})
		}
	}
	if len(pick) > 0 {
		rapid.SampledFrom(pick).Draw(g.t, "act")()
	}
}
