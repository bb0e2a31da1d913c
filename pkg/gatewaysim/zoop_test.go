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
