package virtual

import (
	"os"
	"strconv"
	"testing"
	"time"
)

func TestOne(t *testing.T) {
	seed := uint64(1)
	n := 200
	if s := os.Getenv("SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
		n = 1
	}
	if s := os.Getenv("N"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	begun := time.Now()
	bad, steps := 0, 0
	total := map[string]int{}
	for i := range n {
		o := play(t, seed+uint64(i), options{})
		steps += o.steps
		for k, v := range o.seen {
			total[k] += v
		}
		if o.violation != "" {
			bad++
			t.Logf("seed %d: %s (%d steps, %s)", o.seed, o.violation, o.steps, o.virtual)
			if n == 1 {
				for _, l := range o.trace {
					t.Logf("%14s %-24s %s", l.at, l.process, l.label)
				}
			}
			t.Fail()
			if bad > 15 {
				break
			}
		}
	}
	t.Logf("%d schedules, %d steps, %s, %d bad", n, steps, time.Since(begun), bad)
	for k, v := range total {
		t.Logf("%8d %s", v, k)
	}
}

func TestASeedRepeatsItsScheduleExactly(t *testing.T) {
	n := uint64(60)
	for seed := uint64(1); seed <= n; seed++ {
		a, b := play(t, seed, options{keep: -1}), play(t, seed, options{keep: -1})
		if a.sum == b.sum && a.steps == b.steps {
			continue
		}
		for i := range min(len(a.trace), len(b.trace)) {
			if a.trace[i] != b.trace[i] {
				for _, l := range a.trace[max(0, i-12) : i+1] {
					t.Logf("both  %s %s %s", l.at, l.process, l.label)
				}
				t.Errorf("seed %d: step %d of %d is %v, then %v", seed, i, len(a.trace), a.trace[i], b.trace[i])
				break
			}
		}
	}
}
