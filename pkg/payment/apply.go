package payment

import (
	"slices"
	"time"

	"github.com/umavez/umavez/pkg/money"
)

// NeedLegalMove: the facts are of no known kind, or would make a move that is
// not in the table (an undone receipt under dispute). A person must look.
const NeedLegalMove Need = "illegal_move"

// Apply decides what a claim changes. It is pure: the same state and claim
// give the same result. When Result.Need is set, nothing is to be changed.
func Apply(p Payment, c Claim) Result {
	m := machine{p: p.clone(), c: c}
	if need := m.run(); need != "" {
		return Result{Payment: p, Need: need}
	}
	return Result{Payment: m.p, Transitions: m.steps, Stale: m.stale, Doubt: m.doubt || m.withheld, Disagrees: m.disagrees, withheld: m.withheld}
}

type machine struct {
	p            Payment
	c            Claim
	steps        []Transition
	stale, doubt bool
	disagrees    bool
	withheld     bool
}

// lastPhase is the highest number that phase returns.
const lastPhase = 7

// phase orders the facts of one claim: money comes in before it goes out, so
// that no state on the way has more refunded than captured; and what is named
// comes before what only says "the rest".
func phase(f *Fact) int {
	switch {
	case f.Kind == FactStatus && f.Status == StatusRefunded:
		return 6
	case f.Kind == FactStatus && (f.Status == StatusDisputed || f.Status == StatusChargedBack):
		return lastPhase
	case f.Kind == FactStatus:
		return 0
	case f.Kind == FactRefund && f.Refund == RefundFailed, f.Kind == FactDispute && f.Dispute == DisputeWon:
		return 1
	case f.Kind == FactRefund:
		return 2
	case f.Kind == FactRefundTotal:
		return 3
	case f.Kind == FactDispute, f.Kind == FactFee:
		return 4
	}
	return 5
}

func (m *machine) run() Need {
	if need := m.attributes(); need != "" {
		return need
	}
	for now, done := 0, 0; now <= lastPhase && done < len(m.c.Facts); now++ {
		for i := range m.c.Facts {
			if phase(&m.c.Facts[i]) != now {
				continue
			}
			done++
			if need := m.fact(m.c.timed(m.c.Facts[i])); need != "" {
				return need
			}
		}
	}
	return ""
}

// timed gives a fact the claim's time where it has none of its own.
func (c *Claim) timed(f Fact) Fact {
	if f.At.IsZero() {
		f.At, f.until = c.At, c.until
	}
	if f.until.IsZero() {
		f.until = f.At
	}
	return f
}

func (m *machine) fact(f Fact) Need {
	if f.Otherwise != "" && !m.takesBack(&f) {
		if !m.p.Captured.Known {
			m.p.Details.GoneAt = latest(m.p.Details.GoneAt, f.At)
			m.p.Details.GoneSeen = latest(m.p.Details.GoneSeen, f.until)
		}
		m.withhold(f.until)
		return m.attempt(Fact{Kind: FactStatus, Status: f.Otherwise, At: f.At, until: f.until})
	}
	switch f.Kind {
	case FactStatus:
		switch f.Status {
		case StatusPaid:
			m.p.Details.PaidSeen = latest(m.p.Details.PaidSeen, f.until)
			if need := m.paid(f.At); need != "" {
				return need
			}
			// A "paid" of the time in which the dispute was first seen may be
			// of a server that has not heard of it, or say that it was won.
			if d := m.findDispute(m.p.GatewayID); d != nil && d.Unnamed && d.State == DisputeOpen && f.until.After(d.At) {
				m.withheld = true
			}
			return m.gone()
		case StatusRefunded:
			return m.refundedAll(f)
		case StatusDisputed:
			return m.unnamedDispute(f, DisputeOpen)
		case StatusChargedBack:
			return m.unnamedDispute(f, DisputeLost)
		default:
			return m.attempt(f)
		}
	case FactRefund:
		return m.refund(f)
	case FactRefundTotal:
		return m.refundTotal(f)
	case FactDispute:
		return m.dispute(f)
	case FactFee:
		return m.fee(f)
	case FactUndo:
		return m.undo(f)
	}
	return NeedLegalMove
}

