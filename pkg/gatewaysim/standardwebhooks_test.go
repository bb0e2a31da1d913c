package gatewaysim_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/registry"
	"github.com/umavez/umavez/pkg/provider/standardwebhooks"
)

// standardSources are the three senders: the profile with shared secrets, with
// asymmetric keys, and a shape that only the settings know.
var standardSources = []string{"standardwebhooks", "standardwebhooks/ed25519", "standardwebhooks/mapped"}

func newStandardReceiver(t *testing.T, sim *gatewaysim.Sim) *receiver {
	t.Helper()
	api := httptest.NewServer(sim.APIHandler())
	t.Cleanup(api.Close)
	settings := sim.Settings(api.URL)
	set, err := registry.LoadWith(
		func(name string) (string, bool) { v, ok := settings[name]; return v, ok },
		map[string]provider.Factory{"standardwebhooks": standardwebhooks.New},
	)
	if err != nil {
		t.Fatalf("the adapter refuses the simulator's settings: %v", err)
	}
	return &receiver{t, sim, set, api.Client()}
}

func TestEveryBodyOfStandardWebhooksIsReadAsIntended(t *testing.T) {
	t.Parallel()
	sim := newSim(t, gatewaysim.Config{Seed: 3, Payments: 400, Gateways: standardSources, Shares: gatewaysim.Shares{
		Duplicates: .2, Concurrent: .5, WrongSignatures: .2, Malformed: .2, Tests: .2}})
	r := newStandardReceiver(t, sim)
	truth := sim.Truth()
	keys, kinds, types := map[string]string{}, map[gatewaysim.DeliveryKind]int{}, map[string]int{}
	all := sim.Deliveries()
	for i := range all {
		d := &all[i]
		kinds[d.Kind]++
		m, p, reason := r.parse(d)
		if (reason != provider.ReasonNone) == d.Authentic() {
			t.Fatalf("%s %s %s: reason %q", d.Account, d.Kind, d.EventType, reason)
		}
		switch {
		case !d.Authentic():
			continue
		case d.Kind == gatewaysim.DeliveryMalformed:
			if m.Disposition != provider.Quarantine {
				t.Errorf("%s: a malformed body is not quarantined but %s (%s): %s", d.Account, m.Disposition, m.Reason, m.Body)
			}
			continue
		case d.Kind == gatewaysim.DeliveryTest:
			if m.Disposition != provider.Ignore || m.Reason != provider.ReasonTestEvent && m.Reason != provider.ReasonEmptyData && m.Reason != provider.ReasonInformational {
				t.Errorf("%s: a test event is not ignored but %s (%s): %s", d.Account, m.Disposition, m.Reason, m.Body)
			}
			continue
		case m.Disposition == provider.Quarantine, m.Disposition == provider.Ignore && m.Reason != provider.ReasonInformational:
			t.Errorf("%s %s: %s (%s)", d.Account, d.EventType, m.Disposition, m.Reason)
		}
		types[d.Account+" "+m.Type]++
		if m.ProviderEventID != d.EventID {
			t.Errorf("%s %s: event id %q, want %q", d.Account, d.EventType, m.ProviderEventID, d.EventID)
		}
		if m.PaymentRef != truth[d.Payment].ID && m.Disposition == provider.Process {
			t.Errorf("%s %s: payment %q, want %q", d.Account, d.EventType, m.PaymentRef, truth[d.Payment].ID)
		}
		if id, seen := keys[d.Account+m.DedupeKey]; seen && id != d.Identity {
			t.Errorf("%s: the events %s and %s have one key", d.Account, id, d.Identity)
		}
		keys[d.Account+m.DedupeKey] = d.Identity
		if m.Disposition == provider.Process {
			r.claims(p, m)
		}
	}
	for _, k := range []gatewaysim.DeliveryKind{gatewaysim.DeliveryForged, gatewaysim.DeliveryMalformed, gatewaysim.DeliveryTest, gatewaysim.DeliveryConcurrent} {
		if kinds[k] < 20 {
			t.Errorf("only %d deliveries of the kind %s", kinds[k], k)
		}
	}
	if len(types) < 14+14+11 {
		t.Errorf("only %d event types occur: %v", len(types), types)
	}
}

// TestStandardWebhooksLookupsAtTheTimeOfTheEventEndInTheTruth is the storm as
// the processor would meet it.
func TestStandardWebhooksLookupsAtTheTimeOfTheEventEndInTheTruth(t *testing.T) {
	t.Parallel()
	for _, order := range []gatewaysim.Order{gatewaysim.OrderShuffle, gatewaysim.OrderKeep, gatewaysim.OrderReverse} {
		for _, stale := range []float64{0, 0.6} {
			t.Run(fmt.Sprintf("%s with %v stale answers", order, stale), func(t *testing.T) {
				t.Parallel()
				sim := newSim(t, gatewaysim.Config{
					Seed: 7, Payments: 300, Order: order, Window: 500, Gateways: standardSources,
					Shares: gatewaysim.Shares{Duplicates: .2, Lost: .05},
					API:    gatewaysim.API{Stale: stale, StaleFor: 300 * time.Millisecond},
				})
				playStandard(t, newStandardReceiver(t, sim), sim)
			})
		}
	}
}

