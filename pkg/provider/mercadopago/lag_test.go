package mercadopago_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// An answer that is behind its notification is no answer: what the body of an
// order says was refunded or charged back is asked for until the API shows it.
func TestAnOrdersRefundThatTheAPIDoesNotShowYetIsAskedForAgain(t *testing.T) {
	p := build(t, "MONEY_SOURCE=order")
	at := time.Date(2026, 2, 1, 9, 0, 10, 0, time.UTC)
	told := func(held payment.Payment, file string, api http.HandlerFunc, after time.Duration) payment.Result {
		t.Helper()
		r := sign(secret, body(t, file), at)
		m := p.Parse(r)[0]
		claims, err := p.Facts(providertest.EventOf(p, source("MONEY_SOURCE=order"), r, m))
		if err != nil || len(claims) != 1 {
			t.Fatalf("%+v, %v", claims, err)
		}
		seen, err := p.Lookup(context.Background(), &http.Client{Transport: providertest.HandlerTransport{Handler: api}}, m.PaymentRef)
		if err != nil {
			t.Fatal(err)
		}
		result, _ := payment.Resolve(held, &payment.Snapshot{Claim: seen, ObservedAt: at.Add(after)}, claims[0], payment.Policy{Lag: 10 * time.Second})
		return result
	}
	behind := ord("processed", "accredited", "")
	held := told(payment.Payment{}, "orders/order_processed", behind, 0).Payment
	for file, ahead := range map[string]http.HandlerFunc{
		"orders/order_partially_refunded": ord("processed", "partially_refunded", `"transactions":{"refunds":[{"id":"REF01KDXQ8M5N7P9R2S4T6V8W0X20","amount":"100.00","status":"processed"}]}`),
		"orders/order_charged_back":       ord("charged_back", "in_process", `"transactions":{"chargebacks":[{"id":"CHB01KDXQ8M5N7P9R2S4T6V8W0X21","amount":"240.00","status":"in_process"}]}`),
		"orders/order_refunded":           ord("refunded", "refunded", ""),
	} {
		if r := told(held, file, behind, time.Minute); r.Need != payment.NeedAgreement {
			t.Errorf("%s: need %q, status %s; want it to wait", file, r.Need, r.Payment.Status)
		}
		r := told(held, file, ahead, 2*time.Minute)
		if r.Need != "" || !r.Applied() || r.Payment.Refunded+r.Payment.ChargedBack == 0 {
			t.Errorf("%s: need %q, %+v; want what the API says", file, r.Need, r.Payment)
		}
		again := told(r.Payment, file, ahead, 3*time.Minute)
		if again.Need != "" || again.Applied() {
			t.Errorf("%s again: need %q, %+v", file, again.Need, again.Transitions)
		}
	}
}
