package zoop_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
	"github.com/umavez/umavez/pkg/provider/zoop"
)

// claimOf reads a body as ingest and the processor would.
func claimOf(t *testing.T, p provider.Provider, src provider.Source, body string, at time.Time) payment.Claim {
	t.Helper()
	r := sign(secret, []byte(body), at)
	m := p.Parse(r)[0]
	if m.Disposition != provider.Process {
		t.Fatalf("%s: %s\n%s", m.Disposition, m.Reason, body)
	}
	claims, err := p.Facts(providertest.EventOf(p, src, r, m))
	if err != nil || len(claims) != 1 {
		t.Fatalf("%d claims, %v\n%s", len(claims), err, body)
	}
	return claims[0]
}

// books takes results and watches that nothing is booked twice.
type books struct {
	state payment.Payment
	seen  map[string]bool
}

func newBooks() *books {
	return &books{state: payment.Payment{Provider: "zoop", GatewayID: id}, seen: map[string]bool{}}
}

func (b *books) take(t *testing.T, r payment.Result) {
	t.Helper()
	b.state = r.Payment
	for _, tr := range r.Transitions {
		for _, k := range tr.Bookings {
			key := fmt.Sprint(k.Kind, k.RefType, k.RefID)
			if b.seen[key] {
				t.Fatalf("%s is booked twice", key)
			}
			b.seen[key] = true
		}
	}
}

// TestTrustedEventsInAnyOrderEndAlike is for operators who take the bodies'
// word: every order, with repetitions strewn in, by the events alone. What
// needs something waits, and is tried again after the next one.
func TestTrustedEventsInAnyOrderEndAlike(t *testing.T) {
	t.Parallel()
	src := source()
	src.UnsafeTrust = true
	p := build(t, src)
	for _, s := range stories() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			var claims []payment.Claim
			for _, n := range s.notices() {
				claims = append(claims, claimOf(t, p, src, n.body, n.at.AddDate(1, 0, 0)))
			}
			providertest.Sequences(len(claims), func(order []int) {
				b := newBooks()
				try := func(i int) bool {
					r := payment.Apply(b.state, claims[i])
					if r.Need == "" {
						b.take(t, r)
					}
					return r.Need == ""
				}
				var waiting []int
				for _, i := range order {
					waiting = slices.DeleteFunc(append(waiting, i), try)
				}
				for range waiting {
					waiting = slices.DeleteFunc(waiting, try)
				}
				if got := sumsOf(&b.state); len(waiting) > 0 || got != s.ends {
					t.Fatalf("order %v waits for %v and ends as %+v, want %+v\n%+v", order, waiting, got, s.ends, b.state.Details)
				}
			})
		})
	}
}

// world is Zoop and the processor with a common clock: transactions move on
// every day, webhooks take their time, replicas are behind, and what cannot be
// decided is tried again later.
type world struct {
	t     *testing.T
	rng   *rand.Rand
	p     provider.Provider
	src   provider.Source
	story story
	books *books
	now   time.Time
	gaveUp,
	lookups int
}

// arrival is a webhook, or the next try of a parked one.
type arrival struct {
	at, received, since time.Time
	claim               payment.Claim
	tries               int
}

// lookup asks for the transaction now. Half of the answers come from a replica
// that is behind by less than the lag.
func (w *world) lookup() payment.Snapshot {
	w.t.Helper()
	w.lookups++
	seen := w.now
	if w.rng.IntN(2) == 0 {
		seen = seen.Add(-time.Duration(w.rng.Int64N(int64(w.src.LookupLag))))
	}
	n := int(seen.Sub(begin) / (24 * time.Hour))
	if seen.Before(begin) {
		n = 0 // it is known from its first moment on
	}
	object := w.story.moments[min(n, len(w.story.moments)-1)].object
	claim, err := w.p.Lookup(context.Background(), &http.Client{Transport: providertest.HandlerTransport{Handler: answer(object)}}, id)
	if err != nil {
		w.t.Fatalf("%v\n%s", err, object)
	}
	return payment.Snapshot{Claim: claim, ObservedAt: w.now}
}

func (w *world) decide(a *arrival) bool {
	snap := w.lookup()
	settle := !a.since.IsZero() && w.now.Sub(a.since) >= 15*time.Minute
	r, dropped := payment.Resolve(w.books.state, &snap, a.claim, payment.Policy{Lag: w.src.LookupLag, Settle: settle})
	if dropped {
		w.t.Fatal("a snapshot was dropped, though time goes forward")
	}
	if r.Need != "" {
		if a.since.IsZero() {
			a.since = w.now
		}
		return false
	}
	if settle {
		w.gaveUp++
	}
	w.books.take(w.t, r)
	return true
}

var (
	delays = []time.Duration{2 * time.Second, 30 * time.Second, 70 * time.Second, 10 * time.Minute, 5 * time.Hour, 30 * time.Hour, 100 * time.Hour}
	parks  = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute}
)

// run sends the story's webhooks, some of them never, and looks once more at
// the end, as reconciliation does.
func (w *world) run() {
	var due []arrival
	for _, n := range w.story.notices() {
		for range w.rng.IntN(3) { // lost, once, or repeated
			at := n.at.Add(delays[w.rng.IntN(len(delays))]).Add(time.Duration(w.rng.IntN(1000)) * time.Millisecond)
			due = append(due, arrival{at: at, received: at, claim: claimOf(w.t, w.p, w.src, n.body, at)})
		}
	}
	for len(due) > 0 {
		slices.SortStableFunc(due, func(a, b arrival) int { return a.at.Compare(b.at) })
		a := due[0]
		due = due[1:]
		w.now = a.at
		if w.decide(&a) {
			continue
		}
		a.at = w.now.Add(parks[min(a.tries, len(parks)-1)])
		a.tries++
		due = append(due, a)
	}
	w.now = begin.AddDate(0, 1, 0)
	snap := w.lookup()
	r, _ := payment.Resolve(w.books.state, &snap, payment.Claim{GatewayID: id}, payment.Policy{TrustBody: true, Lag: w.src.LookupLag})
	if r.Need != "" {
		w.t.Fatalf("reconciliation needs %s", r.Need)
	}
	w.books.take(w.t, r)
}

// TestHintsOfAnyOrderAndAnyLossEndInTheTruth is the way in which Zoop is meant
// to be used: bodies move nothing, lookups do.
func TestHintsOfAnyOrderAndAnyLossEndInTheTruth(t *testing.T) {
	t.Parallel()
	for _, s := range stories() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p := build(t, source())
			gaveUp, lookups := 0, 0
			for seed := range uint64(400) {
				w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 17)), p: p, src: source(), story: s, books: newBooks()}
				zoop.SetClock(p, func() time.Time { return w.now })
				w.run()
				if got := sumsOf(&w.books.state); got != s.ends {
					t.Fatalf("seed %d ends as %+v, want %+v\n%+v", seed, got, s.ends, w.books.state.Details)
				}
				gaveUp, lookups = gaveUp+w.gaveUp, lookups+w.lookups
			}
			if gaveUp > 0 {
				t.Errorf("%d of %d times an event was held against what was past, until the limit", gaveUp, lookups)
			}
		})
	}
}
