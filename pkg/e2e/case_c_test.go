package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

func TestCase_C1_AWaitingPaymentThatIsToldAgainAfterPaidStaysPaid(t *testing.T) {
	waits := func(g *gateway) bool { return g.has("created") }
	inWorld(t).eachThat(waits, func(w *testWorld, g *gateway) {
		s := newSale(g)
		w.api.tells(g, s.paid())
		waiting := newHook("created", "evt_1"+s.id, s)
		waiting.at = waiting.at.Add(-time.Minute)
		w.take(g, g.body(newHook("paid", "evt_2"+s.id, s.paid())))
		w.wantCredited(g, s.paid())
		w.take(g, g.body(waiting))
		w.wantCredited(g, s.paid())
		events, outcome := w.about(g, s.id), "stale"
		if g.mute || g.forget {
			outcome = "repeated" // it claims nothing
		}
		if len(events) != 2 || events[1].Outcome != outcome || outcome == "stale" && events[1].Reason == "" {
			w.t.Errorf("the late event is %v, want %s with a reason", events, outcome)
		}
		if p := w.payment(g, s.id); p.Transitions != 1 {
			w.t.Errorf("%d transitions, want 1", p.Transitions)
		}
	})
}

func TestCase_C3_ReversedArrivalOfOneSecondEndsInTheTruth(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		s := newSale(g)
		w.api.tells(g, s.refundedAll())
		at := time.Now().Add(-time.Hour)
		for _, h := range []hook{
			newHook("refunded", "evt_3"+s.id, s.refundedAll()), newHook("again", "evt_2b"+s.id, s.paid()),
			newHook("paid", "evt_2"+s.id, s.paid()), newHook("created", "evt_1"+s.id, s),
		} {
			h.at = at
			if g.has(h.kind) {
				w.take(g, g.body(h))
			}
		}
		if g.bare { // the refund waited for its capture
			eventually(w.t, 10*time.Second, "the capture is booked", func() bool { return w.ledger(g, s.id) != "" })
			w.hurry(g, s.id)
		}
		w.final(g, s.id)
		w.wantLedger(g, s.id, s.returned())
		if p := w.payment(g, s.id); p.Status != "refunded" || p.Net != -s.fee {
			w.t.Errorf("the payment is %+v", p)
		}
	})
}

func TestCase_C5_ALateEventWithFewerFieldsEmptiesNothing(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		s := newSale(g)
		w.api.tells(g, s.refundedAll())
		if g.bare {
			w.take(g, g.body(newHook("paid", "evt_0"+s.id, s.paid())))
		}
		w.take(g, g.body(newHook("refunded", "evt_1"+s.id, s.refundedAll())))
		w.final(g, s.id)
		before := w.payment(g, s.id)
		fewer := s.paid()
		fewer.withoutFields = true
		w.take(g, g.body(newHook("paid", "evt_2"+s.id, fewer)))
		w.final(g, s.id)
		if after := w.payment(g, s.id); after != before || after.Status != "refunded" || after.Reference != s.reference() {
			w.t.Errorf("before %+v, after %+v", before, after)
		}
		w.wantLedger(g, s.id, s.returned())
	})
}

func TestCase_C7_APaymentThatFailedIsCreditedOnceWhenItIsPaidLater(t *testing.T) {
	fails := func(g *gateway) bool { return g.has("failed") }
	inWorld(t).eachThat(fails, func(w *testWorld, g *gateway) {
		s := newSale(g)
		w.api.tells(g, s.failed())
		early := newHook("failed", "evt_1"+s.id, s.failed())
		early.at = early.at.Add(-3 * time.Minute)
		w.take(g, g.body(early))
		w.final(g, s.id)
		w.wantLedger(g, s.id, "")
		w.api.tells(g, s.paid())
		w.take(g, g.body(newHook("paid", "evt_2"+s.id, s.paid())))
		w.take(g, g.body(newHook("again", "evt_3"+s.id, s.paid())))
		w.take(g, g.body(early))
		w.wantCredited(g, s.paid())
	})
}

