package processor

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/lookup"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/settlement"
	"github.com/umavez/umavez/pkg/sweep"
)

// laggy is a gateway whose API lags a state behind at times, and fails at times.
type laggy struct {
	scripted
	shown sync.Mutex
	past  map[string][]payment.Claim
	calm  bool
}

func (g *laggy) Lookup(_ context.Context, _ *http.Client, ref string) (payment.Claim, error) {
	time.Sleep(rand.N(4 * time.Millisecond))
	g.shown.Lock()
	defer g.shown.Unlock()
	past := g.past[ref]
	last := len(past) - 1
	switch {
	case last < 0:
		return payment.Claim{}, provider.ErrNotFound
	case !g.calm && rand.N(4) == 0:
		return payment.Claim{}, &provider.RetryError{Status: 503}
	case !g.calm && last > 0 && rand.N(3) == 0:
		last--
	}
	return past[last], nil
}

func (g *laggy) became(c payment.Claim) {
	g.shown.Lock()
	defer g.shown.Unlock()
	g.past[c.GatewayID] = append(g.past[c.GatewayID], c)
}

type laggySource struct {
	gateway *laggy
	src     provider.Source
}

func (s laggySource) Lookup(_, account string) (provider.Provider, provider.Source, bool) {
	src := s.src
	src.Account = account
	return s.gateway, src, true
}

// told is one event: what it says, and what the gateway's API says from then on.
type told struct {
	says, shows payment.Claim
	n           int
}

func (e told) arrival() event.Arrival {
	body, err := json.Marshal([]payment.Claim{e.says})
	if err != nil {
		panic(err)
	}
	return event.Arrival{Event: event.Event{Provider: "gw", Account: "default", DedupeKey: fmt.Sprintf("%s#%d", e.says.GatewayID, e.n), Type: "test",
		PaymentRef: e.says.GatewayID, Body: body, BodySHA256: sha256.Sum256(body), Secret: "1", OccurredAt: e.says.At}}
}

// life is one payment's events, and its refunds at the end.
func life(i int, begin time.Time) (events []told, refunded int64) {
	ref := fmt.Sprintf("pay/%d/ü", i)
	at := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Minute) }
	attempt := func(n int, s payment.Status) told {
		c := payment.Claim{GatewayID: ref, Currency: "BRL", Expected: payment.Of(1000), At: at(n), Facts: []payment.Fact{{Kind: payment.FactStatus, Status: s}}}
		return told{c, c, n}
	}
	shows := func(n int, refunds ...payment.Fact) payment.Claim {
		c := paid(ref)
		c.At, c.Beneficiary = at(n), ""
		c.Facts = append(c.Facts, refunds...)
		return c
	}
	refund := func(id string, amount int64) payment.Fact {
		return payment.Fact{Kind: payment.FactRefund, ID: id + ref, Amount: payment.Of(amount), Refund: payment.RefundSucceeded}
	}
	only := func(n int, f payment.Fact) payment.Claim {
		return payment.Claim{GatewayID: ref, Currency: "BRL", At: at(n), Facts: []payment.Fact{f}}
	}
	events = []told{attempt(0, payment.StatusPending)}
	if i%2 == 1 {
		events = append(events, attempt(1, payment.StatusFailed))
	}
	events = append(events, told{shows(2), shows(2), 2})
	a, b := refund("a", 400), refund("b", 600)
	switch i % 3 {
	case 1:
		events = append(events, told{only(3, a), shows(3, a), 3})
		refunded = 400
	case 2:
		events = append(events, told{only(3, a), shows(3, a), 3}, told{only(4, b), shows(4, a, b), 4})
		refunded = 1000
	}
	return events, refunded
}

// TestEverythingAtOnceEndsInTheTruth lets four processors, with the loop for
// due events beside each, meet duplicates, disorder, a gateway that lags and
// fails, deaths and revivals, burials, reconciliation and registrations.
func TestEverythingAtOnceEndsInTheTruth(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode    provider.LookupMode
		trusted bool
	}{"always": {provider.LookupAlways, true}, "bodies that are not trusted": {provider.LookupAlways, false}, "in doubt": {provider.LookupInDoubt, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newStorm(t, c.mode, c.trusted).run()
		})
	}
}

type storm struct {
	*world
	gateway *laggy
	queue   chan int64
	all     []told
	refunds map[string]int64
}

func newStorm(t *testing.T, mode provider.LookupMode, trusted bool) *storm {
	g := &laggy{past: map[string][]payment.Claim{}}
	g.trusted = trusted
	cfg := Config{
		Lookup: lookup.Config{Concurrency: 8, Timeout: 2 * time.Second, BreakAfter: 1000, Open: time.Millisecond},
		Batch:  20, Workers: 1, MaxAttempts: 4, ParkLimit: 72 * time.Hour, AgreeLimit: 15 * time.Minute,
		UnknownPayment: "create", TxTimeout: 5 * time.Second, AckWait: 30 * time.Second, DueEvery: time.Second, RelayEvery: time.Second,
	}
	src := provider.Source{Provider: "gw", Lookup: mode, LookupLag: 10 * time.Second}
	db := postgrestest.New(t)
	p := New(cfg, db, laggySource{g, src}, lookup.New(cfg.Lookup), NewMetrics(prometheus.NewRegistry()), zap.NewNop())
	s := &storm{world: &world{Processor: p, t: t, db: db}, gateway: g, queue: make(chan int64, 10000), refunds: map[string]int64{}}
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	for i := range 36 {
		events, refunded := life(i, begin)
		s.all = append(s.all, events...)
		s.refunds[events[0].says.GatewayID] = refunded
	}
	return s
}

