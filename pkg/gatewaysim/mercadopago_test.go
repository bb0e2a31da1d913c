package gatewaysim_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/mercadopago"
	"github.com/umavez/umavez/pkg/provider/registry"
)

var bothOfMercadoPago = []string{"mercadopago", "mercadopago/orders"}

// mercadoPagoReceiver is umavez' adapter, set up by the simulator's settings.
func mercadoPagoReceiver(t *testing.T, sim *gatewaysim.Sim) *receiver {
	t.Helper()
	api := httptest.NewServer(sim.APIHandler())
	t.Cleanup(api.Close)
	settings := sim.Settings(api.URL)
	set, err := registry.LoadWith(
		func(name string) (string, bool) { v, ok := settings[name]; return v, ok },
		map[string]provider.Factory{"mercadopago": mercadopago.New},
	)
	if err != nil {
		t.Fatalf("the adapter refuses the simulator's settings: %v", err)
	}
	return &receiver{t, sim, set, api.Client()}
}

// mercadoPagoMessage verifies and reads a delivery, query and all.
func mercadoPagoMessage(r *receiver, d *gatewaysim.Delivery) (provider.Message, *event.Event, provider.Provider, provider.Reason) {
	r.t.Helper()
	p, _, ok := r.set.Lookup(d.Gateway, d.Account)
	if !ok {
		r.t.Fatalf("no source %s/%s", d.Gateway, d.Account)
	}
	now := time.Now()
	sent := d.Request(now, 0)
	req := provider.Request{Header: sent.Header, Query: sent.Query, Body: sent.Body, Now: now}
	if _, reason := p.Verify(req); reason != provider.ReasonNone {
		return provider.Message{}, nil, p, reason
	}
	m := p.Parse(req)[0]
	return m, &event.Event{Type: m.Type, PaymentRef: m.PaymentRef, OccurredAt: m.OccurredAt, Body: m.Body,
		Headers: provider.KeptHeaders(req, p.Traits().SignedHeaders)}, p, provider.ReasonNone
}

func TestMercadoPagoBodiesAreReadAsIntended(t *testing.T) {
	t.Parallel()
	sim := newSim(t, gatewaysim.Config{Seed: 3, Payments: 600, Gateways: bothOfMercadoPago, Shares: gatewaysim.Shares{
		Duplicates: .2, Concurrent: .5, WrongSignatures: .3, Malformed: .2, Tests: .2}})
	r := mercadoPagoReceiver(t, sim)
	keys, identities := map[string]string{}, map[string]string{}
	truth := sim.Truth()
	all := sim.Deliveries()
	unresolved := 0
	for i := range all {
		d := &all[i]
		m, e, p, reason := mercadoPagoMessage(r, d)
		if (reason != provider.ReasonNone) == d.Authentic() {
			t.Fatalf("%s %s: reason %q", d.Kind, d.EventType, reason)
		}
		source := d.Account + "/"
		switch d.Kind {
		case gatewaysim.DeliveryForged:
		case gatewaysim.DeliveryMalformed:
			if m.Disposition != provider.Quarantine {
				t.Errorf("a malformed body is %s (%s): %s", m.Disposition, m.Reason, m.Body)
			}
		case gatewaysim.DeliveryTest:
			if _, taken := identities[source+m.DedupeKey]; taken || m.Disposition != provider.Ignore || m.Reason != provider.ReasonTestEvent {
				t.Errorf("a test is %s (%s): %s", m.Disposition, m.Reason, m.Body)
			}
		default:
			if key, seen := keys[source+d.Identity]; seen && key != m.DedupeKey {
				t.Errorf("%s has the keys %s and %s", d.Identity, key, m.DedupeKey)
			}
			if id, seen := identities[source+m.DedupeKey]; seen && id != d.Identity {
				t.Errorf("%s and %s have one key", d.Identity, id)
			}
			keys[source+d.Identity], identities[source+m.DedupeKey] = m.DedupeKey, d.Identity
			if m.Type != d.EventType {
				t.Errorf("%s is read as %s", d.EventType, m.Type)
			}
			if d.EventType == "stop_delivery_op_wh" {
				if m.Disposition != provider.Quarantine {
					t.Errorf("an alert is %s", m.Disposition)
				}
				continue
			}
			if m.Disposition != provider.Process {
				if m.Reason != provider.ReasonInformational {
					t.Errorf("%s: %s (%s)", d.EventType, m.Disposition, m.Reason)
				}
				continue
			}
			_, err := p.Facts(e)
			if errors.Is(err, provider.ErrUnresolved) {
				unresolved++
			} else if err != nil || m.PaymentRef != truth[d.Payment].ID {
				t.Errorf("%s is about %q, want %q (%v)", d.EventType, m.PaymentRef, truth[d.Payment].ID, err)
			}
		}
	}
	if unresolved == 0 {
		t.Error("every chargeback names its payment")
	}
}

