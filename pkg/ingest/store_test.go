package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/ingest"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
)

func TestCase_B1_FiftyCopiesAtOnceOverFourPodsAreOneEvent(t *testing.T) {
	t.Parallel()
	b := &bell{}
	first := newWorld(t, func(_ *ingest.Config, p *ingest.Parts) { p.Publisher = b })
	pods := []*world{first}
	for range 3 {
		db, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: postgrestest.URL(t), MaxConns: 3})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		pods = append(pods, worldOn(t, db, func(_ *ingest.Config, p *ingest.Parts) { p.Publisher = b }))
	}
	const rounds = 10
	for round := range rounds {
		text := fmt.Sprintf(`{"id":"evt_%d"}`, round)
		start := make(chan struct{})
		var wg sync.WaitGroup
		var good atomic.Int32
		for n := range 50 {
			wg.Go(func() {
				<-start
				w := pods[n%len(pods)]
				if r := w.do(signed(w.url, text)); r.status == 200 && r.body == "ok" {
					good.Add(1)
				} else {
					t.Errorf("answer %d %q", r.status, r.body)
				}
			})
		}
		close(start)
		wg.Wait()
		if n := good.Load(); n != 50 {
			t.Errorf("round %d: %d success answers, want 50", round, n)
		}
		if n := query[int](first, `SELECT deliveries FROM webhook_events WHERE provider_event_id = $1`, fmt.Sprint("evt_", round)); n != 50 {
			t.Errorf("round %d: %d deliveries counted, want 50", round, n)
		}
	}
	if n := first.rows(); n != rounds {
		t.Errorf("%d rows, want %d", n, rounds)
	}
	eventually(t, "one publication an event", func() bool { return len(b.rung()) == rounds })
}

func TestCase_B3_TenFirstEventsOfOnePaymentInParallel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { w.send(`{"id":"create_1","payment":"unheard-of"}`) })
	}
	wg.Wait()
	if n := w.rows(); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

func TestCase_B21_TheSameIdOfTwoGatewaysOrAccountsIsTwoEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := []byte(`{"id":"evt_1"}`)
	for path, secret := range map[string]string{"testpay": "secret", "testpay/loja2": "secret-2", "otherpay": "secret"} {
		req, _ := http.NewRequest(http.MethodPost, w.url+"/webhooks/"+path, strings.NewReader(string(text)))
		req.Header.Set(signatureHeader, sign(secret, text))
		if r := w.do(req); r.status/100 != 2 {
			t.Errorf("%s: %d", path, r.status)
		}
	}
	if n := query[int](w, `SELECT count(DISTINCT (provider, account)) FROM events`); n != 3 {
		t.Errorf("%d events, want 3", n)
	}
}

func TestCase_B18_AResendAfterAnIncidentIsPublishedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send(`{"id":"1","payment":"pay_1"}`)
	w.exec(`WITH gone AS (DELETE FROM event_work RETURNING event_id) INSERT INTO event_results (event_id, status, reason) SELECT event_id, 'dead', 'gateway 503' FROM gone`)
	w.send(`{"id":"1","payment":"pay_1"}`)
	eventually(t, "a second notice", func() bool { return len(w.bell.rung()) == 2 })
	n := w.bell.rung()
	if n[0] != n[1] {
		t.Errorf("published %+v, then %+v", n[0], n[1])
	}
	if got := query[string](w, `SELECT status FROM webhook_events`); got != "pending" {
		t.Errorf("status %s", got)
	}
	eventually(t, "a metric", func() bool { return w.metric(`events_total{outcome="revived",provider="testpay"}`) == 1 })
}

// gate holds a store up until it is opened, so that what comes meanwhile
// gathers into one batch.
type gate struct {
	ingest.Store
	entered chan int // sizes of the batches that came
	open    chan struct{}
	fail    func(arrivals []event.Arrival) error
}

