package gatewaysim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

func TestZoopTruthAddsUp(t *testing.T) {
	t.Parallel()
	kinds := map[gatewaysim.Kind]map[payment.Status]int{}
	for _, p := range newSim(t, gatewaysim.Config{Seed: 4, Payments: 3000, Gateways: twoOfZoop}).Truth() {
		if kinds[p.Kind] == nil {
			kinds[p.Kind] = map[payment.Status]int{}
		}
		kinds[p.Kind][p.Status]++
		right := p.Refunded+p.ChargedBack <= p.Captured && p.Net == p.Captured-p.Fee-p.Refunded-p.ChargedBack
		switch p.Status {
		case payment.StatusPaid:
			right = right && p.Captured > 0 && p.Refunded+p.ChargedBack == 0
		case payment.StatusPartiallyRefunded:
			right = right && p.Refunded > 0 && p.Refunded < p.Captured
		case payment.StatusRefunded:
			right = right && p.Refunded == p.Captured
		case payment.StatusDisputed, payment.StatusChargedBack:
			right = right && p.ChargedBack == p.Captured
		case payment.StatusCanceled: // what was undone has come and gone
			right = right && p.Net == 0 && (p.Captured == 0 || p.Kind == gatewaysim.KindReversed)
		default:
			right = right && p.Captured == 0
		}
		if !right {
			t.Errorf("%+v does not add up", p)
		}
	}
	one := func(s payment.Status) map[payment.Status]bool { return map[payment.Status]bool{s: true} }
	want := map[gatewaysim.Kind]map[payment.Status]bool{
		gatewaysim.KindCreated: one(payment.StatusPending), gatewaysim.KindPaid: one(payment.StatusPaid), gatewaysim.KindSettled: one(payment.StatusPaid),
		gatewaysim.KindAuthorized: one(payment.StatusAuthorized), gatewaysim.KindCaptured: one(payment.StatusPaid),
		gatewaysim.KindPartRefunded: one(payment.StatusPartiallyRefunded), gatewaysim.KindRefunded: one(payment.StatusRefunded),
		gatewaysim.KindFailed: one(payment.StatusFailed), gatewaysim.KindFailedThenPaid: one(payment.StatusPaid),
		gatewaysim.KindExpired: one(payment.StatusCanceled), gatewaysim.KindExpiredThenPaid: one(payment.StatusPaid),
		gatewaysim.KindCanceled: one(payment.StatusCanceled), gatewaysim.KindRestoredThenPaid: one(payment.StatusPaid),
		gatewaysim.KindReversed: one(payment.StatusCanceled), gatewaysim.KindDisputed: one(payment.StatusDisputed),
		gatewaysim.KindDisputeWon: one(payment.StatusPaid), gatewaysim.KindDisputeLost: one(payment.StatusChargedBack),
	}
	got := map[gatewaysim.Kind]map[payment.Status]bool{}
	for k, statuses := range kinds {
		got[k] = map[payment.Status]bool{}
		for s := range statuses {
			got[k][s] = true
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("where the histories end (-want +got):\n%s", d)
	}
}

// The storm as the processor meets it: the API knows what was published, its
// replicas lag, and what cannot be decided waits.
func TestZoopHintsAndLookupsEndInTheTruth(t *testing.T) {
	t.Parallel()
	for _, order := range []gatewaysim.Order{gatewaysim.OrderShuffle, gatewaysim.OrderKeep, gatewaysim.OrderReverse} {
		for _, stale := range []float64{0, 0.6} {
			t.Run(fmt.Sprintf("%s with %v stale answers", order, stale), func(t *testing.T) {
				t.Parallel()
				playZoop(t, newSim(t, gatewaysim.Config{
					Seed: 9, Payments: 300, Order: order, Gateways: twoOfZoop,
					Shares: gatewaysim.Shares{Duplicates: .3, Lost: .05},
					API:    gatewaysim.API{Stale: stale, StaleFor: 200 * time.Millisecond},
				}))
			})
		}
	}
}

func playZoop(t *testing.T, sim *gatewaysim.Sim) {
	r := zoopReceiver(t, sim, nil)
	truth, all := sim.Truth(), sim.Deliveries()
	held := make([]payment.Payment, len(truth))
	log := make([][]string, len(truth))
	for i := range truth {
		held[i] = unheard(truth[i])
	}
	// The database's clock: two seconds go by between two looks, up to now.
	clock := time.Now().Add(-2 * time.Second * time.Duration(2*len(all)+len(truth)))
	decide := func(i int, ev payment.Claim) bool {
		p, src, _ := r.set.Lookup(truth[i].Gateway, truth[i].Account)
		snap := r.lookup(p, truth[i].ID)
		clock = clock.Add(2 * time.Second)
		snap.ObservedAt = clock
		res, _ := payment.Resolve(held[i], &snap, ev, payment.Policy{Lag: src.LookupLag})
		log[i] = append(log[i], fmt.Sprintf("%s -> %s %s", ev.Reason, res.Payment.Status, res.Need))
		if res.Need != "" {
			return false
		}
		held[i] = res.Payment
		return true
	}
	type waiting struct {
		i  int
		ev payment.Claim
	}
	var parked []waiting
	for n := range all {
		d := &all[n]
		if d.Kind == gatewaysim.DeliveryFirst || d.Kind == gatewaysim.DeliveryLost {
			sim.Publish(d.Payment, d.Step)
		}
		if d.Kind == gatewaysim.DeliveryLost {
			continue
		}
		m, p, _ := zoopMessage(r, d)
		if m.Disposition != provider.Process {
			continue
		}
		if ev := zoopClaim(r, p, m); !decide(d.Payment, ev) {
			parked = append(parked, waiting{d.Payment, ev})
		}
	}
	sim.PublishAll()
	time.Sleep(250 * time.Millisecond) // until the replicas have caught up
	for _, w := range parked {
		if !decide(w.i, w.ev) {
			t.Errorf("%s %s stays parked: %v", truth[w.i].Kind, w.ev.Reason, log[w.i])
		}
	}
	for i, want := range truth {
		if !want.Heard {
			if held[i].Status != "" {
				t.Errorf("%s is known although nothing was heard of it: %v", want.ID, log[i])
			}
			continue
		}
		decide(i, payment.Claim{GatewayID: want.ID, Reason: "reconcile"})
		compare(t, fmt.Sprint(log[i]), held[i], want)
	}
}

// For operators without an API key: what the bodies say, taken at its word and
// in any order, ends in the same truth.
func TestZoopBodiesAloneEndInTheTruthWhereTheyAreTrusted(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		sim := newSim(t, gatewaysim.Config{Seed: 200 + seed, Payments: 500, Gateways: []string{"zoop"}, Shares: gatewaysim.Shares{Duplicates: .5}})
		r := zoopReceiver(t, sim, map[string]string{"ZOOP_LOOKUP": "never", "ZOOP_UNSAFE_TRUST_BODY": "true"})
		byPayment := deliveriesByPayment(sim)
		for i, want := range sim.Truth() {
			held := unheard(want)
			var log []string
			var waiting []payment.Claim
			for _, d := range byPayment[i] {
				m, p, _ := zoopMessage(r, d)
				if m.Disposition != provider.Process {
					continue
				}
				waiting = append(waiting, zoopClaim(r, p, m))
				for range waiting {
					c := waiting[0]
					waiting = waiting[1:]
					res := payment.Apply(held, c)
					log = append(log, fmt.Sprintf("%s -> %s %s", c.Reason, res.Payment.Status, res.Need))
					if res.Need != "" {
						waiting = append(waiting, c)
						continue
					}
					held = res.Payment
				}
			}
			if len(waiting) > 0 {
				t.Errorf("%s: %d events wait: %v", want.Kind, len(waiting), log)
			}
			if want.Kind == gatewaysim.KindExpired { // its only event has a name that is not to be believed
				want.Status = payment.StatusPending
			}
			compare(t, fmt.Sprint(log), held, want)
		}
	}
}
