package payment

import (
	"testing"
	"time"
)

// gone is "canceled" of a gateway that says so of refunded payments too.
func gone(at time.Time) Claim {
	return Claim{GatewayID: "p1", Currency: "BRL", At: at, Facts: []Fact{{Kind: FactStatus, Status: StatusRefunded, Otherwise: StatusCanceled}}}
}

func TestOneWordForRefundedAndCanceledIsReadByWhatWeHold(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	paid := Claim{GatewayID: "p1", Currency: "BRL", Captured: Of(1000), At: at, Facts: []Fact{{Kind: FactStatus, Status: StatusPaid}}}
	held := Apply(Payment{GatewayID: "p1"}, paid).Payment
	for _, row := range []struct {
		name     string
		from     Payment
		claim    Claim
		want     Status
		refunded int64
	}{
		{"nothing is held", Payment{GatewayID: "p1"}, gone(at), StatusCanceled, 0},
		{"a capture is held", held, gone(at.Add(time.Hour)), StatusRefunded, 1000},
		{"told before the capture", held, gone(at.Add(-time.Hour)), StatusPaid, 0},
		{"told twice", Apply(held, gone(at.Add(time.Hour))).Payment, gone(at.Add(2 * time.Hour)), StatusRefunded, 1000},
		{"paid after it was canceled", Apply(Payment{GatewayID: "p1"}, gone(at.Add(-time.Hour))).Payment, paid, StatusPaid, 0},
	} {
		r := Apply(row.from, row.claim)
		if r.Need != "" || r.Payment.Status != row.want || r.Payment.Refunded != row.refunded {
			t.Errorf("%s: %s, refunded %d, need %q; want %s and %d", row.name, r.Payment.Status, r.Payment.Refunded, r.Need, row.want, row.refunded)
		}
	}
}

// A snapshot of servers that lag behind a payment made after the cancellation
// must not take it back.
func TestASnapshotThatMayBeOlderThanThePaymentTakesNothingBack(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	paid := Claim{GatewayID: "p1", Currency: "BRL", Captured: Of(1000), At: at, Facts: []Fact{{Kind: FactStatus, Status: StatusPaid}}}
	held := Apply(Payment{GatewayID: "p1"}, paid).Payment
	late := gone(time.Time{})
	r, _ := Resolve(held, &Snapshot{Claim: late, ObservedAt: at.Add(5 * time.Second)}, Claim{At: at, Reason: "again"}, Policy{TrustBody: true, Lag: 10 * time.Second})
	if r.Payment.Refunded != 0 || r.Payment.Status != StatusPaid {
		t.Errorf("%s, refunded %d; want paid and nothing", r.Payment.Status, r.Payment.Refunded)
	}
	seen := Apply(Payment{GatewayID: "p1"}, paid).Payment
	says := Claim{GatewayID: "p1", Currency: "BRL", Captured: Of(1000), Facts: paid.Facts}
	r, _ = Resolve(seen, &Snapshot{Claim: says, ObservedAt: at.Add(time.Minute)}, Claim{At: at}, Policy{TrustBody: true, Lag: 10 * time.Second})
	r, _ = Resolve(r.Payment, &Snapshot{Claim: late, ObservedAt: at.Add(time.Minute + 9*time.Second)}, Claim{At: at}, Policy{TrustBody: true, Lag: 10 * time.Second})
	if r.Payment.Refunded != 0 {
		t.Errorf("an answer that may be older than the one that said paid refunds %d", r.Payment.Refunded)
	}
	r, _ = Resolve(held, &Snapshot{Claim: late, ObservedAt: at.Add(time.Minute)}, Claim{At: at, Reason: "again"}, Policy{TrustBody: true, Lag: 10 * time.Second})
	if r.Payment.Refunded != 1000 || r.Payment.Status != StatusRefunded || r.Disagrees {
		t.Errorf("%s, refunded %d, disagrees %v; want refunded", r.Payment.Status, r.Payment.Refunded, r.Disagrees)
	}
}

// The cancellation may be heard of before the payment that it took back.
func TestWhatIsGoneIsGivenBackWheneverTheCaptureIsHeardOf(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	paid := Claim{GatewayID: "p1", Currency: "BRL", Captured: Of(1000), At: at, Facts: []Fact{{Kind: FactStatus, Status: StatusPaid}}}
	orders := map[string][]Claim{
		"in order":          {paid, gone(at.Add(time.Hour))},
		"the other way":     {gone(at.Add(time.Hour)), paid},
		"with repetitions":  {gone(at.Add(time.Hour)), gone(at.Add(2 * time.Hour)), paid, paid, gone(at.Add(time.Hour))},
		"and a fee of late": {gone(at.Add(time.Hour)), paid, {GatewayID: "p1", Currency: "BRL", At: at, Facts: []Fact{{Kind: FactFee, ID: "f", Amount: Of(10)}}}},
	}
	for name, claims := range orders {
		p := Payment{GatewayID: "p1"}
		for _, c := range claims {
			r := Apply(p, c)
			if r.Need != "" {
				t.Fatalf("%s: needs %s", name, r.Need)
			}
			p = r.Payment
		}
		if p.Status != StatusRefunded || p.Refunded != 1000 {
			t.Errorf("%s: %s, refunded %d", name, p.Status, p.Refunded)
		}
	}
}
