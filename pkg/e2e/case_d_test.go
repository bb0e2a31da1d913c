package e2e

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// settledBody waits until the event with exactly this body is not pending.
func (w *testWorld) settledBody(g *gateway, body []byte) (e stored) {
	w.t.Helper()
	var ok bool
	eventually(w.t, 10*time.Second, fmt.Sprintf("an event with the bytes %.100q is not pending", body), func() bool {
		if e, ok = w.withBody(g, body); !ok {
			e, ok = w.withBody(g, g.keptOf(body))
		}
		return ok && e.Status != "pending"
	})
	return e
}

// want is what becomes of a body: its status and the beginning of its reason.
type want struct{ body, status, reason string }

func (w *testWorld) become(g *gateway, wants []want) {
	w.t.Helper()
	for _, c := range wants {
		w.take(g, []byte(c.body))
		e := w.settledBody(g, []byte(c.body))
		if e.Status != c.status || !strings.HasPrefix(e.Reason, c.reason) {
			w.t.Errorf("%.160s\nis %s (%s), want %s (%s)", c.body, e.Status, e.Reason, c.status, c.reason)
		}
	}
}

func TestCase_D3_BigIntegersKeepTheirDigitsAndAmountsBeyondTheRangeBookNothing(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		// As a float these are one number.
		for _, text := range []string{"9007199254740992", "9007199254740993", "12345678901234567890"} {
			s := saleOf(g, text).paid()
			if g.fixed {
				s = saleOf(g, idOf(g, text)).paid()
			}
			w.api.tells(g, s)
			body := strings.Replace(string(g.body(newHook("paid", "evt_"+text, s))), `"`+text+`"`, text, 1)
			w.take(g, []byte(body))
			w.wantCredited(g, s)
		}
		const huge = "12345678901234567890"
		s := newSale(g).paid()
		body, status := g.body(newHook("paid", "evt_"+s.id, s)), "parked" // what an API says may be repaired
		if g.amount != "" {
			body, status = g.worth(body, cmp.Or(g.huge, huge)), "quarantined"
		}
		s.rawAmount = huge
		w.api.tells(g, s)
		w.take(g, body)
		e := w.settledBody(g, body)
		if e.Status != status || !strings.Contains(e.Reason, "range") && !strings.Contains(e.Reason, "64 bits") {
			w.t.Errorf("an amount beyond the range is %s (%s), want %s", e.Status, e.Reason, status)
		}
		if n := queryOne[int](w.t, w.db, `SELECT count(*) FROM ledger_entries l JOIN payments p ON p.id = l.payment_id WHERE p.provider = $1 AND p.gateway_id = $2`, g.name, s.id); n != 0 {
			w.t.Errorf("%d entries were booked", n)
		}
	})
}

func TestCase_D7_NULAndHalfSurrogatesInNamesHoldUpNoMoney(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		notes := []string{`"A\u0000B"`, `"\ud83d"`, `"\udcb3\ud83d"`, "\"\xff\xfe\"", "\"\xed\xa0\xbd\"", `"💳 São"`}
		if g.form { // what is not in quotes is written as it is
			notes = []string{`A%00B`, `%ED%A0%BD`, `%FF%FE`, "\"\xff\xfe\"", "\"\xed\xa0\xbd\"", `"💳 São"`, `S%C3%A3o+%20`}
		}
		for _, note := range notes {
			s := newSale(g).paid()
			w.api.tells(g, s)
			h := newHook("paid", "evt_"+s.id, s)
			h.note = note
			body := g.body(h)
			w.take(g, body)
			w.take(g, body)
			w.wantCredited(g, s)
			if e := w.wantStored(g, body); e.Deliveries != 2 {
				w.t.Errorf("%d deliveries", e.Deliveries)
			}
			if n := queryOne[int](w.t, w.db, `SELECT count(body) FROM webhook_events WHERE provider = $1 AND payment_ref = $2 AND body IS NOT NULL`, g.name, s.id); n != 1 {
				w.t.Error("the view shows no body")
			}
		}
	})
}

