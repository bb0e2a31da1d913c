package e2e

import (
	"cmp"
	"testing"
)

// All amounts up to 100.00 go through each adapter in its own tests; here the
// ones that floats get wrong go through everything, to the ledger.
func TestCase_D5_NoCentavoIsLostOnTheWayToTheLedger(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		var all []sale
		for _, amount := range []int64{1, 10, 101, 115, 435, 820, 1998, 1999, 2999, 10000, 12345678901, 9007199254740993} {
			s := newSale(g).paid()
			s.amount, s.fee = amount, min(s.fee, amount/10)
			w.api.tells(g, s)
			w.take(g, g.body(newHook("paid", "evt_"+s.id, s)))
			all = append(all, s)
		}
		for _, s := range all {
			w.wantCredited(g, s)
		}
	})
}

// What an API writes as an amount in another spelling is the same amount.
func TestCase_D5_SpellingsOfAnAmountInAnswersAreOneAmount(t *testing.T) {
	w := inWorld(t)
	for _, c := range []struct {
		g    *gateway
		says []string
	}{
		{&asaasGateway, []string{"8.2", "8.20", `"8.20"`, "8.2000", "0.82e1"}},
		{&mercadopagoGateway, []string{"8.2", "8.20", `"8.20"`, "8.2000"}},
		{&mercadopagoOrders, []string{"8.2", "8.20", "8.2000"}}, // in quotes
		{&zoopGateway, []string{"8.20", "8.2", "8.200"}},        // in quotes
		{&efiGateway, []string{"8.20", "8.2", "8.200"}},         // in quotes
		{&pagpolarGateway, []string{"820", `"820"`}},
		{&iuguGateway, []string{"820", `"820"`}},
		{&pagarmeGateway, []string{"820", `"820"`}},
		{&pagbankGateway, []string{"820", `"820"`}},
		{&standardWebhooksGateway, []string{"820", `"820"`}},
	} {
		t.Run(c.g.String(), func(t *testing.T) {
			w := w.in(t)
			for _, spelling := range c.says {
				s := newSale(c.g).paid()
				s.amount, s.fee = 820, min(s.fee, 17)
				body := c.g.body(newHook(cmp.Or(map[bool]string{true: "look"}[c.g.has("look")], "paid"), "evt_"+s.id, s))
				told := s
				told.rawAmount = spelling
				w.api.tells(c.g, told)
				w.take(c.g, body)
				w.wantCredited(c.g, s)
			}
		})
	}
}

// A half of a centavo is no amount: nothing is rounded.
func TestCase_D5_AmountsThatAreNoWholeCentavosBookNothing(t *testing.T) {
	decimal := func(g *gateway) bool {
		switch g {
		case &asaasGateway, &mercadopagoGateway, &mercadopagoOrders, &zoopGateway, &efiGateway:
			return true
		}
		return false
	}
	inWorld(t).eachThat(decimal, func(w *testWorld, g *gateway) {
		for _, spelling := range []string{"8.205", "8.201", "0.001"} {
			s := newSale(g).paid()
			s.amount = 820
			body := g.body(newHook("paid", "evt_"+s.id, s))
			told := s
			told.rawAmount = spelling
			w.api.tells(g, told)
			w.take(g, body)
			e := w.settledBody(g, body)
			if e.Status != "parked" || e.Reason == "" {
				w.t.Errorf("an answer with %s: %v, want it parked", spelling, e)
			}
			w.noMoney(g, s)
		}
	})
}

// noMoney wants nothing booked for a sale.
func (w *testWorld) noMoney(g *gateway, s sale) {
	w.t.Helper()
	w.wantLedger(g, s.id, "")
}
