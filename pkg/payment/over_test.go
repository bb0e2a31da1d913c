package payment

import (
	"testing"
	"time"
)

// "Disputed" that is learnt after the "paid" that ended it, and after all the
// money went back by a refund: nothing waits for a person.
func TestAnUnnamedDisputeThatIsOverIsLearntLast(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	claim := func(n int, facts ...Fact) Claim {
		return Claim{GatewayID: "p1", Currency: "BRL", Captured: Of(1000), At: at.Add(time.Duration(n) * time.Second), Facts: facts}
	}
	paid := Fact{Kind: FactStatus, Status: StatusPaid}
	p := Payment{GatewayID: "p1"}
	for _, c := range []Claim{
		claim(1, paid), claim(3, paid),
		claim(4, Fact{Kind: FactRefund, ID: "re_1", Amount: Of(1000), Refund: RefundSucceeded}),
		claim(2, Fact{Kind: FactStatus, Status: StatusDisputed, Amount: Of(400)}),
	} {
		r := Apply(p, c)
		if r.Need != "" {
			t.Fatalf("%v needs %s", c.Facts, r.Need)
		}
		p = r.Payment
	}
	if p.Status != StatusRefunded || p.Refunded != 1000 || p.ChargedBack != 0 {
		t.Errorf("%s, refunded %d, charged back %d", p.Status, p.Refunded, p.ChargedBack)
	}
}
