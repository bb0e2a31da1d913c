package gatewaysim_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/pagbank"
	"github.com/umavez/umavez/pkg/provider/registry"
)

// pagbankWorld is a simulation of PagBank, umavez' adapter set up for it, and
// what is held of each payment.
type pagbankWorld struct {
	*receiver
	api  string
	held map[string]payment.Payment // by charge
}

func newPagBank(t *testing.T, cfg gatewaysim.Config) *pagbankWorld {
	t.Helper()
	cfg.Gateways = []string{"pagbank"}
	sim := newSim(t, cfg)
	api := httptest.NewServer(sim.APIHandler())
	t.Cleanup(api.Close)
	settings := sim.Settings(api.URL)
	set, err := registry.LoadWith(func(name string) (string, bool) { v, ok := settings[name]; return v, ok },
		map[string]provider.Factory{"pagbank": pagbank.New})
	if err != nil {
		t.Fatalf("the adapter refuses the simulator's settings: %v", err)
	}
	return &pagbankWorld{&receiver{t, sim, set, api.Client()}, api.URL, map[string]payment.Payment{}}
}

func (w *pagbankWorld) receive(d *gatewaysim.Delivery) (provider.Message, provider.Provider, provider.Reason) {
	w.t.Helper()
	p, _, _ := w.set.Lookup("pagbank", "")
	sent := d.Request(time.Now(), 0)
	r := provider.Request{Header: sent.Header, Path: strings.TrimPrefix(sent.Suffix, "/"), Body: sent.Body, Now: time.Now()}
	if _, reason := p.Verify(r); reason != provider.ReasonNone {
		return provider.Message{}, p, reason
	}
	return p.Parse(r)[0], p, provider.ReasonNone
}

// decide does with a message what the processor does; false: it waits.
func (w *pagbankWorld) decide(p provider.Provider, m provider.Message) bool {
	w.t.Helper()
	e := &event.Event{Provider: "pagbank", Type: m.Type, PaymentRef: m.PaymentRef, OccurredAt: m.OccurredAt, Body: m.Body}
	claims, err := p.Facts(e)
	answered := false
	if errors.Is(err, provider.ErrUnresolved) {
		resolver, ok := provider.As[provider.Resolver](p)
		if !ok {
			w.t.Fatal("nobody can be asked about a code")
		}
		claims, err = resolver.Resolve(context.Background(), w.http, e)
		answered = true
	}
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", m.Type, err, m.Body)
	}
	for _, c := range claims {
		if c.GatewayID == "" {
			if c.GatewayID = w.referenced(c.Reference); c.GatewayID == "" {
				return false
			}
		}
		if c.At.IsZero() {
			c.At = m.OccurredAt
		}
		held, known := w.held[c.GatewayID]
		if !known {
			held = payment.Payment{Provider: "pagbank", Account: "default", GatewayID: c.GatewayID}
		}
		policy := payment.Policy{TrustBody: true, Lag: 2 * time.Second}
		var snap *payment.Snapshot
		if !answered || len(c.Facts) == 0 {
			asked := time.Now()
			seen, err := p.Lookup(context.Background(), w.http, c.GatewayID)
			if errors.Is(err, provider.ErrNotFound) {
				return false // a replica does not have the charge yet
			}
			if err != nil {
				w.t.Fatalf("%s: lookup: %v", m.Type, err)
			}
			snap = &payment.Snapshot{Claim: seen, ObservedAt: asked}
		}
		r, _ := payment.Resolve(held, snap, c, policy)
		if r.Need != "" {
			return false
		}
		w.held[c.GatewayID] = r.Payment
	}
	return true
}

func (w *pagbankWorld) referenced(reference string) string {
	for id, p := range w.held {
		if p.Reference == reference && reference != "" {
			return id
		}
	}
	return ""
}

