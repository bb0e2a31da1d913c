package e2e

import (
	"fmt"
	"testing"
	"time"
)

// The API says "paid" of a payment that was refunded in part, and two events
// about two refunds may look alike.
func TestCase_B23_RefundsInPartsAreBookedOnceEach(t *testing.T) {
	parts := func(g *gateway) bool { return g.has("part") }
	inWorld(t).eachThat(parts, func(w *testWorld, g *gateway) {
		s := newSale(g).paid()
		w.api.tells(g, s)
		paid := g.body(newHook("paid", "evt_1"+s.id, s))
		w.take(g, paid)
		w.wantCredited(g, s)
		var told [][]byte
		for i, amount := range []int64{3000, 2000} {
			s = s.refundedPart(amount)
			w.api.tells(g, s)
			h := newHook("part", fmt.Sprint("evt_part", i, s.id), s)
			h.at = h.at.Add(time.Duration(i+1) * time.Minute)
			body := g.body(h)
			told = append(told, body)
			w.take(g, body)
			w.take(g, body)
			w.settles(g, s.id, fmt.Sprintf("%d are refunded", s.refunded), func(p pay) bool { return p.Refunded == s.refunded })
		}
		// All of it once more, the oldest last.
		for _, body := range [][]byte{told[1], told[0], paid} {
			w.take(g, body)
		}
		w.final(g, s.id)
		want := sale{amount: s.amount, fee: s.fee}.credited() + ", refund 2000, refund 3000"
		w.wantLedger(g, s.id, want)
		if p := w.payment(g, s.id); p.Status != "partially_refunded" || p.Refunded != 5000 || p.Captured != s.amount {
			w.t.Errorf("the payment is %+v", p)
		}
	})
}

// settles waits until nothing is unfinished and a payment is as it should be.
func (w *testWorld) settles(g *gateway, id, what string, holds func(p pay) bool) {
	w.t.Helper()
	w.final(g, id)
	eventually(w.t, 10*time.Second, what, func() bool { return holds(w.payment(g, id)) })
	w.final(g, id)
}

// PagBank's order is no payment: one that comes without its charges is asked
// for, and each of them is.
func TestCase_B15_AnOrderThatNamesNoChargeIsAskedFor(t *testing.T) {
	w, g := inWorld(t), &pagbankGateway
	s := newSale(g).paid()
	w.api.tells(g, s)
	body := []byte(pagbankOrder(s, ""))
	w.take(g, body)
	if e := w.settledBody(g, body); e.Status != "processed" {
		t.Errorf("the order is %v", e)
	}
	w.wantLedger(g, s.id, s.credited())
	w.take(g, g.body(newHook("paid", "", s)))
	w.take(g, body)
	w.wantCredited(g, s)
}
