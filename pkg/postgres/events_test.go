package postgres_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
)

func arrival(key string, change ...func(*event.Arrival)) event.Arrival {
	a := event.Arrival{Event: event.Event{
		Provider: "testpay", Account: "default", DedupeKey: key, Type: "payment.paid",
		PaymentRef: "pay_1", Secret: "1", Body: []byte(`{"id":"` + key + `"}`),
	}}
	for _, c := range change {
		c(&a)
	}
	a.BodySHA256 = sha256.Sum256(a.Body)
	return a
}

func body(text string) func(*event.Arrival) { return func(a *event.Arrival) { a.Body = []byte(text) } }

func reopening(a *event.Arrival) { a.Reopen = true }

func settledAs(s event.Status) func(*event.Arrival) {
	return func(a *event.Arrival) { a.Settle, a.Reason = s, "a reason" }
}

func insert(t testing.TB, db *postgres.DB, arrivals ...event.Arrival) []event.Stored {
	t.Helper()
	stored, err := db.InsertEvents(t.Context(), arrivals)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

func scan[T any](t testing.TB, db *postgres.DB, sql string, args ...any) (v T) {
	t.Helper()
	if err := db.Pool.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func run(t testing.TB, db *postgres.DB, sql string, args ...any) {
	t.Helper()
	if _, err := db.Pool.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// settle does what the processor does to an event: its work row goes, a
// result comes.
func settle(ctx context.Context, db *postgres.DB, id int64, status event.Status) error {
	_, err := db.Pool.Exec(ctx, `
WITH gone AS (DELETE FROM event_work WHERE event_id = $1 RETURNING turn)
INSERT INTO event_results (event_id, turn, status, outcome, reason)
SELECT $1, turn, $2::text, CASE WHEN $2::text = 'processed' THEN 'applied' END, 'a reason' FROM gone`, id, string(status))
	return err
}

func mustSettle(t testing.TB, db *postgres.DB, id int64, status event.Status) {
	t.Helper()
	if err := settle(t.Context(), db, id, status); err != nil {
		t.Fatal(err)
	}
}

func TestANewEventIsStoredExactlyAsItCame(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	occurred := time.Date(2026, 2, 3, 4, 5, 6, 789000, time.UTC)
	headers := []event.Header{{Name: "X-Signature", Value: `a"b\c,{d} é`}, {Name: "X-Empty", Value: ""}, {Name: "X-Null", Value: "NULL"}}
	raw := "\x00\xff{\"name\":\"A\\u0000B\"}\r\n "
	a := arrival("evt_1", body(raw), func(a *event.Arrival) {
		a.ProviderEventID, a.OccurredAt, a.Headers, a.Test = "ext_1", occurred, headers, true
	})
	stored := insert(t, db, a)
	if s := stored[0]; s.ID == 0 || !s.New || !s.Publish {
		t.Fatalf("stored %+v", s)
	}
	var (
		got        event.Event
		gotBody    []byte
		gotHeaders []string
		sha        []byte
		sameDay    bool
	)
	err := db.Pool.QueryRow(t.Context(), `
SELECT provider, account, dedupe_key, type, provider_event_id, payment_ref, occurred_at, test, secret, body_sha256, body, headers,
       received_on = (received_at AT TIME ZONE 'UTC')::date
FROM events JOIN event_bodies ON event_id = id WHERE id = $1`, stored[0].ID).Scan(
		&got.Provider, &got.Account, &got.DedupeKey, &got.Type, &got.ProviderEventID, &got.PaymentRef, &got.OccurredAt,
		&got.Test, &got.Secret, &sha, &gotBody, &gotHeaders, &sameDay)
	if err != nil {
		t.Fatal(err)
	}
	if string(gotBody) != raw || !bytes.Equal(sha, a.BodySHA256[:]) || !sameDay {
		t.Errorf("body %q, same hash %t, same day %t", gotBody, bytes.Equal(sha, a.BodySHA256[:]), sameDay)
	}
	if diff := cmp.Diff([]string{"X-Signature", `a"b\c,{d} é`, "X-Empty", "", "X-Null", "NULL"}, gotHeaders); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if !got.OccurredAt.Equal(occurred) || got.ProviderEventID != "ext_1" || !got.Test || got.DedupeKey != "evt_1" || got.PaymentRef != "pay_1" {
		t.Errorf("event %+v", got)
	}
	wait := scan[float64](t, db, `SELECT extract(epoch FROM next_at - now())::float8 FROM event_work WHERE event_id = $1 AND state = 'pending' AND turn = 1`, stored[0].ID)
	if wait < 290 || wait > 301 {
		t.Errorf("the sweeper would take it in %.0f s, want five minutes", wait)
	}
}

func TestAnEventThatIsSettledOnReceiptHasAResultAndNoWork(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	stored := insert(t, db, arrival("a", settledAs(event.StatusIgnored)), arrival("b", settledAs(event.StatusQuarantined)), arrival("c"))
	for i, want := range []event.Stored{{New: true}, {New: true}, {New: true, Publish: true}} {
		want.ID = stored[i].ID
		if stored[i] != want {
			t.Errorf("%d: %+v, want %+v", i, stored[i], want)
		}
	}
	if got := scan[string](t, db, `SELECT string_agg(dedupe_key || ' ' || status, ',' ORDER BY dedupe_key) FROM webhook_events`); got != "a ignored,b quarantined,c pending" {
		t.Errorf("statuses: %s", got)
	}
	if n := scan[int](t, db, `SELECT count(*) FROM event_work`); n != 1 {
		t.Errorf("%d work rows, want 1", n)
	}
}

func TestResultsAreByKeyAndNotByPosition(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	insert(t, db, arrival("m"))
	stored := insert(t, db, arrival("z"), arrival("m"), arrival("a"), arrival("z", body("other")), arrival("k"))
	for i, k := range []string{"z", "m", "a", "z", "k"} {
		if want := scan[int64](t, db, `SELECT id FROM events WHERE dedupe_key = $1`, k); stored[i].ID != want {
			t.Errorf("result %d is of event %d, want %d", i, stored[i].ID, want)
		}
		if fresh := i != 1 && i != 3; stored[i].New != fresh || stored[i].Publish != fresh {
			t.Errorf("result %d of %q: %+v", i, k, stored[i])
		}
	}
	if got := scan[string](t, db, `SELECT string_agg(dedupe_key || count, ',' ORDER BY dedupe_key) FROM event_redeliveries JOIN events ON id = event_id`); got != "m1,z1" {
		t.Errorf("redeliveries: %s", got)
	}
	if got := scan[string](t, db, `SELECT body_as_text(body) FROM event_bodies JOIN events ON id = event_id WHERE dedupe_key = 'z'`); got != `{"id":"z"}` {
		t.Errorf("the first copy's body is kept, got %s", got)
	}
}

func TestCase_B17_ADuplicateOnlyMovesACounter(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	for _, status := range []event.Status{event.StatusPending, event.StatusParked, event.StatusProcessed, event.StatusIgnored, event.StatusQuarantined} {
		k := string(status)
		id := insert(t, db, arrival(k))[0].ID
		switch status {
		case event.StatusPending:
		case event.StatusParked:
			run(t, db, `UPDATE event_work SET state = 'parked', reason = 'waits', attempts = 3, parks = 2 WHERE event_id = $1`, id)
		default:
			mustSettle(t, db, id, status)
		}
		const everything = `
SELECT concat_ws('|', e, b, w, (SELECT string_agg(r::text, ';' ORDER BY turn) FROM event_results r WHERE r.event_id = e.id))
FROM events e JOIN event_bodies b ON b.event_id = e.id LEFT JOIN event_work w ON w.event_id = e.id WHERE e.id = $1`
		before := scan[string](t, db, everything, id)
		for range 3 {
			if s := insert(t, db, arrival(k))[0]; s != (event.Stored{ID: id}) {
				t.Errorf("%s: duplicate answered %+v", status, s)
			}
		}
		if after := scan[string](t, db, everything, id); after != before {
			t.Errorf("%s: a duplicate changed the event\nbefore %s\nafter  %s", status, before, after)
		}
		if n := scan[int](t, db, `SELECT deliveries FROM webhook_events WHERE id = $1`, id); n != 4 {
			t.Errorf("%s: %d deliveries counted, want 4", status, n)
		}
	}
}

func TestBodiesThatDifferAreRememberedByHashAtMostSixteen(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	insert(t, db, arrival("k"))
	other := arrival("k", body("other"))
	insert(t, db, arrival("k"), other, other)
	if got := scan[[][]byte](t, db, `SELECT differing FROM event_redeliveries`); len(got) != 1 || !bytes.Equal(got[0], other.BodySHA256[:]) {
		t.Fatalf("differing: %x", got)
	}
	for n := range 5 {
		var batch []event.Arrival
		for m := range 7 {
			batch = append(batch, arrival("k", body(fmt.Sprint(n, m))))
		}
		insert(t, db, batch...)
	}
	if n := scan[int](t, db, `SELECT cardinality(differing) FROM event_redeliveries`); n != 16 {
		t.Errorf("%d hashes kept, want 16", n)
	}
	if n := scan[int](t, db, `SELECT count FROM event_redeliveries`); n != 38 {
		t.Errorf("%d redeliveries counted, want 38", n)
	}
}

func TestCase_B18_AResendOfADeadEventRevivesIt(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	id := insert(t, db, arrival("k"))[0].ID
	mustSettle(t, db, id, event.StatusDead)
	stored := insert(t, db, arrival("new"), arrival("k"), arrival("k"))
	published := 0
	for _, s := range stored[1:] {
		if s.ID != id || s.New {
			t.Errorf("resend answered %+v", s)
		}
		if s.Publish {
			published++
		}
	}
	if published != 1 {
		t.Errorf("the revived event is published %d times, want once", published)
	}
	if got := scan[string](t, db, `SELECT turn || ' ' || state || ' ' || attempts FROM event_work WHERE event_id = $1 AND next_at BETWEEN now() AND now() + interval '2 seconds'`, id); got != "2 pending 0" {
		t.Errorf("work is %s", got)
	}
	if got := scan[string](t, db, `SELECT status FROM event_results WHERE event_id = $1 AND turn = 1`, id); got != "dead" {
		t.Errorf("the old result is %s, want it kept", got)
	}
	if s := insert(t, db, arrival("k"))[0]; s.Publish {
		t.Error("an event that is pending again was revived again")
	}
	mustSettle(t, db, id, event.StatusProcessed)
	if s := insert(t, db, arrival("k"))[0]; s.Publish {
		t.Error("an event that was processed at last was revived")
	}
	if got := scan[string](t, db, `SELECT status FROM webhook_events WHERE id = $1`, id); got != "processed" {
		t.Errorf("status is %s", got)
	}
}

func TestReopenRevivesWhatWasProcessedAndLeavesTheRest(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	for status, revived := range map[event.Status]bool{
		event.StatusProcessed: true, event.StatusDead: true, event.StatusPending: false, event.StatusParked: false,
		event.StatusIgnored: false, event.StatusQuarantined: false,
	} {
		k := string(status)
		id := insert(t, db, arrival(k))[0].ID
		switch status {
		case event.StatusPending:
		case event.StatusParked:
			run(t, db, `UPDATE event_work SET state = 'parked', reason = 'waits' WHERE event_id = $1`, id)
		default:
			mustSettle(t, db, id, status)
		}
		if s := insert(t, db, arrival(k, reopening))[0]; s.Publish != revived || s.New || s.ID != id {
			t.Errorf("%s: %+v, revived should be %t", status, s, revived)
		}
	}
}

// A processor that settles a revived event at once is what makes the race: a
// resend that still sees "dead" must not revive it a second time.
func TestResendsAtTheSameInstantReviveOnce(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	for round := range 15 {
		k := fmt.Sprint("k", round)
		id := insert(t, db, arrival(k))[0].ID
		mustSettle(t, db, id, event.StatusDead)
		ctx, stop := context.WithCancel(t.Context())
		settled := make(chan error, 1)
		go func() {
			for ctx.Err() == nil {
				if err := settle(context.WithoutCancel(ctx), db, id, event.StatusProcessed); err != nil {
					settled <- err
					return
				}
			}
			settled <- nil
		}()
		var published atomic.Int32
		var resends sync.WaitGroup
		for range 10 {
			resends.Go(func() {
				stored, err := db.InsertEvents(context.WithoutCancel(ctx), []event.Arrival{arrival(k)})
				if err != nil || stored[0].ID != id {
					t.Errorf("resend: %+v %v", stored, err)
				}
				if stored[0].Publish {
					published.Add(1)
				}
			})
		}
		resends.Wait()
		stop()
		if err := <-settled; err != nil {
			t.Fatalf("a settled turn came again: %v", err)
		}
		mustSettle(t, db, id, event.StatusProcessed)
		if n := published.Load(); n != 1 {
			t.Fatalf("round %d: revived %d times, want once", round, n)
		}
		if got := scan[string](t, db, `SELECT string_agg(status, ',' ORDER BY turn) FROM event_results WHERE event_id = $1`, id); got != "dead,processed" {
			t.Fatalf("round %d: results %s", round, got)
		}
	}
}

func TestCase_B21_KeysBelongToProviderAndAccount(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	in := func(provider, account, k string) event.Arrival {
		return arrival(k, func(a *event.Arrival) { a.Provider, a.Account = provider, account })
	}
	stored := insert(t, db,
		in("testpay", "default", "evt_1"), in("otherpay", "default", "evt_1"), in("testpay", "loja2", "evt_1"),
		in("testpay", "default", event.Key("k", "ab", "c")), in("testpay", "default", event.Key("k", "a", "bc")))
	seen := map[int64]bool{}
	for _, s := range stored {
		if !s.New || seen[s.ID] {
			t.Errorf("swallowed: %+v", stored)
		}
		seen[s.ID] = true
	}
}

func TestCase_B3_ParallelBatchesWithTheSameKeysInAnyOrderStoreEachOnce(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	const workers, rounds, keys = 4, 10, 40
	var fresh atomic.Int32
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for r := range rounds {
				var batch []event.Arrival
				for k := range keys {
					n := k
					if w%2 == 1 {
						n = keys - 1 - k
					}
					batch = append(batch, arrival(fmt.Sprint(r, "/", n)))
				}
				stored, err := db.InsertEvents(context.WithoutCancel(t.Context()), batch)
				if err != nil {
					t.Error(err)
				}
				for _, s := range stored {
					if s.ID == 0 {
						t.Error("no id")
					}
					if s.New {
						fresh.Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	if n := fresh.Load(); n != rounds*keys {
		t.Errorf("%d were new, want %d", n, rounds*keys)
	}
	if n := scan[int](t, db, `SELECT sum(count) FROM event_redeliveries`); n != (workers-1)*rounds*keys {
		t.Errorf("%d redeliveries, want %d", n, (workers-1)*rounds*keys)
	}
}

func TestTextsOfStrangersAreMadeStorable(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	long := strings.Repeat("é", 4000)
	stored := insert(t, db, arrival("k", func(a *event.Arrival) {
		a.Type, a.ProviderEventID, a.Secret = "a\x00b\xff"+long, "\xed\xa0\x80"+long, "1\x00"
		a.Settle, a.Reason = event.StatusQuarantined, "\x00"+long
		a.OccurredAt = time.Date(292277026596, 1, 1, 0, 0, 0, 0, time.UTC)
		a.Headers = []event.Header{{Name: "X-Odd", Value: "\xff\x00" + long}}
		a.Body = nil
	}))
	if !stored[0].New {
		t.Fatalf("stored %+v", stored[0])
	}
	if got := scan[int](t, db, `SELECT octet_length(type) FROM events`); got > 255 || got < 250 {
		t.Errorf("type has %d bytes", got)
	}
	if !scan[bool](t, db, `SELECT occurred_at IS NULL FROM events`) {
		t.Error("an impossible time was kept")
	}
}

func TestARefusedRowIsAnErrorOfItsOwnAndNothingIsStored(t *testing.T) {
	t.Parallel()
	_, db := postgrestest.ClusterDB(t) // a constraint of the test's own would outlive it in a shared schema
	run(t, db, `ALTER TABLE events ADD CONSTRAINT events_no_bad CHECK (type <> 'bad')`)
	bad := func(a *event.Arrival) { a.Type = "bad" }
	stored, err := db.InsertEvents(t.Context(), []event.Arrival{arrival("a"), arrival("b", bad), arrival("c")})
	if !errors.Is(err, postgres.ErrRefusedRow) {
		t.Fatalf("error %v, want ErrRefusedRow", err)
	}
	for _, s := range stored {
		if s.ID != 0 {
			t.Errorf("promised %+v", s)
		}
	}
	if n := scan[int](t, db, `SELECT count(*) FROM events`); n != 0 {
		t.Errorf("%d rows stored", n)
	}
	_, err = db.InsertEvents(t.Context(), []event.Arrival{arrival("d", func(a *event.Arrival) { a.PaymentRef = strings.Repeat(randomText, 100) })})
	if !errors.Is(err, postgres.ErrRefusedRow) {
		t.Errorf("an index row that is too large gives %v, want ErrRefusedRow", err)
	}
}

var randomText = func() string {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "%x", sha256.Sum256([]byte{byte(i)}))
	}
	return b.String()
}()

// Whatever is cut between two statements, the gateway's retry leads to one
// row, one piece of work, and at most one result a turn.
func TestACutBetweenAnyTwoStatementsLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	steps := []string{"insert_answered", "redeliveries_answered", "revivals_locked", "events_revived", "revival_committed"}
	for _, step := range steps {
		for _, how := range []string{"error", "connection"} {
			t.Run(step+" "+how, func(t *testing.T) {
				world := postgrestest.New(t)
				// A pool of its own, so that all its connections can be cut.
				db, err := postgres.Open(t.Context(), postgres.Config{
					DatabaseURL: postgrestest.URL(t) + "&application_name=cut_" + postgrestest.Schema(t), MaxConns: 2})
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				dead := insert(t, db, arrival("dead"))[0].ID
				mustSettle(t, db, dead, event.StatusDead)
				cuts := 0
				db.Hook = func(s string) error {
					if s != step || how == "connection" && cuts > 0 {
						return nil
					}
					cuts++ // an error comes again at every internal try, a lost connection once
					if how == "connection" {
						_, err := world.Pool.Exec(context.Background(), `
SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE application_name = $1`, "cut_"+postgrestest.Schema(t))
						return err
					}
					return errors.New("cut")
				}
				batch := []event.Arrival{arrival("fresh"), arrival("dead")}
				_, err = db.InsertEvents(t.Context(), batch)
				if how == "error" && err == nil {
					t.Fatal("the cut was not noticed")
				}
				if cuts == 0 {
					t.Fatalf("step %s was never reached", step)
				}
				db.Hook = nil
				stored := insert(t, db, batch...) // the gateway's retry
				if stored[0].ID == 0 || stored[1].ID != dead {
					t.Fatalf("retry: %+v", stored)
				}
				if got := scan[string](t, db, `SELECT string_agg(dedupe_key || ' ' || turn, ',' ORDER BY dedupe_key) FROM events JOIN event_work ON event_id = id`); got != "dead 2,fresh 1" {
					t.Errorf("work: %s", got)
				}
				if n := scan[int](t, db, `SELECT count(*) FROM events`); n != 2 {
					t.Errorf("%d events", n)
				}
			})
		}
	}
}

func TestAnErrorAfterTheInsertStillTellsWhatIsStored(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	defer func() { db.Hook = nil }()
	dead := insert(t, db, arrival("dead"), arrival("old"))[0].ID
	mustSettle(t, db, dead, event.StatusDead)
	db.Hook = func(step string) error {
		if step == "events_revived" {
			return errors.New("cut")
		}
		return nil
	}
	stored, err := db.InsertEvents(t.Context(), []event.Arrival{arrival("fresh"), arrival("old"), arrival("dead"), arrival("fresh")})
	if err == nil {
		t.Fatal("no error")
	}
	if stored[0].ID == 0 || !stored[0].Publish || stored[1].ID == 0 || stored[3].ID != stored[0].ID {
		t.Errorf("what was stored is not told: %+v", stored)
	}
	if stored[2].ID != 0 {
		t.Errorf("a revival that failed is promised: %+v", stored[2])
	}
}

func TestCase_F5_CancelledBatchesGiveTheirConnectionsBack(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	var wg sync.WaitGroup
	for w := range 10 {
		wg.Go(func() {
			for n := range 100 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n*37%2000)*time.Microsecond)
				db.InsertEvents(ctx, []event.Arrival{arrival(fmt.Sprint(w, "/", n)), arrival("same")}) //nolint:errcheck // most are cancelled
				cancel()
			}
		})
	}
	wg.Wait()
	for deadline := time.Now().Add(5 * time.Second); db.Pool.Stat().AcquiredConns() > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are still in use", db.Pool.Stat().AcquiredConns())
		}
	}
	if s := insert(t, db, arrival("after"))[0]; !s.New {
		t.Errorf("after the cancellations: %+v", s)
	}
	if n := scan[int](t, db, `SELECT count(*) FROM events e FULL JOIN event_bodies b ON b.event_id = e.id LEFT JOIN event_work w ON w.event_id = e.id WHERE e.id IS NULL OR b.event_id IS NULL OR w.event_id IS NULL`); n != 0 {
		t.Errorf("%d events are stored in part", n)
	}
}

