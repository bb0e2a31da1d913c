package sweeper_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
	"github.com/umavez/umavez/pkg/queue"
	"github.com/umavez/umavez/pkg/queue/queuetest"
	"github.com/umavez/umavez/pkg/sweep"
	"github.com/umavez/umavez/pkg/sweeper"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

type world struct {
	t      *testing.T
	db     *postgres.DB
	server *queuetest.Server
	conn   *queue.Conn
	*sweeper.Sweeper
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, db: postgrestest.New(t), server: queuetest.NewServer(t)}
	w.conn = w.server.Connect(t)
	if err := w.conn.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg := sweeper.Config{Every: time.Minute, Limit: 100000, ParkLimit: 72 * time.Hour, BodyRetention: 720 * time.Hour, KeyRetention: 9600 * time.Hour, ReconcileAfter: time.Hour, ReconcileWithin: 720 * time.Hour}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	w.Sweeper = sweeper.New(cfg, w.db, w.publish, []string{"gw/default"}, zap.NewNop())
	w.Vanished = func(ctx context.Context) (bool, error) {
		created, err := w.conn.Check(ctx)
		return len(created) > 0, err
	}
	return w
}

func (w *world) publish(ctx context.Context, notices []event.Notice) []sweeper.PublishState {
	out := make([]sweeper.PublishState, len(notices))
	for i, p := range w.conn.Publish(ctx, notices) {
		out[i] = map[queue.Result]sweeper.PublishState{queue.Stored: sweeper.Stored, queue.Waiting: sweeper.Waiting, queue.Failed: sweeper.Failed}[p.Result]
	}
	return out
}

// receive stores n pending events, received age ago, which nobody published.
func (w *world) receive(n int, age time.Duration) {
	w.t.Helper()
	arrivals := make([]event.Arrival, n)
	for i := range arrivals {
		body := fmt.Appendf(nil, "%s %d", w.t.Name(), i)
		arrivals[i] = event.Arrival{Event: event.Event{Provider: "gw", Account: "default", DedupeKey: fmt.Sprintf("k%d", i), Type: "test",
			PaymentRef: fmt.Sprintf("pay_%d", i), Body: body, BodySHA256: sha256.Sum256(body), Secret: "1"}}
	}
	if _, err := w.db.InsertEvents(w.t.Context(), arrivals); err != nil {
		w.t.Fatal(err)
	}
	w.exec(`UPDATE events SET received_at = now() - $1::interval`, age)
	w.exec(`UPDATE event_work SET since = now() - $1::interval, next_at = now() - $1::interval + interval '5 minutes'`, age)
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.db.Pool.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) pass(f sweep.Filter, dryRun bool) sweep.Summary {
	w.t.Helper()
	sum, err := w.Pass(w.t.Context(), f, dryRun)
	if err != nil {
		w.t.Fatal(err)
	}
	return sum
}

