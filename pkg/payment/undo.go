package payment

import "time"

// activeUndo is the undone receipt that still stands, or nil.
func (m *machine) activeUndo() *Refund {
	for i := range m.p.Details.Refunds {
		if r := &m.p.Details.Refunds[i]; r.Undo && r.State == RefundSucceeded {
			return r
		}
	}
	return nil
}

// undo takes the receipt itself back; the charge is open again. Only the
// newest undo can stand, and only until the payer pays again: the others were
// followed by a receipt, known or not, that took them back.
func (m *machine) undo(f Fact) Need {
	if f.ID == "" {
		return NeedID
	}
	if held := m.findRefund(f.ID); held != nil {
		if !held.Undo {
			return NeedAmountMatch // the id is a refund's, which is not undone
		}
		held.At = earliest(held.At, f.At)
		if held.State == RefundSucceeded && m.p.Details.PaidLast.After(held.At) {
			return m.reverse(held)
		}
		return m.step(m.status())
	}
	if need := m.captured(f.At); need != "" {
		return need
	}
	r := Refund{ID: f.ID, Amount: m.p.Captured.Value, State: RefundSucceeded, Undo: true, At: f.At}
	if m.p.Details.PaidLast.After(f.At) || m.laterUndo(&r) {
		return m.bookBoth(m.addRefund(r)) // all of it came back, whatever left since
	}
	if m.wentOutSince(f.At) {
		return NeedPaidAgain
	}
	active := m.activeUndo()
	r.Amount = m.rest()
	if active != nil {
		r.Amount += active.Amount
	}
	if r.Amount <= 0 {
		return NeedPaidAgain
	}
	if active != nil {
		if need := m.reverse(active); need != "" {
			return need
		}
	}
	added := m.addRefund(r)
	m.p.Refunded += r.Amount // at most what was captured
	added.Booked = true
	if need := m.step(StatusPending, Booking{KindRefund, "refund", r.ID, r.Amount}); need != "" {
		return need
	}
	return m.step(m.status())
}

func (m *machine) laterUndo(r *Refund) bool {
	for _, o := range m.p.Details.Refunds {
		if o.Undo && (o.At.After(r.At) || o.At.Equal(r.At) && o.ID > r.ID) {
			return true
		}
	}
	return false
}

// wentOutSince says whether money was refunded or disputed at or after a time:
// then it must have been received again after an undo of that time.
func (m *machine) wentOutSince(at time.Time) bool {
	for _, r := range m.p.Details.Refunds {
		if !r.Undo && r.Booked && r.State == RefundSucceeded && !r.At.Before(at) {
			return true
		}
	}
	for _, d := range m.p.Details.Disputes {
		if d.Booked && !d.Reversed && !d.At.Before(at) {
			return true
		}
	}
	return false
}
