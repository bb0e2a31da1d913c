package payment

import "time"

// NeedAgreement: the lookup contradicts the event. Gateways' read replicas
// lag, so this is asked again, and settled for the lookup only at a limit.
const NeedAgreement Need = "contradicted_by_lookup"

// Snapshot is a lookup answer: what the gateway said, and the database's
// clock when the question was asked.
type Snapshot struct {
	Claim      Claim
	ObservedAt time.Time
}

// Policy is how far a source's bodies are believed.
type Policy struct {
	// TrustBody: the gateway authenticates its bodies, so their facts may
	// move money. Without it only snapshots change anything, and an event is
	// no more than the reason to ask.
	TrustBody bool
	// Lag bounds how far behind the gateway's read side may be: an event
	// older than this when the lookup began cannot be ahead of it.
	Lag time.Duration
	// Settle: the limit was reached; where event and snapshot contradict
	// each other, take the snapshot and drop the event.
	Settle bool
	// Owner is whose money it is by the application's own word; it outranks
	// what event and snapshot say, and needs no lookup. "" when it did not say.
	Owner string
}

// Resolution is that of the gateways' event times: they are cut to whole
// seconds, so an event may have happened up to this much after its time.
const Resolution = time.Second

// Resolve decides what an event changes, given the newest snapshot (or none).
// A snapshot that is older than what the payment has seen is left aside, and
// dropped reports it: the caller asks again when the event needs an answer.
//
// What a snapshot shows was true at some moment between ObservedAt-Lag and
// ObservedAt. It takes part in the registers with the early end, so that it
// never outranks an event that happened since; see Fact.holdAt for the facts
// that are kept with the late end. So a snapshot settles all that happened up
// to ObservedAt-Lag-Resolution.
func Resolve(p Payment, snap *Snapshot, ev Claim, pol Policy) (r Result, dropped bool) {
	if pol.Owner == "" || p.Beneficiary != "" {
		return resolve(p, snap, ev, pol)
	}
	owned := Apply(p, Claim{Reason: ev.Reason, Beneficiary: pol.Owner})
	r, dropped = resolve(owned.Payment, snap, ev, pol)
	if r.Need != "" {
		r.Payment = p
		return r, dropped
	}
	r.Transitions = append(owned.Transitions, r.Transitions...)
	return r, dropped
}

func resolve(p Payment, snap *Snapshot, ev Claim, pol Policy) (r Result, dropped bool) {
	if !pol.TrustBody {
		ev = bell(ev)
	}
	if snap != nil && snap.ObservedAt.Before(p.ObservedAt) {
		snap, dropped = nil, true
	}
	if snap == nil {
		r = Apply(p, ev)
		if pol.TrustBody {
			return r, dropped
		}
		if r.Need != "" || r.Applied() || r.Doubt {
			return Result{Payment: p, Need: NeedAgreement}, dropped
		}
		return Result{Payment: p, Stale: r.Stale}, dropped
	}
	seen := snap.Claim
	seen.At, seen.until = snap.ObservedAt.Add(-pol.Lag-Resolution), snap.ObservedAt
	first := Apply(p, seen)
	if first.Need != "" {
		return first, false
	}
	first.Payment.ObservedAt = snap.ObservedAt
	// "Unpaid" disagrees with a capture unless the answer itself took it back.
	kept := p.Captured.Known && rank(first.Payment.Status) < 0
	first.Disagrees = first.Disagrees || first.Doubt && kept && unpaid(&seen)
	if first.withheld && !pol.Settle {
		return Result{Payment: p, Need: NeedAgreement}, false
	}
	first.Stale, first.Doubt = false, false // the snapshot is the judge, not the judged
	return judge(p, first, &seen, ev, pol), false
}

// judge applies the event on top of the snapshot, unless the two contradict
// each other.
func judge(p Payment, first Result, seen *Claim, ev Claim, pol Policy) Result {
	ev.Facts = unanswered(&p, &ev, seen, pol)
	second := Apply(first.Payment, ev)
	contradicted := false
	switch {
	case second.Need != "":
		if pol.TrustBody && !answerable(second.Need) {
			return Result{Payment: p, Need: second.Need}
		}
		contradicted = true
	case second.withheld:
		contradicted = true
	case !second.Applied():
		first.Stale, first.Disagrees = second.Stale, first.Disagrees || second.Disagrees
		if pol.TrustBody {
			first.Payment = second.Payment
		}
		return first
	case !pol.TrustBody:
		contradicted = true
	default:
		contradicted = contradicts(&first.Payment, &second, &ev, seen)
	}
	switch {
	case contradicted && pol.Settle:
		first.Stale = true
		return first
	case contradicted:
		return Result{Payment: p, Need: NeedAgreement}
	}
	second.Transitions = append(first.Transitions, second.Transitions...)
	second.Stale, second.Disagrees = false, second.Disagrees || first.Disagrees && second.Payment.Status == first.Payment.Status
	return second
}

// bell keeps of an unauthenticated event only what can raise a question. Its
// amounts, currency, owner and reference are nobody's word: an owner taken
// from a forged body would receive the money that a snapshot credits later.
func bell(ev Claim) Claim {
	facts := make([]Fact, 0, len(ev.Facts))
	for _, f := range ev.Facts {
		if f.Kind != FactFee {
			facts = append(facts, f)
		}
	}
	return Claim{At: ev.At, Reason: ev.Reason, Facts: facts}
}

