//go:build failpoints

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
)

// recoveryBound is how long it may take from the fault until all is final.
const recoveryBound = 20 * time.Second

// rounds is how many stories are tried to reach a point.
const rounds = 4

// told is what became of one fault.
type told struct {
	Point    string  `json:"point"`
	Action   string  `json:"action"`
	Second   string  `json:"second,omitempty"` // of a pair: where it crashed again
	Rounds   int     `json:"rounds"`           // stories until it fired
	Fired    bool    `json:"fired"`
	Deaths   int     `json:"deaths"` // of ingest and processor
	Recovery float64 `json:"recovery_seconds"`
	Took     float64 `json:"seconds"`
	OK       bool    `json:"ok"`
}

// spec arms a fault once.
func (f fault) spec() string {
	action := f.action
	if action == "delay" {
		action += ":" + standstill.String()
	}
	return f.point + "=" + action + "*1"
}

// story is one simulation on its way through a world, with its faults.
type story struct {
	*faultWorld
	sim     *gatewaysim.Sim
	plan    plan
	faults  []fault // armed one after the other
	next    int     // of them
	before  []int   // how often each had fired
	firedAt time.Time

	traffic chan gatewaysim.Report // gives one when all is sent
	report  gatewaysim.Report
	sent    bool
	hurried time.Time
	swept   time.Time
}

// single plays stories with one fault until it fires, and checks each to the
// cent.
func (w *faultWorld) single(t *testing.T, f fault) (out told) {
	w.stack.t, w.lent.TB = t, t
	begin := time.Now()
	out = told{Point: f.point, Action: f.action}
	for out.Rounds < rounds && !out.Fired && !t.Failed() {
		out.Rounds++
		s := w.begin(t, planOf(f.point), out.Rounds, f)
		s.play(t)
		out.Fired, out.Recovery = s.hasFired(0), s.recovery()
		out.Deaths = w.died[atIngest] + w.died[atProcessor]
		s.wantDeaths(f)
	}
	if !out.Fired {
		t.Errorf("%s never fired in %d stories: give its plan what it needs, or say in cannotHappen why it cannot", f, out.Rounds)
	}
	out.Took, out.OK = time.Since(begin).Seconds(), !t.Failed()
	return out
}

// double plays one story in which a process crashes at the first point, and
// while that is repaired at the second. Fired says whether the second was
// reached.
func (w *faultWorld) double(t *testing.T, first, second string) (out told) {
	w.stack.t, w.lent.TB = t, t
	begin := time.Now()
	out = told{Point: first, Action: "crash", Second: second}
	p := planOf(first)
	p.wants = both(p.wants, planOf(second).wants)
	p.unrung = p.unrung || planOf(second).unrung
	for reached := false; !reached && !t.Failed(); {
		out.Rounds++
		s := w.begin(t, p, out.Rounds, fault{first, "crash"}, fault{second, "crash"})
		s.play(t)
		if reached = s.hasFired(0); !reached && out.Rounds == rounds {
			t.Errorf("%s was not reached in %d stories", first, rounds)
		}
		out.Fired, out.Recovery = s.hasFired(1), s.recovery()
		out.Deaths = w.died[atIngest] + w.died[atProcessor]
	}
	out.Took, out.OK = time.Since(begin).Seconds(), !t.Failed()
	return out
}

func both(a, b func(*gatewaysim.Sim) bool) func(*gatewaysim.Sim) bool {
	return func(sim *gatewaysim.Sim) bool { return (a == nil || a(sim)) && (b == nil || b(sim)) }
}

func (w *faultWorld) begin(t *testing.T, p plan, round int, faults ...fault) *story {
	postgrestest.Empty(w.lent)
	clear(w.died)
	s := &story{faultWorld: w, plan: p, faults: faults, traffic: make(chan gatewaysim.Report, 1)}
	s.sim = w.story(fmt.Sprint(faults), p.wants, round)
	for _, f := range faults {
		s.before = append(s.before, w.fired(f))
	}
	w.api.play(s.sim.APIHandler())
	w.domain.mark(t)
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, p := range w.roles() {
			t.Logf("the end of %s's log:\n%s", p.name, tail(p.output(), 4000))
		}
	})
	return s
}