func TestCase_C9_TheSimulatorsOrdersAllEndInTheTruth(t *testing.T) {
	order := func(cfg gatewaysim.Config) (ids []string) {
		sim, err := gatewaysim.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range sim.Deliveries() {
			ids = append(ids, fmt.Sprint(d.Payment, d.Step, d.EventType))
		}
		return ids
	}
	if keep := gatewaysim.OrderKeep; slices.Equal(order(gatewaysim.Config{Seed: 9}), order(gatewaysim.Config{Seed: 9, Order: keep})) {
		t.Error("without a flag the simulator keeps the order, so that developers meet disorder in production first")
	}
	for _, order := range []gatewaysim.Order{gatewaysim.OrderKeep, gatewaysim.OrderReverse, gatewaysim.OrderShuffle} {
		t.Run(string(order), func(t *testing.T) {
			sim, err := gatewaysim.New(gatewaysim.Config{Seed: 9, Payments: 60, Order: order, Shares: gatewaysim.Shares{Duplicates: 0.2, Concurrent: 0.5}})
			if err != nil {
				t.Fatal(err)
			}
			w := ownWorldOf(t, sim)
			report, err := sim.Run(t.Context(), gatewaysim.RunConfig{BaseURL: func(string, string) string { return "http://" + w.addr() }, Concurrency: 8})
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, 30*time.Second, "everything is final", func() bool {
				return queryOne[bool](t, w.db, `SELECT NOT EXISTS (SELECT FROM event_work) AND NOT EXISTS (SELECT FROM outbox WHERE relayed_at IS NULL)`)
			})
			compare(t, w.db, sim, report)
		})
	}
}

// Ends well in pkg/processor; here what becomes of the one that is never
// registered, as the gateway, the application and on-call see it.
func TestCase_C10_APaymentThatIsNeverRegisteredEndsDeadAndListed(t *testing.T) {
	w := ownWorld(t, map[string]string{"UNKNOWN_PAYMENT": "park", "PARK_LIMIT": "1s"})
	forgotten := map[*gateway]sale{}
	w.each(func(w *testWorld, g *gateway) {
		never, late := newSale(g).paid(), newSale(g).paid()
		forgotten[g] = never
		for _, s := range []sale{never, late} {
			w.api.tells(g, s)
			w.take(g, g.body(newHook("paid", "evt_"+s.id, s)))
			eventually(w.t, 5*time.Second, "the event is parked", func() bool {
				e := w.about(g, s.id)
				return len(e) == 1 && e[0].Status == "parked" && strings.HasPrefix(e[0].Reason, "payment_unknown")
			})
		}
		if _, err := w.db.Pool.Exec(w.t.Context(), `SELECT register_payment($1, $2, $3, $4, 'BRL')`, g.name, g.home(), late.id, late.amount); err != nil {
			w.t.Fatal(err)
		}
		w.wantCredited(g, late)
	})
	time.Sleep(time.Second) // PARK_LIMIT
	w.each(func(w *testWorld, g *gateway) {
		never := forgotten[g]
		w.hurry(g, never.id)
		w.final(g, never.id)
		e := w.about(g, never.id)
		if len(e) != 1 || e[0].Status != "dead" || !strings.Contains(e[0].Reason, "payment_unknown") {
			w.t.Errorf("never registered: %v", e)
		}
		w.wantLedger(g, never.id, "")
		// On-call repairs it, and presses "resend" at the gateway.
		if _, err := w.db.Pool.Exec(w.t.Context(), `SELECT register_payment($1, $2, $3)`, g.name, g.home(), never.id); err != nil {
			w.t.Fatal(err)
		}
		w.take(g, g.body(newHook("paid", "evt_"+never.id, never)))
		w.wantCredited(g, never)
	})
}

