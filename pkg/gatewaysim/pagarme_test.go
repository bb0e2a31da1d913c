package gatewaysim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/pagarme"
	"github.com/umavez/umavez/pkg/provider/registry"
)

// bothOfPagarme are an account of the core API, a second one, and one of the
// API before it.
var bothOfPagarme = []string{"pagarme", "pagarme/loja2", "pagarme/legado"}

func pagarmeReceiver(t *testing.T, sim *gatewaysim.Sim) *receiver {
	t.Helper()
	api := httptest.NewServer(sim.APIHandler())
	t.Cleanup(api.Close)
	settings := sim.Settings(api.URL)
	set, err := registry.LoadWith(
		func(name string) (string, bool) { v, ok := settings[name]; return v, ok },
		map[string]provider.Factory{"pagarme": pagarme.New},
	)
	if err != nil {
		t.Fatalf("the adapter refuses the simulator's settings: %v", err)
	}
	return &receiver{t, sim, set, api.Client()}
}

func TestPagarmeBodiesAreReadAsIntended(t *testing.T) {
	t.Parallel()
	sim := newSim(t, gatewaysim.Config{Seed: 5, Payments: 200, Gateways: bothOfPagarme, Shares: gatewaysim.Shares{
		Duplicates: .2, Concurrent: .5, WrongSignatures: .2, Malformed: .2, Tests: .1}})
	r := pagarmeReceiver(t, sim)
	keys, identities, types := map[string]string{}, map[string]string{}, map[string]int{}
	truth := sim.Truth()
	all := sim.Deliveries()
	for i := range all {
		d := &all[i]
		m, p, reason := r.parse(d)
		if (reason != provider.ReasonNone) == d.Authentic() {
			t.Fatalf("%s %s of %s: reason %q", d.Kind, d.EventType, d.Account, reason)
		}
		source := d.Account + "/"
		switch d.Kind {
		case gatewaysim.DeliveryForged:
			if reason == provider.ReasonUnavailable {
				t.Errorf("a forged delivery found no keys")
			}
		case gatewaysim.DeliveryMalformed:
			if m.Disposition != provider.Quarantine {
				t.Errorf("a malformed body is %s (%s): %s", m.Disposition, m.Reason, m.Body)
			}
		case gatewaysim.DeliveryTest:
			if _, taken := identities[source+m.DedupeKey]; taken || m.Disposition != provider.Ignore {
				t.Errorf("an event without content is %s (%s): %s", m.Disposition, m.Reason, m.Body)
			}
		default:
			types[d.EventType]++
			if m.Disposition == provider.Quarantine || m.Disposition == provider.Ignore && m.Reason != provider.ReasonInformational || m.PaymentRef != truth[d.Payment].ID {
				t.Errorf("%s: %s (%s) about %q\n%s", d.EventType, m.Disposition, m.Reason, m.PaymentRef, m.Body)
			}
			if key, seen := keys[source+d.Identity]; seen && key != m.DedupeKey {
				t.Errorf("%s has the keys %s and %s", d.Identity, key, m.DedupeKey)
			}
			if id, seen := identities[source+m.DedupeKey]; seen && id != d.Identity {
				t.Errorf("%s and %s have one key", d.Identity, id)
			}
			keys[source+d.Identity], identities[source+m.DedupeKey] = m.DedupeKey, d.Identity
			if m.Disposition == provider.Process {
				r.claims(p, m)
			}
		}
	}
	for _, typ := range strings.Fields("charge.pending charge.created charge.paid charge.overpaid charge.underpaid charge.payment_failed charge.antifraud_reproved charge.antifraud_approved " +
		"charge.partial_canceled charge.refunded charge.chargedback chargeback.received order.created order.updated order.closed order.paid order.payment_failed order.canceled transaction_status_changed") {
		if types[typ] == 0 {
			t.Errorf("no event of type %s", typ)
		}
	}
}

// The older API has no lookups here: its postbacks alone, in any order, end in
// the truth. Those of the core API do so with a lookup at the end.
func TestPagarmeEventsInAnyOrderEndInTheTruth(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		sim := newSim(t, gatewaysim.Config{Seed: 200 + seed, Payments: 130, Gateways: bothOfPagarme, Shares: gatewaysim.Shares{Duplicates: .5}})
		sim.PublishAll()
		r := pagarmeReceiver(t, sim)
		byPayment := deliveriesByPayment(sim)
		for i, want := range sim.Truth() {
			held := unheard(want)
			var log []string
			var waiting []payment.Claim
			take := func(c payment.Claim) bool {
				res := payment.Apply(held, c)
				log = append(log, fmt.Sprintf("%s -> %s %s", c.Reason, res.Payment.Status, res.Need))
				held = res.Payment
				return res.Need == ""
			}
			_, p, _ := r.parse(byPayment[i][0])
			for _, d := range byPayment[i] {
				m, _, _ := r.parse(d)
				if m.Disposition != provider.Process || m.Type == "chargeback.received" {
					continue // that one is never taken without a lookup
				}
				for _, c := range r.claims(p, m) {
					if !take(c) {
						waiting = append(waiting, c)
					}
				}
			}
			for range waiting {
				for _, c := range waiting {
					take(c)
				}
			}
			if want.Account != "legado" {
				last := r.lookup(p, want.ID).Claim
				last.At = time.Now()
				if res := payment.Apply(held, last); res.Need != "" {
					t.Errorf("seed %d, %s %s: the last lookup needs %s\n%v\n%+v", 200+seed, want.Kind, want.ID, res.Need, log, last)
					continue
				} else {
					held = res.Payment
				}
			}
			if want.Captured == 0 { // nobody's money: an order's event may be all that was heard
				want.Currency, want.Beneficiary, want.Reference = held.Currency, held.Beneficiary, held.Reference
			}
			compare(t, fmt.Sprintf("seed %d %v", 200+seed, log), held, want)
		}
	}
}

