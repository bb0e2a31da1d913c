package chaostest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

// fault is one card of the deck.
type fault struct {
	kind string
	// targets are what it can hit in this world; none, and the kind is not
	// played here.
	targets []target
}

// target is one way to play a card.
type target struct {
	// takes names what is hit, so that nothing is under two faults that would
	// undo each other.
	takes []string
	// hit injects the fault, waits while it lasts, and heals it. An error says
	// that nothing was injected; then it does not count.
	hit func(ctx context.Context, r *rand.Rand) (detail string, err error)
}

// injected is one fault that was played.
type injected struct {
	Kind   string    `json:"kind"`
	Target string    `json:"target"`
	Detail string    `json:"detail"`
	From   time.Time `json:"from"`
	To     time.Time `json:"to"` // healed
}

// nemesis plays faults, several at once.
type nemesis struct {
	deck  []fault
	log   *os.File
	pause sync.RWMutex // held for writing while it is calm

	mu     sync.Mutex
	r      *rand.Rand
	left   []fault // of the deck, shuffled
	taken  map[string]bool
	played map[string]int
	missed map[string]string // kind -> why it could not be injected, most recently
}

func newNemesis(seed uint64, deck []fault, log *os.File) *nemesis {
	return &nemesis{deck: deck, log: log, r: rand.New(rand.NewPCG(seed, 0x6e656d)), taken: map[string]bool{}, played: map[string]int{}, missed: map[string]string{}}
}

// run plays faults on so many lanes until ctx ends, and returns when the last
// one is healed.
func (n *nemesis) run(ctx context.Context, lanes int) {
	var all sync.WaitGroup
	for range lanes {
		all.Go(func() {
			for ctx.Err() == nil {
				n.play(ctx)
			}
		})
	}
	all.Wait()
}

// play draws a card and plays it.
func (n *nemesis) play(ctx context.Context) {
	n.pause.RLock()
	defer n.pause.RUnlock()
	f, t, r, ok := n.draw()
	if !ok || ctx.Err() != nil {
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
		return
	}
	from := time.Now()
	detail, err := t.hit(ctx, r)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, what := range t.takes {
		delete(n.taken, what)
	}
	if err != nil {
		n.missed[f.kind] = err.Error()
		return
	}
	n.played[f.kind]++
	line, _ := json.Marshal(injected{f.kind, fmt.Sprint(t.takes), detail, from, time.Now()})
	_, _ = n.log.Write(append(line, '\n'))
}

// draw takes the next card of the deck whose target is free, and with it a
// source of chance of its own.
func (n *nemesis) draw() (fault, target, *rand.Rand, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := 0; i < len(n.left)+1; i++ {
		if i == len(n.left) {
			if i > 0 {
				return fault{}, target{}, nil, false // all that is left has to wait
			}
			for _, at := range n.r.Perm(len(n.deck)) {
				n.left = append(n.left, n.deck[at])
			}
		}
		f := n.left[i]
		for _, at := range n.r.Perm(len(f.targets)) {
			t := f.targets[at]
			if n.free(t) {
				for _, what := range t.takes {
					n.taken[what] = true
				}
				n.left = append(n.left[:i:i], n.left[i+1:]...)
				return f, t, rand.New(rand.NewPCG(n.r.Uint64(), n.r.Uint64())), true
			}
		}
	}
	return fault{}, target{}, nil, false
}

func (n *nemesis) free(t target) bool {
	for _, what := range t.takes {
		if n.taken[what] {
			return false
		}
	}
	return true
}

// calm lets everything heal, and holds the nemesis until the returned function
// is called.
func (n *nemesis) calm() (goOn func()) {
	n.pause.Lock()
	return n.pause.Unlock
}

// counts are the faults that were played, by kind, and why kinds of the deck
// could not be.
func (n *nemesis) counts() (played map[string]int, missed map[string]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.played), maps.Clone(n.missed)
}

// last waits, for a time between the two, or until the act ends.
func last(ctx context.Context, r *rand.Rand, least, most time.Duration) time.Duration {
	d := least + time.Duration(r.Int64N(int64(most-least)+1))
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
	return d.Round(time.Millisecond)
}
