package virtual

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
)

// heal lets the faults stop, and time, sweeps and the gateways' retries do
// their work.
func (w *world) heal(world *proc) {
	w.faults = faults{}
	w.store.changed.ring()
	w.store.written.ring()
	w.broker.changed.ring()
	w.broker.started.ring()
	for _, p := range w.gateway.pays {
		for _, t := range p.tells {
			// Where nobody can be asked, a gateway has to send until it is heard.
			if !t.accepted && (w.plan.mode == provider.LookupNever || w.sched.chance(0.3)) {
				w.deliver(world, t, w.gateway.signing, 3)
			}
		}
		if w.plan.park || w.sched.chance(0.5) {
			for !w.register(world, p) { // the locks of the dead are held for a while
				world.sleep(5*time.Second, "registers again")
			}
		}
	}
	w.settle(world, "healing")
	for range 3 {
		if w.resendDead(world) == 0 {
			break
		}
		w.settle(world, "after resends")
	}
	if w.plan.mode != provider.LookupNever {
		world.sleep(2*time.Hour, "before reconciliation")
		w.sweep("sweeper", true)
		w.settle(world, "after reconciliation")
		for range 2 {
			if w.resendDead(world) == 0 {
				break
			}
			w.settle(world, "after the last resends")
		}
	}
}

// settle sweeps until nothing is unfinished.
func (w *world) settle(world *proc, when string) {
	for n := range 100 {
		world.step(when)
		if len(w.store.work) == 0 && !slices.ContainsFunc(w.store.outbox, func(o outboxRow) bool { return o.relayed.IsZero() }) && n > 0 {
			return
		}
		world.sleep(min(5*time.Minute<<min(n, 5), time.Hour), when)
		w.sweep("sweeper", false)
		// What this pass entered, since a payment was not seen for an hour, is
		// in somebody's hands now.
		world.sleep(10*time.Second, when)
	}
	world.step(when)
	var left []string
	for _, id := range w.store.workIDs() {
		e, r := w.store.events[id], w.store.work[id]
		left = append(left, fmt.Sprintf("event %d %s of %s is %s since %s: %s %s", id, e.Type, e.PaymentRef, r.state, r.since.Sub(w.sched.begun), r.reason, r.lastError))
	}
	w.violated("7: %s, something stays unfinished: %q", when, left)
}

// resendDead presses "resend" for each dead event, as an operator does after
// an incident. It returns how many there were.
func (w *world) resendDead(world *proc) (n int) {
	dead := map[string]bool{}
	for id, e := range w.store.events {
		if _, unfinished := w.store.work[id]; unfinished {
			continue
		}
		if r, ok := w.store.lastResult(id); ok && r.status == event.StatusDead {
			dead[e.DedupeKey] = true
		}
	}
	for _, p := range w.gateway.pays {
		for _, t := range p.tells {
			if dead[t.Key] {
				w.deliver(world, t, w.gateway.signing, 3)
				n++
				delete(dead, t.Key)
			}
		}
	}
	return n
}

// late lets retention do its work, and resends what it has forgotten.
func (w *world) late(world *proc) {
	held := w.holdings()
	world.sleep(35*24*time.Hour, "a month later")
	w.sweep("sweeper", false)
	w.resendSome(world, "bodies dropped")
	world.sleep(380*24*time.Hour, "a year later")
	w.sweep("sweeper", false)
	if n := w.resendSome(world, "keys forgotten"); n > 0 {
		w.saw("resend after its key was forgotten")
	}
	w.settle(world, "after late resends")
	if got := w.holdings(); !maps.Equal(held, got) {
		w.violated("late resends changed money: %v, before them %v", got, held)
	}
}

// resendSome sends old events once more; each is answered well.
func (w *world) resendSome(world *proc, why string) (n int) {
	for _, p := range w.gateway.pays {
		for _, t := range p.tells {
			if t.accepted && w.sched.chance(0.5) { // what is heard for the first time may be news
				n++
				if !w.deliver(world, t, w.gateway.signing, 3) {
					w.violated("a resend of %s was not accepted (%s)", t.Key, why)
				}
			}
		}
	}
	w.settle(world, why)
	return n
}

// holdings is all money of all payments, for a comparison.
func (w *world) holdings() map[string]int64 {
	out := map[string]int64{}
	for _, e := range w.store.entries {
		out[e.debit] -= e.amount
		out[e.credit] += e.amount
	}
	return out
}
