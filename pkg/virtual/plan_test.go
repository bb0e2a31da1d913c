package virtual

import (
	"time"

	"github.com/umavez/umavez/pkg/provider"
)

// plan is what a seed decides of a schedule before it begins.
type plan struct {
	mode        provider.LookupMode
	trusted     bool
	payments    int
	processors  int
	workers     int // of each processor
	pods        int
	park        bool // UNKNOWN_PAYMENT
	maxAttempts int
	lost        float64 // share of webhooks that are never sent
	poison      float64 // share of events whose verdicts the database refuses for a while
	faults      faults
	mishaps     int  // things that befall a whole process or server
	passes      int  // of sweepers before the faults stop
	rotate      bool // the webhook secret
	resendLate  bool // after the bodies were dropped, and after the keys were
	real        bool // a real gateway's bodies take part
}

// faults are the chances of what befalls a single step, and what is away now.
type faults struct {
	crash, crashAfter, slow                     float64
	broken, deadlock, unknown, orphan           float64
	lostPublish, lostAnswer, lostAck            float64
	apiFails, apiLag, apiStale                  float64
	databaseAway, brokerAway, apiAway, poisoned bool
}

func (w *world) drawPlan() plan {
	r := w.sched.rng
	p := plan{mode: provider.LookupAlways, trusted: true, payments: 1 + r.IntN(4), processors: 1 + r.IntN(3), pods: 1 + r.IntN(2),
		workers: 1 + r.IntN(2), maxAttempts: 2 + r.IntN(4), passes: r.IntN(4), mishaps: r.IntN(4), park: r.IntN(4) == 0,
		rotate: r.IntN(4) == 0, resendLate: r.IntN(10) == 0}
	if p.processors == 3 {
		p.workers = 1
	}
	switch r.IntN(6) {
	case 0, 1:
		p.trusted = false
	case 2:
		p.mode = provider.LookupInDoubt
	case 3:
		p.mode = provider.LookupNever
	}
	maybe := func(most float64) float64 {
		if r.IntN(2) == 0 {
			return 0
		}
		return most * r.Float64()
	}
	if p.mode != provider.LookupNever {
		p.lost = maybe(0.3)
	}
	p.poison = maybe(0.1)
	p.faults = faults{
		crash: maybe(0.004), crashAfter: maybe(0.05), slow: maybe(0.05), broken: maybe(0.01), deadlock: maybe(0.02), unknown: maybe(0.1),
		orphan: maybe(1), lostPublish: maybe(0.3), lostAnswer: maybe(0.2), lostAck: maybe(0.3),
		apiFails: maybe(0.3), apiLag: maybe(1), poisoned: true,
	}
	if r.IntN(8) == 0 && p.mode != provider.LookupNever {
		p.faults.apiStale = 0.1
	}
	if r.IntN(12) == 0 {
		p.faults = faults{poisoned: true} // nothing but order
	}
	return p
}

// mishap draws something that befalls a whole process or server.
func (w *world) mishap(world *proc) {
	r := w.sched.rng
	away := func(flag *bool, what string, most time.Duration) {
		w.saw(what + " away")
		*flag = true
		if r.IntN(6) == 0 {
			most *= 10
		}
		world.sleep(w.sched.below(most), what+" away")
		*flag = false
		w.store.changed.ring()
		w.store.written.ring()
		w.broker.changed.ring()
		w.broker.started.ring()
	}
	switch r.IntN(8) {
	case 0:
		w.saw("stream lost")
		w.broker.vanish()
	case 1:
		if m := w.oldestMessage(); m != nil {
			w.saw("message lost by the broker")
			delete(w.broker.queued, m.notice.ID)
		}
	case 2:
		away(&w.faults.brokerAway, "broker", time.Minute)
	case 7:
		w.saw("broker started again")
		w.faults.brokerAway = true
		world.sleep(w.sched.below(5*time.Second), "broker starts")
		w.faults.brokerAway = false
		w.broker.restart()
	case 3:
		away(&w.faults.databaseAway, "database", 20*time.Second)
	case 4:
		away(&w.faults.apiAway, "gateway API", 10*time.Minute)
	case 5:
		if p := w.processors[r.IntN(len(w.processors))]; p != nil {
			w.saw("rollout of a processor")
			p.cancel()
		}
	case 6:
		if p := w.processors[r.IntN(len(w.processors))]; p != nil && !p.dead {
			w.saw("processor killed")
			p.die()
		}
	}
}

func (w *world) oldestMessage() (m *message) {
	for _, o := range w.broker.queued {
		if m == nil || o.seq < m.seq {
			m = o
		}
	}
	return m
}
