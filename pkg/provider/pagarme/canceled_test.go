package pagarme_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// A canceled charge need not repeat what had been paid. We hold it, and what
// was paid may differ from what was asked for: fines, interest, overpaid boletos.
func TestACanceledChargeWhoseCaptureWeHoldIsRefunded(t *testing.T) {
	const ref = "ch_TESTcanceled00001"
	at := time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
	p := build(t, source())
	for _, paid := range []int64{14990, 15500, 14000} {
		held := payment.Apply(payment.Payment{GatewayID: ref}, payment.Claim{GatewayID: ref, Currency: "BRL", Captured: payment.Of(paid), At: at,
			Facts: []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusPaid}}}).Payment
		for _, more := range []string{
			``, `,"canceled_amount":14990`, fmt.Sprintf(`,"canceled_amount":%d`, paid),
			`,"last_transaction":{"status":"voided"}`, `,"canceled_amount":14990,"last_transaction":{"status":"voided"}`,
			`,"canceled_amount":14990,"last_transaction":{"status":"refunded"}`, fmt.Sprintf(`,"canceled_amount":%d,"last_transaction":{"status":"refunded"}`, paid),
			`,"canceled_amount":14990,"paid_at":"2026-01-15T12:00:00Z"`,
		} {
			charge := `{"id":"` + ref + `","amount":14990,"currency":"BRL","status":"canceled"` + more + `}`
			api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(charge)) })
			seen, err := p.Lookup(context.Background(), &http.Client{Transport: providertest.HandlerTransport{Handler: api}}, ref)
			if err != nil {
				t.Errorf("paid %d, %s: %v", paid, more, err)
				continue
			}
			r, _ := payment.Resolve(held, &payment.Snapshot{Claim: seen, ObservedAt: at.Add(time.Hour)},
				payment.Claim{At: at.Add(time.Hour), Reason: "charge.refunded"}, payment.Policy{TrustBody: true, Lag: 10 * time.Second})
			if r.Need != "" || r.Payment.Status != payment.StatusRefunded || r.Payment.Refunded != paid || r.Disagrees {
				t.Errorf("paid %d, %s: %s, refunded %d, need %q, disagrees %v; want all of it refunded", paid, more, r.Payment.Status, r.Payment.Refunded, r.Need, r.Disagrees)
			}
		}
	}
}