func TestCase_C11_DomainEventsCarryTheStateAfterTheirTransition(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		s := newSale(g)
		w.api.tells(g, s.refundedAll())
		var wg sync.WaitGroup
		for i, kind := range g.kinds("paid", "refunded", "again", "look") {
			wg.Go(func() { w.take(g, g.body(newHook(kind, "evt_"+string(rune('1'+i))+s.id, s.refundedAll()))) })
		}
		wg.Wait()
		w.final(g, s.id)
		type domain struct {
			Seq      int64
			Payload  []byte
			From, To string
		}
		all := queryAll[domain](w.t, w.db, `
SELECT o.seq, o.payload::text::bytea, COALESCE(t.from_status, ''), t.to_status FROM outbox o
JOIN payments p ON p.id = o.payment_id JOIN payment_transitions t ON t.payment_id = o.payment_id AND t.seq = o.seq
WHERE p.provider = $1 AND p.gateway_id = $2 ORDER BY o.id`, g.name, s.id)
		captured, refunded := int64(0), int64(0)
		for i, d := range all {
			var p struct {
				Seq                int64
				From, To           string
				Captured, Refunded int64
				Bookings           []struct {
					Kind   string
					Amount int64
				}
			}
			if err := json.Unmarshal(d.Payload, &p); err != nil {
				w.t.Fatal(err)
			}
			for _, b := range p.Bookings {
				switch b.Kind {
				case "capture":
					captured += b.Amount
				case "refund":
					refunded += b.Amount
				}
			}
			if p.Seq != int64(i+1) || p.Seq != d.Seq || p.From != d.From || p.To != d.To || p.Captured != captured || p.Refunded != refunded {
				w.t.Errorf("domain event %d says %+v; the transition was from %q to %q with %d captured and %d refunded", i+1, p, d.From, d.To, captured, refunded)
			}
		}
		if len(all) == 0 || all[len(all)-1].To != "refunded" || captured != s.amount || refunded != s.amount {
			w.t.Errorf("%d domain events, %d captured, %d refunded", len(all), captured, refunded)
		}
	})
}

func TestCase_C12_ARefundThatIsKnownBeforePaidIsBookedThereAndBack(t *testing.T) {
	waits := func(g *gateway) bool { return g.has("created") }
	inWorld(t).eachThat(waits, func(w *testWorld, g *gateway) {
		s := newSale(g)
		s.fee = 0
		w.api.tells(g, s)
		w.take(g, g.body(newHook("created", "evt_1"+s.id, s)))
		w.final(g, s.id)
		w.api.tells(g, s.refundedAll())
		w.take(g, g.body(newHook("refunded", "evt_2"+s.id, s.refundedAll())))
		if g.bare { // it waits, and nothing is booked on a guess
			eventually(w.t, 10*time.Second, "the refund is parked", func() bool {
				e := w.about(g, s.id)
				return len(e) == 2 && e[1].Status == "parked" && e[1].Reason != ""
			})
			w.wantLedger(g, s.id, "")
			w.take(g, g.body(newHook("paid", "evt_3"+s.id, s.paid())))
			eventually(w.t, 10*time.Second, "the capture is booked", func() bool { return w.ledger(g, s.id) != "" })
			w.hurry(g, s.id)
		}
		w.final(g, s.id)
		got := w.ledger(g, s.id)
		if got = strings.ReplaceAll(got, ", fee 0", ""); got != "capture 10010, refund 10010" {
			w.t.Errorf("ledger %q", got)
		}
		if p := w.payment(g, s.id); p.Status != "refunded" || p.Net != 0 || p.Transitions < 3 {
			w.t.Errorf("the payment is %+v", p)
		}
		if sum := queryOne[int64](w.t, w.db, `
SELECT sum(CASE WHEN l.kind = 'refund' THEN -l.amount ELSE l.amount END)::bigint FROM ledger_entries l JOIN payments p ON p.id = l.payment_id
WHERE p.provider = $1 AND p.gateway_id = $2`, g.name, s.id); sum != 0 {
			w.t.Errorf("the entries add up to %d", sum)
		}
	})
}
