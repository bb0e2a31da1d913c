package payment_test

import (
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
)

// One sum that went back, under one id, is booked once, whether it is called a
// refund or the loss of a dispute; which of the two comes first stands.
func TestOneIdOfARefundAndADisputeIsOneSum(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 20, 10, 0, 0, 0, time.UTC)
	refund := payment.Fact{Kind: payment.FactRefund, ID: "E1:m", Amount: payment.Of(4990), Refund: payment.RefundSucceeded, OneSum: true, At: at}
	lost := payment.Fact{Kind: payment.FactDispute, ID: "E1:m", Amount: payment.Of(4990), Dispute: payment.DisputeLost, OneSum: true, At: at}
	for name, facts := range map[string][]payment.Fact{"refund first": {refund, lost, refund}, "dispute first": {lost, refund, lost}} {
		p := payment.Payment{GatewayID: "E1"}
		for i, f := range facts {
			r := payment.Apply(p, payment.Claim{GatewayID: "E1", Currency: "BRL", Captured: payment.Of(14990), Facts: []payment.Fact{
				{Kind: payment.FactStatus, Status: payment.StatusPaid, At: at.Add(-time.Hour)}, f}})
			if r.Need != "" {
				t.Fatalf("%s, %d: needs %s", name, i, r.Need)
			}
			if i == 1 && !r.Disagrees {
				t.Errorf("%s: nobody is told that the two differ", name)
			}
			p = r.Payment
		}
		if gone := p.Refunded + p.ChargedBack; gone != 4990 {
			t.Errorf("%s: %d went back of 4990 (%s)", name, gone, p.Status)
		}
	}
}

// Elsewhere a refund and a dispute may have the same number and be two sums.
func TestTheSameNumberOfARefundAndADisputeIsTwoSums(t *testing.T) {
	t.Parallel()
	p := payment.Payment{GatewayID: "pay_1"}
	r := payment.Apply(p, payment.Claim{GatewayID: "pay_1", Currency: "BRL", Captured: payment.Of(10000), Facts: []payment.Fact{
		{Kind: payment.FactStatus, Status: payment.StatusPaid},
		{Kind: payment.FactRefund, ID: "1", Amount: payment.Of(4000), Refund: payment.RefundSucceeded},
		{Kind: payment.FactDispute, ID: "1", Amount: payment.Of(5000), Dispute: payment.DisputeLost},
	}})
	if r.Need != "" || r.Payment.Refunded != 4000 || r.Payment.ChargedBack != 5000 {
		t.Errorf("needs %q, %d refunded, %d charged back", r.Need, r.Payment.Refunded, r.Payment.ChargedBack)
	}
}