func newGate(s ingest.Store) *gate {
	return &gate{Store: s, entered: make(chan int, 1000), open: make(chan struct{})}
}

func (g *gate) InsertEvents(ctx context.Context, arrivals []event.Arrival) ([]event.Stored, error) {
	g.entered <- len(arrivals)
	select {
	case <-g.open:
	case <-ctx.Done():
		return make([]event.Stored, len(arrivals)), ctx.Err()
	}
	if g.fail != nil {
		if err := g.fail(arrivals); err != nil {
			return make([]event.Stored, len(arrivals)), err
		}
	}
	return g.Store.InsertEvents(ctx, arrivals)
}

// together sends texts so that they are stored as one batch, and returns the
// answers in order.
func together(t *testing.T, w *world, g *gate, texts []string) []int {
	t.Helper()
	statuses := make([]int, len(texts))
	var wg sync.WaitGroup
	wg.Go(func() { w.send(`{"id":"plug"}`) })
	<-g.entered
	for i, text := range texts {
		wg.Go(func() { statuses[i] = w.do(signed(w.url, text)).status })
	}
	eventually(t, "all are waiting", func() bool { return w.metric("queue_requests") == float64(len(texts)) })
	close(g.open)
	wg.Wait()
	return statuses
}

func TestCase_F3_OneDuplicateAndOneBadRowCostTheOthersNothing(t *testing.T) {
	t.Parallel()
	_, db := postgrestest.ClusterDB(t) // its schema is altered
	if _, err := db.Pool.Exec(t.Context(), `ALTER TABLE events ADD CONSTRAINT events_no_bad CHECK (type <> 'bad')`); err != nil {
		t.Fatal(err)
	}
	g := newGate(db)
	w := worldOn(t, db, func(c *ingest.Config, p *ingest.Parts) { p.Store, c.Flushers = g, 1 })
	if _, err := db.InsertEvents(t.Context(), []event.Arrival{{Event: event.Event{Provider: "testpay", Account: "default", DedupeKey: event.Key("evt", "42"), Body: []byte("first")}}}); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for n := range 100 {
		kind := "good"
		if n == 77 {
			kind = "bad"
		}
		texts = append(texts, fmt.Sprintf(`{"id":"%d","type":"%s"}`, n, kind))
	}
	for i, status := range together(t, w, g, texts) {
		if status != 200 {
			t.Errorf("request %d: %d", i, status)
		}
	}
	if n := <-g.entered; n != 100 {
		t.Errorf("the batch had %d events, want 100", n)
	}
	if n := query[int](w, `SELECT count(*) FROM webhook_events WHERE type = 'good' AND status = 'pending' AND deliveries = 1`); n != 98 {
		t.Errorf("%d stored as they came, want 98", n)
	}
	// The halves that held the duplicate were tried once more than others.
	if n := query[int](w, `SELECT deliveries FROM webhook_events WHERE dedupe_key = $1`, event.Key("evt", "42")); n != 2 {
		t.Errorf("the duplicate counts %d deliveries, want 2", n)
	}
	if got := query[string](w, `SELECT status || ' ' || reason || ' ' || body FROM webhook_events WHERE dedupe_key = $1`, event.Key("evt", "77")); got != `quarantined refused_by_database {"id":"77","type":"bad"}` {
		t.Errorf("the bad row is %s", got)
	}
	w.send(texts[77]) // the gateway need not come again, but may
	eventually(t, "98 notices and the plug", func() bool { return len(w.bell.rung()) == 99 })
}

func TestARowThatCannotBeKeptAtAllIsNotPromised(t *testing.T) {
	t.Parallel()
	_, db := postgrestest.ClusterDB(t)
	if _, err := db.Pool.Exec(t.Context(), `ALTER TABLE events ADD CONSTRAINT events_no_bad CHECK (dedupe_key NOT LIKE '%bad%')`); err != nil {
		t.Fatal(err)
	}
	w := worldOn(t, db)
	if r := w.do(signed(w.url, `[{"id":"1"},{"id":"bad"},{"id":"3"}]`)); r.status != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf("answer %d, Retry-After %q", r.status, r.header.Get("Retry-After"))
	}
	w.send(`[{"id":"1"},{"id":"3"}]`)
}

