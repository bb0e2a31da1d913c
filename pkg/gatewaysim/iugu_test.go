package gatewaysim_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/iugu"
	"github.com/umavez/umavez/pkg/provider/registry"
)

// iuguReceiver is umavez' adapter, set up by the simulator's settings.
func iuguReceiver(t *testing.T, sim *gatewaysim.Sim) *receiver {
	t.Helper()
	api := httptest.NewServer(sim.APIHandler())
	t.Cleanup(api.Close)
	settings := sim.Settings(api.URL)
	set, err := registry.LoadWith(
		func(name string) (string, bool) { v, ok := settings[name]; return v, ok },
		map[string]provider.Factory{"iugu": iugu.New},
	)
	if err != nil {
		t.Fatalf("the adapter refuses the simulator's settings: %v", err)
	}
	return &receiver{t, sim, set, api.Client()}
}

// iuguMessage verifies and reads a delivery at the address it is sent to.
func iuguMessage(r *receiver, d *gatewaysim.Delivery) (provider.Message, provider.Provider, provider.Reason) {
	r.t.Helper()
	p, _, ok := r.set.Lookup(d.Gateway, d.Account)
	if !ok {
		r.t.Fatalf("no source %s/%s", d.Gateway, d.Account)
	}
	sent := d.Request(time.Now(), 0)
	req := provider.Request{Header: sent.Header, Query: sent.Query, Path: strings.TrimPrefix(sent.Suffix, "/"), Body: sent.Body, Now: time.Now()}
	if sent.Suffix != "" && !p.Traits().OwnsPath {
		r.t.Fatalf("sends to %s, which does not exist", sent.Suffix)
	}
	if _, reason := p.Verify(req); reason != provider.ReasonNone {
		return provider.Message{}, p, reason
	}
	return p.Parse(req)[0], p, provider.ReasonNone
}

var twoOfIugu = []string{"iugu", "iugu/loja2"}

// The secrets of some seeds travel in the header, those of others in the path.
func TestIuguBodiesAreReadAsIntended(t *testing.T) {
	t.Parallel()
	places := map[bool]int{}
	for seed := range uint64(4) {
		sim := newSim(t, gatewaysim.Config{Seed: seed, Payments: 200, Gateways: twoOfIugu, Shares: gatewaysim.Shares{
			Duplicates: .2, Concurrent: .5, WrongSignatures: .2, Malformed: .2, Tests: .2}})
		r := iuguReceiver(t, sim)
		keys, identities := map[string]string{}, map[string]string{}
		truth := sim.Truth()
		all := sim.Deliveries()
		for i := range all {
			d := &all[i]
			m, p, reason := iuguMessage(r, d)
			places[p.Traits().OwnsPath]++
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
				if _, taken := identities[source+m.DedupeKey]; taken || m.Disposition != provider.Ignore {
					t.Errorf("a trigger without data is %s (%s): %s", m.Disposition, m.Reason, m.Body)
				}
			default:
				if m.Disposition == provider.Quarantine || m.Disposition == provider.Ignore && m.Reason != provider.ReasonInformational || m.PaymentRef != truth[d.Payment].ID {
					t.Errorf("%s: %s (%s) about %q", d.EventType, m.Disposition, m.Reason, m.PaymentRef)
				}
				if key, seen := keys[source+d.Identity]; seen && key != m.DedupeKey {
					t.Errorf("%s has the keys %s and %s", d.Identity, key, m.DedupeKey)
				}
				if id, seen := identities[source+m.DedupeKey]; seen && id != d.Identity {
					t.Errorf("%s and %s have one key", d.Identity, id)
				}
				keys[source+d.Identity], identities[source+m.DedupeKey] = m.DedupeKey, d.Identity
			}
		}
	}
	if places[true] == 0 || places[false] == 0 {
		t.Errorf("secrets in the path, and not: %v", places)
	}
}

// On the wire a trigger looks as in the contract, and two partial refunds of
// one invoice are the same to the last byte.
func TestIuguSendsFormsAsTheContractShowsThem(t *testing.T) {
	t.Parallel()
	sim := newSim(t, gatewaysim.Config{Seed: 4, Payments: 400, Gateways: []string{"iugu"}})
	refunds := map[int][][]byte{}
	statuses := map[string]int{}
	late := 0
	all := sim.Deliveries()
	truth := sim.Truth()
	for i := range all {
		d := &all[i]
		sent := d.Request(time.Now(), 0)
		if got := sent.Header.Get("Content-Type"); got != "application/x-www-form-urlencoded" {
			t.Fatalf("Content-Type %s", got)
		}
		if again := d.Request(time.Now().Add(time.Hour), 3); !bytes.Equal(again.Body, sent.Body) {
			t.Errorf("a retry has other bytes: %s, %s", sent.Body, again.Body)
		}
		form, err := url.ParseQuery(string(sent.Body))
		if err != nil {
			t.Fatal(err)
		}
		begin := "event=" + d.EventType + "&data%5Bid%5D=" + truth[d.Payment].ID + "&data%5Baccount_id%5D=" + form.Get("data[account_id]") + "&data%5Bstatus%5D=" + form.Get("data[status]")
		if !strings.HasPrefix(string(sent.Body), begin) {
			t.Errorf("%s does not begin as in the contract", sent.Body)
		}
		statuses[form.Get("data[status]")]++
		if d.EventType == "invoice.refund" && form.Get("data[status]") == "paid" {
			refunds[d.Payment] = append(refunds[d.Payment], sent.Body)
		}
		if d.EventType == "invoice.created" && form.Get("data[status]") == "paid" {
			late++
		}
	}
	twins := 0
	for _, bodies := range refunds {
		for _, b := range bodies[1:] {
			if twins++; !bytes.Equal(b, bodies[0]) {
				t.Errorf("two partial refunds differ: %s, %s", bodies[0], b)
			}
		}
	}
	for _, word := range []string{"pending", "in_analysis", "paid", "partially_paid", "externally_paid", "canceled", "expired", "refunded", "in_protest", "chargeback"} {
		if statuses[word] == 0 {
			t.Errorf("no trigger has the status %s", word)
		}
	}
	if twins == 0 || late == 0 {
		t.Errorf("%d refunds with the bytes of another, %d invoices created when paid already", twins, late)
	}
}

