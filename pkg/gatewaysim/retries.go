package gatewaysim

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// retryPolicy is how a gateway tries again, as far as its contract says. What
// is zero is not established, and Run's own quick schedule stands in for it.
type retryPolicy struct {
	timeout   time.Duration   // how long an answer is waited for
	waits     []time.Duration // before the second attempt, the third, ...; the last one repeats
	attempts  int             // in all
	stopAfter int             // failures in a row that interrupt the queue of an account
}

var retryPolicies = map[string]retryPolicy{
	"asaas": {timeout: 10 * time.Second, attempts: 15, stopAfter: 15, waits: []time.Duration{
		30 * time.Second, time.Minute, 210 * time.Second, 5 * time.Minute, 15 * time.Minute, 25 * time.Minute,
		time.Hour, time.Hour, time.Hour, time.Hour, time.Hour, 2 * time.Hour, 2 * time.Hour, 3 * time.Hour}},
	"mercadopago": {timeout: 22 * time.Second, waits: []time.Duration{15 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour}},
	"pagarme":     {attempts: 3},
	"pagpolar":    {timeout: 10 * time.Second, waits: []time.Duration{30 * time.Second}},
	"standardwebhooks": {timeout: 15 * time.Second, attempts: 10, waits: []time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour}},
}

// policy of a gateway in a run; the zero one unless contracts are kept.
func (r *run) policy(gateway string) retryPolicy {
	if !r.cfg.Contracts {
		return retryPolicy{}
	}
	return retryPolicies[gateway]
}

// wait before the attempt with this number, counted from 1 for the first
// retry. quick is what the run would wait by itself.
func (r *run) wait(gateway string, try int, quick time.Duration) time.Duration {
	waits := r.policy(gateway).waits
	if len(waits) == 0 {
		return quick
	}
	return time.Duration(float64(waits[min(try, len(waits))-1]) / r.cfg.Hurry)
}

// queue is the queue of one account at a gateway that interrupts queues.
type queue struct {
	r         *run
	stopAfter int

	mu       sync.Mutex
	failures int // in a row
	stopped  bool
	resumes  int
	held     []held
}

// held is a delivery that is kept until its queue goes on.
type held struct {
	d      *Delivery
	try    int
	bodies [][]byte
}

// mostResumes bounds how often a queue is put on again for a target that goes
// on failing.
const mostResumes = 20

// queueOf is the queue of a delivery, nil where the gateway interrupts none.
func (r *run) queueOf(d *Delivery) *queue {
	stopAfter := r.policy(d.Gateway).stopAfter
	if stopAfter == 0 || !d.Authentic() {
		return nil
	}
	r.queuesMu.Lock()
	defer r.queuesMu.Unlock()
	q := r.queues[d.Path]
	if q == nil {
		q = &queue{r: r, stopAfter: stopAfter}
		r.queues[d.Path] = q
	}
	return q
}

// hold keeps a delivery while the queue is interrupted, in order.
func (q *queue) hold(h held) bool {
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		at, _ := slices.BinarySearchFunc(q.held, h, func(a, b held) int { return cmp.Compare(a.d.Seq, b.d.Seq) })
		q.held = slices.Insert(q.held, at, h)
	}
	return q.stopped
}

// note counts an answer, and interrupts the queue after too many failures.
func (q *queue) note(ctx context.Context, ok bool) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if ok {
		q.failures = 0
		return
	}
	if q.failures++; q.failures < q.stopAfter || q.stopped {
		return
	}
	q.stopped = true
	q.r.tally.stopped()
	if q.r.cfg.ResumeAfter > 0 {
		q.r.retries.Go(func() { q.resume(ctx) })
	}
}

// resume is the operator who reactivates the queue: what was kept is sent
// first, in order, one at a time.
func (q *queue) resume(ctx context.Context) {
	for ; q.resumes < mostResumes; q.resumes++ {
		select {
		case <-time.After(q.r.cfg.ResumeAfter):
		case <-ctx.Done():
			return
		}
		if q.drain(ctx) {
			return
		}
	}
}

// drain sends what is kept. It is false when the target fails again.
func (q *queue) drain(ctx context.Context) bool {
	for ctx.Err() == nil {
		q.mu.Lock()
		if len(q.held) == 0 {
			q.stopped, q.failures = false, 0
			q.mu.Unlock()
			return true
		}
		h := q.held[0]
		q.held = q.held[1:]
		q.mu.Unlock()
		a, body := q.r.attempt(ctx, h.d, h.try)
		h.bodies = appendOther(h.bodies, body)
		if a.Err == nil && h.d.Success(a.Status) {
			q.r.ended(a, h.bodies)
			continue
		}
		h.try++
		q.hold(h)
		return false
	}
	return false
}

// giveUp ends what is still kept when the run ends.
func (r *run) giveUp() {
	for _, q := range r.queues {
		for _, h := range q.held {
			r.ended(Answer{Delivery: h.d, Try: h.try}, h.bodies)
		}
	}
}