func TestASenderWhoHangsUpDuringTheCommitTakesNobodyDown(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	g := newGate(db)
	w := worldOn(t, db, func(c *ingest.Config, p *ingest.Parts) { p.Store, c.Flushers = g, 1 })
	ctx, hangUp := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := tryDo(w.client, signed(w.url, `{"id":"leaver"}`).WithContext(ctx))
		left <- err
	}()
	<-g.entered
	hangUp()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatalf("the leaver got %v", err)
	}
	stayed := make(chan int, 1)
	go func() { stayed <- w.do(signed(w.url, `{"id":"stayer"}`)).status }()
	eventually(t, "the stayer waits", func() bool { return w.metric("queue_requests") == 1 })
	close(g.open)
	if status := <-stayed; status != 200 {
		t.Errorf("the stayer got %d", status)
	}
	eventually(t, "both are stored", func() bool { return w.rows() == 2 })
	eventually(t, "both are published", func() bool { return len(w.bell.rung()) == 2 })
}

func TestWhatDoesNotFitIsShedAtOnce(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	for name, limit := range map[string]func(*ingest.Config){
		"queue":    func(c *ingest.Config) { c.QueueRequests = 5 },
		"requests": func(c *ingest.Config) { c.MaxRequests = 6 },
		"bytes":    func(c *ingest.Config) { c.BodyLimit, c.QueueBytes = 1024, 5*1024 },
	} {
		g := newGate(db)
		w := worldOn(t, db, func(c *ingest.Config, p *ingest.Parts) {
			p.Store, c.Flushers = g, 1
			limit(c)
		})
		pad := strings.Repeat("x", 1000)
		var wg sync.WaitGroup
		var stored, shed atomic.Int32
		post := func(n int) {
			at := time.Now()
			r := w.do(signed(w.url, fmt.Sprintf(`{"id":"%s%d","p":"%s"}`, name, n, pad[:980])))
			switch r.status {
			case 200:
				stored.Add(1)
			case 503:
				shed.Add(1)
				if r.header.Get("Retry-After") != "2" || r.body != "try again later\n" {
					t.Errorf("%s: shed with Retry-After %q and %q", name, r.header.Get("Retry-After"), r.body)
				}
				if took := time.Since(at); took > time.Second {
					t.Errorf("%s: shed after %s", name, took)
				}
			default:
				t.Errorf("%s: %d", name, r.status)
			}
		}
		wg.Go(func() { post(0) })
		<-g.entered
		for n := range 30 {
			wg.Go(func() { post(n + 1) })
		}
		eventually(t, name+": 25 are shed", func() bool { return shed.Load() == 25 })
		close(g.open)
		wg.Wait()
		if stored.Load() != 6 {
			t.Errorf("%s: %d stored, want 6", name, stored.Load())
		}
		what := map[string]string{"queue": "queue", "requests": "requests", "bytes": "queue"}[name]
		if got := w.metric(`overflow_total{what="` + what + `"}`); got != 25 {
			t.Errorf("%s: overflow counted %v times", name, got)
		}
	}
}