func TestTheRingOfRejectionsIsBounded(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	run(t, db, `SELECT setval('rejected_deliveries_slot', 9998)`)
	var list []postgres.Rejection
	for n := range 3 {
		list = append(list, postgres.Rejection{Provider: "testpay", Account: "default", Reason: "token_differs", Detail: fmt.Sprint(n, "\x00")})
	}
	for range 2 {
		if err := db.RecordRejections(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		run(t, db, `SELECT setval('rejected_deliveries_slot', 9998)`)
	}
	if n := scan[int](t, db, `SELECT count(*) FROM rejected_deliveries`); n != 3 {
		t.Errorf("%d rows, want the same 3 slots written twice", n)
	}
	if err := db.RecordRejections(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func BenchmarkInsertEvents(b *testing.B) {
	for _, size := range []int{1, 10, 100, 256} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			db := postgrestest.New(b)
			text := strings.Repeat("x", 1000)
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				batch := make([]event.Arrival, size)
				for i := range batch {
					n++
					batch[i] = arrival(fmt.Sprintf("evt/%08x", n*2654435761), body(text))
				}
				if _, err := db.InsertEvents(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// The role of ingest suffices for all that this file does, and for no more.
func TestReceivingNeedsOnlyTheRightsOfItsRole(t *testing.T) {
	t.Parallel()
	owner := postgrestest.New(t)
	if !scan[bool](t, owner, `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'umavez_ingest')`) {
		t.Fatal("the migrations made no role umavez_ingest; the tests' user should be allowed to")
	}
	db, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: postgrestest.URL(t) + "&role=umavez_ingest", MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	id := insert(t, db, arrival("a"), arrival("b", settledAs(event.StatusIgnored)))[0].ID
	mustSettle(t, owner, id, event.StatusDead)
	if s := insert(t, db, arrival("a"), arrival("c")); !s[0].Publish || !s[1].New {
		t.Errorf("stored %+v", s)
	}
	if err := db.RecordRejections(t.Context(), []postgres.Rejection{{Provider: "p", Account: "a", Reason: "r"}}); err != nil {
		t.Error(err)
	}
	if err := db.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
	for _, forbidden := range []string{
		`UPDATE events SET type = 'x'`, `DELETE FROM events`, `UPDATE event_bodies SET body = ''`, `DELETE FROM event_work`,
		`UPDATE event_results SET status = 'processed'`, `SELECT * FROM payments`, `SELECT * FROM ledger_entries`,
	} {
		if _, err := db.Pool.Exec(t.Context(), forbidden); err == nil {
			t.Errorf("allowed: %s", forbidden)
		}
	}
}

// A batch waits for a key that another transaction is inserting, and that one
// goes on to the keys behind it. Had the batch inserted any of those already,
// the two would wait for each other.
func TestBatchesThatMeetOnTheirKeysWaitAndDoNotDeadlock(t *testing.T) {
	t.Parallel()
	home := postgrestest.New(t)
	db, waits := postgrestest.Beside(t)
	tx, err := home.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // ended below
	take := func(key string) error {
		_, err := tx.Exec(t.Context(), `
INSERT INTO events (provider, account, dedupe_key, type, secret, body_sha256) VALUES ('testpay', 'default', $1, 'x', '1', sha256(''))`, key)
		return err
	}
	// A transaction that waits for what waits for it is ended after a second,
	// whichever of the two it is: this one gives up before.
	if _, err := tx.Exec(t.Context(), `SET LOCAL lock_timeout = '200ms'`); err != nil {
		t.Fatal(err)
	}
	if err := take("b"); err != nil {
		t.Fatal(err)
	}
	stored := make(chan error, 1)
	go func() {
		_, err := db.InsertEvents(context.WithoutCancel(t.Context()), []event.Arrival{arrival("d"), arrival("c"), arrival("b"), arrival("a")})
		stored <- err
	}()
	for deadline := time.Now().Add(5 * time.Second); !waits(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the batch does not wait for the key that another transaction holds")
		}
	}
	for _, key := range []string{"c", "d"} {
		if err := take(key); err != nil {
			t.Fatalf("the batch holds a key behind the one that it waits for: %v", err)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-stored; err != nil {
		t.Fatal(err)
	}
	if n := scan[int](t, home, `SELECT count(*) FROM events`); n != 4 {
		t.Errorf("%d events, want 4", n)
	}
}

// storedAgainBehind stores the event once more, finds that this waits for tx,
// commits tx, and finds that the event was taken for a mere duplicate.
func storedAgainBehind(t *testing.T, db *postgres.DB, waits func() bool, tx pgx.Tx, id int64) {
	t.Helper()
	var again []event.Stored
	stored := make(chan error, 1)
	go func() {
		var err error
		again, err = db.InsertEvents(context.WithoutCancel(t.Context()), []event.Arrival{arrival("k")})
		stored <- err
	}()
	for deadline := time.Now().Add(5 * time.Second); !waits(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the second copy does not wait for what is under way")
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-stored; err != nil || again[0] != (event.Stored{ID: id}) {
		t.Errorf("the second copy: %+v, %v; want a mere duplicate of event %d", again, err, id)
	}
}

func TestCase_B3_ACopyThatIsJustBeingStoredIsWaitedFor(t *testing.T) {
	t.Parallel()
	home := postgrestest.New(t)
	db, waits := postgrestest.Beside(t)
	tx, err := home.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // ended below
	var first int64
	if err := tx.QueryRow(t.Context(), `
WITH e AS (INSERT INTO events (provider, account, dedupe_key, type, secret, body_sha256) VALUES ('testpay', 'default', 'k', 'x', '1', sha256('')) RETURNING id)
INSERT INTO event_work (event_id) SELECT id FROM e RETURNING event_id`).Scan(&first); err != nil {
		t.Fatal(err)
	}
	storedAgainBehind(t, db, waits, tx, first)
}

// Somebody revives a dead event and a processor settles it while a second
// resend, which has seen it dead, waits.
func TestAResendThatSawTheEventDeadReadsAgainUnderTheLock(t *testing.T) {
	t.Parallel()
	home := postgrestest.New(t)
	db, waits := postgrestest.Beside(t)
	id := insert(t, home, arrival("k"))[0].ID
	mustSettle(t, home, id, event.StatusDead)
	tx, err := home.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // ended below
	for _, sql := range []string{
		`SELECT pg_advisory_xact_lock(hashtext('umavez revival ' || current_schema()), hashint8($1))`,
		`INSERT INTO event_work (event_id, turn) VALUES ($1, 2)`,
		`DELETE FROM event_work WHERE event_id = $1`,
		`INSERT INTO event_results (event_id, turn, status, outcome) VALUES ($1, 2, 'processed', 'applied')`,
	} {
		if _, err := tx.Exec(t.Context(), sql, id); err != nil {
			t.Fatal(err)
		}
	}
	storedAgainBehind(t, db, waits, tx, id)
	if n := scan[int](t, home, `SELECT count(*) FROM event_work`); n != 0 {
		t.Error("an event that was processed is to be worked off again")
	}
}