// unanswered leaves out of an event what the snapshot answers: the opening of
// a dispute that the gateway calls won or lost by now. The appeal of a dispute
// that we already held as lost is no such thing.
// A refund that succeeded and has failed since is booked there and back where
// bodies are trusted; where they are not, the snapshot has the only word.
func unanswered(held *Payment, ev, seen *Claim, pol Policy) []Fact {
	left := make([]Fact, 0, len(ev.Facts))
	for _, f := range ev.Facts {
		if !(f.Kind == FactDispute && (disputeAnswered(held, &f, seen) || !pol.TrustBody && renamed(&f, seen)) ||
			f.Kind == FactRefund && !pol.TrustBody && (refundAnswered(&f, seen) || renamed(&f, seen))) {
			left = append(left, f)
		}
	}
	return left
}

func refundAnswered(f *Fact, seen *Claim) bool {
	for _, s := range seen.Facts {
		if s.Kind == FactRefund && s.ID == f.ID && refundRank(s.Refund) >= refundRank(f.Refund) {
			return true
		}
	}
	return false
}

// renamed says whether the snapshot knows what a refund or a dispute gave back
// under the same id as the other of the two.
func renamed(f *Fact, seen *Claim) bool {
	for _, s := range seen.Facts {
		if f.OneSum && s.ID == f.ID && (s.Kind == FactRefund || s.Kind == FactDispute) && s.Kind != f.Kind {
			return true
		}
	}
	return false
}

func disputeAnswered(held *Payment, f *Fact, seen *Claim) bool {
	for _, s := range seen.Facts {
		if s.Kind != FactDispute || s.ID != f.ID || s.Dispute == f.Dispute {
			continue
		}
		if disputeRank(s.Dispute) < disputeRank(f.Dispute) {
			return false
		}
		for _, d := range held.Details.Disputes {
			if d.ID == f.ID && d.State == s.Dispute {
				return false
			}
		}
		return true
	}
	return false
}

// answerable needs are questions that the lookup should have answered.
func answerable(n Need) bool {
	switch n {
	case NeedCapturedAmount, NeedRefundIDs, NeedDisputeAmount, NeedCurrency, NeedRefundAmount, NeedFeeAmount, NeedPaidAgain:
		return true
	}
	return false
}

// contradicts says whether the event did something that the snapshot should
// have shown, had it been true when the gateway was asked.
func contradicts(first *Payment, second *Result, ev, seen *Claim) bool {
	if onlyAttempts(second.Transitions) {
		return statesStatus(seen) && !agrees(second.Payment.Status, seen)
	}
	return moneyUnseen(second, seen) || disputeUnseen(first, second, ev, seen)
}

// moneyUnseen looks at what moved, reference by reference. A fee, a new owner,
// both halves of a refund that failed in the end, a receipt and its undoing
// where the gateway says unpaid: none of them contradicts a snapshot.
func moneyUnseen(second *Result, seen *Claim) bool {
	type reference struct{ kind, id string }
	var received int64
	gone := map[reference]int64{}
	for _, t := range second.Transitions {
		for _, b := range t.Bookings {
			ref := reference{b.RefType, b.RefID}
			undo := b.RefType == "refund" && undone(&second.Payment, b.RefID)
			switch {
			case b.Kind == KindCapture, b.Kind == KindRefundReversal && undo:
				received += b.Amount
			case b.Kind == KindRefund && undo:
				received -= b.Amount
			case b.Kind == KindRefund, b.Kind == KindChargeback:
				gone[ref] += b.Amount
			case b.Kind == KindRefundReversal, b.Kind == KindChargebackReversal:
				gone[ref] -= b.Amount
			}
		}
	}
	for _, sum := range gone {
		if sum != 0 {
			return true
		}
	}
	return received != 0 && (received > 0) != agrees(StatusPaid, seen)
}

func undone(p *Payment, id string) bool {
	for i := range p.Details.Refunds {
		if r := &p.Details.Refunds[i]; r.ID == id {
			return r.Undo
		}
	}
	return false
}

// disputeUnseen says whether the event moved a dispute away from where the
// snapshot shows it.
func disputeUnseen(first *Payment, second *Result, ev, seen *Claim) bool {
	state := func(p *Payment, id string) DisputeState {
		for _, d := range p.Details.Disputes {
			if d.ID == id {
				return d.State
			}
		}
		return ""
	}
	for _, f := range ev.Facts {
		for _, s := range seen.Facts {
			if f.Kind == FactDispute && s.Kind == FactDispute && s.ID == f.ID && s.Dispute != f.Dispute &&
				state(first, f.ID) != state(&second.Payment, f.ID) {
				return true
			}
		}
	}
	return false
}

// agrees says whether a claim states that status.
func agrees(s Status, c *Claim) bool {
	for _, f := range c.Facts {
		if f.Kind == FactStatus && (f.Status == s || f.Otherwise == s) {
			return true
		}
	}
	return false
}

// statesStatus says whether a claim says anything of the status.
func statesStatus(c *Claim) bool {
	for _, f := range c.Facts {
		if f.Kind == FactStatus {
			return true
		}
	}
	return false
}

// unpaid says whether a claim states a status before capture.
func unpaid(c *Claim) bool {
	for _, f := range c.Facts {
		if f.Kind == FactStatus && (rank(f.Status) >= 0 || f.Otherwise != "") {
			return true
		}
	}
	return false
}

func onlyAttempts(ts []Transition) bool {
	for _, t := range ts {
		if len(t.Bookings) > 0 || rank(t.To) < 0 {
			return false
		}
	}
	return len(ts) > 0
}