// What waits longer than its sender does is stored for nothing: the sender has
// been told to come again, and does. So a queue that would take too long lets
// nobody in, and says so before it has read a body.
func TestAQueueThatWouldTakeTooLongRefusesAtOnce(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	g := newGate(db)
	w := worldOn(t, db, func(c *ingest.Config, p *ingest.Parts) {
		p.Store, c.Flushers = g, 1
		c.BatchRows, c.QueueWait, c.AdmitWait = 10, 400*time.Millisecond, 0
	})
	var wg sync.WaitGroup
	var stored atomic.Int32
	post := func(n int) {
		wg.Go(func() {
			if r := w.do(signed(w.url, fmt.Sprintf(`{"id":"waits%d"}`, n))); r.status == 200 {
				stored.Add(1)
			} else {
				t.Errorf("request %d was let in and got %d", n, r.status)
			}
		})
	}
	post(0)
	<-g.entered
	for n := range 25 {
		post(n + 1)
	}
	eventually(t, "25 wait", func() bool { return w.metric("queue_requests") == 25 })
	time.Sleep(300 * time.Millisecond) // two batches at this pace are 600 ms
	at := time.Now()
	r := w.do(signed(w.url, `{"id":"late"}`))
	if took := time.Since(at); r.status != 503 || r.header.Get("Retry-After") != "2" || took > 200*time.Millisecond {
		t.Errorf("%d with Retry-After %q after %s, want 503 at once", r.status, r.header.Get("Retry-After"), took)
	}
	if got := w.metric(`overflow_total{what="wait"}`); got != 1 {
		t.Errorf("overflow counted %v times", got)
	}
	close(g.open)
	wg.Wait()
	if stored.Load() != 26 {
		t.Errorf("%d stored, want the 26 that were let in", stored.Load())
	}
	if r := w.do(signed(w.url, `{"id":"late"}`)); r.status != 200 {
		t.Errorf("with room again: %d", r.status)
	}
}

// A burst beyond the queue is stored, not refused, when the database gets to it
// in time; until then its bodies are not read.
func TestABurstWaitsUnreadForRoomAndIsStored(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	g := newGate(db)
	w := worldOn(t, db, func(c *ingest.Config, p *ingest.Parts) {
		p.Store, c.Flushers = g, 1
		c.BatchRows, c.QueueRequests, c.AdmitWait = 5, 10, 1500*time.Millisecond
	})
	var wg sync.WaitGroup
	var stored, other atomic.Int32
	post := func(n int) {
		wg.Go(func() {
			if r := w.do(signed(w.url, fmt.Sprintf(`{"id":"burst%d"}`, n))); r.status == 200 {
				stored.Add(1)
			} else {
				other.Add(1)
			}
		})
	}
	post(0)
	<-g.entered
	for n := range 10 {
		post(n + 1)
	}
	eventually(t, "the queue is full", func() bool { return w.metric("queue_requests") == 10 })
	for n := range 60 {
		post(n + 11)
	}
	time.Sleep(300 * time.Millisecond)
	if n := stored.Load() + other.Load(); n != 0 {
		t.Errorf("%d requests were answered while the queue was full", n)
	}
	close(g.open)
	wg.Wait()
	if stored.Load() != 71 || other.Load() != 0 {
		t.Errorf("%d stored and %d refused, want all 71 stored", stored.Load(), other.Load())
	}
	if got := w.metric(`overflow_total{what="queue"}`) + w.metric(`overflow_total{what="wait"}`); got != 0 {
		t.Errorf("overflow counted %v times", got)
	}
}

// A flood costs its senders the wait, and gets its 503 when that is over.
func TestWhoFindsNoRoomIsRefusedAfterTheWaitAndUnread(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	g := newGate(db)
	w := worldOn(t, db, func(c *ingest.Config, p *ingest.Parts) {
		p.Store, c.Flushers = g, 1
		c.QueueRequests, c.AdmitWait = 1, 400*time.Millisecond
	})
	var wg sync.WaitGroup
	wg.Go(func() { w.do(signed(w.url, `{"id":"held"}`)) })
	<-g.entered
	wg.Go(func() { w.do(signed(w.url, `{"id":"queued"}`)) })
	eventually(t, "the queue is full", func() bool { return w.metric("queue_requests") == 1 })
	at := time.Now()
	forged := signed(w.url, `{"id":"forged"}`)
	forged.Header.Set(signatureHeader, "wrong") // who it is from is not looked at
	r := w.do(forged)
	if took := time.Since(at); r.status != 503 || r.header.Get("Retry-After") != "2" || took < 400*time.Millisecond || took > 900*time.Millisecond {
		t.Errorf("%d with Retry-After %q after %s, want 503 after 400ms", r.status, r.header.Get("Retry-After"), took)
	}
	if got := w.metric(`overflow_total{what="queue"}`); got != 1 {
		t.Errorf("overflow counted %v times", got)
	}
	close(g.open)
	wg.Wait()
}

