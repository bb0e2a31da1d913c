package asaas_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider/asaas"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// The chargeback object stays after it was won. A refund of all that comes
// later, told without the list of refunds, is a refund, and no second loss.
func TestARefundAfterAWonChargebackIsARefund(t *testing.T) {
	t.Parallel()
	p, err := asaas.New(source())
	if err != nil {
		t.Fatal(err)
	}
	body := func(name, at, status, chargeback string) string {
		b := strings.NewReplacer("PAYMENT_CONFIRMED", name, "2026-01-15 09:30:02", at, `"status":"CONFIRMED"`, `"status":"`+status+`"`).Replace(confirmed)
		return strings.Replace(b, `"chargeback":null`, `"chargeback":`+chargeback, 1)
	}
	const reversed = `{"status":"REVERSED","reason":"ABSENT_CARD_FRAUD"}`
	history := []string{
		confirmed,
		body("PAYMENT_CHARGEBACK_REQUESTED", "2026-03-02 08:00:00", "CHARGEBACK_REQUESTED", `{"status":"REQUESTED"}`),
		body("PAYMENT_AWAITING_CHARGEBACK_REVERSAL", "2026-03-20 08:00:00", "AWAITING_CHARGEBACK_REVERSAL", reversed),
		body("PAYMENT_REFUNDED", "2026-04-02 08:00:00", "REFUNDED", reversed),
	}
	for _, looked := range []bool{false, true} {
		state := payment.Payment{Provider: "asaas", GatewayID: "pay_example0001"}
		for i, b := range history {
			claims, err := p.Facts(&event.Event{Provider: "asaas", Body: []byte(b)})
			if err != nil {
				t.Fatal(err)
			}
			var snap *payment.Snapshot
			if looked && i == 3 {
				h := sale("REFUNDED", `,"refunds":null,"chargeback":`+reversed, `{"data":[{"dateCreated":"2026-04-02 08:00:00","status":"DONE","value":149.90}],"hasMore":false}`)
				c, err := p.Lookup(context.Background(), &http.Client{Transport: providertest.HandlerTransport{Handler: h}}, "pay_example0001")
				if err != nil {
					t.Fatal(err)
				}
				snap = &payment.Snapshot{Claim: c, ObservedAt: time.Date(2026, 4, 2, 12, 0, 0, 0, time.UTC)}
			}
			r, _ := payment.Resolve(state, snap, claims[0], payment.Policy{TrustBody: true, Lag: time.Minute})
			if r.Need != "" {
				t.Fatalf("looked up %v: event %d needs %s", looked, i, r.Need)
			}
			state = r.Payment
		}
		if state.Status != payment.StatusRefunded || state.Refunded != 14990 || state.ChargedBack != 0 {
			t.Errorf("looked up %v: %s, %d refunded, %d charged back", looked, state.Status, state.Refunded, state.ChargedBack)
		}
	}
}
