package payment

import (
	"time"

	"github.com/umavez/umavez/pkg/money"
)

func (m *machine) findDispute(id string) *Dispute {
	for i := range m.p.Details.Disputes {
		if m.p.Details.Disputes[i].ID == id {
			return &m.p.Details.Disputes[i]
		}
	}
	return nil
}

func (m *machine) addDispute(d Dispute) *Dispute {
	m.p.Details.Disputes = append(m.p.Details.Disputes, d)
	return &m.p.Details.Disputes[len(m.p.Details.Disputes)-1]
}

// dispute takes one dispute by its id. Between open and lost the later time
// wins, since a lost dispute can be appealed. Won is the end: the gateway's
// references have no name for a second withdrawal under one dispute, so a won
// one that is open again waits for a person, in whichever order it is learnt.
func (m *machine) dispute(f Fact) Need {
	switch {
	case f.ID == "":
		return NeedID
	case f.Amount.Known && f.Amount.Value < 0:
		return NeedRange
	}
	held := m.findDispute(f.ID)
	if !f.Dispute.withdraws() {
		return m.inquire(held, f)
	}
	if r := m.findRefund(f.ID); f.OneSum && r != nil && r.Booked {
		m.stale, m.disagrees = true, true // the same sum by another name
		return ""
	}
	if held == nil || !held.State.withdraws() {
		return m.openDispute(held, f)
	}
	if f.Amount.Known && f.Amount.Value != held.Amount {
		return NeedAmountMatch
	}
	switch {
	case held.State == f.Dispute:
		held.At = latest(held.At, f.holdAt())
		return m.step(m.status())
	case held.State == DisputeWon && f.At.After(held.At),
		f.Dispute == DisputeWon && held.At.After(f.until):
		return NeedDisputeReopened
	case held.State == DisputeWon,
		f.Dispute != DisputeWon && !laterOrFurther(f.holdAt(), held.At, disputeRank(f.Dispute), disputeRank(held.State)):
		m.stale = true
		m.doubt = m.doubt || held.State != DisputeWon && (f.At.IsZero() || !f.At.Before(held.At))
		return ""
	}
	return m.moveDispute(held, f)
}

// withdraws says whether a dispute in this state has moved money.
func (s DisputeState) withdraws() bool { return s != DisputeInquiry && s != DisputeClaim }

// inquire takes a dispute of which no money has moved.
func (m *machine) inquire(held *Dispute, f Fact) Need {
	if f.Dispute == DisputeClaim {
		if need := m.captured(f.At); need != "" {
			return need
		}
	}
	switch {
	case held == nil:
		m.addDispute(Dispute{ID: f.ID, Amount: f.Amount.Value, State: f.Dispute, At: f.At})
	case held.State.withdraws():
		m.stale = true
		return ""
	case f.At.After(held.At):
		held.State, held.At = f.Dispute, f.At
	}
	if !m.p.Captured.Known {
		return ""
	}
	return m.step(m.status())
}

// holdAt is the time that a dispute keeps of a fact. What only a snapshot has
// shown may have happened up to the moment of asking; for the facts that give
// money back, or are taken back by a later "paid", the late end is the safe one.
func (f *Fact) holdAt() time.Time {
	if f.Dispute == DisputeWon || f.unnamed {
		return f.until
	}
	return f.At
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// openDispute books the withdrawal, then walks on to where the dispute stands.
func (m *machine) openDispute(held *Dispute, f Fact) Need {
	p := &m.p
	if need := m.captured(f.At); need != "" {
		return need
	}
	if m.activeUndo() != nil {
		return NeedPaidAgain
	}
	amount, rest := f.Amount.Value, m.rest()
	if !f.Amount.Known {
		amount = rest
	}
	if amount <= 0 {
		return NeedDisputeAmount
	}
	if amount > p.Captured.Value {
		return NeedWithinCaptured
	}
	if held == nil {
		held = m.addDispute(Dispute{ID: f.ID})
	}
	held.Amount, held.Booked, held.Unnamed, held.At = amount, true, f.unnamed, f.holdAt()
	over := f.Dispute == DisputeWon ||
		f.unnamed && f.Dispute == DisputeOpen && p.Details.PaidLast.After(f.holdAt()) // as winUnnamed would find
	if over && amount > rest {
		// Over before we heard of it, and its money has gone elsewhere since:
		// one move, so that no state on the way exceeds what was captured.
		held.State, held.Reversed = DisputeWon, true
		return m.step(p.Status,
			Booking{KindChargeback, "dispute", held.ID, amount},
			Booking{KindChargebackReversal, "dispute", held.ID, amount})
	}
	sum, err := money.Add(p.ChargedBack, amount)
	if err != nil {
		return NeedRange
	}
	p.ChargedBack, held.State = sum, DisputeOpen
	if need := m.step(StatusDisputed, Booking{KindChargeback, "dispute", held.ID, amount}); need != "" {
		return need
	}
	if f.Dispute == DisputeOpen {
		return m.step(m.status())
	}
	return m.moveDispute(held, f)
}

// moveDispute moves a dispute whose money was withdrawn to its next state.
func (m *machine) moveDispute(held *Dispute, f Fact) Need {
	held.At = f.holdAt()
	if f.Dispute != DisputeWon {
		held.State = f.Dispute
		return m.step(m.status())
	}
	if m.p.Status == StatusChargedBack { // an appeal that we were not told of
		if need := m.step(StatusDisputed); need != "" {
			return need
		}
	}
	held.State, held.Reversed = DisputeWon, true
	m.p.ChargedBack -= held.Amount
	b := Booking{KindChargebackReversal, "dispute", held.ID, held.Amount}
	if need := m.step(m.status(), b); need != "" {
		return need
	}
	return m.refundRest()
}

// unnamedDispute is "disputed" or "charged back" as a mere status, of gateways
// that name no dispute: it takes its amount, or without one what is left, under
// the payment's own id.
// Where the gateway has named one after all, the status says nothing new.
func (m *machine) unnamedDispute(f Fact, state DisputeState) Need {
	for _, d := range m.p.Details.Disputes {
		if !d.Unnamed && d.State.withdraws() && d.ID != m.p.GatewayID {
			return ""
		}
	}
	f = Fact{Kind: FactDispute, ID: m.p.GatewayID, Amount: f.Amount, Dispute: state, At: f.At, until: f.until, unnamed: true}
	if need := m.dispute(f); need != "" {
		return need
	}
	return m.winUnnamed(m.p.Details.PaidLast)
}

// winUnnamed: a gateway that only has statuses says that a dispute was won by
// saying "paid" after it had said "disputed".
func (m *machine) winUnnamed(paid time.Time) Need {
	d := m.findDispute(m.p.GatewayID)
	if d == nil || !d.Unnamed || d.State != DisputeOpen || !paid.After(d.At) {
		return ""
	}
	return m.moveDispute(d, Fact{Kind: FactDispute, ID: d.ID, Dispute: DisputeWon, At: paid, until: paid, unnamed: true})
}
