package payment

import (
	"strconv"
	"time"

	"github.com/umavez/umavez/pkg/money"
)

// NeedLegalMove is a defect of ours, not of the gateway: the computed move is
// not in the table. The event is set aside for a person.
const NeedLegalMove Need = "illegal_move"

// Apply decides what a claim changes. It is pure: the same state and claim
// give the same result. When Result.Need is set, nothing is to be changed.
func Apply(p Payment, c Claim) Result {
	m := machine{p: p.clone(), c: c}
	if need := m.run(); need != "" {
		return Result{Payment: p, Need: need}
	}
	return Result{Payment: m.p, Transitions: m.steps, Stale: m.stale, Doubt: m.doubt}
}

type machine struct {
	p            Payment
	c            Claim
	steps        []Transition
	stale, doubt bool
}

// order is the order in which the facts of one claim are applied: money comes
// in before it goes out.
var order = []FactKind{FactStatus, FactRefund, FactRefundTotal, FactDispute, FactFee, FactUndo}

func (m *machine) run() Need {
	if need := m.attributes(); need != "" {
		return need
	}
	for _, kind := range order {
		for _, f := range m.c.Facts {
			if f.Kind != kind {
				continue
			}
			if f.At.IsZero() {
				f.At = m.c.At
			}
			if need := m.fact(f); need != "" {
				return need
			}
		}
	}
	if m.p.Captured.Known && (m.p.Refunded+m.p.ChargedBack > m.p.Captured.Value) {
		return NeedWithinCaptured
	}
	return ""
}

