package gatewaysim_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/registry"
	"github.com/umavez/umavez/pkg/provider/zoop"
)

var twoOfZoop = []string{"zoop", "zoop/loja2"}

// zoopReceiver is umavez' adapter, set up by the simulator's settings and
// what a test changes of them.
func zoopReceiver(t *testing.T, sim *gatewaysim.Sim, changes map[string]string) *receiver {
	t.Helper()
	api := httptest.NewServer(sim.APIHandler())
	t.Cleanup(api.Close)
	settings := sim.Settings(api.URL)
	for name, value := range changes {
		settings[name] = value
	}
	set, err := registry.LoadWith(
		func(name string) (string, bool) { v, ok := settings[name]; return v, ok },
		map[string]provider.Factory{"zoop": zoop.New},
	)
	if err != nil {
		t.Fatalf("the adapter refuses the simulator's settings: %v", err)
	}
	return &receiver{t, sim, set, api.Client()}
}

// zoopMessage verifies and reads a delivery at the address it is sent to.
func zoopMessage(r *receiver, d *gatewaysim.Delivery) (provider.Message, provider.Provider, provider.Reason) {
	r.t.Helper()
	p, _, ok := r.set.Lookup(d.Gateway, d.Account)
	if !ok {
		r.t.Fatalf("no source %s/%s", d.Gateway, d.Account)
	}
	sent := d.Request(time.Now(), 0)
	req := provider.Request{Header: sent.Header, Query: sent.Query, Path: strings.TrimPrefix(sent.Suffix, "/"), Body: sent.Body, Now: time.Now()}
	if _, reason := p.Verify(req); reason != provider.ReasonNone {
		return provider.Message{}, p, reason
	}
	return p.Parse(req)[0], p, provider.ReasonNone
}

// zoopClaim is what the processor would read, now.
func zoopClaim(r *receiver, p provider.Provider, m provider.Message) payment.Claim {
	r.t.Helper()
	claims, err := p.Facts(&event.Event{Type: m.Type, PaymentRef: m.PaymentRef, OccurredAt: m.OccurredAt, ReceivedAt: time.Now(), Body: m.Body})
	if err != nil || len(claims) != 1 {
		r.t.Fatalf("%s: %d claims, %v\n%s", m.Type, len(claims), err, m.Body)
	}
	return claims[0]
}

func TestZoopBodiesAreReadAsIntended(t *testing.T) {
	t.Parallel()
	sim := newSim(t, gatewaysim.Config{Seed: 2, Payments: 500, Gateways: twoOfZoop, Shares: gatewaysim.Shares{
		Duplicates: .3, Concurrent: .5, WrongSignatures: .2, Malformed: .2, Tests: .2}})
	r := zoopReceiver(t, sim, nil)
	keys, identities, bodies := map[string]string{}, map[string]string{}, map[string]string{}
	kinds, types := map[gatewaysim.DeliveryKind]int{}, map[string]int{}
	truth := sim.Truth()
	all := sim.Deliveries()
	for i := range all {
		d := &all[i]
		m, p, reason := zoopMessage(r, d)
		kinds[d.Kind]++
		if (reason != provider.ReasonNone) == d.Authentic() {
			t.Fatalf("%s %s: reason %q", d.Kind, d.EventType, reason)
		}
		switch d.Kind {
		case gatewaysim.DeliveryForged:
			continue
		case gatewaysim.DeliveryMalformed:
			if m.Disposition != provider.Quarantine {
				t.Errorf("a malformed body is %s (%s): %s", m.Disposition, m.Reason, m.Body)
			}
			continue
		}
		types[d.EventType]++
		if m.Disposition == provider.Quarantine || m.Disposition == provider.Ignore && m.Reason != provider.ReasonInformational || m.PaymentRef != truth[d.Payment].ID {
			t.Errorf("%s: %s (%s) about %q", d.EventType, m.Disposition, m.Reason, m.PaymentRef)
		}
		source := d.Account + "/"
		if key, seen := keys[source+d.Identity]; seen && key != m.DedupeKey || seen && bodies[source+d.Identity] != string(m.Body) {
			t.Errorf("%s has the keys %s and %s", d.Identity, key, m.DedupeKey)
		}
		if id, seen := identities[source+m.DedupeKey]; seen && id != d.Identity {
			t.Errorf("%s and %s have one key", d.Identity, id)
		}
		keys[source+d.Identity], identities[source+m.DedupeKey], bodies[source+d.Identity] = m.DedupeKey, d.Identity, string(m.Body)
		if m.Disposition == provider.Process {
			zoopClaim(r, p, m)
		}
	}
	if kinds[gatewaysim.DeliveryTest] > 0 || kinds[gatewaysim.DeliveryForged] == 0 || kinds[gatewaysim.DeliveryMalformed] == 0 {
		t.Errorf("deliveries by kind: %v; Zoop marks no tests", kinds)
	}
	for _, typ := range strings.Fields("created pre_authorized pre_authorization.succeeded succeeded capture.succeeded capture.failed failed canceled " +
		"void.succeeded void.failed reversed disputed charged_back charge_back dispute.succeeded updated commission.succeeded expired") {
		if types["transaction."+typ] == 0 {
			t.Errorf("no event transaction.%s", typ)
		}
	}
}