// playStandard sends the schedule; each event is looked up when it comes, and
// what cannot be decided is tried again at the end.
func playStandard(t *testing.T, r *receiver, sim *gatewaysim.Sim) {
	truth := sim.Truth()
	held := make([]payment.Payment, len(truth))
	for i := range truth {
		held[i] = unheard(truth[i])
	}
	ask := func(i int, p provider.Provider, src provider.Source, c payment.Claim) payment.Need {
		snap := r.lookup(p, truth[i].ID)
		res, _ := payment.Resolve(held[i], &snap, c, payment.Policy{TrustBody: true, Lag: src.LookupLag})
		held[i] = res.Payment
		return res.Need
	}
	var parked []func() payment.Need
	seen := map[string]bool{}
	all := sim.Deliveries()
	for i := range all {
		d := &all[i]
		if d.Kind == gatewaysim.DeliveryFirst || d.Kind == gatewaysim.DeliveryLost {
			sim.Publish(d.Payment, d.Step)
		}
		if d.Kind == gatewaysim.DeliveryLost {
			continue
		}
		m, p, _ := r.parse(d)
		if key := d.Account + m.DedupeKey; m.Disposition != provider.Process || seen[key] {
			continue
		} else {
			seen[key] = true
		}
		_, src, _ := r.set.Lookup(d.Gateway, d.Account)
		for _, c := range r.claims(p, m) {
			if again := func() payment.Need { return ask(d.Payment, p, src, c) }; again() != "" {
				parked = append(parked, again)
			}
		}
	}
	sim.PublishAll()
	time.Sleep(350 * time.Millisecond) // until the replicas have caught up
	for _, again := range parked {
		if need := again(); need != "" {
			t.Errorf("an event stays parked: %s", need)
		}
	}
	for i, want := range truth {
		if !want.Heard {
			continue
		}
		if want.TailLost { // reconciliation
			p, src, _ := r.set.Lookup(want.Gateway, want.Account)
			if need := ask(i, p, src, payment.Claim{GatewayID: want.ID}); need != "" {
				t.Errorf("reconciliation of %s %s: %s", want.Kind, want.ID, need)
			}
		}
		compare(t, "", held[i], want)
	}
}

// TestStandardWebhooksWithoutLookupsEndInTheTruth: the bodies alone are the
// sender's word. Nothing is lost, everything is out of order and repeated,
// and what needs another event first is tried again after it.
func TestStandardWebhooksWithoutLookupsEndInTheTruth(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		sim := newSim(t, gatewaysim.Config{Seed: 200 + seed, Payments: 400, Gateways: standardSources, Shares: gatewaysim.Shares{Duplicates: .5}})
		r := newStandardReceiver(t, sim)
		byPayment := deliveriesByPayment(sim)
		for i, want := range sim.Truth() {
			held := unheard(want)
			var parked []payment.Claim
			try := func(c payment.Claim) bool {
				res := payment.Apply(held, c)
				held = res.Payment
				return res.Need == ""
			}
			for _, d := range byPayment[i] {
				m, p, _ := r.parse(d)
				if m.Disposition != provider.Process {
					continue
				}
				for _, c := range r.claims(p, m) {
					if !try(c) {
						parked = append(parked, c)
					}
				}
			}
			for range len(parked) {
				left := parked[:0]
				for _, c := range parked {
					if !try(c) {
						left = append(left, c)
					}
				}
				parked = left
			}
			if len(parked) > 0 {
				t.Errorf("seed %d, %s %s stays parked: %+v", 200+seed, want.Kind, want.ID, parked)
			}
			// A fee that no event names cannot be known.
			if held.Fee == 0 {
				want.Net += want.Fee
				want.Fee = 0
			}
			compare(t, fmt.Sprintf("seed %d", 200+seed), held, want)
		}
	}
}

func TestAStandardWebhookMadeIntoAnotherOneIsANewMessage(t *testing.T) {
	t.Parallel()
	sim := newSim(t, gatewaysim.Config{Seed: 5, Payments: 60, Gateways: standardSources[:1]})
	r := newStandardReceiver(t, sim)
	d := &sim.Deliveries()[0]
	body := d.Request(time.Now(), 0).Body
	edited, err := d.Edit(body, "payment.failed", 9, []string{"data.amount=700"})
	if err != nil {
		t.Fatal(err)
	}
	sent, path, ok := sim.Sign("standardwebhooks", edited, time.Now())
	if !ok || path != "/webhooks/standardwebhooks" || !bytes.Contains(edited, []byte("msg_")) {
		t.Fatalf("%v %q %s", ok, path, edited)
	}
	p, _, _ := r.set.Lookup("standardwebhooks", "")
	req := provider.Request{Header: sent.Header, Body: sent.Body, Now: time.Now()}
	if _, reason := p.Verify(req); reason != provider.ReasonNone {
		t.Fatal(reason)
	}
	m := p.Parse(req)[0]
	if m.Type != "payment.failed" || m.ProviderEventID == d.EventID || !strings.HasPrefix(m.ProviderEventID, "msg_") {
		t.Errorf("%+v", m)
	}
	claims, err := p.Facts(&event.Event{Type: m.Type, PaymentRef: m.PaymentRef, Body: m.Body})
	if err != nil || len(claims) != 1 || claims[0].Expected != payment.Of(700) {
		t.Errorf("%+v, %v", claims, err)
	}
}

func TestAnAccountOfStandardWebhooksSeesItsOwnPaymentsOnly(t *testing.T) {
	t.Parallel()
	sim := newSim(t, gatewaysim.Config{Seed: 6, Payments: 120, Gateways: standardSources})
	sim.PublishAll()
	r := newStandardReceiver(t, sim)
	for _, want := range sim.Truth() {
		for _, account := range []string{"", "ed25519", "mapped"} {
			p, src, _ := r.set.Lookup("standardwebhooks", account)
			claim, err := p.Lookup(context.Background(), r.http, want.ID)
			if own := src.Account == want.Account; own != (err == nil) || own && claim.GatewayID != want.ID {
				t.Errorf("%s asks for a payment of %s: %+v, %v", src.Account, want.Account, claim, err)
			}
		}
	}
}