// queued is how many messages the stream holds. The server counts them a
// moment after it has stored them, so the number is read until it stands.
func (w *world) queued() (n int) {
	w.t.Helper()
	for same, deadline := 0, time.Now().Add(5*time.Second); same < 4 && time.Now().Before(deadline); time.Sleep(15 * time.Millisecond) {
		pending, inFlight, err := w.conn.Lag(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if now := int(pending + inFlight); now == n {
			same++
		} else {
			n, same = now, 0
		}
	}
	return n
}

func (w *world) count(sql string, args ...any) (n int) {
	w.t.Helper()
	if err := w.db.Pool.QueryRow(w.t.Context(), sql, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func TestAFreshEventIsLeftToItsPublisher(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receive(10, 0)
	if sum := w.pass(sweep.Filter{}, false); sum.Looked != 0 || w.queued() != 0 {
		t.Errorf("%+v, %d queued", sum, w.queued())
	}
	// On call does not want to wait five minutes after an incident.
	w.exec(`UPDATE events SET received_at = now() - interval '40 seconds'`)
	if sum := w.pass(sweep.Filter{OlderThan: 30 * time.Second}, false); sum.Lost != 10 || w.queued() != 10 {
		t.Errorf("%+v, %d queued", sum, w.queued())
	}
}

func TestLostEventsAreQueuedOnceHoweverManySweepsRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const events = 2500 // more than two pages
	w.receive(events, time.Hour)
	if sum := w.pass(sweep.Filter{}, false); sum.Lost != events || sum.Failed != 0 {
		t.Fatalf("first sweep: %+v", sum)
	}
	for range 10 { // nobody processes; the rows are made due again each time
		w.exec(`UPDATE event_work SET next_at = now() - interval '1 minute'`)
		if sum := w.pass(sweep.Filter{}, false); sum.Waiting != events || sum.Lost != 0 {
			t.Fatalf("another sweep: %+v", sum)
		}
	}
	if got := w.queued(); got != events {
		t.Errorf("%d messages are queued, want %d", got, events)
	}
}

func TestTwoSweepersAtOnceAreHarmless(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receive(1500, time.Hour)
	other := make(chan error, 1)
	go func() {
		_, err := w.Pass(context.WithoutCancel(t.Context()), sweep.Filter{}, false)
		other <- err
	}()
	w.pass(sweep.Filter{}, false)
	if err := <-other; err != nil {
		t.Fatal(err)
	}
	if got := w.queued(); got != 1500 {
		t.Errorf("%d messages are queued, want 1500", got)
	}
}

func TestCase_E17_WhatTheBrokerLostIsFoundAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receive(50, 0)
	w.exec(`UPDATE event_work SET next_at = now() + interval '1 hour'`) // published, acknowledged, not due for long
	w.server.Forget()
	w.server.Start()
	queuetest.Eventually(t, 10*time.Second, "the broker is back, with nothing in it", func() bool {
		occupied, err := w.conn.Occupied(t.Context())
		return err == nil && occupied == ""
	})
	w.exec(`UPDATE events SET received_at = now() - interval '10 seconds'`)
	sum := w.pass(sweep.Filter{}, false)
	if sum.Lost != 50 || w.queued() != 50 {
		t.Errorf("%+v, %d queued", sum, w.queued())
	}
}

func TestADryRunChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receive(20, time.Hour)
	w.exec(`UPDATE event_work SET state = 'parked', reason = 'payment_unknown: waits', since = now() - interval '100 hours' WHERE event_id % 2 = 0`)
	before := w.count(`SELECT COALESCE(sum(hashtext(w::text)), 0)::bigint FROM event_work w`)
	sum := w.pass(sweep.Filter{}, true)
	if sum.Lost != 10 || sum.Due != 10 || sum.Dead != 10 || sum.Reasons["payment_unknown"] != 10 {
		t.Errorf("%+v", sum)
	}
	if after := w.count(`SELECT COALESCE(sum(hashtext(w::text)), 0)::bigint FROM event_work w`); after != before || w.queued() != 0 {
		t.Errorf("the rows changed, or %d messages were queued", w.queued())
	}
}

func TestParkedBeyondTheLimitIsDeadWithItsReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receive(3, 100*time.Hour)
	w.exec(`UPDATE event_work SET state = 'parked', reason = 'payment_unknown: waits', since = now() - interval '73 hours'`)
	if sum := w.pass(sweep.Filter{}, false); sum.Dead != 3 {
		t.Errorf("%+v", sum)
	}
	if got := w.count(`SELECT count(*) FROM webhook_events WHERE status = 'dead' AND reason LIKE 'parked for too long: payment_unknown%'`); got != 3 {
		t.Errorf("%d events are dead with their reason, want 3", got)
	}
}

func TestRowsThatAreSweptAgainAndAgainBackOffToSixHours(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receive(1, time.Hour)
	var minutes []int
	for range 9 {
		w.exec(`UPDATE event_work SET next_at = now() - interval '1 second'`)
		w.pass(sweep.Filter{}, false)
		minutes = append(minutes, w.count(`SELECT round(extract(epoch FROM next_at - now()) / 60)::int FROM event_work`))
	}
	if got, want := fmt.Sprint(minutes), "[5 10 20 40 80 160 320 360 360]"; got != want {
		t.Errorf("minutes until the next sweep %v, want %v", got, want)
	}
}