func (s *storm) run() {
	ctx := context.WithoutCancel(s.t.Context())
	stop := make(chan struct{})
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() { s.workQueue(ctx, stop) })
		workers.Go(func() { s.workParked(ctx, stop) })
	}
	workers.Go(func() { s.disturb(ctx, stop) })
	var senders sync.WaitGroup
	for _, e := range s.all {
		s.gateway.became(e.shows)
		for range 1 + rand.N(3) {
			senders.Go(func() { s.send(ctx, e, rand.N(150*time.Millisecond)) })
		}
		if e.n == 0 {
			senders.Go(func() { s.registerOwner(ctx, e.says.GatewayID, rand.N(400*time.Millisecond)) })
		}
		time.Sleep(2 * time.Millisecond)
	}
	senders.Wait()
	time.Sleep(200 * time.Millisecond)
	close(stop)
	workers.Wait()

	s.gateway.shown.Lock()
	s.gateway.calm = true
	s.gateway.shown.Unlock()
	for _, e := range s.all {
		s.send(ctx, e, 0) // everything once more, which revives the dead
	}
	for ref := range s.refunds {
		s.registerOwner(ctx, ref, 0)
	}
	s.drain(ctx)
	s.compare(ctx)
	s.verify()
}

func (s *storm) send(ctx context.Context, e told, after time.Duration) {
	time.Sleep(after)
	stored, err := s.db.InsertEvents(ctx, []event.Arrival{e.arrival()})
	if err != nil {
		s.t.Error(err)
		return
	}
	if stored[0].Publish {
		s.queue <- stored[0].ID
	}
}

func (s *storm) registerOwner(ctx context.Context, ref string, after time.Duration) {
	time.Sleep(after)
	if _, err := s.db.Pool.Exec(ctx, `SELECT register_payment('gw', 'default', $1, 1000, 'BRL', $2)`, ref, "loja-"+ref); err != nil {
		s.t.Logf("an application was refused: %v", err)
	}
}

func (s *storm) workQueue(ctx context.Context, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case id := <-s.queue:
			ids := []int64{id}
			for len(s.queue) > 0 && len(ids) < 15 {
				ids = append(ids, <-s.queue)
			}
			for id, r := range s.Process(ctx, ids) {
				if r != Done {
					s.queue <- id
				}
			}
		}
	}
}

func (s *storm) workParked(ctx context.Context, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(rand.N(15 * time.Millisecond)):
		}
		if ids, err := s.db.ClaimDue(ctx, 20, 200*time.Millisecond); err == nil && len(ids) > 0 {
			s.Process(ctx, ids)
		}
	}
}

// disturb makes parked events due, events fail to death, and old ones be
// buried, and enters reconciliations.
func (s *storm) disturb(ctx context.Context, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(rand.N(20 * time.Millisecond)):
		}
		var id int64
		var turn int32
		_, err := s.db.Pool.Exec(ctx, `UPDATE event_work SET next_at = now() WHERE state = 'parked' AND random() < 0.5`)
		if err == nil && s.db.Pool.QueryRow(ctx, `SELECT event_id, turn FROM event_work ORDER BY random() LIMIT 1`).Scan(&id, &turn) == nil {
			_, err = s.db.Fail(ctx, settlement.Handle{EventID: id, Turn: turn}, "disturbed by the test", 0, 3)
		}
		if err == nil && rand.N(10) == 0 {
			_, err = s.db.Pool.Exec(ctx, `UPDATE event_work SET since = now() - interval '80 hours' WHERE event_id = $1`, id)
			if err == nil {
				_, err = s.db.BuryParked(ctx, 72*time.Hour, sweep.Filter{}, 10)
			}
		}
		if err == nil && rand.N(5) == 0 {
			_, _, err = s.db.Reconcile(ctx, sweep.Filter{}, sweep.Reconcile{Within: time.Hour, All: true, Sources: []string{"gw/default"}}, 0, 100)
		}
		if err != nil {
			s.t.Logf("the disturbance was disturbed: %v", err) // a deadlock is nobody's harm
		}
	}
}

func (s *storm) drain(ctx context.Context) {
	for range 60 {
		var ids []int64
		if err := s.db.Pool.QueryRow(ctx, `SELECT COALESCE(array_agg(event_id), '{}') FROM (SELECT event_id FROM event_work ORDER BY random() LIMIT 300) w`).Scan(&ids); err != nil {
			s.t.Fatal(err)
		}
		if len(ids) == 0 {
			return
		}
		s.Process(ctx, ids)
	}
	var left string
	if err := s.db.Pool.QueryRow(ctx, `SELECT string_agg(concat_ws(' ', e.type, w.state, w.reason, w.last_error), '; ') FROM event_work w JOIN events e ON e.id = w.event_id`).Scan(&left); err != nil {
		s.t.Fatal(err)
	}
	s.t.Errorf("unfinished: %s", left)
}

func (s *storm) compare(ctx context.Context) {
	for ref, refunded := range s.refunds {
		want := payment.StatusPaid
		switch refunded {
		case 400:
			want = payment.StatusPartiallyRefunded
		case 1000:
			want = payment.StatusRefunded
		}
		var got string
		if err := s.db.Pool.QueryRow(ctx, `SELECT concat_ws(' ', status, captured, refunded, fee, beneficiary) FROM payments WHERE gateway_id = $1`, ref).Scan(&got); err != nil {
			s.t.Errorf("%s: %v", ref, err)
			continue
		}
		if w := fmt.Sprintf("%s 1000 %d 30 loja-%s", want, refunded, ref); got != w {
			s.t.Errorf("%s: we hold %q, the truth is %q", ref, got, w)
		}
	}
}
