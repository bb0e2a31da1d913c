package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCase_B1_FiftyCopiesAtOnceOverTwoIngestsAreCreditedOnce(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		s := newSale(g).paid()
		w.api.tells(g, s)
		body := g.body(newHook("paid", "evt_"+s.id, s))
		replies := make([]reply, 50)
		begin := make(chan struct{})
		var wg sync.WaitGroup
		for i := range replies {
			wg.Go(func() {
				<-begin
				replies[i] = w.send(g, body)
			})
		}
		close(begin)
		wg.Wait()
		for i, r := range replies {
			if r.err != nil || r.status != 200 {
				w.t.Errorf("copy %d: %d %q %v", i, r.status, r.body, r.err)
			}
		}
		w.wantCredited(g, s)
		events := w.about(g, s.id)
		if len(events) != 1 || events[0].Deliveries != 50 || events[0].Outcome != "applied" && !g.reopen {
			w.t.Errorf("stored as %d events: %v", len(events), events)
		}
	})
}

func TestCase_B7_PaidRefundedAndChargedBackThriceEachAreBookedOnceEach(t *testing.T) {
	loses := func(g *gateway) bool { return g.has("part", "lost") }
	inWorld(t).eachThat(loses, func(w *testWorld, g *gateway) {
		for round := range 3 {
			paid := newSale(g).paid()
			part := paid.refundedPart(3000)
			lost := part.lost()
			w.api.tells(g, lost)
			var bodies [][]byte
			for i, h := range []hook{newHook("paid", "evt_1"+paid.id, paid), newHook("part", "evt_2"+paid.id, part), newHook("lost", "evt_3"+paid.id, lost)} {
				h.at = h.at.Add(time.Duration(i) * time.Minute)
				bodies = append(bodies, g.body(h))
			}
			if g.bare { // what nobody can be asked about waits for what it needs
				w.take(g, bodies[0])
				w.final(g, paid.id)
			}
			var wg sync.WaitGroup
			for i := range 9 {
				wg.Go(func() { w.take(g, bodies[(i+round)%3]) })
			}
			wg.Wait()
			w.final(g, paid.id)
			want := fmt.Sprintf("capture %d, chargeback %d", paid.amount, paid.amount-3000)
			if paid.fee > 0 {
				want += fmt.Sprint(", fee ", paid.fee)
			}
			w.wantLedger(g, paid.id, want+", refund 3000")
			if p := w.payment(g, paid.id); p.Status != "charged_back" || p.Refunded != 3000 {
				w.t.Errorf("the payment is %+v", p)
			}
		}
	})
}

func TestCase_B9_TwoNotificationsOfOneCaptureCreditOnceWhileTheFirstIsUnderWay(t *testing.T) {
	inWorld(t).eachThat(asksItsAPI, func(w *testWorld, g *gateway) {
		s := newSale(g).paid()
		w.api.tells(g, s)
		w.api.slow(g, s.id, 400*time.Millisecond)
		w.take(g, g.body(newHook("paid", "evt_1"+s.id, s)))
		eventually(w.t, 5*time.Second, "the first is under way", func() bool { return w.api.questions(g, s.id) > 0 })
		w.take(g, g.body(newHook("again", "evt_2"+s.id, s)))
		w.take(g, g.body(newHook("paid", "evt_1"+s.id, s)))
		w.wantCredited(g, s)
		events := w.about(g, s.id)
		applied := 0
		for _, e := range events {
			if e.Outcome == "applied" {
				applied++
			}
		}
		if g.alike {
			if len(events) != 1 || events[0].Deliveries != 3 {
				w.t.Errorf("two notifications of one state are %v", events)
			}
			return
		}
		if len(events) != 2 || applied != 1 || events[0].Deliveries != 2 {
			w.t.Errorf("two notifications ended as %v", events)
		}
	})
}

func TestCase_B13_OneEventWithSlightlyDifferentBodiesIsOneEvent(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		s := newSale(g).paid()
		w.api.tells(g, s)
		first := g.body(newHook("paid", "evt_"+s.id, s))
		second := g.wider(first)
		if bytes.Equal(first, second) {
			w.t.Fatal("the bodies do not differ")
		}
		w.take(g, first)
		w.take(g, second)
		w.take(g, second)
		w.wantCredited(g, s)
		events := w.about(g, s.id)
		if len(events) != 1 || events[0].Deliveries != 3 || !bytes.Equal(events[0].Body, g.keptOf(first)) {
			w.t.Errorf("stored as %v", events)
		}
		if n := queryOne[int](w.t, w.db, `SELECT cardinality(differing) FROM event_redeliveries WHERE event_id = $1`, events[0].ID); n != 1 {
			w.t.Errorf("%d differing bodies are remembered, want 1", n)
		}
	})
}

func TestCase_B15_AnEventThatSaysNothingOfItselfIsDecidedByTheLookup(t *testing.T) {
	looks := func(g *gateway) bool { return g.has("look") }
	inWorld(t).eachThat(looks, func(w *testWorld, g *gateway) {
		s := newSale(g).paid()
		w.api.tells(g, s)
		w.take(g, g.body(newHook("look", "evt_"+s.id, s)))
		w.wantCredited(g, s)
		if n := w.api.questions(g, s.id); n == 0 {
			w.t.Error("the gateway was not asked")
		}
	})
}