func TestABrokerThatIsAwayEndsThePassAndLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receive(5, time.Hour)
	w.Sweeper = sweeper.New(sweeper.Config{Every: time.Minute, Limit: 100, ParkLimit: time.Hour, ReconcileWithin: time.Hour}, w.db,
		func(_ context.Context, ns []event.Notice) []sweeper.PublishState {
			out := make([]sweeper.PublishState, len(ns))
			for i := range out {
				out[i] = sweeper.Failed
			}
			return out
		}, nil, zap.NewNop())
	sum, err := w.Pass(t.Context(), sweep.Filter{}, false)
	if !errors.Is(err, sweeper.ErrQueue) || sum.Failed != 5 {
		t.Errorf("%+v, %v", sum, err)
	}
	if got := w.count(`SELECT count(*) FROM event_work WHERE sweeps = 0 AND next_at <= now()`); got != 5 {
		t.Errorf("%d events are still due, want 5", got)
	}
}

func TestRetentionDropsOldDaysAndForgetsOldSettledEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receive(6, 0)
	// Two bodies are of a day of their own that is long past, two went to the
	// DEFAULT partition then, two are of today.
	w.exec(`SELECT ensure_body_partitions(current_date - 100, 1)`)
	w.exec(`UPDATE event_bodies b SET received_on = current_date - 100 FROM events e WHERE e.id = b.event_id AND e.dedupe_key IN ('k0', 'k1')`)
	w.exec(`UPDATE event_bodies b SET received_on = current_date - 90 FROM events e WHERE e.id = b.event_id AND e.dedupe_key IN ('k2', 'k3')`)
	// Three are beyond the retention of keys; one of them is still unfinished.
	w.exec(`UPDATE events SET received_at = now() - interval '500 days' WHERE dedupe_key IN ('k0', 'k1', 'k2')`)
	w.exec(`WITH done AS (DELETE FROM event_work w USING events e WHERE e.id = w.event_id AND e.dedupe_key IN ('k0', 'k2', 'k4') RETURNING w.event_id)
INSERT INTO event_results (event_id, status, reason) SELECT event_id, 'ignored', 'test' FROM done`)
	sum := w.pass(sweep.Filter{}, false)
	if sum.Days != 0 || sum.Forgotten != 2 {
		t.Errorf("while an old event is unfinished: %+v", sum)
	}
	if got := w.count(`SELECT count(*) FROM event_bodies`); got != 6 {
		t.Errorf("%d bodies are left, want all 6: one of that day is still needed", got)
	}
	if got := w.count(`SELECT count(*) FROM events WHERE dedupe_key = 'k1'`); got != 1 {
		t.Error("an unfinished event was forgotten")
	}
	w.exec(`UPDATE events SET received_at = now() WHERE dedupe_key = 'k1'`)
	if sum := w.pass(sweep.Filter{}, false); sum.Days != 1 || sum.Forgotten != 0 {
		t.Errorf("afterwards: %+v", sum)
	}
	if got := w.count(`SELECT count(*) FROM event_bodies`); got != 2 {
		t.Errorf("%d bodies are left, want 2", got)
	}
	for table, want := range map[string]int{"events": 4, "event_results": 1, "event_work": 3} {
		if got := w.count(`SELECT count(*) FROM ` + table); got != want {
			t.Errorf("%d rows are left in %s, want %d", got, table, want)
		}
	}
}

func TestTheLastDaysAreKeptWhateverIsAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receive(2, 0)
	w.exec(`DELETE FROM event_work`)
	if got := w.count(`SELECT count(*) FROM (SELECT drop_body_partition('9999-01-01')) d (day) WHERE day IS NOT NULL`); got != 0 {
		t.Error("a day was dropped")
	}
	if days, err := w.db.DropBodies(t.Context(), 0); err != nil || days != 0 || w.count(`SELECT count(*) FROM event_bodies`) != 2 {
		t.Errorf("%d days dropped, %v", days, err)
	}
}

func TestALostStreamMakesEverythingPendingDue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receive(12, 0)
	w.exec(`UPDATE event_work SET next_at = now() + interval '6 hours'`)
	w.exec(`UPDATE event_work SET state = 'parked', reason = 'payment_unknown: waits' WHERE event_id % 4 = 0`)
	if n, err := w.db.RingForAll(t.Context()); err != nil || n != 9 {
		t.Errorf("%d events were made due, want the 9 pending ones, %v", n, err)
	}
	if sum := w.pass(sweep.Filter{}, false); sum.Lost != 9 || w.queued() != 9 {
		t.Errorf("%+v, %d queued", sum, w.queued())
	}
}

