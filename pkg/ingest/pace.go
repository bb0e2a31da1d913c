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

// late says that a request which joined the queue now would wait for longer
// than it should. Less than a whole batch is never late: it goes with the next
// one, however long a database that stands still keeps us.
func (c *committer) late() bool {
	batches := len(c.queue) / c.config.BatchRows
	return batches > 0 && time.Duration(batches)*c.pace.now()/time.Duration(c.config.Flushers) > c.config.QueueWait
}