func (m *machine) fact(f Fact) Need {
	switch f.Kind {
	case FactStatus:
		switch f.Status {
		case StatusPaid:
			return m.capture(f.At)
		case StatusRefunded:
			return m.refundRest(f)
		case StatusDisputed:
			return m.dispute(Fact{Kind: FactDispute, ID: m.p.GatewayID, Dispute: DisputeOpen, At: f.At})
		case StatusChargedBack:
			return m.dispute(Fact{Kind: FactDispute, ID: m.p.GatewayID, Dispute: DisputeLost, At: f.At})
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

// attributes fills what is not money. A field that we hold is never emptied.
func (m *machine) attributes() Need {
	p, c := &m.p, &m.c
	if c.Currency != "" {
		if p.Currency == "" {
			p.Currency = c.Currency
		} else if p.Currency != c.Currency {
			return NeedCurrencyMatch
		}
	}
	if c.Expected.Known && c.Expected.Value < 0 || c.Captured.Known && c.Captured.Value <= 0 {
		return NeedRange
	}
	if p.Reference == "" {
		p.Reference = c.Reference
	}
	if c.Expected.Known && !p.Registered && !p.Captured.Known &&
		(!p.Expected.Known || !c.At.Before(p.Details.AttributesAt)) {
		p.Expected, p.Details.AttributesAt = c.Expected, c.At
	}
	if p.Captured.Known && c.Captured.Known && p.Captured.Value != c.Captured.Value {
		return NeedAmountMatch
	}
	if p.Beneficiary == "" && c.Beneficiary != "" {
		return m.allocate(c.Beneficiary)
	}
	return ""
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

// attempt is the register of the statuses before capture.
func (m *machine) attempt(f Fact) Need {
	p := &m.p
	if rank(f.Status) < 0 {
		return NeedLegalMove
	}
	if p.Captured.Known {
		if p.Status != f.Status {
			m.stale = true
			m.doubt = m.doubt || f.At.IsZero() || p.PaidAt.IsZero() || f.At.After(p.PaidAt)
		}
		return ""
	}
	switch {
	case p.Status == StatusNone:
		p.StatusAt = f.At
		return m.step(f.Status)
	case p.Status == f.Status:
		if f.At.After(p.StatusAt) {
			p.StatusAt = f.At
		}
		return ""
	case laterOrFurther(f.At, p.StatusAt, rank(f.Status), rank(p.Status)):
		p.StatusAt = f.At
		return m.step(f.Status)
	}
	m.stale = true
	m.doubt = m.doubt || f.At.IsZero() || p.StatusAt.IsZero()
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

// capture books the payment's money, once. After an undone receipt a later
// capture takes the undo back.
func (m *machine) capture(at time.Time) Need {
	p := &m.p
	if p.Captured.Known {
		if at.After(p.PaidAt) {
			p.PaidAt = at
		}
		for i := range p.Details.Refunds {
			r := &p.Details.Refunds[i]
			if r.Undo && r.State == RefundSucceeded && at.After(r.At) {
				return m.reverse(r)
			}
		}
		return ""
	}
	if !m.c.Captured.Known {
		return NeedCapturedAmount
	}
	if p.Currency == "" {
		return NeedCurrency
	}
	if p.Registered && p.Expected.Known && p.Expected.Value != m.c.Captured.Value {
		return NeedAmountMatch
	}
	p.Captured, p.PaidAt = m.c.Captured, at
	bookings := []Booking{{KindCapture, "payment", p.GatewayID, p.Captured.Value}}
	for _, f := range m.c.Facts {
		if f.Kind == FactFee {
			b, need := m.newFee(f)
			if need != "" {
				return need
			}
			bookings = append(bookings, b...)
		}
	}
	return m.step(StatusPaid, bookings...)
}

// captured walks through paid when a fact implies it.
func (m *machine) captured(at time.Time) Need {
	if m.p.Captured.Known {
		return ""
	}
	return m.capture(at)
}

func (m *machine) newFee(f Fact) ([]Booking, Need) {
	if !f.Amount.Known || f.Amount.Value < 0 {
		return nil, NeedRange
	}
	for _, held := range m.p.Details.Fees {
		if held.ID == f.ID {
			m.stale = m.stale || held.Amount != f.Amount.Value
			return nil, ""
		}
	}
	if f.Amount.Value == 0 {
		return nil, ""
	}
	sum, err := money.Add(m.p.Fee, f.Amount.Value)
	if err != nil {
		return nil, NeedRange
	}
	m.p.Fee = sum
	m.p.Details.Fees = append(m.p.Details.Fees, Fee{ID: f.ID, Amount: f.Amount.Value})
	return []Booking{{KindFee, "fee", f.ID, f.Amount.Value}}, ""
}

func (m *machine) fee(f Fact) Need {
	if need := m.captured(f.At); need != "" {
		return need
	}
	b, need := m.newFee(f)
	if need != "" || len(b) == 0 {
		return need
	}
	return m.step(m.p.Status, b...)
}

func (m *machine) findRefund(id string) *Refund {
	for i := range m.p.Details.Refunds {
		if m.p.Details.Refunds[i].ID == id {
			return &m.p.Details.Refunds[i]
		}
	}
	return nil
}

func (m *machine) refund(f Fact) Need {
	if f.ID == "" || !f.Amount.Known || f.Amount.Value <= 0 {
		return NeedRange
	}
	held := m.findRefund(f.ID)
	if held != nil && held.Amount != f.Amount.Value {
		return NeedAmountMatch
	}
	if f.Refund == RefundSucceeded {
		if need := m.captured(f.At); need != "" {
			return need
		}
	}
	if held == nil {
		m.p.Details.Refunds = append(m.p.Details.Refunds, Refund{ID: f.ID, Amount: f.Amount.Value, State: RefundPending, At: f.At})
		held = &m.p.Details.Refunds[len(m.p.Details.Refunds)-1]
	}
	switch {
	case f.Refund == RefundSucceeded && held.State == RefundPending:
		held.State = RefundSucceeded
		if m.coveredByTotal(held.Amount) {
			m.stale = true
			return ""
		}
		return m.book(held)
	case f.Refund == RefundSucceeded && held.State == RefundFailed && !held.Booked:
		// The failure overtook the success: both were real, so both are booked.
		held.State = RefundSucceeded
		if need := m.book(held); need != "" {
			return need
		}
		return m.reverse(held)
	case f.Refund == RefundFailed && held.State == RefundPending:
		held.State = RefundFailed
		return ""
	case f.Refund == RefundFailed && held.State == RefundSucceeded:
		if !held.Booked {
			held.State = RefundFailed
			return ""
		}
		return m.reverse(held)
	}
	if held.State != f.Refund {
		m.stale = true
	}
	return ""
}

// coveredByTotal says whether a refund that now comes by id was booked before
// as part of a total, when its gateway had not named it.
func (m *machine) coveredByTotal(amount int64) bool {
	if m.p.Refunded+m.p.ChargedBack+amount <= m.p.Captured.Value {
		return false
	}
	for _, r := range m.p.Details.Refunds {
		if r.Booked && isTotal(r.ID) {
			return true
		}
	}
	return false
}

func (m *machine) book(r *Refund) Need {
	sum, err := money.Add(m.p.Refunded, r.Amount)
	if err != nil {
		return NeedRange
	}
	m.p.Refunded, r.Booked = sum, true
	return m.step(m.status(), Booking{KindRefund, "refund", r.ID, r.Amount})
}

func (m *machine) reverse(r *Refund) Need {
	r.State = RefundFailed
	m.p.Refunded -= r.Amount
	return m.step(m.status(), Booking{KindRefundReversal, "refund", r.ID, r.Amount})
}

const totalPrefix = "total:"

func isTotal(id string) bool {
	return len(id) > len(totalPrefix) && id[:len(totalPrefix)] == totalPrefix
}

// refundTotal books the increase of a cumulative total over what is booked.
func (m *machine) refundTotal(f Fact) Need {
	if !f.Amount.Known || f.Amount.Value < 0 {
		return NeedRange
	}
	var known int64
	for _, r := range m.p.Details.Refunds {
		if !r.Undo && r.State != RefundPending {
			known += r.Amount
		}
	}
	if f.Amount.Value <= known {
		return ""
	}
	if f.ByID {
		return NeedRefundIDs
	}
	if need := m.captured(f.At); need != "" {
		return need
	}
	return m.bookTotal(f.Amount.Value, f.Amount.Value-known, f.At)
}

// refundRest is "refunded" without amounts: all that is left.
func (m *machine) refundRest(f Fact) Need {
	if need := m.captured(f.At); need != "" {
		return need
	}
	rest := m.p.Captured.Value - m.p.Refunded - m.p.ChargedBack
	if rest <= 0 {
		return ""
	}
	return m.bookTotal(m.p.Captured.Value, rest, f.At)
}

func (m *machine) bookTotal(total, increase int64, at time.Time) Need {
	id := totalPrefix + m.p.GatewayID + ":" + strconv.FormatInt(total, 10)
	if m.findRefund(id) != nil {
		m.stale = true
		return ""
	}
	m.p.Details.Refunds = append(m.p.Details.Refunds, Refund{ID: id, Amount: increase, State: RefundSucceeded, At: at})
	return m.book(&m.p.Details.Refunds[len(m.p.Details.Refunds)-1])
}

// undo takes the receipt itself back; the charge is open again.
func (m *machine) undo(f Fact) Need {
	if f.ID == "" {
		return NeedRange
	}
	if m.findRefund(f.ID) != nil {
		return ""
	}
	if need := m.captured(f.At); need != "" {
		return need
	}
	amount := m.p.Captured.Value - m.p.Refunded - m.p.ChargedBack
	if amount <= 0 {
		m.stale = true
		return ""
	}
	m.p.Details.Refunds = append(m.p.Details.Refunds, Refund{ID: f.ID, Amount: amount, State: RefundSucceeded, Undo: true, At: f.At})
	r := &m.p.Details.Refunds[len(m.p.Details.Refunds)-1]
	if need := m.book(r); need != "" {
		return need
	}
	if m.p.PaidAt.After(f.At) { // paid again since; the undo arrived late
		return m.reverse(r)
	}
	return ""
}

func (m *machine) dispute(f Fact) Need {
	p := &m.p
	if f.ID == "" || f.Amount.Known && f.Amount.Value < 0 {
		return NeedRange
	}
	var held *Dispute
	for i := range p.Details.Disputes {
		if p.Details.Disputes[i].ID == f.ID {
			held = &p.Details.Disputes[i]
		}
	}
	if f.Dispute == DisputeInquiry {
		if held == nil {
			p.Details.Disputes = append(p.Details.Disputes, Dispute{ID: f.ID, Amount: f.Amount.Value, State: DisputeInquiry, At: f.At})
		} else if held.State != DisputeInquiry {
			m.stale = true
		}
		return ""
	}
	if held == nil || held.State == DisputeInquiry {
		return m.openDispute(held, f)
	}
	switch {
	case held.State == f.Dispute:
		if f.At.After(held.At) {
			held.At = f.At
		}
		return ""
	case held.State == DisputeWon && f.At.After(held.At):
		return NeedDisputeReopened
	case !laterOrFurther(f.At, held.At, disputeRank(f.Dispute), disputeRank(held.State)):
		m.stale = true
		return ""
	}
	return m.moveDispute(held, f)
}

// openDispute books the withdrawal, then walks on to where the dispute stands.
func (m *machine) openDispute(held *Dispute, f Fact) Need {
	p := &m.p
	if need := m.captured(f.At); need != "" {
		return need
	}
	amount := f.Amount.Value
	if !f.Amount.Known {
		amount = p.Captured.Value - p.Refunded - p.ChargedBack
	}
	if amount <= 0 {
		return NeedDisputeAmount
	}
	if held == nil {
		p.Details.Disputes = append(p.Details.Disputes, Dispute{ID: f.ID})
		held = &p.Details.Disputes[len(p.Details.Disputes)-1]
	}
	held.Amount, held.State, held.Booked, held.At = amount, DisputeOpen, true, f.At
	sum, err := money.Add(p.ChargedBack, amount)
	if err != nil {
		return NeedRange
	}
	p.ChargedBack = sum
	if need := m.step(m.status(), Booking{KindChargeback, "dispute", held.ID, amount}); need != "" {
		return need
	}
	if f.Dispute == DisputeOpen {
		return ""
	}
	return m.moveDispute(held, f)
}

func (m *machine) moveDispute(held *Dispute, f Fact) Need {
	if held.State == DisputeLost && f.Dispute == DisputeWon {
		held.State = DisputeOpen // the appeal that we were not told of
		if need := m.step(m.status()); need != "" {
			return need
		}
	}
	held.State, held.At = f.Dispute, f.At
	if f.Dispute != DisputeWon {
		return m.step(m.status())
	}
	held.Reversed = true
	m.p.ChargedBack -= held.Amount
	return m.step(m.status(), Booking{KindChargebackReversal, "dispute", held.ID, held.Amount})
}

// status computes the status of a captured payment from its money.
func (m *machine) status() Status {
	p := &m.p
	lost := false
	for _, d := range p.Details.Disputes {
		switch d.State {
		case DisputeOpen:
			return StatusDisputed
		case DisputeLost:
			lost = true
		}
	}
	if lost {
		return StatusChargedBack
	}
	for _, r := range p.Details.Refunds {
		if r.Undo && r.State == RefundSucceeded {
			return StatusPending
		}
	}
	switch {
	case p.Refunded >= p.Captured.Value:
		return StatusRefunded
	case p.Refunded > 0:
		return StatusPartiallyRefunded
	}
	return StatusPaid
}

// step records one move, if the table knows it.
func (m *machine) step(to Status, bookings ...Booking) Need {
	p := &m.p
	from := p.Status
	if from == to && len(bookings) == 0 {
		return ""
	}
	if !Legal(from, to) {
		return NeedLegalMove
	}
	for _, b := range bookings {
		if !mayBook(from, to, b.Kind) {
			return NeedLegalMove
		}
	}
	p.Status = to
	p.Version++
	m.steps = append(m.steps, Transition{
		Seq: p.Version, From: from, To: to, Reason: m.c.Reason, Bookings: bookings,
		Beneficiary: p.Beneficiary, Currency: p.Currency, State: *p,
	})
	return ""
}