func TestALateCommitIsAnsweredInTimeWithAnError(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	g := newGate(db)
	w := worldOn(t, db, func(c *ingest.Config, p *ingest.Parts) {
		p.Store, c.Flushers = g, 1
		c.AdmitWait, c.BodyTimeout, c.CommitTimeout, c.RequestDeadline = 100*time.Millisecond, 200*time.Millisecond, 400*time.Millisecond, 500*time.Millisecond
	})
	var wg sync.WaitGroup
	for n := range 5 {
		wg.Go(func() {
			at := time.Now()
			r := w.do(signed(w.url, fmt.Sprintf(`{"id":"%d"}`, n)))
			if took := time.Since(at); r.status != 503 || r.header.Get("Retry-After") == "" || took > 2*time.Second {
				t.Errorf("answer %d after %s, Retry-After %q", r.status, took, r.header.Get("Retry-After"))
			}
		})
	}
	wg.Wait()
	close(g.open)
	w.send(`{"id":"1"}`)
	if n := query[int](w, `SELECT count(*) FROM events WHERE provider_event_id = '1'`); n != 1 {
		t.Errorf("%d rows of the event that was promised", n)
	}
}

func TestAPanicInTheStoreIsAnErrorForItsBatchOnly(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	g := newGate(db)
	close(g.open)
	var panicked atomic.Bool
	g.fail = func([]event.Arrival) error {
		if panicked.CompareAndSwap(false, true) {
			panic("store")
		}
		return nil
	}
	w := worldOn(t, db, func(c *ingest.Config, p *ingest.Parts) { p.Store, c.Flushers = g, 1 })
	if r := w.do(signed(w.url, `{"id":"1"}`)); r.status != 503 {
		t.Errorf("answer %d", r.status)
	}
	w.send(`{"id":"1"}`)
	if got := w.metric(`panics_total{where="flusher"}`); got != 1 {
		t.Errorf("counted %v times", got)
	}
}

func TestCase_G13_WithoutPostgreSQLNothingIsPromised(t *testing.T) {
	t.Parallel()
	cluster, db := postgrestest.ClusterDB(t)
	w := worldOn(t, db)
	w.send(`{"id":"before"}`)
	if err := cluster.Kill(); err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		at := time.Now()
		r := w.do(signed(w.url, fmt.Sprintf(`{"id":"%d"}`, n)))
		if took := time.Since(at); r.status != 503 || r.header.Get("Retry-After") == "" || took > 5500*time.Millisecond {
			t.Errorf("answer %d after %s", r.status, took)
		}
	}
	if err := cluster.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	repaired := time.Now()
	for w.do(signed(w.url, `{"id":"0"}`)).status != 200 {
		if time.Since(repaired) > 5*time.Second {
			t.Fatal("not back five seconds after the repair")
		}
		time.Sleep(20 * time.Millisecond)
	}
	for n := range 20 {
		w.send(fmt.Sprintf(`{"id":"%d"}`, n))
	}
	if n := w.rows(); n != 21 {
		t.Errorf("%d rows, want 21", n)
	}
}