// play is the whole story.
func (s *story) play(t *testing.T) {
	if s.plan.revived {
		s.arm(atProcessor, "postgres.settle_locked=error")
		s.send(t)
		s.until(t, "events are dead", func(u unfinished) bool { return s.sent && u.dead > 0 && u.idle == 0 })
		s.arm(atProcessor)
		s.armNext()
	} else {
		if s.plan.unrung {
			s.arm(atIngest, "ingest.offering=error")
		}
		if s.plan.vanished {
			s.forgetStreams()
			s.domain.begin = 0
		}
		if s.plan.restarted {
			s.next++
			s.processors[0].kill()
			s.restart("FAILPOINTS=" + s.faults[0].spec())
			s.died[atProcessor]--
		} else {
			s.armNext()
		}
		s.send(t)
	}
	s.until(t, "all is final", func(u unfinished) bool { return s.sent && u.events == 0 && u.unsent == 0 && u.dead == 0 })
	if s.plan.reconciled {
		time.Sleep(150 * time.Millisecond) // RECONCILE_AFTER
		s.sweepArmed("--reconcile-all")
		s.sweepClean("--reconcile-all")
		s.until(t, "all is final again", func(u unfinished) bool { return u.events == 0 && u.unsent == 0 && u.dead == 0 })
	}
	// What runs by itself is reached a little later.
	for wait := time.Now(); !s.allFired() && time.Since(wait) < 500*time.Millisecond; time.Sleep(20 * time.Millisecond) {
		s.revive()
	}
	s.awaitDeath()
	s.until(t, "all is final at the end", func(u unfinished) bool { return u.events == 0 && u.unsent == 0 && u.dead == 0 })
	s.arm(atIngest)
	s.arm(atProcessor)
	if !s.firedAt.IsZero() && s.faults[0].action == "delay" {
		// Whoever stood still wakes up in a world that has gone on.
		time.Sleep(time.Until(s.firedAt.Add(standstill + 200*time.Millisecond)))
		s.until(t, "all is final after the standstill", func(u unfinished) bool { return u.events == 0 && u.unsent == 0 && u.dead == 0 })
	}
	compareState(t, s.db, s.sim, s.report)
	s.compareSentEvents(t)
	// A forger does not try again when he is answered oddly, and neither does
	// this fault.
	if r := s.report; r.GivenUp > 0 || r.ForgedAccepted > 0 || r.ForgedOdd > r.Answers["no answer"]+len(s.faults) {
		t.Errorf("%d authentic webhooks were given up; of the forged ones %d were accepted and %d answered oddly", r.GivenUp, r.ForgedAccepted, r.ForgedOdd)
	}
	if s.plan.aged {
		s.forgetAll(t)
	}
	s.wantNoLeak()
}

// forgetAll lets everything become older than it is kept.
func (s *story) forgetAll(t *testing.T) {
	s.age()
	s.sweepArmed()
	s.sweepClean()
	if n := queryOne[int](t, s.db, `
SELECT (SELECT count(*) FROM events WHERE received_at < now() - interval '1 day') + (SELECT count(*) FROM event_bodies)`); n > 0 {
		t.Errorf("%d rows are kept for longer than they should be", n)
	}
	// The sweeps asked about unsettled payments too.
	s.until(t, "all is final after the sweeps", func(u unfinished) bool { return u.events == 0 && u.unsent == 0 && u.dead == 0 })
	comparePayments(t, s.db, s.sim)
	compareBalances(t, s.db, s.sim)
	verify(t, s.db)
}

// send begins the traffic.
func (s *story) send(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	go func() {
		report, err := s.sim.Run(ctx, gatewaysim.RunConfig{
			BaseURL: func(string, string) string { return s.url() }, Concurrency: 8, Timeout: 3 * time.Second, RetryFor: recoveryBound,
		})
		if err == nil {
			s.traffic <- report
		}
	}()
}

// armNext arms the next fault in its process; those of a sweeper wait for a
// sweep.
func (s *story) armNext() {
	if s.next == len(s.faults) {
		return
	}
	f := s.faults[s.next]
	if role := planOf(f.point).role; role != atSweeper {
		s.next++
		specs := []string{f.spec()}
		if s.plan.helper != "" {
			specs = append(specs, s.plan.helper)
		}
		s.arm(role, specs...)
	}
}

// sweepArmed makes a pass with the next fault, if that is a sweeper's.
func (s *story) sweepArmed(args ...string) {
	if s.next == len(s.faults) || planOf(s.faults[s.next].point).role != atSweeper {
		return
	}
	f := s.faults[s.next]
	s.next++
	code, errs := s.sweepWith(f.spec(), args...)
	if f.action == "crash" && code == 0 && strings.Contains(errs, "failpoint: ") {
		s.t.Errorf("the sweeper crashed and ended with code 0")
	}
}

