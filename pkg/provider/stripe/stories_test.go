package stripe

import (
	"testing"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// permutations calls visit with every order of n things.
func permutations(order []int, n int, visit func([]int)) {
	if len(order) == n {
		visit(order)
		return
	}
	for i := range n {
		used := false
		for _, o := range order {
			used = used || o == i
		}
		if !used {
			permutations(append(order[:len(order):len(order)], i), n, visit)
		}
	}
}

// settle applies claims, keeping those that need something for another round,
// as parked events are, until nothing moves.
func settle(claims []payment.Claim) (payment.Payment, map[payment.Kind]int64, []payment.Need) {
	p, booked := payment.Payment{GatewayID: claims[0].GatewayID}, map[payment.Kind]int64{}
	for {
		var parked []payment.Claim
		var needs []payment.Need
		for _, c := range claims {
			r := payment.Apply(p, c)
			if r.Need != "" {
				parked, needs = append(parked, c), append(needs, r.Need)
				continue
			}
			p = r.Payment
			for _, tr := range r.Transitions {
				for _, b := range tr.Bookings {
					booked[b.Kind] += b.Amount
				}
			}
		}
		if len(parked) == 0 || len(parked) == len(claims) {
			return p, booked, needs
		}
		claims = parked
	}
}

func TestTwinsAndDisorderBookEachFactOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bodies []string
		status payment.Status
		booked map[payment.Kind]int64
	}{
		"a refund told by refund.created and by charge.refunded": {
			[]string{"succeeded", "charge_updated", "refund_created", "charge_refunded"},
			payment.StatusPartiallyRefunded, map[payment.Kind]int64{payment.KindCapture: 25000, payment.KindRefund: 10000},
		},
		"a dispute that is opened, then won": {
			[]string{"succeeded", "charge_updated", "dispute_created", "dispute_won"},
			payment.StatusPaid, map[payment.Kind]int64{
				payment.KindCapture: 25000, payment.KindFee: 5500, payment.KindChargeback: 25000, payment.KindChargebackReversal: 25000,
			},
		},
		"an authorisation that expires": {
			[]string{"authorized", "canceled_expired"}, payment.StatusExpired, map[payment.Kind]int64{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			src := source()
			src.Lookup = provider.LookupNever // nobody is there to say what a fee was
			p := gatewayOf(t, src)
			var claims []payment.Claim
			for _, body := range c.bodies {
				r := signed(secretNow, testdata(t, body), clock)
				more, err := p.Facts(providertest.EventOf(p, src, r, p.Parse(r)[0]))
				if err != nil {
					t.Fatal(err)
				}
				claims = append(claims, more...)
			}
			claims = append(claims, claims...) // everything comes twice
			permutations(nil, len(c.bodies), func(order []int) {
				var mixed []payment.Claim
				for _, i := range order {
					mixed = append(mixed, claims[i], claims[len(c.bodies)+i])
				}
				got, booked, needs := settle(mixed)
				if got.Status != c.status || len(needs) > 0 {
					t.Errorf("order %v: %s, needs %v; want %s", order, got.Status, needs, c.status)
				}
				for _, kind := range []payment.Kind{payment.KindCapture, payment.KindFee, payment.KindRefund, payment.KindRefundReversal, payment.KindChargeback, payment.KindChargebackReversal} {
					if booked[kind] != c.booked[kind] {
						t.Errorf("order %v: %s of %d, want %d", order, kind, booked[kind], c.booked[kind])
					}
				}
			})
		})
	}
}
