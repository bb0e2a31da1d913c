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
	// move money. Without it only snapshots do.
	TrustBody bool
	// Lag bounds how far behind the gateway's read side may be: an event
	// older than this when the lookup began cannot be ahead of it.
	Lag time.Duration
	// Settle: the limit was reached; take the snapshot, drop the rest.
	Settle bool
}

// Resolve decides what an event changes, given the newest snapshot (or none).
// A snapshot that is older than what the payment has seen is left aside, and
// dropped reports it: the caller asks again when the event needs an answer.
func Resolve(p Payment, snap *Snapshot, ev Claim, pol Policy) (r Result, dropped bool) {
	if snap != nil && snap.ObservedAt.Before(p.ObservedAt) {
		snap, dropped = nil, true
	}
	if snap == nil {
		r = Apply(p, ev)
		if !pol.TrustBody && r.Need == "" && (r.Applied() || r.Doubt) {
			// Only a lookup may move this source's money.
			return Result{Payment: p, Need: NeedAgreement}, dropped
		}
		return r, dropped
	}
	seen := snap.Claim
	// What the read side shows may be as old as its lag: it must not outrank
	// an event that happened since. Money is known by reference, not by time.
	seen.At = snap.ObservedAt.Add(-pol.Lag)
	first := Apply(p, seen)
	if first.Need != "" {
		return first, false
	}
	first.Payment.ObservedAt = snap.ObservedAt
	first.Stale, first.Doubt = false, false // the snapshot is the judge, not the judged
	ev.Facts = unanswered(ev.Facts, snap.Claim.Facts)
	second := Apply(first.Payment, ev)
	switch {
	case second.Need == "" && !second.Applied():
		first.Stale = second.Stale
		first.Payment = second.Payment
		return first, false
	case pol.Settle:
		first.Stale = true
		return first, false
	case answerable(second.Need):
		return Result{Payment: p, Need: NeedAgreement}, false
	case second.Need != "":
		return Result{Payment: p, Need: second.Need}, false
	case onlyAttempts(second.Transitions) && !agrees(second.Payment.Status, snap.Claim):
		if !ev.At.IsZero() && ev.At.Before(seen.At) {
			first.Stale = true
			return first, false
		}
		return Result{Payment: p, Need: NeedAgreement}, false
	case !pol.TrustBody && !onlyAttempts(second.Transitions), ahead(second.Transitions, ev, snap.Claim):
		return Result{Payment: p, Need: NeedAgreement}, false
	}
	second.Transitions = append(first.Transitions, second.Transitions...)
	return second, false
}

// unanswered leaves out what the snapshot already shows to be as far or
// further on: a dispute's opening once the gateway calls it won.
func unanswered(facts, seen []Fact) []Fact {
	var left []Fact
	for _, f := range facts {
		covered := false
		for _, s := range seen {
			covered = covered || f.Kind == FactDispute && s.Kind == FactDispute && s.ID == f.ID &&
				disputeRank(s.Dispute) >= disputeRank(f.Dispute)
		}
		if !covered {
			left = append(left, f)
		}
	}
	return left
}

// answerable needs are questions that the lookup should have answered.
func answerable(n Need) bool {
	return n == NeedCapturedAmount || n == NeedRefundIDs || n == NeedDisputeAmount || n == NeedCurrency
}

// ahead says whether the event moves money that the snapshot should have
// shown. A fee, an undone receipt of a payment that the gateway calls unpaid,
// and both halves of a refund that failed in the end are no contradiction.
func ahead(ts []Transition, ev, seen Claim) bool {
	sum := map[Kind]int64{}
	for _, t := range ts {
		for _, b := range t.Bookings {
			sum[b.Kind] += b.Amount
		}
	}
	if sum[KindCapture] != 0 || sum[KindChargeback] != sum[KindChargebackReversal] {
		return true
	}
	if sum[KindRefund] == sum[KindRefundReversal] {
		return false
	}
	undo := false
	for _, f := range ev.Facts {
		undo = undo || f.Kind == FactUndo
	}
	return !undo || agrees(StatusPaid, seen)
}

// agrees says whether a claim states that status.
func agrees(s Status, c Claim) bool {
	for _, f := range c.Facts {
		if f.Kind == FactStatus && f.Status == s {
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