var (
	zoopID    = regexp.MustCompile(`^[0-9a-f]{32}$`)
	zoopReais = regexp.MustCompile(`^[0-9]+\.[0-9]{2}$`)
)

func TestZoopBodiesHaveTheFieldsOfTheContract(t *testing.T) {
	t.Parallel()
	sim := newSim(t, gatewaysim.Config{Seed: 3, Payments: 400, Gateways: []string{"zoop"}})
	truth := sim.Truth()
	words, references := map[any]bool{}, map[bool]int{}
	all := sim.Deliveries()
	for i := range all {
		d := &all[i]
		body := d.Request(time.Now(), 0).Body
		m := decode(t, body)
		for _, path := range strings.Fields("id resource type created_at updated_at uri payload.object.id payload.object.resource payload.object.status " +
			"payload.object.amount payload.object.original_amount payload.object.currency payload.object.payment_type payload.object.reference_id " +
			"payload.object.metadata payload.object.description payload.object.on_behalf_of payload.object.customer payload.object.fees " +
			"payload.object.fee_details payload.object.refunded payload.object.voided payload.object.captured payload.object.confirmed " +
			"payload.object.installment_plan payload.object.point_of_sale payload.object.history payload.object.split_rules") {
			if _, ok := at(m, path); !ok {
				t.Fatalf("%s has no %s: %s", d.EventType, path, body)
			}
		}
		get := func(path string) any { v, _ := at(m, "payload.object."+path); return v }
		words[get("status")] = true
		references[get("reference_id") != nil]++
		if other, _ := at(m, "payload.object.metadata.reference_id"); get("reference_id") == nil && other != truth[d.Payment].Reference {
			t.Errorf("no reference: %s", body)
		}
		if !zoopID.MatchString(fmt.Sprint(m["id"])) || !zoopID.MatchString(fmt.Sprint(get("id"))) || m["resource"] != "event" {
			t.Errorf("ids %v and %v", m["id"], get("id"))
		}
		for _, amount := range []string{"amount", "original_amount", "fees"} {
			if text, ok := get(amount).(string); !ok || !zoopReais.MatchString(text) {
				t.Errorf("%s is %v; Zoop writes reais as texts", amount, get(amount))
			}
		}
		cents, err := strconv.ParseInt(strings.Replace(get("original_amount").(string), ".", "", 1), 10, 64)
		if err != nil || cents != truth[d.Payment].Expected {
			t.Errorf("%v is not %d centavos", get("original_amount"), truth[d.Payment].Expected)
		}
	}
	for _, w := range strings.Fields("new pending created pre_authorized succeeded partial_refunded refunded canceled reversed failed dispute disputed charged_back") {
		if !words[w] {
			t.Errorf("the status %s does not occur", w)
		}
	}
	if references[true] == 0 || references[false] == 0 {
		t.Errorf("references in reference_id, and in the metadata alone: %v", references)
	}
}

