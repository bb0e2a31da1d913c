package gatewaysim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/efi"
	"github.com/umavez/umavez/pkg/provider/registry"
)

// efiSources are accounts whose addresses carry the token in each way.
var efiSources = []string{"efi", "efi/loja2", "efi/loja3"}

func efiCredentials() map[string]gatewaysim.Credentials {
	all := map[string]gatewaysim.Credentials{}
	for i, place := range []string{"path", "query", "query-without-ignorar"} {
		all[efiSources[i]] = gatewaysim.Credentials{WebhookSecrets: []string{"sim-" + place + "-0123456789abcdef0123456789abcdef"}}
	}
	return all
}

func newEfi(t *testing.T, cfg gatewaysim.Config) (*gatewaysim.Sim, *receiver) {
	t.Helper()
	cfg.Gateways, cfg.Credentials = efiSources, efiCredentials()
	sim := newSim(t, cfg)
	api := httptest.NewServer(sim.APIHandler())
	t.Cleanup(api.Close)
	settings := sim.Settings(api.URL)
	set, err := registry.LoadWith(func(name string) (string, bool) { v, ok := settings[name]; return v, ok }, map[string]provider.Factory{"efi": efi.New})
	if err != nil {
		t.Fatalf("the adapter refuses the simulator's settings: %v", err)
	}
	return sim, &receiver{t, sim, set, api.Client()}
}

// all splits a delivery into its messages, as ingest does.
func (r *receiver) all(d *gatewaysim.Delivery) ([]provider.Message, provider.Provider, gatewaysim.Sent, provider.Reason) {
	r.t.Helper()
	p, _, ok := r.set.Lookup(d.Gateway, d.Account)
	if !ok {
		r.t.Fatalf("no source %s/%s", d.Gateway, d.Account)
	}
	sent := d.Request(time.Now(), 0)
	req := provider.Request{Header: sent.Header, Query: sent.Query, Path: strings.TrimPrefix(sent.Suffix, "/"), Body: sent.Body, Now: time.Now()}
	if _, reason := p.Verify(req); reason != provider.ReasonNone {
		return nil, p, sent, reason
	}
	return p.Parse(req), p, sent, provider.ReasonNone
}

func TestEveryCallbackOfEfiIsReadAsIntended(t *testing.T) {
	t.Parallel()
	sim, r := newEfi(t, gatewaysim.Config{Seed: 3, Payments: 400, Shares: gatewaysim.Shares{
		Duplicates: .2, Concurrent: .5, WrongSignatures: .2, Malformed: .2, Tests: .2}})
	keys, identities := map[string]string{}, map[string]string{}
	truth, seen := sim.Truth(), map[string]int{}
	all := sim.Deliveries()
	for i := range all {
		d := &all[i]
		messages, p, sent, reason := r.all(d)
		if (reason != provider.ReasonNone) == d.Authentic() {
			t.Fatalf("%s %s: reason %q for %s?%s", d.Account, d.Kind, reason, sent.Suffix, sent.Query)
		}
		if !d.Authentic() {
			seen[string(reason)]++
			continue
		}
		if d.Kind == gatewaysim.DeliveryMalformed || d.Kind == gatewaysim.DeliveryTest {
			want := provider.Quarantine
			if d.Kind == gatewaysim.DeliveryTest {
				want = provider.Ignore
			}
			for _, m := range messages {
				if seen[string(d.Kind)+" "+m.Reason]++; m.Disposition != want || string(m.Body) != string(sent.Part) {
					t.Errorf("%s: %s (%s), kept %q of %q", d.Kind, m.Disposition, m.Reason, m.Body, sent.Body)
				}
			}
			continue
		}
		seen[fmt.Sprintf("requests with %d", len(messages))]++
		own := -1
		for i, m := range messages {
			if string(m.Body) == string(sent.Part) {
				own = i
			}
			if m.Disposition == provider.Quarantine {
				t.Errorf("%s: %s", m.Reason, m.Body)
			}
			if m.Disposition == provider.Process {
				r.claims(p, m)
			}
		}
		if own < 0 {
			t.Fatalf("the event itself is not in its request: %s", sent.Body)
		}
		m := messages[own]
		if d.EventType == "PIX_ENVIADO" {
			if m.Reason != efi.ReasonOwnPayout {
				t.Errorf("a Pix that we sent is %s (%s)", m.Disposition, m.Reason)
			}
			continue
		}
		if m.Disposition != provider.Process || m.PaymentRef != truth[d.Payment].ID || m.Type != d.EventType {
			t.Errorf("%s of %s: %s of %s", m.Type, m.PaymentRef, d.EventType, truth[d.Payment].ID)
		}
		source := d.Account + "/"
		if key, known := keys[source+d.Identity]; known && key != m.DedupeKey {
			t.Errorf("one event has the keys %s and %s", key, m.DedupeKey)
		}
		if id, known := identities[source+m.DedupeKey]; known && id != d.Identity {
			t.Errorf("the events %s and %s have one key", id, d.Identity)
		}
		keys[source+d.Identity], identities[source+m.DedupeKey] = m.DedupeKey, d.Identity
	}
	for _, what := range []string{"requests with 1", "requests with 2", "requests with 3", "requests with 4",
		string(provider.ReasonToken), string(provider.ReasonMissing), "test " + provider.ReasonTestEvent, "test " + provider.ReasonEmptyData,
		"test " + provider.ReasonInformational, "test " + efi.ReasonOwnPayout} {
		if seen[what] == 0 {
			t.Errorf("%q never occurs: %v", what, slices.Sorted(maps.Keys(seen)))
		}
	}
}

