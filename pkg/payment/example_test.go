package payment_test

import (
	"fmt"
	"time"

	"github.com/umavez/umavez/pkg/payment"
)

// A refund overtakes the payment it belongs to, and the payment is reported
// twice. Each is booked once.
func ExampleApply() {
	noon := time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
	paid := payment.Claim{
		GatewayID: "pi_1", Currency: "BRL", Captured: payment.Of(25000), At: noon, Reason: "payment_intent.succeeded",
		Facts: []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusPaid}},
	}
	refund := payment.Claim{
		GatewayID: "pi_1", Currency: "BRL", At: noon.Add(time.Minute), Reason: "refund.created",
		Facts: []payment.Fact{{Kind: payment.FactRefund, ID: "re_1", Amount: payment.Of(10000), Refund: payment.RefundSucceeded}},
	}
	p := payment.Payment{Provider: "stripe", Account: "default", GatewayID: "pi_1", Status: payment.StatusPending}
	for _, c := range []payment.Claim{refund, paid, refund, paid} {
		r := payment.Apply(p, c)
		if r.Need != "" {
			fmt.Printf("%s waits: %s\n", c.Reason, r.Need)
			continue
		}
		for _, t := range r.Transitions {
			fmt.Printf("%s: %s -> %s, books %s %d\n", t.Reason, t.From, t.To, t.Bookings[0].Kind, t.Bookings[0].Amount)
		}
		p = r.Payment
	}
	fmt.Printf("%s, %d left\n", p.Status, p.Net())
	// Output:
	// refund.created waits: captured_amount_unknown
	// payment_intent.succeeded: pending -> paid, books capture 25000
	// refund.created: paid -> partially_refunded, books refund 10000
	// partially_refunded, 15000 left
}