func TestCase_B17_ADuplicateMovesACounterAndNothingElse(t *testing.T) {
	settles := func(g *gateway) bool { return !g.reopen }
	inWorld(t).eachThat(settles, func(w *testWorld, g *gateway) {
		s := newSale(g).paid()
		w.api.tells(g, s)
		body := g.body(newHook("paid", "evt_"+s.id, s))
		w.take(g, body)
		w.wantCredited(g, s)
		row := func() string {
			return queryOne[string](w.t, w.db, `
SELECT row(v.id, v.status, v.outcome, v.reason, v.attempts, v.last_error, v.received_at, v.processed_at)::text || row(p.*)::text || r.n
FROM webhook_events v JOIN payments p ON p.provider = v.provider AND p.gateway_id = v.payment_ref,
     LATERAL (SELECT count(*) AS n FROM event_results r WHERE r.event_id = v.id) r
WHERE v.provider = $1 AND v.payment_ref = $2`, g.name, s.id)
		}
		before := row()
		w.take(g, body)
		w.take(g, body)
		w.final(g, s.id)
		if diff := cmp.Diff(before, row()); diff != "" {
			w.t.Errorf("a duplicate changed more than a counter:\n%s", diff)
		}
		if e := w.about(g, s.id); len(e) != 1 || e[0].Deliveries != 3 {
			w.t.Errorf("deliveries: %v", e)
		}
	})
}

func TestCase_B18_AnEventWhoseFirstProcessingMetA503IsProcessed(t *testing.T) {
	inWorld(t).eachThat(asksItsAPI, func(w *testWorld, g *gateway) {
		s := newSale(g).paid()
		w.api.tells(g, s)
		w.api.fail(g, s.id, http.StatusServiceUnavailable)
		body := g.body(newHook("paid", "evt_"+s.id, s))
		w.take(g, body)
		eventually(w.t, 10*time.Second, "the event is parked", func() bool {
			e := w.about(g, s.id)
			return len(e) == 1 && e[0].Status == "parked" && strings.HasPrefix(e[0].Reason, "lookup_unavailable")
		})
		w.wantLedger(g, s.id, "")
		w.api.fail(g, s.id, 0)
		w.take(g, body) // the gateway sends it again: a duplicate, and no reason to forget it
		w.hurry(g, s.id)
		w.wantCredited(g, s)
		if e := w.about(g, s.id); len(e) != 1 || e[0].Outcome != "applied" || e[0].Deliveries != 2 || e[0].Attempts != 0 {
			w.t.Errorf("ended as %v", e)
		}
	})
}

func TestCase_B21_TheSameIdsAtAllGatewaysAndAccountsAreEventsAndPaymentsOfTheirOwn(t *testing.T) {
	w := inWorld(t)
	same := func(g *gateway) sale {
		if g.fixed {
			return saleOf(g, idOf(g, "70001")).paid()
		}
		return saleOf(g, "70001").paid()
	}
	sources, ids := 0, []string{}
	for _, g := range gateways {
		for _, account := range g.accounts {
			s := same(g)
			w.api.says(g, account, s)
			body := g.body(newHook("paid", "evt_same_1", s))
			if r := w.post(g.request(account, secretsOf(g, account)[0], body)); r.status != 200 {
				t.Errorf("%s/%s: %d %q", g, account, r.status, r.body)
			}
			sources, ids = sources+1, append(ids, s.id)
		}
	}
	for _, g := range gateways {
		s := same(g)
		w.final(g, s.id)
		for _, account := range g.accounts {
			got := queryOne[string](t, w.db, `
SELECT COALESCE(string_agg(l.kind || ' ' || l.amount || ' ' || l.debit_account, ', ' ORDER BY l.kind), '') FROM payments p JOIN ledger_entries l ON l.payment_id = p.id
WHERE p.provider = $1 AND p.account = $2 AND p.gateway_id = $3`, g.name, account, s.id)
			want := fmt.Sprintf("capture 10010 gateway:%s:%s", g.name, account)
			if s.fee > 0 {
				want += fmt.Sprintf(", fee %d beneficiary:%s", s.fee, owner)
			}
			if got != want {
				t.Errorf("%s/%s booked %q, want %q", g, account, got, want)
			}
		}
	}
	if n := queryOne[int](t, w.db, `SELECT count(*) FROM events WHERE payment_ref = ANY ($1)`, ids); n != sources {
		t.Errorf("%d events, want %d", n, sources)
	}
}

func TestCase_B23_AnAPIThatStillSaysPaidAfterARefundCreditsNothingTwice(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		s := newSale(g)
		w.api.tells(g, s.paid())
		w.take(g, g.body(newHook("paid", "evt_1"+s.id, s.paid())))
		w.wantCredited(g, s.paid())
		// Stripe's intent stays "succeeded" for ever; of the others the refund
		// shows in the status.
		w.api.tells(g, s.refundedAll())
		w.take(g, g.body(newHook("refunded", "evt_2"+s.id, s.refundedAll())))
		w.final(g, s.id)
		w.wantLedger(g, s.id, s.returned())
		for _, kind := range g.kinds("look", "again") {
			w.take(g, g.body(newHook(kind, "evt_3"+kind+s.id, s.refundedAll())))
			w.final(g, s.id)
			w.wantLedger(g, s.id, s.returned())
			if p := w.payment(g, s.id); p.Status != "refunded" || p.Domain != p.Transitions {
				w.t.Errorf("after %s the payment is %+v", kind, p)
			}
		}
	})
}