// TestEfisStormEndsInTheTruth plays the storm as the processor would meet it:
// several events in a request, the API as far as was published, replicas that
// lag, access tokens that are revoked, and what cannot be decided waits.
func TestEfisStormEndsInTheTruth(t *testing.T) {
	t.Parallel()
	for _, order := range []gatewaysim.Order{gatewaysim.OrderShuffle, gatewaysim.OrderKeep, gatewaysim.OrderReverse} {
		for _, stale := range []float64{0, 0.6} {
			t.Run(fmt.Sprintf("%s with %v stale answers", order, stale), func(t *testing.T) {
				t.Parallel()
				sim, r := newEfi(t, gatewaysim.Config{
					Seed: 7, Payments: 300, Order: order, Window: 500,
					Shares: gatewaysim.Shares{Duplicates: .2, Lost: .05}, API: gatewaysim.API{Stale: stale, StaleFor: 300 * time.Millisecond},
				})
				playEfi(t, sim, r)
			})
		}
	}
}

type efiWaiting struct {
	e event.Event
	p provider.Provider
}

func playEfi(t *testing.T, sim *gatewaysim.Sim, r *receiver) {
	held := map[string]*payment.Payment{}
	log := map[string][]string{}
	decide := func(w efiWaiting) bool {
		claims, err := w.p.Facts(&w.e)
		if err != nil || len(claims) != 1 {
			t.Fatalf("%d claims, %v: %s", len(claims), err, w.e.Body)
		}
		c := claims[0]
		h := held[c.GatewayID]
		if h == nil {
			h = &payment.Payment{Provider: "efi", Account: w.e.Account, GatewayID: c.GatewayID}
			held[c.GatewayID] = h
		}
		snap := r.lookup(w.p, c.GatewayID)
		_, src, _ := r.set.Lookup("efi", w.e.Account)
		res, _ := payment.Resolve(*h, &snap, c, payment.Policy{TrustBody: w.p.Traits().BodyAuthenticated, Lag: src.LookupLag})
		log[c.GatewayID] = append(log[c.GatewayID], fmt.Sprintf("%s -> %s %s", w.e.Type, res.Payment.Status, res.Need))
		if res.Need != "" {
			return false
		}
		*h = res.Payment
		return true
	}
	var parked []efiWaiting
	seen := map[string]bool{}
	all := sim.Deliveries()
	for i := range all {
		d := &all[i]
		if d.Kind == gatewaysim.DeliveryFirst || d.Kind == gatewaysim.DeliveryLost {
			d.Publish()
		}
		if d.Kind == gatewaysim.DeliveryLost {
			continue
		}
		messages, p, _, _ := r.all(d)
		for _, m := range messages {
			w := efiWaiting{event.Event{Provider: "efi", Account: d.Account, Type: m.Type, PaymentRef: m.PaymentRef, OccurredAt: m.OccurredAt, Body: m.Body}, p}
			if key := d.Account + m.DedupeKey; m.Disposition == provider.Process && !seen[key] {
				if seen[key] = true; !decide(w) {
					parked = append(parked, w)
				}
			}
		}
	}
	sim.PublishAll()
	time.Sleep(350 * time.Millisecond) // until the replicas have caught up
	for _, w := range parked {
		if !decide(w) {
			t.Errorf("%s of %s stays parked: %v", w.e.Type, w.e.PaymentRef, log[w.e.PaymentRef])
		}
	}
	for _, want := range sim.Truth() {
		h := held[want.ID]
		if (h != nil) != want.Heard {
			t.Errorf("%s: held %v, heard of %v", want.ID, h != nil, want.Heard)
			continue
		}
		if h == nil {
			continue
		}
		if want.TailLost { // reconciliation
			p, src, _ := r.set.Lookup("efi", want.Account)
			snap := r.lookup(p, want.ID)
			res, _ := payment.Resolve(*h, &snap, payment.Claim{GatewayID: want.ID}, payment.Policy{TrustBody: true, Lag: src.LookupLag})
			if res.Need != "" {
				t.Errorf("reconciliation of %s %s: %s", want.Kind, want.ID, res.Need)
			}
			*h = res.Payment
		}
		compare(t, fmt.Sprint(log[want.ID]), *h, want)
	}
}