func TestZoopAPIAsksForTheKeyAndShowsItsOwnMarketplaceOnly(t *testing.T) {
	t.Parallel()
	sim := newSim(t, gatewaysim.Config{Seed: 5, Payments: 100, Gateways: twoOfZoop})
	api := httptest.NewServer(sim.APIHandler())
	t.Cleanup(api.Close)
	get := func(key, password, path string) (int, map[string]any) {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, api.URL+"/zoop/v1/marketplaces/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(key, password)
		resp, err := api.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var body map[string]any
		if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, body
	}
	settings := sim.Settings(api.URL)
	own, _ := sim.Credentials("zoop")
	other, _ := sim.Credentials("zoop/loja2")
	ours, theirs := settings["ZOOP_MARKETPLACE_ID"], settings["ZOOP_LOJA2_MARKETPLACE_ID"]
	var d *gatewaysim.Delivery
	all := sim.Deliveries()
	truth := sim.Truth()
	for i := range all {
		if d = &all[i]; d.Account == "default" && d.Step > 0 {
			break
		}
	}
	id := truth[d.Payment].ID
	if status, _ := get(own.APIKey, "", ours+"/events/"+d.EventID); status != http.StatusNotFound {
		t.Errorf("an event that has not happened yet: %d", status)
	}
	sim.PublishAll()
	for _, c := range []struct {
		name, key, password, path string
		want                      int
	}{
		{"the transaction", own.APIKey, "", ours + "/transactions/" + id, 200},
		{"one that does not exist", own.APIKey, "", ours + "/transactions/x", 404},
		{"no key", "", "", ours + "/transactions/" + id, 401},
		{"another key", "zpk_x", "", ours + "/transactions/" + id, 401},
		{"a password", own.APIKey, "x", ours + "/transactions/" + id, 401},
		{"the key as the password", "", own.APIKey, ours + "/transactions/" + id, 401},
		{"another's marketplace", own.APIKey, "", theirs + "/transactions/" + id, 403},
		{"another's transaction", other.APIKey, "", theirs + "/transactions/" + id, 404},
		{"the event", own.APIKey, "", ours + "/events/" + d.EventID, 200},
		{"an event that does not exist", own.APIKey, "", ours + "/events/x", 404},
		{"another's event", other.APIKey, "", theirs + "/events/" + d.EventID, 404},
	} {
		if got, _ := get(c.key, c.password, c.path); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	_, read := get(own.APIKey, "", ours+"/events/"+d.EventID)
	var sent map[string]any
	if err := json.Unmarshal(d.Request(time.Now(), 0).Body, &sent); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sent, read); diff != "" {
		t.Errorf("the event that is read back differs from what was sent:\n%s", diff)
	}
	if _, list := get(own.APIKey, "", ours+"/transactions?reference_id="+truth[d.Payment].Reference); fmt.Sprint(list["total"]) != "1" || list["resource"] != "list" {
		t.Errorf("the list by reference: %v", list)
	}
}

func TestZoopBodiesCanBeEdited(t *testing.T) {
	t.Parallel()
	sim := newSim(t, gatewaysim.Config{Seed: 6, Payments: 20, Gateways: []string{"zoop"}})
	d := &sim.Deliveries()[0]
	body, err := d.Edit(d.Request(time.Now(), 0).Body, "transaction.disputed", 7, []string{"payload.object.status=dispute"})
	if err != nil {
		t.Fatal(err)
	}
	m := decode(t, body)
	if status, _ := at(m, "payload.object.status"); m["type"] != "transaction.disputed" || m["id"] == d.EventID || status != "dispute" {
		t.Errorf("%s", body)
	}
}
