package payment

import (
	"strconv"
	"strings"
	"time"

	"github.com/umavez/umavez/pkg/money"
)

func (m *machine) findRefund(id string) *Refund {
	for i := range m.p.Details.Refunds {
		if m.p.Details.Refunds[i].ID == id {
			return &m.p.Details.Refunds[i]
		}
	}
	return nil
}

func (m *machine) addRefund(r Refund) *Refund {
	m.p.Details.Refunds = append(m.p.Details.Refunds, r)
	return &m.p.Details.Refunds[len(m.p.Details.Refunds)-1]
}

// refund takes one refund by its id. Its state only grows: pending, succeeded,
// failed. One that failed after it had succeeded is booked there and back,
// whichever of the two facts comes first.
func (m *machine) refund(f Fact) Need {
	switch {
	case f.ID == "":
		return NeedID
	case !f.Amount.Known:
		return NeedRefundAmount
	case f.Amount.Value <= 0:
		return NeedRange
	}
	held := m.findRefund(f.ID)
	if held != nil && (held.Amount != f.Amount.Value || held.Undo) {
		return NeedAmountMatch
	}
	if f.Refund == RefundSucceeded {
		if need := m.captured(f.At); need != "" {
			return need
		}
	}
	if d := m.findDispute(f.ID); f.OneSum && d != nil && d.Booked {
		m.stale, m.disagrees = true, true // the same sum by another name
		return ""
	}
	if held == nil {
		held = m.addRefund(Refund{ID: f.ID, Amount: f.Amount.Value, State: RefundPending, At: f.until})
	}
	held.At = earliest(held.At, f.until)
	switch {
	case f.Refund == RefundSucceeded && held.State == RefundPending:
		if m.activeUndo() != nil {
			return NeedPaidAgain
		}
		held.State = RefundSucceeded
		if m.unexplained() >= held.Amount {
			held.Covered = true
			m.stale = true
			return ""
		}
		return m.book(held)
	case f.Refund == RefundSucceeded && held.State == RefundFailed && !held.Booked && !held.Covered:
		return m.bookBoth(held) // the failure overtook the success
	case f.Refund == RefundFailed && held.State == RefundPending:
		held.State = RefundFailed
		return ""
	case f.Refund == RefundFailed && held.State == RefundSucceeded:
		return m.reverse(held)
	}
	if held.State != f.Refund {
		m.stale = true
	}
	return ""
}

// earliest of two times that may be unknown. Two events about one fact need
// not have been written in the same second; it happened by the first of them.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// unexplained is how much was booked from totals and has no refund's id yet.
// A refund that then comes by id is part of it, not new money.
func (m *machine) unexplained() int64 {
	var left int64
	for _, r := range m.p.Details.Refunds {
		switch {
		case r.Covered:
			left -= r.Amount
		case r.Booked && isTotal(r.ID):
			left += r.Amount
		}
	}
	return left
}

func (m *machine) book(r *Refund) Need {
	sum, err := money.Add(m.p.Refunded, r.Amount)
	if err != nil {
		return NeedRange
	}
	m.p.Refunded, r.Booked = sum, true
	b := Booking{KindRefund, "refund", r.ID, r.Amount}
	if m.p.Status != StatusDisputed {
		return m.step(m.status(), b)
	}
	// The refund itself does not end a dispute; "refunded" may, after it.
	if need := m.step(StatusDisputed, b); need != "" {
		return need
	}
	return m.step(m.status())
}

func (m *machine) reverse(r *Refund) Need {
	r.State = RefundFailed
	m.p.Refunded -= r.Amount
	return m.step(m.status(), Booking{KindRefundReversal, "refund", r.ID, r.Amount})
}

// bookBoth books a refund that is known to have been taken back: one move, so
// that no state on the way shows what is not true any more.
func (m *machine) bookBoth(r *Refund) Need {
	r.State, r.Booked = RefundFailed, true
	return m.step(m.p.Status,
		Booking{KindRefund, "refund", r.ID, r.Amount},
		Booking{KindRefundReversal, "refund", r.ID, r.Amount})
}

const totalPrefix = "total:"

func isTotal(id string) bool { return strings.HasPrefix(id, totalPrefix) }

// refundTotal books the increase of a cumulative total over what is booked.
// With ByID the ids are known, or will be, and only those are booked.
func (m *machine) refundTotal(f Fact) Need {
	switch {
	case !f.Amount.Known:
		return NeedRefundAmount
	case f.Amount.Value < 0:
		return NeedRange
	}
	var named, booked int64
	for _, r := range m.p.Details.Refunds {
		if r.Undo {
			continue
		}
		var err error
		if named, err = money.Add(named, r.Amount); err != nil {
			return NeedRange
		}
		if r.Booked {
			booked += r.Amount // at most named
		}
	}
	if f.ByID {
		// A total may count pending refunds, and failed ones for ever. All
		// that matters is that each has a name: its own events do the rest.
		if f.Amount.Value > named {
			return NeedRefundIDs
		}
		return ""
	}
	if f.Amount.Value <= booked {
		return ""
	}
	if need := m.captured(f.At); need != "" {
		return need
	}
	if m.activeUndo() != nil {
		return NeedPaidAgain
	}
	return m.bookTotal(f.Amount.Value, f.Amount.Value-booked, f.until)
}

// refundedAll is "refunded" without amounts: all that is left, now or, while
// a dispute holds it, as soon as that dispute is won.
func (m *machine) refundedAll(f Fact) Need {
	if need := m.captured(f.At); need != "" {
		return need
	}
	d := &m.p.Details
	if !d.RefundedAll || f.At.After(d.RefundedAllAt) {
		d.RefundedAll, d.RefundedAllAt = true, f.At
	}
	return m.refundRest()
}

// refundRest books what is left of a payment that the gateway calls refunded.
func (m *machine) refundRest() Need {
	d := &m.p.Details
	if rest := m.rest(); d.RefundedAll && rest > 0 {
		total, err := money.Add(m.p.Refunded, rest)
		if err != nil {
			return NeedRange
		}
		return m.bookTotal(total, rest, d.RefundedAllAt)
	}
	return m.step(m.status())
}

func (m *machine) bookTotal(total, increase int64, at time.Time) Need {
	id := totalPrefix + m.p.GatewayID + ":" + strconv.FormatInt(total, 10)
	if m.findRefund(id) != nil {
		m.stale = true
		return ""
	}
	return m.book(m.addRefund(Refund{ID: id, Amount: increase, State: RefundSucceeded, At: at}))
}
