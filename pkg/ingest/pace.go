package ingest

import (
	"sync"
	"time"
)

// pace is how long the database takes for a batch.
type pace struct {
	mu     sync.Mutex
	usual  time.Duration // of the newest batches, the newest most
	newest time.Time     // when the newest batch began
	active int           // batches under way
}

// begin says that a batch is on its way, since the time it returns.
func (p *pace) begin() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active++
	p.newest = time.Now()
	return p.newest
}

// end says that the batch which began then has ended, whatever came of it.
func (p *pace) end(began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active--
	p.usual += (time.Since(began) - p.usual) / 4
}

// now is how long a batch takes at the moment: as usual, or as long already as
// the youngest one is under way.
func (p *pace) now() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active == 0 {
		return p.usual
	}
	return max(p.usual, time.Since(p.newest))
}

// crowded says why a request should not join the queue now, in the words of
// the metric: it is full, or the request would wait for longer than it should.
// "" is that it may. Less than a whole batch is never too long: it goes with
// the next one, however long a database that stands still keeps us.
func (c *committer) crowded() string {
	waiting := len(c.queue)
	if waiting >= cap(c.queue) || c.bytes.Load() >= c.config.QueueBytes {
		return "queue"
	}
	if c.wait() > c.config.QueueWait {
		return "wait"
	}
	return ""
}

// wait is how long the whole batches in the queue will take.
func (c *committer) wait() time.Duration {
	batches := len(c.queue) / c.config.BatchRows
	if batches == 0 {
		return 0
	}
	return time.Duration(batches) * c.pace.now() / time.Duration(c.config.Flushers)
}

// admit waits until the queue has room for one more request, but not longer
// than AdmitWait, and says what it was for want of which it has none, or "".
func (c *committer) admit() (full string) {
	if full = c.crowded(); full == "" || c.config.AdmitWait == 0 {
		return full
	}
	limit := time.NewTimer(c.config.AdmitWait)
	defer limit.Stop()
	select {
	case <-c.door:
		return ""
	case <-limit.C:
		return c.crowded()
	}
}

// letIn lets those in that have waited longest, a batch of them: what comes in
// for each batch that leaves is no more than it can hold.
func (c *committer) letIn() {
	for range c.config.BatchRows {
		if c.crowded() != "" {
			return
		}
		select {
		case c.door <- struct{}{}:
		default: // nobody waits
			return
		}
	}
}
