package payment

import (
	"testing"
	"time"
)

// A read side that lags may say "paid" just after the payment was canceled.
// The cancellation is then neither proven later nor earlier: its event has to
// wait until an answer tells, and is not settled as late for ever.
func TestACancellationWithinTheLagOfAnAnswerIsAskedAboutAgain(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	second := func(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }
	money := []Fact{{Kind: FactStatus, Status: StatusPaid}}
	saysPaid := Claim{GatewayID: "p1", Currency: "BRL", Captured: Of(1000), Facts: money}
	told := func(n int) Claim { c := saysPaid; c.At = second(n); return c }
	for _, trusts := range []bool{true, false} {
		pol := Policy{TrustBody: trusts, Lag: 10 * time.Second}
		for name, now := range map[string]Claim{"the answer still says paid": saysPaid, "the answer says canceled": gone(time.Time{})} {
			r, _ := Resolve(Payment{GatewayID: "p1"}, &Snapshot{Claim: saysPaid, ObservedAt: second(4)}, told(1), pol)
			held := r.Payment
			r, _ = Resolve(held, &Snapshot{Claim: now, ObservedAt: second(5)}, gone(second(3)), pol)
			if r.Need != NeedAgreement {
				t.Errorf("%s, trusts %v: needs %q, and is settled as %s", name, trusts, r.Need, r.Payment.Status)
			}
			r, _ = Resolve(held, &Snapshot{Claim: gone(time.Time{}), ObservedAt: second(40)}, gone(second(3)), pol)
			if r.Need != "" || r.Payment.Refunded != 1000 {
				t.Errorf("%s, trusts %v: needs %q, refunded %d after the lag", name, trusts, r.Need, r.Payment.Refunded)
			}
			r, _ = Resolve(held, &Snapshot{Claim: saysPaid, ObservedAt: second(40)}, gone(second(3)), pol)
			if r.Need != "" || r.Payment.Refunded != 0 {
				t.Errorf("%s, trusts %v: needs %q, refunded %d of what was paid after all", name, trusts, r.Need, r.Payment.Refunded)
			}
		}
	}
	// The other way: canceled is seen first, and then a server that lags says paid.
	pol := Policy{Lag: 10 * time.Second}
	r, _ := Resolve(Payment{GatewayID: "p1"}, &Snapshot{Claim: gone(time.Time{}), ObservedAt: second(5)}, gone(second(3)), pol)
	r, _ = Resolve(r.Payment, &Snapshot{Claim: saysPaid, ObservedAt: second(6)}, told(1), pol)
	if r.Need != NeedAgreement {
		t.Errorf("needs %q, and is settled as %s", r.Need, r.Payment.Status)
	}
}

// A gateway that only has statuses says "paid" when a dispute was won, and a
// server of it that lags says so too before it has heard of the dispute. An
// answer that cannot be told from the other is asked for again.
func TestADisputeWonWithinTheLagOfAnAnswerIsAskedAboutAgain(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	second := func(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }
	says := func(s Status) Claim {
		return Claim{GatewayID: "p1", Currency: "BRL", Captured: Of(1000), Facts: []Fact{{Kind: FactStatus, Status: s}}}
	}
	pol := Policy{Lag: 10 * time.Second}
	r, _ := Resolve(Payment{GatewayID: "p1"}, &Snapshot{Claim: says(StatusPaid), ObservedAt: second(4)}, says(StatusPaid), pol)
	r, _ = Resolve(r.Payment, &Snapshot{Claim: says(StatusDisputed), ObservedAt: second(100)}, says(StatusDisputed), pol)
	held := r.Payment
	if r.Need != "" || held.Status != StatusDisputed {
		t.Fatalf("needs %q, and is %s", r.Need, held.Status)
	}
	// A bare event that nobody believes: only the answer says anything.
	won := Claim{GatewayID: "p1", Reason: "dispute.succeeded", At: second(105)}
	if r, _ = Resolve(held, &Snapshot{Claim: says(StatusPaid), ObservedAt: second(105)}, won, pol); r.Need != NeedAgreement {
		t.Errorf("needs %q, and is settled as %s", r.Need, r.Payment.Status)
	}
	if r, _ = Resolve(held, &Snapshot{Claim: says(StatusPaid), ObservedAt: second(112)}, won, pol); r.Need != "" || r.Payment.Status != StatusPaid || r.Payment.ChargedBack != 0 {
		t.Errorf("after the lag it needs %q, and is %s", r.Need, r.Payment.Status)
	}
	if r, _ = Resolve(held, &Snapshot{Claim: says(StatusDisputed), ObservedAt: second(112)}, won, pol); r.Need != "" || r.Payment.Status != StatusDisputed {
		t.Errorf("where the server had lagged it needs %q, and is %s", r.Need, r.Payment.Status)
	}
}
