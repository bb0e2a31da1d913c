package gatewaysim_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/asaas"
	"github.com/umavez/umavez/pkg/provider/pagpolar"
	"github.com/umavez/umavez/pkg/provider/registry"
	"github.com/umavez/umavez/pkg/provider/stripe"
)

// receiver is umavez' adapters, set up by Sim.Settings, and the rule by which
// the processor decides, without its database.
type receiver struct {
	t    *testing.T
	sim  *gatewaysim.Sim
	set  *registry.Set
	http *http.Client
}

func newReceiver(t *testing.T, sim *gatewaysim.Sim) *receiver {
	t.Helper()
	api := httptest.NewServer(sim.APIHandler())
	t.Cleanup(api.Close)
	settings := sim.Settings(api.URL)
	set, err := registry.LoadWith(
		func(name string) (string, bool) { v, ok := settings[name]; return v, ok },
		map[string]provider.Factory{"stripe": stripe.New, "asaas": asaas.New, "pagpolar": pagpolar.New},
	)
	if err != nil {
		t.Fatalf("the adapters refuse the simulator's settings: %v", err)
	}
	return &receiver{t, sim, set, api.Client()}
}

// parse verifies a delivery and splits it, as ingest does.
func (r *receiver) parse(d *gatewaysim.Delivery) (provider.Message, provider.Provider, provider.Reason) {
	r.t.Helper()
	p, _, ok := r.set.Lookup(d.Gateway, d.Account)
	if !ok {
		r.t.Fatalf("no source %s/%s", d.Gateway, d.Account)
	}
	now := time.Now()
	sent := d.Request(now, 0)
	header, body := sent.Header, sent.Body
	req := provider.Request{Header: header, Body: body, Now: now}
	if _, reason := p.Verify(req); reason != provider.ReasonNone {
		return provider.Message{}, p, reason
	}
	messages := p.Parse(req)
	if len(messages) != 1 {
		r.t.Fatalf("%s: %d messages of one request", d.EventType, len(messages))
	}
	return messages[0], p, provider.ReasonNone
}

func (r *receiver) claims(p provider.Provider, m provider.Message) []payment.Claim {
	r.t.Helper()
	claims, err := p.Facts(&event.Event{Type: m.Type, PaymentRef: m.PaymentRef, OccurredAt: m.OccurredAt, Body: m.Body})
	if err != nil {
		r.t.Fatalf("%s: facts: %v\n%s", m.Type, err, m.Body)
	}
	return claims
}

func (r *receiver) lookup(p provider.Provider, ref string) payment.Snapshot {
	r.t.Helper()
	at := time.Now()
	claim, err := p.Lookup(context.Background(), r.http, ref)
	if err != nil {
		r.t.Fatalf("lookup of %s: %v", ref, err)
	}
	return payment.Snapshot{Claim: claim, ObservedAt: at}
}

func deliveriesByPayment(sim *gatewaysim.Sim) map[int][]*gatewaysim.Delivery {
	all := sim.Deliveries()
	by := map[int][]*gatewaysim.Delivery{}
	for i := range all {
		by[all[i].Payment] = append(by[all[i].Payment], &all[i])
	}
	return by
}