// gone gives a capture back that we hear of after the gateway has called the
// payment refunded or canceled, by one word, later than it was paid.
func (m *machine) gone() Need {
	d := &m.p.Details
	at := d.GoneAt
	if at.IsZero() || !at.After(latest(m.p.lastPaid(), d.PaidSeen)) {
		m.withhold(d.GoneSeen)
		return ""
	}
	d.GoneAt, d.GoneSeen = time.Time{}, time.Time{}
	return m.refundedAll(Fact{Kind: FactStatus, Status: StatusRefunded, At: at, until: at})
}

// withhold notes that the gateway has called a payment refunded or canceled,
// and that its read side lags too much to tell whether it was paid since. Up to
// until it may have been gone; who asks again later learns which it is.
func (m *machine) withhold(until time.Time) {
	if m.p.Captured.Known && m.rest() > 0 && until.After(m.p.lastPaid()) {
		m.withheld = true
	}
}

// takesBack says whether a fact that may also mean "never paid" gives back a
// capture that we hold. One that is not later than the newest "paid" does not:
// a charge that is paid after it was canceled is seen as canceled for a while
// by servers that lag.
func (m *machine) takesBack(f *Fact) bool {
	return m.p.Captured.Known && (f.At.IsZero() || f.At.After(latest(m.p.lastPaid(), m.p.Details.PaidSeen)))
}

// attributes fills what is not money. A field that we hold is never emptied.
func (m *machine) attributes() Need {
	p, c := &m.p, &m.c
	if c.GatewayID != "" && p.GatewayID != "" && c.GatewayID != p.GatewayID {
		return NeedSamePayment
	}
	if c.Currency != "" {
		if p.Currency == "" {
			p.Currency = c.Currency
		} else if p.Currency != c.Currency {
			return NeedCurrencyMatch
		}
	}
	if c.Expected.Known && c.Expected.Value < 0 || c.Captured.Known && c.Captured.Value < 0 {
		return NeedRange
	}
	if c.Captured.Value == 0 {
		c.Captured = Minor{} // gateways write 0 for "nothing captured yet"
	}
	if p.Reference == "" {
		p.Reference = c.Reference
	}
	m.expect()
	if p.Captured.Known && c.Captured.Known && p.Captured.Value != c.Captured.Value {
		return NeedAmountMatch
	}
	if !p.Captured.Known && !c.Captured.Known {
		c.Captured = c.implied()
	}
	if p.Beneficiary == "" && c.Beneficiary != "" {
		return m.allocate(c.Beneficiary)
	}
	return ""
}

// implied is the capture that a claim knows only from what was given back.
func (c *Claim) implied() Minor {
	for _, f := range c.Facts {
		if f.Kind == FactStatus && f.Status == StatusRefunded && f.Otherwise == "" && f.Amount.Value > 0 {
			return f.Amount
		}
	}
	return Minor{}
}

// expect keeps what was asked for: the later word wins, and at equal times
// the larger one. What the application registered is not overwritten.
func (m *machine) expect() {
	p, c := &m.p, &m.c
	if !c.Expected.Known || p.Registered && p.Expected.Known {
		return
	}
	at := p.Details.AttributesAt
	if !p.Expected.Known || c.At.After(at) || c.At.Equal(at) && c.Expected.Value > p.Expected.Value {
		p.Expected, p.Details.AttributesAt = c.Expected, c.At
	}
}

// allocate gives a payment its owner. Money that was booked while the owner
// was unknown goes with it, once.
func (m *machine) allocate(owner string) Need {
	net := m.p.Net()
	m.p.Beneficiary = owner
	if !m.p.Captured.Known || net == 0 {
		return ""
	}
	return m.step(m.p.Status, Booking{KindAllocation, "payment", m.p.GatewayID, net})
}

