package virtual

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/umavez/umavez/pkg/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// shortRun is how many schedules `make test` plays. From fullRun on, each
// common kind of fault has to occur: the shorter ones under the race detector
// look for races.
const (
	fullRun  = 1000
	shortRun = fullRun / slower
)

// TestSchedules plays SCHEDULES schedules from seed SCHEDULE_SEED on; without
// the first, a short fixed run. One violation fails it, and so does a fault or
// a rescue that never occurred.
func TestSchedules(t *testing.T) {
	n, long := setting(t, "SCHEDULES", shortRun)
	seed, _ := setting(t, "SCHEDULE_SEED", 1)
	r := newRun(uint64(seed), n)
	r.play(t, long)
	if long {
		r.write(t)
	}
	for _, v := range r.Violations {
		t.Errorf("schedule %d: %s", v.Seed, v.What)
	}
	if n >= fullRun {
		for _, what := range r.missing() {
			t.Errorf("%q occurred in none of %d schedules: they prove nothing about it", what, n)
		}
	}
	t.Logf("%d schedules in %s, %.0f a minute, %d steps", r.Schedules, r.Took, r.PerMinute, r.Steps)
}

func setting(t *testing.T, name string, otherwise int) (n int, given bool) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, false
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s must be a number above zero", name)
	}
	return n, true
}

// run is many schedules; it is the report as well.
type run struct {
	Seed       uint64         `json:"seed"`
	Schedules  int            `json:"schedules"`
	Violations []found        `json:"violations"`
	Steps      int            `json:"steps"`
	Virtual    float64        `json:"virtual_days"` // a time.Duration ends at 292 years
	Took       time.Duration  `json:"took_ns"`
	PerMinute  float64        `json:"schedules_a_minute"`
	Processors int            `json:"cpus"`
	Seen       map[string]int `json:"seen"`           // how often each thing occurred
	In         map[string]int `json:"seen_in"`        // in how many schedules
	Missing    []string       `json:"never_occurred"` // of what has to occur

	wanted int
	mu     sync.Mutex
}

type found struct {
	Seed uint64 `json:"seed"`
	What string `json:"what"`
}

func newRun(seed uint64, n int) *run {
	return &run{Seed: seed, wanted: n, Seen: map[string]int{}, In: map[string]int{}, Processors: runtime.GOMAXPROCS(0), Violations: []found{}}
}

// mostViolations ends a run: the rest would say the same.
const mostViolations = 10

func (r *run) play(t *testing.T, aloud bool) {
	begun := time.Now()
	var next atomic.Int64
	var players sync.WaitGroup
	for range r.Processors {
		players.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(r.wanted) || r.enough() {
					return
				}
				o := play(t, r.Seed+uint64(i), options{})
				r.add(t, &o)
				if aloud {
					r.progress(begun)
				}
			}
		})
	}
	players.Wait()
	r.Took = time.Since(begun)
	r.PerMinute = float64(r.Schedules) / r.Took.Minutes()
	r.Missing = r.missing()
}

func (r *run) enough() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.Violations) >= mostViolations
}

func (r *run) add(t *testing.T, o *outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Schedules++
	r.Steps += o.steps
	r.Virtual += o.virtual.Hours() / 24
	for what, n := range o.seen {
		r.Seen[what] += n
		r.In[what]++
	}
	if o.violation != "" {
		r.Violations = append(r.Violations, found{o.seed, o.violation})
		t.Logf("schedule %d, its last steps:\n%s%s\nagain: SCHEDULES=1 SCHEDULE_SEED=%d go test ./pkg/virtual -run TestSchedules",
			o.seed, lastSteps(o.trace, 150), o.violation, o.seed)
	}
}

func lastSteps(trace []traced, n int) string {
	var b strings.Builder
	for _, s := range trace[max(0, len(trace)-n):] {
		fmt.Fprintf(&b, "%16s  %-28s %s\n", s.at, s.process, s.label)
	}
	return b.String()
}

// progress says every ten seconds how far the run is.
func (r *run) progress(begun time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	took := time.Since(begun)
	if took < r.Took+10*time.Second && r.Schedules < r.wanted {
		return
	}
	r.Took = took
	fmt.Fprintf(os.Stderr, "%7d of %d schedules, %d violations, %.0f a minute\n", r.Schedules, r.wanted, len(r.Violations), float64(r.Schedules)/took.Minutes())
}

// write leaves the report in .umavez and prints it as a table.
func (r *run) write(t *testing.T) {
	dir, err := postgrestest.StateDir()
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	text, jsonErr := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = jsonErr
	}
	path := filepath.Join(dir, "schedules-report.json")
	if err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
	r.table(os.Stdout)
	fmt.Fprintf(os.Stdout, "\nThe report is in %s.\n", path)
}

func (r *run) table(out io.Writer) {
	fmt.Fprintf(out, "\n%d schedules from seed %d, %d violations\n%s on %d CPUs, %.0f schedules a minute, %d steps, %.0f days of virtual time\n\n",
		r.Schedules, r.Seed, len(r.Violations), r.Took.Round(time.Second), r.Processors, r.PerMinute, r.Steps, r.Virtual)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what occurred\ttimes\tin schedules")
	for _, what := range slices.Sorted(keys(r.Seen)) {
		fmt.Fprintf(w, "%s\t%d\t%d\n", what, r.Seen[what], r.In[what])
	}
	_ = w.Flush()
}

func keys(m map[string]int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// TestASeedRepeatsItsScheduleExactly compares the whole traces of two runs.
func TestASeedRepeatsItsScheduleExactly(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 120/slower; seed++ {
		a, b := play(t, seed, options{keep: -1}), play(t, seed, options{keep: -1})
		if a.sum == b.sum && slices.Equal(a.trace, b.trace) {
			continue
		}
		for i := range min(len(a.trace), len(b.trace)) {
			if a.trace[i] != b.trace[i] {
				t.Errorf("seed %d: after\n%sstep %d is %v, and then %v", seed, lastSteps(a.trace[:i], 12), i, a.trace[i], b.trace[i])
				break
			}
		}
	}
}

// TestSeedsDiffer: a generator that draws nothing would repeat itself too.
func TestSeedsDiffer(t *testing.T) {
	t.Parallel()
	sums := map[uint64]bool{}
	for seed := uint64(1); seed <= 20; seed++ {
		o := play(t, seed, options{})
		sums[o.sum] = true
	}
	if len(sums) != 20 {
		t.Errorf("20 seeds gave %d different schedules", len(sums))
	}
}
