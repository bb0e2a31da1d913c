package gatewaysim_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/payment"
)

var threeAndASecond = []string{"stripe", "asaas", "pagpolar", "stripe/loja2"}

func newSim(t testing.TB, cfg gatewaysim.Config) *gatewaysim.Sim {
	t.Helper()
	s, err := gatewaysim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// transcript is everything that a seed must determine.
func transcript(s *gatewaysim.Sim) string {
	now := time.Unix(1_767_225_600, 0)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%+v\n%v\n", s.Truth(), s.Settings("http://127.0.0.1:1"))
	all := s.Deliveries()
	for i := range all {
		d := all[i]
		sent := d.Request(now, 0)
		header, body := sent.Header, sent.Body
		fmt.Fprintf(&b, "%d %s %s %s %d %d %s %s %d %d %v %s\n", d.Seq, d.Kind, d.Gateway, d.Account, d.Payment, d.Step,
			d.EventType, d.Identity, d.Attempt, d.Group, header, body)
	}
	return b.String()
}

func TestASeedDeterminesEverything(t *testing.T) {
	t.Parallel()
	cfg := gatewaysim.Config{Seed: 42, Payments: 300, Gateways: threeAndASecond, Shares: gatewaysim.DefaultShares()}
	first := transcript(newSim(t, cfg))
	if diff := cmp.Diff(first, transcript(newSim(t, cfg))); diff != "" {
		t.Errorf("the same seed gave something else:\n%.2000s", diff)
	}
	cfg.Seed = 43
	if first == transcript(newSim(t, cfg)) {
		t.Error("another seed gave the same")
	}
}

func TestEveryKindOfHistoryOccursInTwoHundredPayments(t *testing.T) {
	t.Parallel()
	kinds := map[gatewaysim.Kind]int{}
	statuses := map[payment.Status]int{}
	for _, p := range newSim(t, gatewaysim.Config{Seed: 9, Payments: 200}).Truth() {
		kinds[p.Kind]++
		statuses[p.Status]++
	}
	for _, k := range []gatewaysim.Kind{
		gatewaysim.KindCreated, gatewaysim.KindPaid, gatewaysim.KindSettled, gatewaysim.KindPaidRepeatedly,
		gatewaysim.KindAuthorized, gatewaysim.KindCaptured, gatewaysim.KindPartRefunded, gatewaysim.KindRefunded,
		gatewaysim.KindRefundFailed, gatewaysim.KindFailed, gatewaysim.KindFailedThenPaid, gatewaysim.KindExpired,
		gatewaysim.KindExpiredThenPaid, gatewaysim.KindCanceled, gatewaysim.KindRestoredThenPaid,
		gatewaysim.KindInquiry, gatewaysim.KindDisputed, gatewaysim.KindDisputeWon, gatewaysim.KindDisputeLost,
	} {
		if kinds[k] == 0 {
			t.Errorf("no payment of kind %s", k)
		}
	}
	if len(statuses) != 10 {
		t.Errorf("%d of 10 statuses occur: %v", len(statuses), statuses)
	}
}

// TestTheTruthAddsUp checks each kind's books against what its name says.
func TestTheTruthAddsUp(t *testing.T) {
	t.Parallel()
	s := newSim(t, gatewaysim.Config{Seed: 5, Payments: 3000, Gateways: threeAndASecond, Beneficiaries: 7})
	sums := map[gatewaysim.Owner]int64{}
	ids, references := map[string]bool{}, map[string]bool{}
	for _, p := range s.Truth() {
		if ids[p.ID] || references[p.Reference] {
			t.Errorf("%s or %s occurs twice", p.ID, p.Reference)
		}
		ids[p.ID], references[p.Reference] = true, true
		if p.Net != p.Captured-p.Fee-p.Refunded-p.ChargedBack {
			t.Errorf("%s: net %d does not add up: %+v", p.ID, p.Net, p)
		}
		if p.Refunded < 0 || p.Fee < 0 || p.ChargedBack < 0 || p.Refunded+p.ChargedBack > p.Captured {
			t.Errorf("%s: more went out than came in: %+v", p.ID, p)
		}
		if want := p.Beneficiary + ":"; p.Reference[:len(want)] != want {
			t.Errorf("reference %s is not of %s", p.Reference, p.Beneficiary)
		}
		var right bool
		switch p.Status {
		case payment.StatusPending, payment.StatusAuthorized, payment.StatusFailed, payment.StatusCanceled, payment.StatusExpired:
			right = p.Captured == 0 && p.Net == 0
		case payment.StatusPaid:
			right = p.Captured > 0 && p.Refunded == 0 && p.ChargedBack == 0
		case payment.StatusPartiallyRefunded:
			right = p.Refunded > 0 && p.Refunded < p.Captured && p.ChargedBack == 0
		case payment.StatusRefunded:
			right = p.Captured > 0 && p.Refunded == p.Captured
		case payment.StatusDisputed, payment.StatusChargedBack:
			right = p.Captured > 0 && p.ChargedBack == p.Captured && p.Refunded == 0
		}
		if !right {
			t.Errorf("%s %s: status and amounts disagree: %+v", p.Kind, p.ID, p)
		}
		if p.Captured > 0 {
			sums[gatewaysim.Owner{Beneficiary: p.Beneficiary, Currency: p.Currency}] += p.Net
		}
	}
	if diff := cmp.Diff(sums, s.Balances()); diff != "" {
		t.Errorf("balances (-sums +Balances):\n%s", diff)
	}
}

func TestSharesHold(t *testing.T) {
	t.Parallel()
	shares := gatewaysim.Shares{Duplicates: .5, Concurrent: .5, WrongSignatures: .05, Malformed: .04, Tests: .03, Lost: .1}
	s := newSim(t, gatewaysim.Config{Seed: 1, Payments: 3000, Shares: shares})
	n := map[gatewaysim.DeliveryKind]float64{}
	group := map[int]int{}
	groupID := map[int]string{}
	for _, d := range s.Deliveries() {
		n[d.Kind]++
		if d.Group > 0 {
			group[d.Group]++
			if id, seen := groupID[d.Group]; seen && id != d.Identity {
				t.Errorf("group %d has %s and %s", d.Group, id, d.Identity)
			}
			groupID[d.Group] = d.Identity
		}
	}
	sent := n[gatewaysim.DeliveryFirst]
	all := sent + n[gatewaysim.DeliveryLost]
	for _, tc := range []struct {
		name          string
		got, want, by float64
	}{
		{"duplicates", n[gatewaysim.DeliveryDuplicate] + n[gatewaysim.DeliveryConcurrent], .5 * sent, 2},
		{"concurrent", n[gatewaysim.DeliveryConcurrent], .25 * sent, 2},
		{"wrong signatures", n[gatewaysim.DeliveryForged], .05 * all, 2},
		{"malformed", n[gatewaysim.DeliveryMalformed], .04 * all, 2},
		{"tests", n[gatewaysim.DeliveryTest], .03 * all, 2},
		{"lost", n[gatewaysim.DeliveryLost], .1 * all, .02 * all},
	} {
		if math.Abs(tc.got-tc.want) > tc.by {
			t.Errorf("%s: %v, want %v within %v", tc.name, tc.got, tc.want, tc.by)
		}
	}
	if n[gatewaysim.DeliveryDuplicate]+n[gatewaysim.DeliveryConcurrent] < .5*sent {
		t.Error("fewer duplicates than configured")
	}
	for g, size := range group {
		if size < 2 {
			t.Errorf("group %d has one delivery", g)
		}
	}
}

func TestLossIsToldOf(t *testing.T) {
	t.Parallel()
	s := newSim(t, gatewaysim.Config{Seed: 2, Payments: 2000, Shares: gatewaysim.Shares{Lost: .3}})
	sent := map[int]int{} // by payment, the last step that was told of, from 1
	for _, d := range s.Deliveries() {
		if d.Kind == gatewaysim.DeliveryFirst {
			sent[d.Payment] = max(sent[d.Payment], d.Step+1)
		}
	}
	unheard, tails := 0, 0
	for i, p := range s.Truth() {
		if p.Heard != (sent[i] > 0) {
			t.Errorf("%s: heard is %v, but %d steps were sent", p.ID, p.Heard, sent[i])
		}
		if !p.Heard {
			unheard++
		} else if p.TailLost {
			tails++
		}
		if p.Heard && p.Steps > sent[i] && !p.TailLost && p.Gateway != "asaas" { // Asaas' last step may be informational
			t.Errorf("%s: step %d of %d is the last one sent, but the tail is not lost", p.ID, sent[i], p.Steps)
		}
	}
	if unheard == 0 || tails == 0 {
		t.Errorf("%d payments unheard, %d tails lost; both should occur", unheard, tails)
	}
}

func TestOrders(t *testing.T) {
	t.Parallel()
	inversions := func(order gatewaysim.Order, window int) (earlier, later int) {
		last := map[int]int{}
		for _, d := range newSim(t, gatewaysim.Config{Seed: 4, Payments: 500, Order: order, Window: window}).Deliveries() {
			if prev, seen := last[d.Payment]; seen && prev > d.Step {
				earlier++
			} else if seen && prev < d.Step {
				later++
			}
			last[d.Payment] = d.Step
		}
		return earlier, later
	}
	if bad, _ := inversions(gatewaysim.OrderKeep, 0); bad != 0 {
		t.Errorf("keep: %d events before an earlier one", bad)
	}
	if _, bad := inversions(gatewaysim.OrderReverse, 0); bad != 0 {
		t.Errorf("reverse: %d events after an earlier one", bad)
	}
	whole, _ := inversions(gatewaysim.OrderShuffle, 0)
	part, _ := inversions(gatewaysim.OrderShuffle, 200)
	if whole < 200 || part == 0 || part >= whole {
		t.Errorf("shuffled wholly: %d inversions; within a window: %d", whole, part)
	}
}

func TestDuplicatesChangeAsTheirGatewayChangesThem(t *testing.T) {
	t.Parallel()
	s := newSim(t, gatewaysim.Config{Seed: 6, Payments: 300, Shares: gatewaysim.Shares{Duplicates: 1, Concurrent: .3}})
	type told struct {
		payment, step int
		eventType     string
	}
	first := map[told]*gatewaysim.Delivery{}
	all := s.Deliveries()
	now := time.Now()
	for i := range all {
		d := &all[i]
		if d.Kind == gatewaysim.DeliveryFirst {
			first[told{d.Payment, d.Step, d.EventType}] = d
		}
	}
	compared := map[string]int{}
	for i := range all {
		d := &all[i]
		original := first[told{d.Payment, d.Step, d.EventType}]
		if d.Kind == gatewaysim.DeliveryFirst {
			continue
		}
		if original.Seq > d.Seq {
			t.Errorf("%s: the duplicate is sent before the first", d.Identity)
		}
		compared[d.Gateway]++
		s1, s2 := original.Request(now, 0), d.Request(now.Add(time.Minute), 0)
		h1, b1, h2, b2 := s1.Header, s1.Body, s2.Header, s2.Body
		switch d.Gateway {
		case "stripe":
			if !bytes.Equal(b1, b2) || h1.Get("Stripe-Signature") == h2.Get("Stripe-Signature") {
				t.Errorf("Stripe's duplicate should have the same body under a new signature")
			}
		case "asaas":
			if !bytes.Equal(b1, b2) {
				t.Errorf("Asaas' duplicate should be the same to the byte")
			}
		case "pagpolar":
			if bytes.Equal(b1, b2) || decode(t, b1)["id"] == decode(t, b2)["id"] || decode(t, b1)["creation_date"] == decode(t, b2)["creation_date"] {
				t.Errorf("PagPolar's duplicate should have a new envelope:\n%s\n%s", b1, b2)
			}
			if diff := cmp.Diff(decode(t, b1)["data"], decode(t, b2)["data"]); diff != "" {
				t.Errorf("PagPolar's duplicate has other data: %s", diff)
			}
		}
	}
	if len(compared) != 3 {
		t.Errorf("compared %v", compared)
	}
}

func TestAConfigThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]gatewaysim.Config{
		"unknown gateway":   {Gateways: []string{"acme"}},
		"gateway twice":     {Gateways: []string{"stripe", "stripe"}},
		"unknown order":     {Order: "sideways"},
		"negative payments": {Payments: -1},
		"share above one":   {Shares: gatewaysim.Shares{Lost: 1.5}},
		"negative share":    {API: gatewaysim.API{Stale: -.1}},
	} {
		if _, err := gatewaysim.New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		newSim(b, gatewaysim.Config{Seed: 1, Payments: 10_000, Shares: gatewaysim.DefaultShares()})
	}
}

func BenchmarkRequest(b *testing.B) {
	all := newSim(b, gatewaysim.Config{Seed: 1, Payments: 1000}).Deliveries()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		all[i%len(all)].Request(time.Now(), 0)
		i++
	}
}
