package virtual

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// proc is one process of the schedule: what it calls is done in its name, and
// ends when it dies.
type proc struct {
	w          *world
	kind, name string
	dead       bool
	killed     chan struct{}
	ctx        context.Context
	cancel     context.CancelFunc
	serial     int    // of its transactions
	failed     string // the events of the batch that could not be settled last
	onDeath    func()
}

// outside is the kind of what is no process of ours and cannot crash: the
// gateway, the application, the operator.
const outside = "world"

func (w *world) newProc(kind, name string) *proc {
	p := &proc{w: w, kind: kind, name: name, killed: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// goWorld runs something of the world outside beside everything else.
func (w *world) goWorld(name string, do func(world *proc)) {
	w.strangers++
	p := w.newProc(outside, fmt.Sprintf("%s %s (%d)", outside, name, w.strangers))
	w.goAs(p, func() {
		p.step("begins")
		do(p)
	})
}

// goAs starts a goroutine of a process.
func (w *world) goAs(p *proc, do func()) {
	w.running.Add(1)
	go func() {
		defer w.running.Done()
		do()
	}()
}

func (p *proc) mortal() bool { return p.kind != outside }

// die ends the process: each of its goroutines ends at its next step.
func (p *proc) die() {
	if !p.dead {
		p.dead = true
		close(p.killed)
		p.cancel()
		if p.onDeath != nil {
			p.onDeath()
		}
	}
}

func (p *proc) gone() bool { return p.dead || p.w.aborted }

// step is a scheduling point of a process. It may be the process's last one.
func (p *proc) step(label string) {
	p.w.sched.pause(p.name, label)
	if p.gone() {
		runtime.Goexit()
	}
	p.w.tick()
	f := &p.w.faults
	if p.mortal() && p.w.sched.chance(f.crash) {
		p.w.saw("crash of a " + p.kind)
		p.w.sched.say(p.name, "dies at "+label)
		p.die()
		runtime.Goexit()
	}
	if p.mortal() && p.w.sched.chance(f.slow) {
		p.sleep(p.w.drawDelay(), label)
	}
}

// sleep lets virtual time pass, less when the process dies meanwhile.
func (p *proc) sleep(d time.Duration, label string) {
	t, ticket := time.NewTimer(d), p.w.sched.ticket()
	select {
	case <-t.C:
	case <-p.killed:
	}
	t.Stop()
	p.w.sched.pauseAs(ticket, p.name, label+" (slept)")
	if p.gone() {
		runtime.Goexit()
	}
}

// drawDelay is how long a step hangs: mostly a little, at times longer than a
// deadline or than the queue waits for an ack.
func (w *world) drawDelay() time.Duration {
	switch n := w.sched.rng.IntN(100); {
	case n < 70:
		return w.sched.below(30 * time.Millisecond)
	case n < 90:
		return w.sched.below(time.Second)
	case n < 97:
		return w.sched.below(6 * time.Second)
	}
	w.saw("a step longer than the ack wait")
	return 31*time.Second + w.sched.below(15*time.Second)
}

// orDies lets a process die right after something took effect.
func (w *world) orDies(p *proc, after string) {
	if p.mortal() && !p.dead && w.sched.chance(w.faults.crashAfter) {
		w.saw("crash right after a " + after)
		w.sched.say(p.name, "dies after its "+after)
		p.die()
		runtime.Goexit()
	}
}