func TestEfisAPIWantsATokenOfItsAccountAndRevokesIt(t *testing.T) {
	t.Parallel()
	sim, _ := newEfi(t, gatewaysim.Config{Seed: 1, Payments: 60})
	sim.PublishAll()
	base := serve(t, sim)
	token := func(id, secret string) (int, string) {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, base+"/efi/oauth/token", strings.NewReader(url.Values{"grant_type": {"client_credentials"}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(id, secret)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		var a struct {
			AccessToken string `json:"access_token"`
		}
		if err := json.Unmarshal(body, &a); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, a.AccessToken
	}
	own, _ := sim.Credentials("efi")
	other, _ := sim.Credentials("efi/loja2")
	for _, c := range [][2]string{{"Client_Id_sim_efi", other.APIKey}, {"Client_Id_sim_efi", ""}, {"someone", own.APIKey}, {"", ""}} {
		if status, got := token(c[0], c[1]); status != 401 || got != "" {
			t.Errorf("%v gets %d %q", c, status, got)
		}
	}
	_, mine := token("Client_Id_sim_efi", own.APIKey)
	_, theirs := token("Client_Id_sim_efi_loja2", other.APIKey)
	_, p := find(t, sim, "efi", gatewaysim.KindPaid)
	bearer := func(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
	path := "/efi/v2/pix/" + p.ID
	for name, c := range map[string]struct {
		header http.Header
		path   string
		want   int
	}{
		"its own": {bearer(mine), path, 200}, "another account's": {bearer(theirs), path, 404}, "none": {nil, path, 401},
		"the secret": {bearer(own.APIKey), path, 401}, "an unknown Pix": {bearer(mine), path + "x", 404},
	} {
		if status, _, _ := ask(t, base, c.path, c.header); status != c.want {
			t.Errorf("%s: %d, want %d", name, status, c.want)
		}
	}
	refused := false
	for range 300 {
		status, _, _ := ask(t, base, path, bearer(mine))
		refused = refused || status == 401
	}
	if !refused {
		t.Error("a token is never revoked")
	}
}
