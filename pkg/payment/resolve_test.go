package payment_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/umavez/umavez/pkg/payment"
)

const modelLag = 4 * time.Second

// processors are several of them at work on one payment: each takes an event,
// asks the gateway, and commits when it is ready, in any order. The database's
// lock makes the commits one after the other.
type processors struct {
	t       rapid.TB
	g       *gateway
	rng     *rand.Rand
	pol     payment.Policy
	inDoubt bool // ask only when the state machine asks
	clock   time.Time
	s       *story
	queue   []work
	hands   []work // asked, not committed
	log     []string
}

type work struct {
	event  modelEvent
	snap   *payment.Snapshot
	tries  int
	parked time.Time
}

func (ps *processors) run() {
	for _, e := range ps.g.events {
		ps.queue = append(ps.queue, work{event: e})
	}
	for round := 0; len(ps.queue)+len(ps.hands) > 0; round++ {
		if round > 1500 {
			ps.t.Fatalf("%d events are never settled\n%s", len(ps.queue)+len(ps.hands), ps.story())
		}
		ps.clock = ps.clock.Add(time.Duration(ps.rng.IntN(700)) * time.Millisecond)
		if len(ps.hands) > 0 && (len(ps.hands) == 3 || ps.rng.IntN(2) == 0) {
			ps.commit(ps.rng.IntN(len(ps.hands)))
			continue
		}
		ps.take()
	}
	last := ps.g.last().since
	if ps.clock.Before(last) {
		ps.clock = last
	}
	ps.clock = ps.clock.Add(modelLag + payment.Resolution + time.Millisecond)
	w := work{event: modelEvent{claim: payment.Claim{GatewayID: "pay_1", Reason: "reconcile"}}}
	w.snap = ps.ask()
	ps.resolve(w)
	if ps.s.last.Need != "" {
		ps.t.Fatalf("the last lookup needs %s\n%s", ps.s.last.Need, ps.story())
	}
}

// ask answers from a replica that is behind by up to the lag.
func (ps *processors) ask() *payment.Snapshot {
	behind := time.Duration(ps.rng.Int64N(int64(modelLag) + 1))
	if ps.rng.IntN(3) == 0 {
		behind = 0
	}
	return &payment.Snapshot{Claim: ps.g.at(ps.clock.Add(-behind)).answer(), ObservedAt: ps.clock}
}

func (ps *processors) take() {
	var ready []int
	for i, w := range ps.queue {
		if !w.event.sent.After(ps.clock) && !w.parked.After(ps.clock) {
			ready = append(ready, i)
		}
	}
	if len(ready) == 0 {
		ps.clock = ps.clock.Add(time.Second)
		return
	}
	i := ready[ps.rng.IntN(len(ready))]
	w := ps.queue[i]
	ps.queue = slices.Delete(ps.queue, i, i+1)
	w.snap = ps.ask()
	if ps.inDoubt {
		if r := payment.Apply(ps.s.p, w.event.claim); r.Need == "" && !r.Doubt {
			w.snap = nil
		}
	}
	ps.hands = append(ps.hands, w)
}

func (ps *processors) commit(i int) {
	w := ps.hands[i]
	ps.hands = slices.Delete(ps.hands, i, i+1)
	dropped := ps.resolve(w)
	r := ps.s.last
	if r.Need != "" || dropped && (r.Applied() || r.Doubt) {
		w.tries++
		w.parked = ps.clock.Add(time.Duration(min(w.tries, 6)) * time.Second)
		ps.queue = append(ps.queue, w)
	}
}

func (ps *processors) resolve(w work) (dropped bool) {
	r, dropped := payment.Resolve(ps.s.p, w.snap, w.event.claim, ps.pol)
	shown := "nothing asked"
	if w.snap != nil {
		shown = fmt.Sprintf("asked at %s: %s", w.snap.ObservedAt.Sub(at(0)), describe([]payment.Claim{w.snap.Claim}))
	}
	ps.log = append(ps.log, fmt.Sprintf("%s %s| %s    -> need %q dropped %t steps %d status %s", ps.clock.Sub(at(0)),
		describe([]payment.Claim{w.event.claim}), shown, r.Need, dropped, len(r.Transitions), r.Payment.Status))
	if dropped && (r.Need != "" || r.Applied() || r.Doubt) {
		ps.s.last = r
		return true
	}
	if r.Need != "" {
		ps.s.last = r
		ps.s.record(ps.t, r)
		return dropped
	}
	ps.s.last = r
	ps.s.record(ps.t, r)
	return dropped
}

func (ps *processors) story() string {
	text := "truth\n"
	for _, tr := range ps.g.truths[1:] {
		a := tr.answer()
		a.At, a.Reason = tr.since, string(tr.status())
		text += describe([]payment.Claim{a})
	}
	text += "work\n"
	for _, l := range ps.log {
		text += l + "\n"
	}
	return text
}

func (ps *processors) wantTruth(passing bool) {
	ps.t.Helper()
	tr, p := ps.g.last(), ps.s.p
	refunded, back := tr.sums()
	if p.Status != tr.status() || p.Refunded != refunded || p.ChargedBack != back || p.Fee != modelFee*int64(len(tr.fees)) {
		ps.t.Fatalf("ends %s, refunded %d, charged back %d, fee %d; truth is %s, %d, %d, %d\n%s", p.Status, p.Refunded, p.ChargedBack, p.Fee,
			tr.status(), refunded, back, modelFee*int64(len(tr.fees)), ps.story())
	}
	got := slices.Sorted(slices.Values(ps.s.books))
	if !passing {
		got = netOf(got)
	}
	if diff := cmp.Diff(tr.books(passing), got); diff != "" && len(got)+len(tr.books(passing)) > 0 {
		ps.t.Fatalf("bookings (-truth +ours)\n%s\n%s", diff, ps.story())
	}
}

// netOf leaves out what went there and back.
func netOf(books []string) []string {
	var left []string
	for _, b := range books {
		var kind, ref string
		var amount int64
		fmt.Sscan(b, &kind, &ref, &amount)
		reversal := fmt.Sprintf("%s_reversal %s %d", kind, ref, amount)
		if slices.Contains(books, reversal) || len(kind) > 9 && kind[len(kind)-9:] == "_reversal" {
			continue
		}
		left = append(left, b)
	}
	return left
}

func TestProcessorsThatAskALaggingGatewayEndAtTheTruth(t *testing.T) {
	t.Parallel()
	for _, mode := range []struct {
		name           string
		trust, inDoubt bool
	}{
		{"bodies are trusted and the gateway is always asked", true, false},
		{"bodies are trusted and the gateway is asked in doubt", true, true},
		{"bodies are not trusted", false, false},
	} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				g := drawGateway(t, mode.trust)
				for _, seed := range rapid.SliceOfN(rapid.Uint64(), 6, 6).Draw(t, "seeds") {
					ps := &processors{
						t: t, g: g, rng: rand.New(rand.NewPCG(seed, 2)), clock: at(0), inDoubt: mode.inDoubt,
						pol: payment.Policy{TrustBody: mode.trust, Lag: modelLag}, s: &story{p: newPayment()},
					}
					ps.run()
					ps.wantTruth(mode.trust)
				}
			})
		})
	}
}
