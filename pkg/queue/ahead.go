package queue

import (
	"context"
	"time"
)

// look is what waited for processors, and how many answers were in before it
// was asked. What waits now is that, and what has been taken of the line and
// was not answered before that look.
type look struct{ pending, answered uint64 }

// most is how many notices may be published now.
func (p *Publisher) most() int {
	if p.conn.cfg.Ahead < 0 {
		return takeAtOnce
	}
	var last look
	if at := p.seen.Load(); at != nil {
		last = *at
	}
	return int(max(0, min(takeAtOnce, int64(p.conn.cfg.Ahead)-int64(last.pending)-int64(p.taken.Load()-last.answered))))
}

// lookEvery is the pause between two looks at how much waits for processors
// while there is little room, and lookSeldom while there is much: every look is
// a question to the server.
const (
	lookEvery  = 100 * time.Millisecond
	lookSeldom = time.Second
)

// lookAhead looks, until ctx ends. A queue that cannot be asked holds nothing
// back: what it does not take is known soon enough.
func (p *Publisher) lookAhead(ctx context.Context) {
	var last look
	var at time.Time
	for p.conn.cfg.Ahead >= 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
		}
		if last.pending == 0 && last.answered == p.taken.Load() {
			continue // it was empty, and nothing was published since
		}
		if p.most() == takeAtOnce && time.Since(at) < lookSeldom {
			continue
		}
		at = time.Now()
		last = look{answered: p.answered.Load()}
		if pending, _, err := p.conn.Lag(ctx); err == nil {
			last.pending = pending
		}
		now := last
		p.seen.Store(&now)
	}
}

// patience is how long AwaitRoom waits for processors that get nothing done.
const patience = 3 * time.Second

// AwaitRoom waits while more messages wait for processors than Ahead says and
// become fewer. It is for who rings for many events at once.
func (c *Conn) AwaitRoom(ctx context.Context) {
	least, since := uint64(0), time.Now()
	for first := true; c.cfg.Ahead >= 0 && ctx.Err() == nil; first = false {
		pending, _, err := c.Lag(ctx)
		if err != nil || pending <= uint64(c.cfg.Ahead) {
			return
		}
		if first || pending < least {
			least, since = pending, time.Now()
		}
		if time.Since(since) > patience {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
}
