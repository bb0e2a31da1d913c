package queue

import (
	"context"
	"time"

	"github.com/umavez/umavez/pkg/event"
)

const (
	// againFirst is the pause before what failed is published again, and
	// againMost what it grows to while nothing gets through.
	againFirst = 500 * time.Millisecond
	againMost  = 10 * time.Second
	// againFor is how long a notice is kept for it: from then on the sweeper
	// finds its event anyway.
	againFor = 5 * time.Minute
)

// unrung is a notice that could not be published, and until when it is kept.
type unrung struct {
	notice event.Notice
	until  time.Time
}

// again keeps what could not be published, so that a broker that was away for
// seconds costs its events seconds, and not the sweeper's minutes. It belongs
// to one goroutine.
//
// To publish a notice a second time is what a sweep does: while its message is
// in the stream the server refuses it, and afterwards its delivery finds a
// settled row.
type again struct {
	most  int // so many are kept; what does not fit is left to the sweeper
	kept  []unrung
	pause time.Duration
	at    time.Time // of the next try
}

// keep adds what failed now.
func (a *again) keep(notices []event.Notice) {
	now := time.Now()
	if len(a.kept) == 0 {
		a.pause, a.at = againFirst, now.Add(againFirst)
	}
	for _, n := range notices[:min(len(notices), max(0, a.most-len(a.kept)))] {
		a.kept = append(a.kept, unrung{n, now.Add(againFor)})
	}
}

// wait is until the next try: below zero when nothing is kept.
func (a *again) wait() time.Duration {
	if len(a.kept) == 0 {
		return -1
	}
	return max(0, time.Until(a.at))
}

// hurry says that the broker is back.
func (a *again) hurry() { a.pause, a.at = againFirst, time.Now() }

// take gives the oldest ones that are kept still, for one call of Publish.
func (a *again) take() (oldest []unrung) {
	now := time.Now()
	for len(a.kept) > 0 && len(oldest) < takeAtOnce {
		if one := a.kept[0]; now.Before(one.until) {
			oldest = append(oldest, one)
		}
		a.kept = a.kept[1:]
	}
	if len(a.kept) == 0 {
		a.kept = nil // the array behind it may be large
	}
	return oldest
}

// put takes back what failed once more. With some of it through, the rest is
// tried at once.
func (a *again) put(failed []unrung, through int) {
	a.kept = append(failed[:len(failed):len(failed)], a.kept...)
	if through == 0 && len(failed) > 0 {
		a.at = time.Now().Add(a.pause)
		a.pause = min(2*a.pause, againMost)
		return
	}
	a.hurry()
}

// retry publishes once more what failed, as much as one call takes.
func (p *Publisher) retry(ctx context.Context) {
	if !p.conn.Connected() {
		p.again.at = time.Now().Add(againFirst) // or the next connect, which is awaited
		return
	}
	oldest := p.again.take()
	notices := make([]event.Notice, len(oldest))
	for i, one := range oldest {
		notices[i] = one.notice
	}
	var failed []unrung
	for i, r := range p.conn.Publish(ctx, notices) {
		if r.Result == Failed {
			failed = append(failed, oldest[i])
		}
	}
	through := len(oldest) - len(failed)
	p.recovered.Add(uint64(through))
	p.again.put(failed, through)
}