func (s *story) sweepClean(args ...string) {
	s.t.Helper()
	if code, errs := s.sweepWith("", args...); code != 0 {
		s.t.Errorf("sweeper run %v: code %d\n%s", args, code, errs)
	}
}

// revive starts again what has died, with the next fault in it.
func (s *story) revive() {
	s.t.Helper()
	for i := range s.next {
		if s.firedAt.IsZero() && i == 0 && s.hasFired(0) {
			s.firedAt = time.Now()
		}
	}
	if !s.ingests[0].ended() && !s.processors[0].ended() {
		return
	}
	var env []string
	if s.next > 0 && s.next < len(s.faults) && s.hasFired(s.next-1) {
		f := s.faults[s.next]
		switch role := planOf(f.point).role; {
		case role == atSweeper:
		case s.roles()[role].ended():
			s.next++
			env = []string{"FAILPOINTS=" + f.spec()}
		default:
			s.armNext()
		}
	}
	s.restart(env...)
}

// until keeps the world going until something holds: restarts what died, lets
// time pass, sweeps, and sends again what died.
func (s *story) until(t *testing.T, what string, holds func(unfinished) bool) {
	t.Helper()
	for deadline := time.Now().Add(recoveryBound); ; time.Sleep(25 * time.Millisecond) {
		s.revive()
		if !s.sent {
			select {
			case s.report = <-s.traffic:
				s.sent = true
			default:
			}
		}
		u := s.unfinished()
		switch {
		case holds(u):
			return
		case time.Now().After(deadline):
			t.Fatalf("not within %s: %s; %d events unfinished (%s), %d dead, %d domain events unsent, all sent: %t; the broker has %s",
				recoveryBound, what, u.events, s.reasons(), u.dead, u.unsent, s.sent, s.domain.streams(t))
		case u.dead > 0 && !s.plan.buried && !s.plan.revived:
			t.Fatalf("%d events are dead: %s", u.dead, queryOne[string](t, s.db, `SELECT string_agg(provider || ' ' || type || ': ' || reason, '; ') FROM webhook_events WHERE status = 'dead'`))
		}
		if time.Since(s.hurried) > 150*time.Millisecond {
			s.hurry()
			s.hurried = time.Now()
		}
		if !s.sent {
			continue
		}
		// A sweeper comes by for events that nobody rang for, and looks after
		// the streams when domain events stay unsent.
		if (u.idle > 0 || u.unsent > 0 && !s.firedAt.IsZero() && time.Since(s.firedAt) > 3*time.Second) && time.Since(s.swept) > time.Second {
			if s.next < len(s.faults) && planOf(s.faults[s.next].point).role == atSweeper && (s.next == 0 || s.hasFired(s.next-1)) && !s.plan.reconciled && !s.plan.aged {
				s.sweepArmed("--older-than", "300ms")
				s.armNext()
			} else {
				s.sweepClean("--older-than", "300ms")
			}
			s.swept = time.Now()
		}
		if u.dead > 0 && what != "events are dead" && (!s.plan.buried || s.hasFired(0)) {
			s.arm(atProcessor)
			s.resend(s.sim)
		}
	}
}

// awaitDeath waits for a process that has said it will die, so that the story
// does not end before it has.
func (s *story) awaitDeath() {
	s.t.Helper()
	role := planOf(s.faults[0].point).role
	if s.faults[0].action == "crash" && role != atSweeper && s.hasFired(0) {
		eventually(s.t, 2*time.Second, string(role)+" is dead", func() bool {
			s.revive()
			return s.died[role] > 0
		})
	}
	s.revive()
}

func (s *story) hasFired(i int) bool { return s.fired(s.faults[i]) > s.before[i] }

func (s *story) allFired() bool {
	return !slices.ContainsFunc(s.faults, func(f fault) bool { return !s.hasFired(slices.Index(s.faults, f)) })
}

// recovery is how long ago the first fault was seen.
func (s *story) recovery() float64 {
	if s.firedAt.IsZero() {
		return 0
	}
	return time.Since(s.firedAt).Seconds()
}

// wantDeaths: a process dies of a crash and may die of a panic, and of nothing
// else.
func (s *story) wantDeaths(f fault) {
	s.t.Helper()
	n := s.died[atIngest] + s.died[atProcessor]
	switch {
	case f.action == "crash" && s.hasFired(0) && planOf(f.point).role != atSweeper && n != 1:
		s.t.Errorf("%d processes died of one crash", n)
	case f.action != "crash" && f.action != "panic" && n > 0:
		s.t.Errorf("%d processes ended", n)
	}
}
