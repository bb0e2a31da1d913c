package queue

import (
	"slices"
	"sync"

	"github.com/umavez/umavez/pkg/event"
)

// line keeps the notices that wait, and costs memory only for them, so that it
// may be long: a broker or processors that are slower than the database for
// minutes, as in an overload, must not cost events the sweeper's minutes.
type line struct {
	most int
	some chan struct{} // holds one as long as somebody waits

	mu      sync.Mutex
	waiting []event.Notice
}

func newLine(most int) line { return line{most: most, some: make(chan struct{}, 1)} }

// put adds a notice; false means that there is no room.
func (l *line) put(n event.Notice) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) >= l.most {
		return false
	}
	l.waiting = append(l.waiting, n)
	l.ring()
	return true
}

// take gives the newest in their order, at most so many, and does not wait for
// any.
func (l *line) take(most int) []event.Notice {
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := max(0, len(l.waiting)-most)
	taken := slices.Clone(l.waiting[rest:])
	if l.waiting = l.waiting[:rest]; rest == 0 {
		l.waiting = nil // the array behind it may be large
	} else {
		l.ring()
	}
	return taken
}

func (l *line) ring() {
	select {
	case l.some <- struct{}{}:
	default:
	}
}

func (l *line) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}