func TestPagarmePublishesKeysThatRepeatWithTheSeed(t *testing.T) {
	t.Parallel()
	published := func(seed uint64) string {
		sim := newSim(t, gatewaysim.Config{Seed: seed, Payments: 10, Gateways: bothOfPagarme})
		rec := httptest.NewRecorder()
		sim.APIHandler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/pagarme/.well-known/jwks.json", nil))
		var set struct {
			Keys []struct{ Kty, Use, Alg, Kid, N, E string }
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &set); err != nil || len(set.Keys) != 3 {
			t.Fatalf("%v: %s", err, rec.Body)
		}
		for _, k := range set.Keys[1:] {
			if k.Kty != "RSA" || k.Use != "sig" || k.Alg != "RS256" || len(k.N) != 342 || k.E != "AQAB" {
				t.Errorf("%+v", k)
			}
		}
		return rec.Body.String()
	}
	if published(1) != published(1) || published(1) == published(2) {
		t.Error("the keys do not follow the seed")
	}
}

var (
	pagarmeHeader = regexp.MustCompile(`^alg=RS256; kid=sim-[0-9a-f]{12}; signature=[0-9A-Za-z_-]{342}$`)
	pagarmeAt     = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z$`)
)

func TestPagarmeSendsWhatTheContractShows(t *testing.T) {
	t.Parallel()
	sim := newSim(t, gatewaysim.Config{Seed: 6, Payments: 120, Gateways: bothOfPagarme})
	brief := 0
	all := sim.Deliveries()
	for i := range all {
		d := &all[i]
		sent := d.Request(time.Now(), 0)
		if d.Account == "legado" {
			form, err := url.ParseQuery(string(sent.Body))
			if err != nil || form.Get("object") != "transaction" || form.Get("id") != form.Get("transaction[id]") || !strings.Contains(string(sent.Body), "transaction%5Bid%5D=") {
				t.Errorf("%v: %s", err, sent.Body)
			}
			if !strings.HasPrefix(sent.Header.Get("X-Hub-Signature"), "sha1=") || sent.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
				t.Errorf("headers %v", sent.Header)
			}
			continue
		}
		if !pagarmeHeader.MatchString(sent.Header.Get("X-Webhook-Asymmetric-Signature")) {
			t.Errorf("header %q", sent.Header.Get("X-Webhook-Asymmetric-Signature"))
		}
		m := decode(t, sent.Body)
		for path := range strings.FieldsSeq("id account.id account.name type created_at data.id") {
			if _, ok := at(m, path); !ok {
				t.Errorf("%s has no %s: %s", d.EventType, path, sent.Body)
			}
		}
		if created, _ := at(m, "created_at"); !pagarmeAt.MatchString(created.(string)) {
			t.Errorf("created_at %v", created)
		}
		if _, paid := at(m, "data.paid_amount"); d.EventType == "charge.refunded" && !paid {
			brief++
		}
		if _, inside := at(m, "data.charges.0.status"); strings.HasPrefix(d.EventType, "order.") != inside {
			t.Errorf("%s: charges inside: %v", d.EventType, inside)
		}
	}
	if brief == 0 {
		t.Error("no refunded charge is shown without paid_amount")
	}
}

// A charge of another account is not there for a key, and neither is anything
// for no key.
func TestPagarmeAnswersEachAccountItsOwn(t *testing.T) {
	t.Parallel()
	sim := newSim(t, gatewaysim.Config{Seed: 6, Payments: 60, Gateways: bothOfPagarme})
	sim.PublishAll()
	r := pagarmeReceiver(t, sim)
	for _, want := range sim.Truth() {
		for _, account := range []string{"default", "loja2"} {
			p, _, _ := r.set.Lookup("pagarme", account)
			claim, err := p.Lookup(context.Background(), r.http, want.ID)
			if own := want.Account == account; own != (err == nil) {
				t.Errorf("%s of %s asked by %s: %v", want.ID, want.Account, account, err)
			} else if got := payment.Apply(payment.Payment{GatewayID: want.ID}, claim).Payment.Captured; own && want.Captured != got.Value {
				// A charge that was refunded whole may show no paid_amount; what it
				// leads to has the capture all the same.
				t.Errorf("%s: captured %+v, want %d", want.ID, got, want.Captured)
			}
		}
	}
	rec := httptest.NewRecorder()
	sim.APIHandler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/pagarme/core/v5/charges/x", nil))
	if rec.Code != http.StatusUnauthorized {
		t.Errorf("without a key: %d", rec.Code)
	}
}
