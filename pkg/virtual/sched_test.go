package virtual

import (
	"cmp"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"
)

// sched decides who runs: of the goroutines that wait at a scheduling point it
// picks one by its seed, and waits until that one has come to its next point,
// or to sleep, or to its end. All draws are made by the goroutine that was
// picked, so their order is that of the picks.
type sched struct {
	rng   *rand.Rand
	stick float64 // the share of picks that go on with the same process

	mu      sync.Mutex
	tickets int
	waiting []*point
	arrived chan struct{}
	over    bool

	last  string // process of the last pick
	steps int
	sum   uint64 // over all labels and times: two runs of a seed agree
	begun time.Time
	trace []traced
	keep  int // how many steps the trace holds; below zero: all
}

// point is one goroutine that waits for its turn.
type point struct {
	process, label string
	ticket         int // of two with one label, the lower one is first
	picked         chan struct{}
}

type traced struct {
	at             time.Duration
	process, label string
}

func newSched(seed uint64) *sched {
	s := &sched{rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), arrived: make(chan struct{}, 1), begun: time.Now(), keep: 400}
	s.stick = []float64{0, 0, 0.5, 0.9}[s.rng.IntN(4)]
	return s
}

// pause waits until the caller is picked. Labels of goroutines that can wait
// at the same time differ, or what they do next does not depend on which of
// them is first.
func (s *sched) pause(process, label string) { s.pauseAs(s.ticket(), process, label) }

// ticket is drawn before somebody sleeps, in his turn: of several who wake at
// the same instant it is nobody's doing who comes to pause first.
func (s *sched) ticket() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tickets++
	return s.tickets
}

func (s *sched) pauseAs(ticket int, process, label string) {
	p := &point{process, label, ticket, make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, p)
	s.mu.Unlock()
	select {
	case s.arrived <- struct{}{}:
	default:
	}
	<-p.picked
}

// run picks until finish was called and nobody waits any more.
func (s *sched) run() {
	for {
		synctest.Wait()
		s.mu.Lock()
		if len(s.waiting) == 0 {
			over := s.over
			s.mu.Unlock()
			if over {
				return
			}
			<-s.arrived // the clock goes on to whoever sleeps
			continue
		}
		p := s.pick()
		s.mu.Unlock()
		s.note(p)
		close(p.picked)
	}
}

// pick takes the next one out of those that wait.
func (s *sched) pick() *point {
	slices.SortStableFunc(s.waiting, func(a, b *point) int {
		return cmp.Or(strings.Compare(a.process, b.process), strings.Compare(a.label, b.label), cmp.Compare(a.ticket, b.ticket))
	})
	from, to := 0, len(s.waiting)
	if to > 1 && s.stick > 0 && s.rng.Float64() < s.stick {
		first := slices.IndexFunc(s.waiting, func(p *point) bool { return p.process == s.last })
		if first >= 0 {
			from = first
			for to = first; to < len(s.waiting) && s.waiting[to].process == s.last; to++ {
			}
		}
	}
	i := from
	if to-from > 1 {
		i += s.rng.IntN(to - from)
	}
	p := s.waiting[i]
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return p
}

func (s *sched) note(p *point) {
	s.last = p.process
	s.steps++
	at := time.Since(s.begun)
	h := fnv.New64a()
	_, _ = io.WriteString(h, p.process)
	_, _ = io.WriteString(h, p.label)
	s.sum = (s.sum*1099511628211 ^ h.Sum64()) + uint64(at)
	s.say(p.process, p.label)
}

// say adds a line to the trace.
func (s *sched) say(process, label string) {
	at := time.Since(s.begun)
	if s.keep >= 0 && len(s.trace) >= 2*s.keep {
		s.trace = append(s.trace[:0], s.trace[len(s.trace)-s.keep:]...)
	}
	s.trace = append(s.trace, traced{at, process, label})
}

// await waits for a group, as what a goroutine does last before it comes to a
// point again or ends. All that wait here have to use it: the race detector
// does not see that the scheduler, which waits until everybody is blocked, comes
// after what the caller has done, since WaitGroup.Wait hides its block from it.
// That the caller had the scheduler's lock, it sees.
func (s *sched) await(g *sync.WaitGroup) {
	s.mu.Lock()
	s.mu.Unlock() //nolint:staticcheck // nothing is done under it
	g.Wait()
}

// finish ends run once all have gone.
func (s *sched) finish() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

// chance draws whether something of probability p happens.
func (s *sched) chance(p float64) bool { return p > 0 && s.rng.Float64() < p }

// below draws a duration below d.
func (s *sched) below(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(s.rng.Int64N(int64(d)))
}