// TestIuguTriggersAndLookupsEndInTheTruth plays whole schedules: repeats are
// processed again, answers are a step behind at times, triggers are lost, and
// at the end each payment is looked at once more, as the sweeper does.
func TestIuguTriggersAndLookupsEndInTheTruth(t *testing.T) {
	t.Parallel()
	for _, order := range []gatewaysim.Order{gatewaysim.OrderShuffle, gatewaysim.OrderKeep, gatewaysim.OrderReverse} {
		for _, stale := range []float64{0, 0.6} {
			t.Run(fmt.Sprintf("%s with %v stale answers", order, stale), func(t *testing.T) {
				t.Parallel()
				playIugu(t, newSim(t, gatewaysim.Config{
					Seed: 9, Payments: 300, Order: order, Gateways: twoOfIugu,
					Shares: gatewaysim.Shares{Duplicates: .3, Lost: .05},
					API:    gatewaysim.API{Stale: stale, StaleFor: 200 * time.Millisecond},
				}))
			})
		}
	}
}

func playIugu(t *testing.T, sim *gatewaysim.Sim) {
	r := iuguReceiver(t, sim)
	truth := sim.Truth()
	held := make([]payment.Payment, len(truth))
	log := make([][]string, len(truth))
	for i := range truth {
		held[i] = unheard(truth[i])
	}
	clock := time.Now() // of the database: an hour goes by between two looks
	decide := func(i int, ev payment.Claim) bool {
		p, src, _ := r.set.Lookup(truth[i].Gateway, truth[i].Account)
		snap := r.lookup(p, truth[i].ID)
		clock = clock.Add(time.Hour)
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
	all := sim.Deliveries()
	for n := range all {
		d := &all[n]
		if d.Kind == gatewaysim.DeliveryFirst || d.Kind == gatewaysim.DeliveryLost {
			sim.Publish(d.Payment, d.Step)
		}
		if d.Kind == gatewaysim.DeliveryLost {
			continue
		}
		m, p, _ := iuguMessage(r, d)
		if m.Disposition != provider.Process {
			continue
		}
		if ev := r.claims(p, m)[0]; !decide(d.Payment, ev) {
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

func TestIuguAPIAsksForTheTokenAndShowsItsOwnInvoicesOnly(t *testing.T) {
	t.Parallel()
	sim := newSim(t, gatewaysim.Config{Seed: 5, Payments: 60, Gateways: twoOfIugu})
	sim.PublishAll()
	api := httptest.NewServer(sim.APIHandler())
	t.Cleanup(api.Close)
	own, _ := sim.Credentials("iugu")
	other, _ := sim.Credentials("iugu/loja2")
	var p gatewaysim.Payment
	for _, p = range sim.Truth() {
		if p.Account == "default" && p.Captured > 0 {
			break
		}
	}
	for _, c := range []struct {
		user, password string
		want           int
	}{{own.APIKey, "", 200}, {other.APIKey, "", 404}, {own.APIKey, "x", 401}, {"x", "", 401}, {"", own.APIKey, 401}, {"", "", 401}} {
		req, err := http.NewRequest(http.MethodGet, api.URL+"/iugu/v1/invoices/"+p.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(c.user, c.password)
		resp, err := api.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		_, _ = b.ReadFrom(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("answer %d, want %d", resp.StatusCode, c.want)
		}
		if c.want != 200 {
			continue
		}
		m := decode(t, b.Bytes())
		for _, name := range strings.Fields("id status total total_cents total_paid total_paid_cents taxes_paid taxes_paid_cents refunded_cents order_id external_reference") {
			if _, ok := m[name]; !ok {
				t.Errorf("the answer has no %s", name)
			}
		}
		if text, _ := m["total_paid"].(string); !strings.HasPrefix(text, "R$ ") || fmt.Sprint(m["total_paid_cents"]) != fmt.Sprint(p.Captured) {
			t.Errorf("total_paid %v, total_paid_cents %v", m["total_paid"], m["total_paid_cents"])
		}
	}
}
