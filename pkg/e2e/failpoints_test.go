//go:build failpoints

package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/failpoint"
)

// TestFailpoints breaks the product at its failpoints, in processes of its own
// over a real database and a real broker, and compares what is left with the
// simulator's truth. It lives here because the processes, the comparison and
// the gateways of this room are what it needs. CAMPAIGN chooses what is played:
//
//	short    (default) a fixed selection
//	singles  every action at every point
//	pairs    every ordered pair of crashes; SHARD=i/n takes a part
//
// ONLY=regexp narrows it to the names that match. WORLDS is how many are
// played at once, BOUND when no more are begun.
func TestFailpoints(t *testing.T) {
	c := campaignOf(t)
	c.run(t)
	c.write(t)
}

// campaign is a list of things to play and what became of them.
type campaign struct {
	kind   string
	jobs   []job
	worlds int
	bound  time.Duration
	total  int // of all shards

	mu      sync.Mutex
	begun   time.Time
	results []told
}

type job struct {
	name string
	play func(*faultWorld, *testing.T) told
}

func campaignOf(t *testing.T) *campaign {
	t.Helper()
	c := &campaign{kind: setting("CAMPAIGN", "short"), worlds: 2}
	bound := "3m"
	switch c.kind {
	case "short":
		c.add(shortSelection)
	case "singles":
		bound = "60m"
		c.add(everyFault())
	case "pairs":
		bound = "60m"
		c.addPairs()
	default:
		t.Fatalf("CAMPAIGN is %q; it must be short, singles or pairs", c.kind)
	}
	var err error
	if c.worlds, err = strconv.Atoi(setting("WORLDS", "2")); err != nil || c.worlds < 1 {
		t.Fatal("WORLDS must be a number above zero")
	}
	if c.bound, err = time.ParseDuration(setting("BOUND", bound)); err != nil {
		t.Fatalf("BOUND: %v", err)
	}
	if only := os.Getenv("ONLY"); only != "" {
		names, err := regexp.Compile(only)
		if err != nil {
			t.Fatalf("ONLY: %v", err)
		}
		var kept []job
		for _, j := range c.jobs {
			if names.MatchString(j.name) {
				kept = append(kept, j)
			}
		}
		if c.jobs = kept; len(kept) == 0 {
			t.Fatalf("ONLY=%s names nothing", only)
		}
	}
	c.total = len(c.jobs)
	c.shard(t)
	return c
}

func setting(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

func (c *campaign) add(faults []fault) {
	for _, f := range faults {
		c.jobs = append(c.jobs, job{f.String(), func(w *faultWorld, t *testing.T) told { return w.single(t, f) }})
	}
}

// addPairs adds every ordered pair of crashes at points that any story
// reaches, or a sweep after it.
func (c *campaign) addPairs() {
	var points []string
	for _, p := range failpoint.Points() {
		plan := planOf(p.Name)
		if plan.helper == "" && !plan.revived && !plan.vanished && !plan.aged && !plan.reconciled && !plan.restarted {
			points = append(points, p.Name)
		}
	}
	for _, a := range points {
		for _, b := range points {
			c.jobs = append(c.jobs, job{a + " then " + b, func(w *faultWorld, t *testing.T) told { return w.double(t, a, b) }})
		}
	}
}

// shard keeps every n-th job, from SHARD=i/n, i from 1. Neighbours in the list
// go to different shards, so that each shard is a cross-section.
func (c *campaign) shard(t *testing.T) {
	text := os.Getenv("SHARD")
	if text == "" {
		return
	}
	var i, n int
	if _, err := fmt.Sscanf(text, "%d/%d", &i, &n); err != nil || i < 1 || n < i {
		t.Fatalf("SHARD is %q; it must be i/n, with i from 1 to n", text)
	}
	var kept []job
	for k, j := range c.jobs {
		if k%n == i-1 {
			kept = append(kept, j)
		}
	}
	c.jobs = kept
}

// run plays the jobs in several worlds at once. A world in which something
// went wrong is left behind, so that what follows is judged by itself.
func (c *campaign) run(t *testing.T) {
	c.begun = time.Now()
	jobs := make(chan job, len(c.jobs))
	for _, j := range c.jobs {
		jobs <- j
	}
	close(jobs)
	t.Run("worlds", func(t *testing.T) {
		for i := range min(c.worlds, len(c.jobs)) {
			t.Run(fmt.Sprint(i+1), func(t *testing.T) {
				t.Parallel()
				var w *faultWorld
				end := func() {}
				defer func() { end() }()
				for j := range jobs {
					if time.Since(c.begun) > c.bound {
						return
					}
					if w == nil {
						w, end = newFaultWorld(t)
					}
					var out told
					ok := t.Run(j.name, func(t *testing.T) { out = j.play(w, t) })
					c.note(j, out, ok)
					if !ok {
						w.lent.TB = t
						end()
						w, end = nil, func() {}
					} else {
						w.stack.t, w.lent.TB = t, t
					}
				}
			})
		}
	})
	if left := len(c.jobs) - len(c.results); left > 0 && c.kind != "pairs" {
		t.Errorf("%d of %d were not begun within %s", left, len(c.jobs), c.bound)
	}
}

func (c *campaign) note(j job, out told, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if out.OK = ok; out.Point == "" {
		out.Point, out.Action, _ = strings.Cut(j.name, "=")
	}
	c.results = append(c.results, out)
	failed := 0
	for _, r := range c.results {
		if !r.OK {
			failed++
		}
	}
	if n := len(c.results); n%25 == 0 || !ok {
		fmt.Printf("failpoints: %d of %d after %s, %d failed\n", n, len(c.jobs), time.Since(c.begun).Round(time.Second), failed)
	}
	if !ok {
		fmt.Printf("failpoints: FAILED %s; alone: make failpoints CAMPAIGN=%s ONLY='^%s$'\n", j.name, c.kind, j.name)
	}
}