func TestALostCommitAnswerIsNeverASuccessThatWasNotStored(t *testing.T) {
	t.Parallel()
	home := postgrestest.New(t)
	cut := newCutter(t, home.Pool.Config().ConnConfig.Host, home.Pool.Config().ConnConfig.Port)
	config := home.Pool.Config().ConnConfig
	db, err := postgres.Open(t.Context(), postgres.Config{MaxConns: 2, DatabaseURL: fmt.Sprintf(
		"host=127.0.0.1 port=%d user=%s password='%s' dbname=%s sslmode=disable search_path=%s", cut.port, config.User, config.Password, config.Database, postgrestest.Schema(t))})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	w := worldOn(t, db, func(c *ingest.Config, _ *ingest.Parts) { c.Flushers = 1 })
	w.send(`{"id":"warm"}`)
	answered := 0
	for n := range 40 {
		text := fmt.Sprintf(`{"id":"%d"}`, n)
		cut.after(int64(n * 17 % 400)) // bytes of the server's answers that still come through
		first := w.do(signed(w.url, text))
		cut.after(-1)
		if first.status == 200 {
			answered++
			if got := query[int](w, `SELECT count(*) FROM events WHERE provider_event_id = $1`, fmt.Sprint(n)); got != 1 {
				t.Errorf("event %d was promised and %d rows are there", n, got)
			}
		} else if first.status != 503 {
			t.Errorf("event %d: answer %d", n, first.status)
		}
		w.send(text)
	}
	if n := query[int](w, `SELECT count(*) FROM events e JOIN event_bodies b ON b.event_id = e.id JOIN event_work k ON k.event_id = e.id`); n != 41 {
		t.Errorf("%d events, want 41", n)
	}
	if answered == 40 && cut.cuts.Load() == 0 {
		t.Error("no connection was cut")
	}
}

func TestAStopUnderLoadAnswersEverybodyAndKeepsEveryPromise(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	w := &world{t: t, db: db, bell: &bell{}}
	in := ingest.New(defaults(), parts(db, w.bell))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- in.Serve(ctx, l) }()
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	defer client.CloseIdleConnections()
	url := "http://" + l.Addr().String()

	var promised sync.Map
	var promises, others atomic.Int32
	var wg sync.WaitGroup
	for s := range 40 {
		wg.Go(func() {
			for n := 0; ; n++ {
				id := fmt.Sprint(s, "-", n)
				r, err := tryDo(client, signed(url, `{"id":"`+id+`"}`))
				switch {
				case err != nil: // the listener is closed
					return
				case r.status == 200:
					promised.Store(id, true)
					promises.Add(1)
				default:
					others.Add(1)
					t.Errorf("answer %d during the stop", r.status)
				}
			}
		})
	}
	eventually(t, "the load runs", func() bool { return promises.Load() > 500 })
	stop()
	if err := <-served; err != nil {
		t.Errorf("serve ended with %v", err)
	}
	wg.Wait()
	stored := map[string]bool{}
	rows, err := db.Pool.Query(t.Context(), `SELECT provider_event_id FROM events`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		stored[id] = true
	}
	promised.Range(func(id, _ any) bool {
		if !stored[id.(string)] {
			t.Errorf("event %s was promised and is not stored", id)
		}
		return true
	})
	if got := len(w.bell.rung()); got != len(stored) {
		t.Errorf("%d events stored and %d published", len(stored), got)
	}
	if n := db.Pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections still in use", n)
	}
}

func TestCase_F5_CancelledRequestsGiveEverythingBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wg sync.WaitGroup
	for s := range 20 {
		wg.Go(func() {
			for n := range 50 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration((s*50+n)*7%5000)*time.Microsecond)
				text := fmt.Sprintf(`{"id":"%d-%d"}`, s, n)
				if n%10 == 9 {
					text = "panic in the parser"
				}
				tryDo(w.client, signed(w.url, text).WithContext(ctx)) //nolint:errcheck // most are cancelled
				cancel()
			}
		})
	}
	wg.Wait()
	eventually(t, "the pool is free", func() bool { return w.db.Pool.Stat().AcquiredConns() == 0 })
	eventually(t, "the queue is empty", func() bool { return w.metric("queue_requests") == 0 && w.metric("queue_bytes") == 0 })
	w.send(`{"id":"after"}`)
}
