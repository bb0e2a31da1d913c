package standardwebhooks

import (
	"fmt"
	"testing"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// tell takes what happened to a payment, each told by one event.
func tell(t *testing.T, p payment.Payment, events ...string) payment.Payment {
	t.Helper()
	src := source()
	src.APIKey, src.APIBase, src.Lookup = "", "", provider.LookupNever
	sender := build(t, src)
	for _, e := range events {
		claims, err := sender.Facts(&event.Event{Body: []byte(e)})
		if err != nil || len(claims) != 1 {
			t.Fatalf("%s: %+v, %v", e, claims, err)
		}
		r := payment.Apply(p, claims[0])
		if r.Need != "" {
			t.Errorf("%s: need %q", e, r.Need)
		}
		p = r.Payment
	}
	return p
}

func at(day int, typ, data string) string {
	return fmt.Sprintf(`{"type":"payment.%s","timestamp":"2026-02-%02dT00:00:00Z","data":{"payment_id":"pay_0001","currency":"BRL",%s}}`, typ, day, data)
}

// A chargeback without an id is still about its amount, not about all that is
// left of the payment.
func TestAnUnnamedChargebackTakesNoMoreThanItsAmount(t *testing.T) {
	paid := at(1, "paid", `"amount":25000`)
	opened, won, lost := at(2, "chargeback.opened", `"amount":9900`), at(3, "chargeback.won", `"amount":9900`), at(3, "chargeback.lost", `"amount":9900`)
	for name, row := range map[string]struct {
		events []string
		want   int64
	}{
		"opened": {[]string{paid, opened}, 9900}, "won": {[]string{paid, opened, won}, 0}, "won, told first": {[]string{paid, won, opened}, 0},
		"lost": {[]string{paid, opened, lost}, 9900}, "lost, told first": {[]string{paid, lost, opened}, 9900},
		"won without amount": {[]string{paid, opened, at(3, "chargeback.won", `"status":"paid"`)}, 0},
	} {
		if p := tell(t, payment.Payment{GatewayID: "pay_0001"}, row.events...); p.ChargedBack != row.want {
			t.Errorf("%s: %d charged back, want %d", name, p.ChargedBack, row.want)
		}
	}
}

// A lost event of one refund must not keep the money of the next from being
// booked: without an API there is nobody who could name the first.
func TestARefundWithAnIDDoesNotWaitForALostOne(t *testing.T) {
	p := tell(t, payment.Payment{GatewayID: "pay_0001"}, at(1, "paid", `"amount":25000`),
		at(3, "refunded", `"refund_id":"rf_0002","amount":15000,"amount_refunded":25000`))
	if p.Refunded != 15000 {
		t.Errorf("%d refunded, want the 15000 of rf_0002", p.Refunded)
	}
	p = tell(t, p, at(2, "partially_refunded", `"refund_id":"rf_0001","amount":10000,"amount_refunded":10000`))
	if p.Refunded != 25000 || p.Status != payment.StatusRefunded {
		t.Errorf("%d refunded, %s; want all of it", p.Refunded, p.Status)
	}
}
