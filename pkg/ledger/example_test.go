package ledger_test

import (
	"fmt"
	"time"

	"github.com/umavez/umavez/pkg/ledger"
	"github.com/umavez/umavez/pkg/payment"
)

func ExampleEntries() {
	p := payment.Payment{Provider: "stripe", Account: "default", GatewayID: "pi_1", Beneficiary: "loja-1"}
	r := payment.Apply(p, payment.Claim{
		GatewayID: "pi_1", Currency: "BRL", Captured: payment.Of(25000),
		At: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Reason: "lookup",
		Facts: []payment.Fact{
			{Kind: payment.FactStatus, Status: payment.StatusPaid},
			{Kind: payment.FactFee, ID: "txn_1", Amount: payment.Of(900)},
			{Kind: payment.FactRefund, ID: "re_1", Amount: payment.Of(10000), Refund: payment.RefundSucceeded},
		},
	})
	for _, t := range r.Transitions {
		entries, err := ledger.Entries(&r.Payment, t)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, e := range entries {
			fmt.Printf("%s %d %s: %s -> %s (%s %s)\n", e.Kind, e.Amount, e.Currency, e.Debit.Name, e.Credit.Name, e.ReferenceType, e.ReferenceID)
		}
	}
	// Output:
	// capture 25000 BRL: gateway:stripe:default -> beneficiary:loja-1 (payment stripe/default/pi_1)
	// fee 900 BRL: beneficiary:loja-1 -> fees:stripe (fee stripe/default/txn_1)
	// refund 10000 BRL: beneficiary:loja-1 -> gateway:stripe:default (refund stripe/default/re_1)
}