func TestEveryBodyIsReadAsIntended(t *testing.T) {
	t.Parallel()
	sim := newSim(t, gatewaysim.Config{Seed: 3, Payments: 600, Gateways: threeAndASecond, Shares: gatewaysim.Shares{
		Duplicates: .2, Concurrent: .5, WrongSignatures: .2, Malformed: .2, Tests: .2}})
	r := newReceiver(t, sim)
	keys := map[string]string{}       // dedupe key by the simulator's identity
	identities := map[string]string{} // and the other way round
	truth := sim.Truth()
	all := sim.Deliveries()
	for i := range all {
		d := &all[i]
		m, p, reason := r.parse(d)
		if (reason != provider.ReasonNone) == d.Authentic() {
			t.Fatalf("%s %s %s: reason %q", d.Gateway, d.Kind, d.EventType, reason)
		}
		if !d.Authentic() {
			continue
		}
		switch d.Kind {
		case gatewaysim.DeliveryMalformed:
			if m.Disposition == provider.Process {
				t.Errorf("%s: a malformed body would be processed: %s", d.Gateway, m.Body)
			}
			continue
		case gatewaysim.DeliveryTest:
			if m.Disposition != provider.Ignore {
				t.Errorf("%s: a test event is not ignored but %q (%s): %s", d.Gateway, m.Disposition, m.Reason, m.Body)
			}
			if id, taken := identities[m.DedupeKey]; taken {
				t.Errorf("%s: a test event has the key of a true one, %s", d.Gateway, id)
			}
			continue
		}
		if m.Disposition == provider.Quarantine || m.Disposition == provider.Ignore && m.Reason != provider.ReasonInformational {
			t.Errorf("%s %s: %s (%s)", d.Gateway, d.EventType, m.Disposition, m.Reason)
		}
		if m.PaymentRef != truth[d.Payment].ID {
			t.Errorf("%s %s: payment %q, want %q", d.Gateway, d.EventType, m.PaymentRef, truth[d.Payment].ID)
		}
		source := d.Gateway + "/" + d.Account + "/"
		if key, seen := keys[source+d.Identity]; seen && key != m.DedupeKey {
			t.Errorf("%s: one event has the keys %s and %s", d.EventType, key, m.DedupeKey)
		}
		if id, seen := identities[source+m.DedupeKey]; seen && id != d.Identity {
			t.Errorf("%s: the events %s and %s have one key", d.EventType, id, d.Identity)
		}
		keys[source+d.Identity], identities[source+m.DedupeKey] = m.DedupeKey, d.Identity
		if m.Disposition == provider.Process {
			r.claims(p, m)
		}
	}
}

func TestEventsInAnyOrderWithoutLookupsAndALastLookupEndInTheTruth(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		sim := newSim(t, gatewaysim.Config{Seed: 100 + seed, Payments: 500, Shares: gatewaysim.Shares{Duplicates: .5}})
		sim.PublishAll()
		r := newReceiver(t, sim)
		byPayment := deliveriesByPayment(sim)
		for i, want := range sim.Truth() {
			held := unheard(want)
			var log []string
			for _, d := range byPayment[i] {
				m, p, _ := r.parse(d)
				if m.Disposition != provider.Process || !p.Traits().BodyAuthenticated {
					continue
				}
				for _, c := range r.claims(p, m) {
					res := payment.Apply(held, c)
					log = append(log, fmt.Sprintf("%s -> %s %s", m.Type, res.Payment.Status, res.Need))
					held = res.Payment
				}
			}
			_, p, _ := r.parse(byPayment[i][0])
			last := r.lookup(p, want.ID).Claim
			last.At = time.Now()
			res := payment.Apply(held, last)
			if res.Need != "" {
				t.Errorf("seed %d, %s %s %s: the last lookup needs %s\n%v\nlookup %+v", 100+seed, want.Gateway, want.Kind, want.ID, res.Need, log, last)
				continue
			}
			compare(t, fmt.Sprintf("seed %d %v", 100+seed, log), res.Payment, want)
		}
	}
}

// TestLookupsAtTheTimeOfTheEventEndInTheTruth plays the storm as the
// processor would meet it: the API knows the steps that were published, the
// replicas lag, and what cannot be decided waits and is tried again.
func TestLookupsAtTheTimeOfTheEventEndInTheTruth(t *testing.T) {
	t.Parallel()
	for _, order := range []gatewaysim.Order{gatewaysim.OrderShuffle, gatewaysim.OrderKeep, gatewaysim.OrderReverse} {
		for _, stale := range []float64{0, 0.6} {
			t.Run(fmt.Sprintf("%s with %v stale answers", order, stale), func(t *testing.T) {
				t.Parallel()
				sim := newSim(t, gatewaysim.Config{
					Seed: 7, Payments: 300, Order: order, Window: 500, Gateways: threeAndASecond,
					Shares: gatewaysim.Shares{Duplicates: .2, Lost: .05},
					API:    gatewaysim.API{Stale: stale, StaleFor: 300 * time.Millisecond},
				})
				replay(t, sim)
			})
		}
	}
}