func TestCase_D9_TestEventsReachNoLedgerInProduction(t *testing.T) {
	w := inWorld(t)
	type mark struct {
		g      *gateway
		name   string
		mark   bool
		header string
		ignore bool
	}
	marks := []mark{
		{&pagpolarGateway, "in the header alone", false, "true", true},
		{&pagpolarGateway, "in both", true, "true", true},
		{&pagpolarGateway, "a live event with the header false", false, "false", false},
	}
	for _, g := range gateways {
		if g.marks {
			marks = append(marks, mark{g, "in the body", true, "", true}, mark{g, "a live event", false, "", false})
		}
	}
	for _, c := range marks {
		t.Run(c.g.String()+" "+c.name, func(t *testing.T) {
			w := w.in(t)
			s := newSale(c.g).paid()
			w.api.tells(c.g, s)
			h := newHook("paid", "evt_"+s.id, s)
			h.test = c.mark
			body := c.g.body(h)
			req := c.g.by(0, body)
			if c.header != "" {
				req.header.Set("X-PagPolar-Test", c.header)
			}
			if r := w.post(req); r.status != 200 {
				t.Errorf("answered %d %q", r.status, r.body)
			}
			if !c.ignore {
				w.wantCredited(c.g, s)
				return
			}
			e := w.settledBody(c.g, body)
			if e.Status != "ignored" || e.Reason != "test_event" || !e.Test {
				t.Errorf("stored as %v", e)
			}
			if n := queryOne[int](t, w.db, `SELECT count(*) FROM payments WHERE gateway_id = $1`, s.id); n != 0 {
				t.Error("a test event made a payment")
			}
			// The real one may come yet, and is none of its duplicates.
			live := newHook("paid", "evt_live"+s.id, s)
			w.take(c.g, c.g.body(live))
			w.wantCredited(c.g, s)
		})
	}
}

var plainSubject = regexp.MustCompile(`^payments\.[a-z_]+\.[a-z]+\.[A-Za-z0-9_-]{1,64}$`)

func TestCase_D12_StrangeIdsAreKeysPathsAndSubjectsOfTheirOwn(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		ids := []string{"pay_a&b=c", "a.b.*.>", "../../v1/x", "a/b?c=d#e", "a%2Fb", "a b+c", "ção", strings.Repeat("x", 240)}
		if g.fixed { // the events' ids may still be strange
			ids = []string{idOf(g, "e2eStrange12"), idOf(g, "E2ESTRANGE12"), idOf(g, strings.Repeat("7", 17))}
		}
		seen := map[string]bool{}
		for i, id := range ids {
			if seen[id] {
				continue
			}
			seen[id] = true
			s := saleOf(g, id).paid()
			w.api.tells(g, s)
			event := fmt.Sprintf("evt_%d_a&b=c%s*>", i, g.dot())
			body := g.body(newHook("paid", event, s))
			w.take(g, body)
			w.take(g, body)
			w.final(g, id)
			w.wantLedger(g, id, s.credited())
			e := w.wantStored(g, body)
			if e.Deliveries != 2 || e.PaymentRef != id || e.EventID != g.eventID(event) {
				w.t.Errorf("id %.40q: stored as %v", id, e)
			}
			subject := queryOne[string](w.t, w.db, `
SELECT o.subject FROM outbox o JOIN payments p ON p.id = o.payment_id WHERE p.provider = $1 AND p.gateway_id = $2 ORDER BY o.id LIMIT 1`, g.name, id)
			if !plainSubject.MatchString(subject) {
				w.t.Errorf("id %.40q is in the subject %q", id, subject)
			}
		}
		if g.hasIDs && g.names == nil { // an id cut in two is another event
			if n := queryOne[int](w.t, w.db, `SELECT count(DISTINCT dedupe_key) FROM events WHERE provider = $1 AND account = $2 AND provider_event_id LIKE 'evt\_%a&b=c%'`, g.name, g.home()); n != len(seen) {
				w.t.Errorf("%d keys of %d events", n, len(seen))
			}
		}
	})
}

func TestCase_D13_TheEventsOfOneTriggerAreOnePaymentAndOneCredit(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		s := newSale(g)
		w.api.tells(g, s.paid())
		kinds := g.kinds("created", "paid", "again", "look")
		for i, kind := range kinds {
			h := newHook(kind, fmt.Sprintf("evt_%d%s", i, s.id), s.paid())
			h.at = h.at.Add(time.Duration(i) * time.Second)
			w.take(g, g.body(h))
		}
		w.wantCredited(g, s.paid())
		want := len(kinds)
		if g.alike {
			want--
		}
		if n := len(w.about(g, s.id)); n != want {
			w.t.Errorf("%d events, want %d", n, want)
		}
	})
}