func TestReconciliationEntersOneEventForEachSilentPayment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO payments (provider, account, gateway_id, status, created_at)
SELECT 'gw', 'default', 'pay_' || i, CASE WHEN i <= 10 THEN 'pending' ELSE 'failed' END, now() - interval '2 hours' FROM generate_series(1, 15) i`)
	w.exec(`INSERT INTO payments (provider, account, gateway_id, created_at) VALUES ('other', 'default', 'pay_x', now() - interval '2 hours'), ('gw', 'default', 'new', now())`)
	if sum := w.pass(sweep.Filter{}, false); sum.Reconciled != 10 {
		t.Errorf("%+v", sum)
	}
	if sum := w.pass(sweep.Filter{}, false); sum.Reconciled != 0 {
		t.Errorf("a second sweep: %+v", sum)
	}
	if got := w.count(`SELECT count(*) FROM webhook_events WHERE type = 'umavez.reconcile' AND status = 'pending'`); got != 10 || w.queued() != 10 {
		t.Errorf("%d events, %d queued, want 10", got, w.queued())
	}
	// Events that died leave their payments to be asked about tomorrow.
	w.exec(`WITH dead AS (DELETE FROM event_work RETURNING event_id) INSERT INTO event_results (event_id, status, reason) SELECT event_id, 'dead', 'test' FROM dead`)
	w.exec(`UPDATE events SET dedupe_key = regexp_replace(dedupe_key, '[0-9]{8}$', to_char(now() - interval '1 day', 'YYYYMMDD')) WHERE type = 'umavez.reconcile'`)
	if sum := w.pass(sweep.Filter{}, false); sum.Reconciled != 10 {
		t.Errorf("the next day: %+v", sum)
	}
}

// A processor parks an event, and a sweep runs before the message is acked: the
// queue refuses a second one, and the event must keep its own time.
func TestAnEventThatWasParkedAMomentAgoKeepsItsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receive(3, time.Hour)
	if sum := w.pass(sweep.Filter{}, false); sum.Lost != 3 {
		t.Fatalf("%+v", sum)
	}
	w.exec(`UPDATE event_work SET state = 'parked', reason = 'snapshot_outdated: asking again', next_at = now() - interval '1 millisecond'
		WHERE event_id = (SELECT min(event_id) FROM event_work)`)
	w.exec(`UPDATE event_work SET attempts = 1, next_at = now() - interval '1 millisecond' WHERE event_id = (SELECT max(event_id) FROM event_work)`)
	for range 2 {
		if sum := w.pass(sweep.Filter{}, false); sum.Waiting != 2 || sum.Due != 0 {
			t.Fatalf("%+v", sum)
		}
	}
	if n := w.count(`SELECT count(*) FROM event_work WHERE next_at <= now()`); n != 2 {
		t.Errorf("%d events are due, want the parked one and the one that failed", n)
	}
}

func TestKeysAreKeptForTheirWholeTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receive(2, 0)
	w.exec(`WITH done AS (DELETE FROM event_work RETURNING event_id) INSERT INTO event_results (event_id, status, reason) SELECT event_id, 'ignored', 'test' FROM done`)
	w.exec(`UPDATE events SET received_at = now() - interval '9600 hours' + CASE dedupe_key WHEN 'k0' THEN interval '-1 hour' ELSE interval '1 hour' END`)
	if sum := w.pass(sweep.Filter{}, false); sum.Forgotten != 1 {
		t.Errorf("%+v", sum)
	}
	if got := w.count(`SELECT count(*) FROM events WHERE dedupe_key = 'k1'`); got != 1 {
		t.Error("a key was forgotten within its time")
	}
}

// Every kind of unfinished row, for the condition that stands in SQL and in Go.
func (w *world) everyKind() {
	w.t.Helper()
	w.receive(8, time.Hour)
	w.exec(`