// Every reading of the documentation that is out there is played.
func TestMercadoPagoSignsInEveryWayThatIsSeen(t *testing.T) {
	t.Parallel()
	sim := newSim(t, gatewaysim.Config{Seed: 5, Payments: 300, Gateways: bothOfMercadoPago})
	ways := map[string]int{}
	all := sim.Deliveries()
	now := time.Now()
	for i := range all {
		d := &all[i]
		sent := d.Request(now, 0)
		c, _ := sim.Credentials(strings.TrimPrefix(d.Path, "/webhooks/"))
		q, err := url.ParseQuery(sent.Query)
		if err != nil {
			t.Fatal(err)
		}
		id, request := q.Get("data.id"), sent.Header.Get("X-Request-Id")
		stamp, v1, _ := strings.Cut(strings.TrimPrefix(sent.Header.Get("X-Signature"), "ts="), ",v1=")
		found := ""
		for spelling, signed := range map[string]string{"as sent": id, "lower": strings.ToLower(id)} {
			text := "id:" + signed + ";request-id:" + request + ";ts:" + stamp + ";"
			if request == "" {
				text = "id:" + signed + ";ts:" + stamp + ";"
			}
			for _, secret := range c.WebhookSecrets {
				if hmacOf(secret, text) == v1 && (spelling == "as sent" || strings.ToLower(id) != id) {
					found = spelling
				}
			}
		}
		if found == "" || q.Get("type") == "" {
			t.Fatalf("%s: %v is not signed as in the contract", sent.Query, sent.Header)
		}
		if strings.ToLower(id) != id {
			ways[found]++
		}
		ways[fmt.Sprintf("%d digits", len(stamp))]++
		ways["request id "+strconv.FormatBool(request != "")]++
	}
	for _, way := range []string{"as sent", "lower", "10 digits", "13 digits", "request id true", "request id false"} {
		if ways[way] == 0 {
			t.Errorf("no request is signed with %s: %v", way, ways)
		}
	}
}

// Events in any order, asked for as the processor asks, end in the truth;
// chargebacks that name no payment are resolved first.
func TestMercadoPagoEndsInTheTruth(t *testing.T) {
	t.Parallel()
	for _, order := range []gatewaysim.Order{gatewaysim.OrderShuffle, gatewaysim.OrderKeep, gatewaysim.OrderReverse} {
		for _, stale := range []float64{0, 0.5} {
			t.Run(fmt.Sprintf("%s with %v stale answers", order, stale), func(t *testing.T) {
				t.Parallel()
				sim := newSim(t, gatewaysim.Config{
					Seed: 7, Payments: 400, Order: order, Window: 500, Gateways: bothOfMercadoPago,
					Shares: gatewaysim.Shares{Duplicates: .2, Lost: .1},
					API:    gatewaysim.API{Stale: stale, StaleFor: 300 * time.Millisecond},
				})
				replayMercadoPago(t, sim)
			})
		}
	}
}

func replayMercadoPago(t *testing.T, sim *gatewaysim.Sim) {
	r := mercadoPagoReceiver(t, sim)
	truth := sim.Truth()
	held := make([]payment.Payment, len(truth))
	for i := range truth {
		held[i] = unheard(truth[i])
	}
	take := func(d *gatewaysim.Delivery, p provider.Provider, c payment.Claim) bool {
		_, src, _ := r.set.Lookup(d.Gateway, d.Account)
		if c.GatewayID != truth[d.Payment].ID {
			t.Fatalf("%s is about %q, want %q", d.EventType, c.GatewayID, truth[d.Payment].ID)
		}
		snap := r.lookup(p, c.GatewayID)
		res, _ := payment.Resolve(held[d.Payment], &snap, c, payment.Policy{Lag: src.LookupLag})
		if res.Need == "" {
			held[d.Payment] = res.Payment
		}
		return res.Need == ""
	}
	type waiting struct {
		d *gatewaysim.Delivery
		p provider.Provider
		c payment.Claim
	}
	var parked []waiting
	all := sim.Deliveries()
	for i := range all {
		d := &all[i]
		if d.Kind == gatewaysim.DeliveryFirst || d.Kind == gatewaysim.DeliveryLost {
			sim.Publish(d.Payment, d.Step)
		}
		if d.Kind == gatewaysim.DeliveryLost {
			continue
		}
		m, e, p, _ := mercadoPagoMessage(r, d)
		if m.Disposition != provider.Process {
			continue
		}
		claims, err := p.Facts(e)
		if errors.Is(err, provider.ErrUnresolved) {
			resolver, _ := provider.As[provider.Resolver](p)
			claims, err = resolver.Resolve(context.Background(), r.http, e)
		}
		if err != nil || len(claims) != 1 {
			t.Fatalf("%s: %d claims, %v", d.EventType, len(claims), err)
		}
		if !take(d, p, claims[0]) {
			parked = append(parked, waiting{d, p, claims[0]})
		}
	}
	sim.PublishAll()
	_, src, _ := r.set.Lookup("mercadopago", "default")
	time.Sleep(src.LookupLag + payment.Resolution + 100*time.Millisecond) // until no answer can be of a replica that lags
	for _, w := range parked {
		if !take(w.d, w.p, w.c) {
			t.Errorf("%s of %s stays parked", w.d.EventType, truth[w.d.Payment].Kind)
		}
	}
	for i, want := range truth {
		if !want.Heard {
			if held[i].Status != "" {
				t.Errorf("%s is known although nothing was heard of it", want.ID)
			}
			continue
		}
		if want.TailLost { // reconciliation
			p, src, _ := r.set.Lookup(want.Gateway, want.Account)
			snap := r.lookup(p, want.ID)
			res, _ := payment.Resolve(held[i], &snap, payment.Claim{GatewayID: want.ID}, payment.Policy{Lag: src.LookupLag})
			if res.Need != "" {
				t.Errorf("reconciliation of %s %s: %s", want.Kind, want.ID, res.Need)
			}
			held[i] = res.Payment
		}
		compare(t, fmt.Sprint(held[i].Details), held[i], want)
	}
}

func hmacOf(secret, text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}
