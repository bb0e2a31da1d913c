package pagbank_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// The gateway moves on while its webhooks are handled, at every speed: at each
// webhook it is at some moment that is not before the one of which it tells,
// nor before one that was shown already. With and without lookups, trusted or
// not, every order and repetition ends in the same books.
func TestEventsInAnyOrderEndInTheTruth(t *testing.T) {
	t.Parallel()
	for _, h := range histories() {
		for _, mode := range []struct {
			name          string
			trust, lookup bool
		}{{"trusted, without lookups", true, false}, {"trusted, with lookups", true, true}, {"a sandbox without signatures", false, true}} {
			t.Run(h.name+", "+mode.name, func(t *testing.T) {
				t.Parallel()
				start := h.world(t, mode.trust)
				rng := rand.New(rand.NewPCG(3, 5))
				providertest.Sequences(len(h.told), func(order []int) {
					w, now := start(), 0
					var waiting []int
					for _, i := range order {
						now = max(now, h.told[i].from)
						if rng.IntN(3) == 0 {
							now = min(now+1, len(h.moments)-1)
						}
						waiting = append(waiting, i)
						waiting = slices.DeleteFunc(waiting, func(i int) bool { return w.take(h.told[i], now, mode.lookup) })
					}
					for range waiting {
						waiting = slices.DeleteFunc(waiting, func(i int) bool { return w.take(h.told[i], len(h.moments)-1, mode.lookup) })
					}
					how := fmt.Sprintf("order %v", order)
					if len(waiting) > 0 {
						t.Fatalf("%s waits for %v as %s", how, waiting, w.held.Status)
					}
					w.end(&h, how)
				})
			})
		}
	}
}

// Whatever is lost of format A, a lookup makes good. What nothing but a code
// tells cannot be looked up, so of those the last one must arrive.
func TestAnyLossFollowedByALookupEndsInTheTruth(t *testing.T) {
	t.Parallel()
	for _, h := range histories() {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			start := h.world(t, true)
			last := len(h.moments) - 1
			for lost := range 1 << len(h.told) {
				w := start()
				kept, code := 0, false
				for i, told := range h.told {
					if lost>>i&1 == 0 {
						kept++
						code = code || told.body == "" && told.from == last
					}
				}
				if h.codesNeeded && !code {
					continue
				}
				var waiting []int
				for i, told := range h.told {
					if lost>>i&1 == 0 && !w.take(told, told.from, true) {
						waiting = append(waiting, i)
					}
				}
				w.clock = w.clock.Add(time.Hour)
				r, _ := payment.Resolve(w.held, &payment.Snapshot{Claim: w.shown[last], ObservedAt: w.clock},
					payment.Claim{GatewayID: chargeID}, payment.Policy{TrustBody: true, Lag: time.Minute})
				if !w.apply(r) {
					t.Fatalf("lost %b: the lookup needs %s", lost, r.Need)
				}
				w.heard = true
				waiting = slices.DeleteFunc(waiting, func(i int) bool { return w.take(h.told[i], last, true) })
				if len(waiting) > 0 {
					t.Fatalf("lost %b: %v wait", lost, waiting)
				}
				w.end(&h, fmt.Sprintf("lost %b, %d kept", lost, kept))
			}
		})
	}
}

// A transaction that is available was never in dispute unless somebody said
// so; and a paid charge, however late it is seen, ends no dispute.
func TestAWonDisputeThatWasNeverOpenMovesNothing(t *testing.T) {
	t.Parallel()
	h := histories()[3]
	w := h.world(t, true)()
	for _, told := range []telling{h.told[0], {"", 1}, {"", 1}} {
		if !w.take(told, told.from, false) {
			t.Fatal("waits")
		}
	}
	for _, b := range w.books {
		if b.Kind != payment.KindCapture && b.Kind != payment.KindFee {
			t.Errorf("booked %+v", b)
		}
	}
}

