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
