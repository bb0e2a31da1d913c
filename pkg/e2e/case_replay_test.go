package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
	"github.com/umavez/umavez/pkg/replay"
)

// replays runs the command as a person does and reads its JSON.
func (s *stack) replays(wantCode int, args ...string) (sum replay.Summary) {
	s.t.Helper()
	out, errs, code := run(s.t, "umavez", s.of("sweeper"), append([]string{"replay", "-o", "json"}, args...)...)
	if code != wantCode {
		s.t.Errorf("umavez replay %v: code %d, want %d\n%s%s", args, code, wantCode, out, errs)
	}
	if err := json.Unmarshal([]byte(out), &sum); err != nil && code != 2 {
		s.t.Errorf("umavez replay %v: %v in %q", args, err, out)
	}
	return sum
}

// setAside makes settled events of unfinished ones, as old programs and
// incidents leave them.
func (w *testWorld) setAside(id int64, status event.Status, reason string) {
	w.t.Helper()
	if _, err := w.db.Pool.Exec(w.t.Context(), `
WITH gone AS (DELETE FROM event_work WHERE event_id = $1)
INSERT INTO event_results (event_id, status, reason) VALUES ($1, $2, $3)`, id, status, reason); err != nil {
		w.t.Fatal(err)
	}
}

// keep stores an event as an ingest with an older adapter did: nobody could
// read it, so it names neither type nor payment.
func (w *testWorld) keep(g *gateway, body []byte, test bool) int64 {
	w.t.Helper()
	stored, err := w.db.InsertEvents(w.t.Context(), []event.Arrival{{Event: event.Event{
		Provider: g.name, Account: g.home(), DedupeKey: event.BodyKey(body), Body: body, BodySHA256: sha256.Sum256(body), Secret: "1", Test: test,
	}, Settle: event.StatusQuarantined, Reason: "unreadable: an older adapter"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return stored[0].ID
}

func TestCase_G11_StoredEventsAreReplayedWithoutTheGateway(t *testing.T) {
	t.Parallel()
	s, w := handStack(t)
	s.urls = map[string]string{"sweeper": user(t, "sweeper")} // the least that it needs
	s.up(1, 1)
	w.addrs = s.addrs
	g := &asaasGateway
	fresh := func() (sale, []byte) {
		sl := newSale(g).paid()
		w.api.tells(g, sl)
		return sl, g.body(newHook("paid", "evt_"+sl.id, sl))
	}

	t.Run("what was applied is found repeated", func(t *testing.T) {
		w := w.in(t)
		sl, body := fresh()
		w.take(g, body)
		w.wantCredited(g, sl)
		before := w.payment(g, sl.id)
		for range 2 { // twice is as good as once
			sum := s.replays(0, "--payment", sl.id, "--status", "processed", "--wait", "15s")
			if sum.Matched != 1 || sum.Replayed != 1 || sum.Became["processed, repeated"] != 1 || len(sum.Events) != 1 || sum.Events[0].Became != "processed, repeated" {
				t.Errorf("%+v", sum)
			}
		}
		w.wantLedger(g, sl.id, sl.credited())
		if after := w.payment(g, sl.id); after != before {
			t.Errorf("the payment was %+v and is %+v", before, after)
		}
		if n := queryOne[int](t, w.db, `SELECT count(*) FROM event_results r JOIN events e ON e.id = r.event_id WHERE e.payment_ref = $1`, sl.id); n != 3 {
			t.Errorf("%d results, want one for each turn", n)
		}
	})

	t.Run("a dead event is applied, and a dry run changes nothing", func(t *testing.T) {
		w := w.in(t)
		sl, body := fresh()
		s.processors[0].kill()
		w.take(g, body)
		id := w.wantStored(g, body).ID
		w.setAside(id, event.StatusDead, "gave up after repeated failures: an incident")
		if sum := s.replays(0, "--status", "dead", "--provider", "asaas", "--since", "1h", "--dry-run"); !sum.DryRun || sum.Matched != 1 || sum.Replayed != 1 || sum.Events[0].ID != id {
			t.Errorf("dry run: %+v", sum)
		}
		if n := queryOne[int](t, w.db, `SELECT count(*) FROM event_work`); n != 0 {
			t.Errorf("the dry run made %d events unfinished", n)
		}
		if sum := s.replays(0, "--status", "dead", "--until", "1h"); sum.Matched != 0 {
			t.Errorf("received before that: %+v", sum)
		}
		if sum := s.replays(0, "--provider", "asaas"); sum.Replayed != 1 {
			t.Errorf("%+v", sum)
		}
		if sum := s.replays(0, "--provider", "asaas"); sum.Matched != 0 {
			t.Errorf("again, while it is unfinished: %+v", sum)
		}
		if sum := s.replays(1, fmt.Sprint(id), "999999999"); sum.Replayed != 0 || len(sum.LeftAlone) != 1 || len(sum.NotFound) != 1 {
			t.Errorf("by its id, while it is unfinished: %+v", sum)
		}
		s.processors[0] = s.processor(0).ready()
		w.wantCredited(g, sl)
	})

	t.Run("a repaired adapter reads what was quarantined", func(t *testing.T) {
		w := w.in(t)
		sl, body := fresh()
		id := w.keep(g, body, false)
		hopeless := w.keep(g, []byte("<xml/>"), false)
		sum := s.replays(0, "--status", "quarantined", "--wait", "15s")
		if sum.Matched != 2 || sum.Replayed != 1 || sum.Became["processed, applied"] != 1 {
			t.Errorf("%+v", sum)
		}
		w.wantLedger(g, sl.id, sl.credited())
		if sum := s.replays(1, fmt.Sprint(hopeless)); sum.Replayed != 0 || !strings.Contains(fmt.Sprint(sum.LeftAlone), "still quarantined") {
			t.Errorf("what still nobody can read: %+v", sum)
		}
		if st := queryOne[string](t, w.db, `SELECT status FROM webhook_events WHERE id = $1`, id); st != "processed" {
			t.Errorf("the event is %s", st)
		}
	})

	t.Run("test events of production stay out", func(t *testing.T) {
		w := w.in(t)
		g := &stripeGateway
		sl := newSale(g).paid()
		w.api.tells(g, sl)
		h := newHook("paid", "evt_"+sl.id, sl)
		h.test = true
		id := w.keep(g, g.body(h), false)
		if sum := s.replays(1, fmt.Sprint(id), "--wait", "2s"); sum.Replayed != 0 || !strings.Contains(fmt.Sprint(sum.LeftAlone), "still ignored: test") {
			t.Errorf("%+v", sum)
		}
		if n := queryOne[int](t, w.db, `SELECT count(*) FROM payments WHERE gateway_id = $1`, sl.id); n != 0 {
			t.Error("a test event made a payment")
		}
	})

	t.Run("an event without body or source is left alone", func(t *testing.T) {
		w := w.in(t)
		sl, body := fresh()
		w.take(g, body)
		w.wantCredited(g, sl)
		id := w.wantStored(g, body).ID
		if _, err := w.db.Pool.Exec(t.Context(), `DELETE FROM event_bodies WHERE event_id = $1`, id); err != nil {
			t.Fatal(err)
		}
		if sum := s.replays(1, fmt.Sprint(id)); sum.Replayed != 0 || !strings.Contains(fmt.Sprint(sum.LeftAlone), "body is gone") {
			t.Errorf("%+v", sum)
		}
		// Its body is needed by verify below.
		if _, err := w.db.Pool.Exec(t.Context(), `INSERT INTO event_bodies (received_on, event_id, body) SELECT (received_at AT TIME ZONE 'UTC')::date, id, $2 FROM events WHERE id = $1`, id, body); err != nil {
			t.Fatal(err)
		}
		env := s.with("SOURCES=stripe")
		out, _, code := run(t, "umavez", env, "replay", fmt.Sprint(id))
		if code != 1 || !strings.Contains(out, "its source is not in SOURCES") {
			t.Errorf("code %d: %s", code, out)
		}
	})
	s.settle(10 * time.Second)
	verify(t, s.db)
}

// Many replays of the same events at one moment give each one turn more.
func TestCase_G11_ReplaysAtOnceGiveEachEventOneTurn(t *testing.T) {
	t.Parallel()
	w := &testWorld{world: &world{db: postgrestest.New(t)}, t: t}
	var ids []int64
	for i := range 50 {
		id := w.keep(&asaasGateway, fmt.Appendf(nil, "body %d", i), false)
		ids = append(ids, id)
	}
	rows, err := w.db.ReplayPage(t.Context(), replay.Filter{IDs: ids}, 0, 100)
	if err != nil || len(rows) != len(ids) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	won := map[int64]int{}
	for range 8 {
		all.Go(func() {
			got, err := w.db.Replay(t.Context(), rows)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, id := range got {
				won[id]++
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if won[id] != 1 {
			t.Errorf("event %d was replayed %d times", id, won[id])
		}
	}
	// Settled since the rows were read: what was looked at is no more.
	if _, err := w.db.Pool.Exec(t.Context(), `WITH w AS (DELETE FROM event_work RETURNING event_id, turn)
INSERT INTO event_results (event_id, turn, status, reason) SELECT event_id, turn, 'dead', 'test' FROM w`); err != nil {
		t.Fatal(err)
	}
	if got, err := w.db.Replay(t.Context(), rows); err != nil || len(got) != 0 {
		t.Errorf("an outdated replay: %d events, %v", len(got), err)
	}
}
