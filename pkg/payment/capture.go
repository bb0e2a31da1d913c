package payment

import (
	"time"

	"github.com/umavez/umavez/pkg/money"
)

// paid takes the fact "the payer has paid": the first one books the money,
// and one that is later than an undone receipt takes that back.
func (m *machine) paid(at time.Time) Need {
	if need := m.captured(at); need != "" {
		return need
	}
	if !at.After(m.p.Details.PaidLast) {
		return ""
	}
	m.p.Details.PaidLast = at
	if u := m.activeUndo(); u != nil && at.After(u.At) {
		if need := m.reverse(u); need != "" {
			return need
		}
	}
	if need := m.winUnnamed(at); need != "" {
		return need
	}
	return m.step(m.status())
}

// captured walks through paid when a fact implies it: whatever takes money
// back at a time says that it had come in by then.
func (m *machine) captured(at time.Time) Need {
	p := &m.p
	if p.Captured.Known {
		p.PaidAt = earliest(p.PaidAt, at)
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
	p.Captured, p.PaidAt, p.Details.Attempt = m.c.Captured, at, p.Status
	bookings := make([]Booking, 1, 2)
	bookings[0] = Booking{KindCapture, "payment", p.GatewayID, p.Captured.Value}
	for i := range m.c.Facts {
		if m.c.Facts[i].Kind != FactFee {
			continue
		}
		b, fresh, need := m.newFee(&m.c.Facts[i])
		if need != "" {
			return need
		}
		if fresh {
			bookings = append(bookings, b)
		}
	}
	return m.step(StatusPaid, bookings...)
}

// newFee remembers a fee that is not known yet. A fee of zero is remembered
// too, and books nothing: an event that only names it has its answer then.
func (m *machine) newFee(f *Fact) (b Booking, fresh bool, need Need) {
	if f.ID == "" {
		return b, false, NeedID
	}
	for _, held := range m.p.Details.Fees {
		if held.ID == f.ID {
			// No gateway promises that its fee never changes, and a fee must
			// not hold up refunds: the first amount stands, and a person is told.
			if f.Amount.Known && held.Amount != f.Amount.Value {
				m.stale, m.disagrees = true, true
			}
			return b, false, ""
		}
	}
	switch {
	case !f.Amount.Known:
		return b, false, NeedFeeAmount
	case f.Amount.Value < 0:
		return b, false, NeedRange
	}
	sum, err := money.Add(m.p.Fee, f.Amount.Value)
	if err != nil {
		return b, false, NeedRange
	}
	m.p.Fee = sum
	m.p.Details.Fees = append(m.p.Details.Fees, Fee{ID: f.ID, Amount: f.Amount.Value})
	return Booking{KindFee, "fee", f.ID, f.Amount.Value}, f.Amount.Value > 0, ""
}

// fee books a fee; the fee of a payment that was not captured yet is booked
// together with the capture.
func (m *machine) fee(f Fact) Need {
	if need := m.captured(f.At); need != "" {
		return need
	}
	b, fresh, need := m.newFee(&f)
	if need != "" || !fresh {
		return need
	}
	return m.step(m.p.Status, b)
}