// attempt is the register of the statuses before capture. It goes on while
// the payment is captured, because an undone receipt falls back to it.
func (m *machine) attempt(f Fact) Need {
	p := &m.p
	if rank(f.Status) < 0 {
		return NeedLegalMove
	}
	held := p.Status
	if p.Captured.Known {
		held = p.Details.Attempt
	}
	moved := held == StatusNone || laterOrFurther(f.At, p.StatusAt, rank(f.Status), rank(held))
	tie := !moved && held != f.Status && !f.At.Before(p.StatusAt)
	unproven := tie || f.At.IsZero() || p.StatusAt.IsZero()
	if moved || held == f.Status && f.At.After(p.StatusAt) {
		p.StatusAt = f.At
	}
	if !p.Captured.Known {
		switch {
		case held == f.Status:
			return ""
		case moved:
			return m.step(f.Status)
		}
		m.stale, m.doubt = true, m.doubt || unproven
		return ""
	}
	if moved {
		p.Details.Attempt = f.Status
	}
	if u := m.activeUndo(); u != nil {
		if need := m.step(m.status()); need != "" {
			return need
		}
		unproven = tie || f.At.IsZero() || !f.At.Before(u.At)
	} else {
		unproven = f.At.IsZero() || f.At.After(p.lastPaid())
	}
	if p.Status != f.Status {
		m.stale, m.doubt = true, m.doubt || unproven
	}
	return ""
}

// laterOrFurther is the one rule for registers: the later time wins; at equal
// times, the higher rank.
func laterOrFurther(at, held time.Time, rank, heldRank int) bool {
	if !at.Equal(held) {
		return at.After(held)
	}
	return rank > heldRank
}

// rest is what was captured and has not gone back. Both sums are bounded by
// money.Add; a difference that leaves 64 bits counts as far below zero.
func (m *machine) rest() int64 {
	left, err := money.Add(m.p.Captured.Value-m.p.Refunded, -m.p.ChargedBack)
	if err != nil {
		return -1
	}
	return left
}

// status computes the status of a captured payment from its money.
func (m *machine) status() Status {
	p := &m.p
	lost, claimed := false, false
	for i := range p.Details.Disputes {
		switch d := &p.Details.Disputes[i]; d.State {
		case DisputeOpen:
			if !p.Details.RefundedAll || !p.Details.RefundedAllAt.After(d.At) {
				return StatusDisputed
			}
			// The gateway has closed the matter: nothing is left to dispute.
			lost = true
		case DisputeLost:
			lost = true
		case DisputeClaim:
			claimed = claimed || !p.Details.PaidLast.After(d.At) && p.Refunded < p.Captured.Value
		}
	}
	if claimed && !lost {
		return StatusDisputed
	}
	if lost {
		return StatusChargedBack
	}
	if u := m.activeUndo(); u != nil {
		if p.Details.Attempt != StatusNone && p.StatusAt.After(u.At) {
			return p.Details.Attempt
		}
		return StatusPending
	}
	switch {
	case p.Refunded >= p.Captured.Value:
		return StatusRefunded
	case p.Refunded > 0:
		return StatusPartiallyRefunded
	}
	return StatusPaid
}

// step records one move, if the table knows it and no more has gone out than
// came in.
func (m *machine) step(to Status, bookings ...Booking) Need {
	p := &m.p
	from := p.Status
	if from == to && len(bookings) == 0 {
		return ""
	}
	if p.Captured.Known && m.rest() < 0 {
		return NeedWithinCaptured
	}
	move, ok := legal[pair{from, to}]
	if !ok {
		return NeedLegalMove
	}
	for _, b := range bookings {
		if !slices.Contains(move.Books, b.Kind) {
			return NeedLegalMove
		}
	}
	p.Status = to
	p.Version++
	m.steps = append(m.steps, Transition{
		Seq: p.Version, From: from, To: to, Reason: m.c.Reason, Bookings: bookings,
		Beneficiary: p.Beneficiary, Currency: p.Currency, State: p.clone(),
	})
	return ""
}