func TestAPaidChargeEndsNoDispute(t *testing.T) {
	t.Parallel()
	for _, h := range histories()[4:6] {
		w := h.world(t, true)()
		for _, told := range h.told {
			w.take(told, told.from, true)
		}
		for range 5 { // for ever after, the charge is shown as paid
			w.take(telling{body: h.told[0].body}, len(h.moments)-1, true)
		}
		w.end(&h, "with later lookups")
	}
}

// Where a dispute overtakes the refund of a part, it takes the whole, and the
// refund waits for a person (see the package comment of payment): no order
// books more than was captured, and every order in which the refund is known
// first ends in the truth.
func TestADisputeThatOvertakesARefundLeavesItWaiting(t *testing.T) {
	t.Parallel()
	h := disputeOfTheRest()
	start := h.world(t, true)
	waited := 0
	providertest.Sequences(len(h.told), func(order []int) {
		w := start()
		var waiting []int
		for _, i := range order {
			waiting = append(waiting, i)
			waiting = slices.DeleteFunc(waiting, func(i int) bool { return w.take(h.told[i], len(h.moments)-1, false) })
		}
		if w.held.Refunded+w.held.ChargedBack > w.held.Captured.Value || w.held.Status != payment.StatusChargedBack {
			t.Fatalf("order %v: %+v", order, w.held)
		}
		if refund := slices.Index(order, 1); refund < slices.Index(order, 2) && refund < slices.Index(order, 3) {
			if len(waiting) > 0 {
				t.Fatalf("order %v waits for %v", order, waiting)
			}
			w.end(&h, fmt.Sprintf("order %v", order))
			return
		}
		waited += len(waiting)
	})
	if waited == 0 {
		t.Error("nothing waits: this limit is gone, and its place is among the histories")
	}
}

// Rows B23 and C12: a refund that is told before the payment walks through it,
// and a charge that still says PAID is not credited again.
func TestCase_B23_PagBankARefundedChargeThatSaysPaidIsRefundedOnce(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	held := payment.Payment{GatewayID: chargeID}
	var booked []string
	for _, body := range []string{chargeBody("PAID", 14990, 14990), paidCharge, chargeBody("CANCELED", 14990, 14990), paidOrder} {
		r := payment.Apply(held, claimOf(t, p, body))
		if r.Need != "" {
			t.Fatal(r.Need)
		}
		held = r.Payment
		for _, tr := range r.Transitions {
			for _, b := range tr.Bookings {
				booked = append(booked, fmt.Sprint(b.Kind, " ", b.Amount))
			}
		}
	}
	if got := strings.Join(booked, ", "); held.Status != payment.StatusRefunded || got != "capture 14990, refund 14990" {
		t.Errorf("%s: %s", held.Status, got)
	}
}

// The attempts of one order are payments of their own: money belongs to the
// charge.
func TestTheChargesOfAnOrderAreSeparatePayments(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	second := strings.ReplaceAll(paidCharge, "000000000002", "000000000003")
	body := string(change(paidOrder, paidCharge, chargeBody("DECLINED", 0, 0)+","+second))
	m := p.Parse(sign(token, []byte(body), clock))
	if len(m) != 1 || !strings.HasSuffix(m[0].PaymentRef, "3") || m[0].Type != "order.PAID" || !m[0].OccurredAt.IsZero() {
		t.Fatalf("%+v", m)
	}
	claims, err := p.Facts(formEventOf(body))
	if err != nil || len(claims) != 2 {
		t.Fatalf("%+v, %v", claims, err)
	}
	for i, want := range []payment.Status{payment.StatusFailed, payment.StatusPaid} {
		if r := payment.Apply(payment.Payment{GatewayID: claims[i].GatewayID}, claims[i]); r.Payment.Status != want {
			t.Errorf("charge %d: %s, want %s", i, r.Payment.Status, want)
		}
	}
}