WITH numbered AS (SELECT event_id, row_number() OVER (ORDER BY event_id) - 1 AS n FROM event_work)
UPDATE event_work w SET state = CASE WHEN n & 1 > 0 THEN 'parked' ELSE 'pending' END, reason = CASE WHEN n & 1 > 0 THEN 'a: b' END,
  attempts = (n & 2) / 2, turn = 1 + (n & 4) / 4 FROM numbered WHERE numbered.event_id = w.event_id`)
}

func TestWhatComesByItselfIsTheSameInSQLAndInGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.everyKind()
	page, err := w.db.DuePage(t.Context(), sweep.Filter{}, sweep.Cursor{}, 100)
	if err != nil || len(page) != 8 {
		t.Fatalf("%d rows, %v", len(page), err)
	}
	byItself := map[int64]bool{}
	for _, r := range page {
		byItself[r.Notice.ID] = r.ComesByItself()
	}
	if err := w.db.MarkSwept(t.Context(), page); err != nil {
		t.Fatal(err)
	}
	for id, want := range byItself {
		if got := w.count(`SELECT (next_at < now() + interval '1 minute')::int FROM event_work WHERE event_id = $1`, id) == 1; got != want {
			t.Errorf("event %d: a sweep treats it as coming by itself: %v, Go says %v", id, got, want)
		}
	}
	w.exec(`UPDATE event_work SET next_at = now() - interval '1 second'`)
	claimed, err := w.db.ClaimDue(t.Context(), 100, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range byItself {
		if got := slices.Contains(claimed, id); got != want {
			t.Errorf("event %d: a processor takes it by itself: %v, Go says %v", id, got, want)
		}
	}
	// The index of that condition, as the database has understood it.
	if n := w.count(`SELECT count(*) FROM pg_indexes WHERE indexname = 'event_work_due' AND schemaname = current_schema()
		AND indexdef LIKE '%WHERE ((state = ''parked''::text) OR (attempts > 0) OR (turn > 1))'`); n != 1 {
		t.Error("the index event_work_due has another condition")
	}
}

// There is no "processing": whoever dies with an event in hand leaves it
// pending, or parked with a lease that ends, and a sweep lists it with why.
func TestCase_G3_NothingIsStuckInAMiddleState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.everyKind()
	if _, err := w.db.Pool.Exec(t.Context(), `UPDATE event_work SET state = 'processing'`); err == nil {
		t.Error("the database knows a middle state")
	}
	// A processor claims what is due and dies.
	claimed, err := w.db.ClaimDue(t.Context(), 100, time.Second)
	if err != nil || len(claimed) != 7 {
		t.Fatalf("%d claimed, %v", len(claimed), err)
	}
	if again, err := w.db.ClaimDue(t.Context(), 100, time.Second); err != nil || len(again) != 0 {
		t.Errorf("%d are claimed twice, %v", len(again), err)
	}
	time.Sleep(1100 * time.Millisecond)
	again, err := w.db.ClaimDue(t.Context(), 100, 0)
	if err != nil || len(again) != 7 {
		t.Errorf("%d come back after their lease, want 7, %v", len(again), err)
	}
	sum := w.pass(sweep.Filter{}, true)
	if sum.Looked != 8 || sum.Due != 7 || sum.Lost != 1 || sum.Reasons["a"] != 4 {
		t.Errorf("a dry run says %+v", sum)
	}
}

// Whoever cannot ask the broker whether it lost everything can ring and bury all
// the same, and keep what is to be kept.
func TestAPassThatCannotLookAfterTheStreamDoesTheRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.receive(5, time.Hour)
	w.exec(`UPDATE event_work SET state = 'parked', reason = 'test', since = now() - interval '80 hours' WHERE event_id = (SELECT min(event_id) FROM event_work)`)
	day := "event_bodies_" + time.Now().UTC().AddDate(0, 0, postgres.PartitionsAhead).Format("20060102")
	w.exec(`DROP TABLE ` + day)
	broken := errors.New("it may not ask")
	w.Vanished = func(context.Context) (bool, error) { return false, broken }
	sum, err := w.Pass(t.Context(), sweep.Filter{}, false)
	if !errors.Is(err, broken) || !errors.Is(err, sweeper.ErrQueue) || sum.Lost != 4 || sum.Dead != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	if n := w.count(`SELECT count(*) FROM pg_class WHERE relname = '` + day + `' AND relnamespace = current_schema()::regnamespace`); n != 1 {
		t.Error("the days to come are not prepared")
	}
}