func TestEveryBodyOfPagBankIsReadAsIntended(t *testing.T) {
	t.Parallel()
	w := newPagBank(t, gatewaysim.Config{Seed: 3, Payments: 500, Shares: gatewaysim.Shares{
		Duplicates: .2, Concurrent: .5, WrongSignatures: .3, Malformed: .2, Tests: .2}})
	keys, identities := map[string]string{}, map[string]string{}
	truth, seen := w.sim.Truth(), map[string]int{}
	all := w.sim.Deliveries()
	for i := range all {
		d := &all[i]
		m, _, reason := w.receive(d)
		if (reason != provider.ReasonNone) == d.Authentic() {
			t.Fatalf("%s %s: reason %q", d.Kind, d.EventType, reason)
		}
		if !d.Authentic() {
			seen[string(reason)]++
			continue
		}
		if d.Kind == gatewaysim.DeliveryMalformed {
			if seen[m.Reason]++; m.Disposition != provider.Quarantine {
				t.Errorf("a malformed body is %s (%s): %s", m.Disposition, m.Reason, m.Body)
			}
			continue
		}
		seen[d.EventType]++
		object, _, _ := strings.Cut(d.EventType, ".")
		switch object {
		case "transaction":
			if m.Disposition != provider.Process || m.ProviderEventID != d.EventID || m.PaymentRef != "" || !m.Reopen {
				t.Errorf("%s: %+v", d.EventType, m)
			}
		case "checkout":
			if m.Reason != provider.ReasonInformational {
				t.Errorf("%s: %+v", d.EventType, m)
			}
		default:
			if d.EventID != "" {
				t.Errorf("%s has the id %s, and format A has none", d.EventType, d.EventID)
			}
			want := truth[d.Payment].ID
			if d.EventType == "order.created" {
				want = ""
			}
			if m.Disposition != provider.Process || m.PaymentRef != want {
				t.Errorf("%s: %s of %q, want %q", d.EventType, m.Disposition, m.PaymentRef, want)
			}
		}
		if key, known := keys[d.Identity]; known && key != m.DedupeKey {
			t.Errorf("%s: one event has the keys %s and %s", d.EventType, key, m.DedupeKey)
		}
		if id, known := identities[m.DedupeKey]; known && id != d.Identity {
			t.Errorf("%s: the events %s and %s have one key", d.EventType, id, d.Identity)
		}
		keys[d.Identity], identities[m.DedupeKey] = m.DedupeKey, d.Identity
	}
	for _, name := range []string{
		"order.created", "order.PAID", "charge.PAID", "charge.WAITING", "charge.IN_ANALYSIS", "charge.AUTHORIZED", "charge.DECLINED", "charge.CANCELED",
		"transaction.4", "transaction.5", "transaction.6", "transaction.7", "transaction.8", "transaction.9", "checkout.EXPIRED",
		string(provider.ReasonMissing), string(provider.ReasonMismatch), string(provider.ReasonMalformed), string(provider.ReasonToken),
	} {
		if seen[name] == 0 {
			t.Errorf("no %s: %v", name, seen)
		}
	}
}

// The API knows what was published, its replicas lag, events are lost, and
// what cannot be decided waits and is tried again.
func TestPagBankEndsInTheTruth(t *testing.T) {
	t.Parallel()
	for _, order := range []gatewaysim.Order{gatewaysim.OrderShuffle, gatewaysim.OrderKeep, gatewaysim.OrderReverse} {
		for _, stale := range []float64{0, .6} {
			t.Run(fmt.Sprintf("%s with %v stale answers", order, stale), func(t *testing.T) {
				t.Parallel()
				w := newPagBank(t, gatewaysim.Config{Seed: 17, Payments: 300, Order: order, Window: 400,
					Shares: gatewaysim.Shares{Duplicates: .3, Lost: .05}, API: gatewaysim.API{Stale: stale, StaleFor: 300 * time.Millisecond}})
				w.replay()
			})
		}
	}
}

func (w *pagbankWorld) replay() {
	type waiting struct {
		p provider.Provider
		m provider.Message
	}
	var parked []waiting
	seen := map[string]bool{}
	all := w.sim.Deliveries()
	for i := range all {
		d := &all[i]
		if d.Kind == gatewaysim.DeliveryFirst || d.Kind == gatewaysim.DeliveryLost {
			w.sim.Publish(d.Payment, d.Step)
		}
		if d.Kind == gatewaysim.DeliveryLost {
			continue
		}
		m, p, _ := w.receive(d)
		if m.Disposition != provider.Process || seen[m.DedupeKey] && !m.Reopen {
			continue
		}
		seen[m.DedupeKey] = true
		if !w.decide(p, m) {
			parked = append(parked, waiting{p, m})
		}
	}
	w.sim.PublishAll()
	time.Sleep(350 * time.Millisecond) // until the replicas have caught up
	for range 2 {                      // a code waits for its payment, which may wait too
		var left []waiting
		for _, x := range parked {
			if !w.decide(x.p, x.m) {
				left = append(left, x)
			}
		}
		parked = left
	}
	for _, x := range parked {
		w.t.Errorf("%s of %s stays parked", x.m.Type, x.m.PaymentRef)
	}
	p, _, _ := w.set.Lookup("pagbank", "")
	for _, want := range w.sim.Truth() {
		held, known := w.held[want.ID]
		if known != want.Heard {
			w.t.Errorf("%s %s: known %v, heard of %v", want.Kind, want.ID, known, want.Heard)
			continue
		}
		if !known {
			continue
		}
		if want.TailLost { // reconciliation
			snap := w.lookup(p, want.ID)
			r, _ := payment.Resolve(held, &snap, payment.Claim{GatewayID: want.ID}, payment.Policy{TrustBody: true, Lag: 2 * time.Second})
			if r.Need != "" {
				w.t.Errorf("reconciliation of %s %s: %s", want.Kind, want.ID, r.Need)
			}
			held = r.Payment
		}
		compare(w.t, "", held, want)
	}
}