func replay(t *testing.T, sim *gatewaysim.Sim) {
	r := newReceiver(t, sim)
	truth := sim.Truth()
	held := make([]payment.Payment, len(truth))
	log := make([][]string, len(truth))
	for i := range truth {
		held[i] = unheard(truth[i])
	}
	decide := func(d *gatewaysim.Delivery, m provider.Message, p provider.Provider) bool {
		_, src, _ := r.set.Lookup(d.Gateway, d.Account)
		claims := r.claims(p, m)
		if len(claims) == 0 {
			claims = []payment.Claim{{GatewayID: m.PaymentRef, Reason: m.Type}}
		}
		snap := r.lookup(p, m.PaymentRef)
		for _, c := range claims {
			res, _ := payment.Resolve(held[d.Payment], &snap, c, payment.Policy{TrustBody: p.Traits().BodyAuthenticated, Lag: src.LookupLag})
			log[d.Payment] = append(log[d.Payment], fmt.Sprintf("%s -> %s %s", m.Type, res.Payment.Status, res.Need))
			if res.Need != "" {
				return false
			}
			held[d.Payment] = res.Payment
		}
		return true
	}
	type waiting struct {
		d *gatewaysim.Delivery
		m provider.Message
		p provider.Provider
	}
	var parked []waiting
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
		key := d.Gateway + d.Account + m.DedupeKey
		if m.Disposition != provider.Process || seen[key] && !m.Reopen {
			continue
		}
		seen[key] = true
		if !decide(d, m, p) {
			parked = append(parked, waiting{d, m, p})
		}
	}
	sim.PublishAll()
	time.Sleep(350 * time.Millisecond) // until the replicas have caught up
	for _, w := range parked {
		if !decide(w.d, w.m, w.p) {
			t.Errorf("%s %s %s stays parked: %v", w.d.Gateway, truth[w.d.Payment].Kind, w.m.Type, log[w.d.Payment])
		}
	}
	for i, want := range truth {
		if !want.Heard {
			if held[i].Status != "" {
				t.Errorf("%s is known although nothing was heard of it: %v", want.ID, log[i])
			}
			continue
		}
		if want.TailLost { // reconciliation
			p, src, _ := r.set.Lookup(want.Gateway, want.Account)
			snap := r.lookup(p, want.ID)
			res, _ := payment.Resolve(held[i], &snap, payment.Claim{GatewayID: want.ID}, payment.Policy{TrustBody: true, Lag: src.LookupLag})
			if res.Need != "" {
				t.Errorf("reconciliation of %s %s: %s", want.Kind, want.ID, res.Need)
			}
			held[i] = res.Payment
		}
		compare(t, fmt.Sprint(log[i]), held[i], want)
	}
}

func unheard(want gatewaysim.Payment) payment.Payment {
	return payment.Payment{Provider: want.Gateway, Account: want.Account, GatewayID: want.ID}
}

// compare holds what the receiver came to against the truth.
func compare(t *testing.T, how string, got payment.Payment, want gatewaysim.Payment) {
	t.Helper()
	type summary struct {
		Status                                    payment.Status
		Currency, Beneficiary, Reference          string
		Captured, Refunded, ChargedBack, Fee, Net int64
	}
	g := summary{got.Status, got.Currency, got.Beneficiary, got.Reference, got.Captured.Value, got.Refunded, got.ChargedBack, got.Fee, got.Net()}
	w := summary{want.Status, want.Currency, want.Beneficiary, want.Reference, want.Captured, want.Refunded, want.ChargedBack, want.Fee, want.Net}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("%s %s %s (-truth +held):\n%s%s\n%+v", want.Gateway, want.Kind, want.ID, diff, how, got.Details)
	}
}
