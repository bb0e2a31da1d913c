//go:build failpoints

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/postgres/postgrestest"
)

// summary is the report as JSON.
type summary struct {
	Campaign  string            `json:"campaign"`
	Of        int               `json:"of"`      // all shards together
	Planned   int               `json:"planned"` // of this shard
	Played    int               `json:"played"`
	Failed    int               `json:"failed"`
	Second    int               `json:"second_reached,omitempty"` // pairs: those that crashed twice
	Worlds    int               `json:"worlds"`
	Seconds   float64           `json:"seconds"`
	Recovery  map[string]string `json:"recovery"` // from the fault until all is final
	LeftOut   map[string]string `json:"left_out"` // what cannot happen, and why
	PlayedAll []told            `json:"results"`
}

func (c *campaign) summary() summary {
	s := summary{Campaign: c.kind, Of: c.total, Planned: len(c.jobs), Played: len(c.results), Worlds: c.worlds,
		Seconds: time.Since(c.begun).Seconds(), LeftOut: cannotHappen, PlayedAll: c.results}
	slices.SortFunc(s.PlayedAll, func(a, b told) int {
		return cmp.Or(strings.Compare(a.Point, b.Point), strings.Compare(a.Second, b.Second), strings.Compare(a.Action, b.Action))
	})
	var recovery []float64
	for _, r := range c.results {
		if !r.OK {
			s.Failed++
		}
		if r.Second != "" && r.Fired {
			s.Second++
		}
		recovery = append(recovery, r.Recovery)
	}
	if slices.Sort(recovery); len(recovery) > 0 {
		at := func(q float64) string { return fmt.Sprintf("%.1fs", recovery[int(q*float64(len(recovery)-1))]) }
		s.Recovery = map[string]string{"p50": at(0.5), "p99": at(0.99), "max": at(1)}
	}
	return s
}

// write leaves the report as JSON and as a table for people.
func (c *campaign) write(t *testing.T) {
	t.Helper()
	s := c.summary()
	fmt.Printf("failpoints: %s: %d of %d played (%d in all shards), %d failed, in %.0f s with %d worlds; recovery %v\n",
		s.Campaign, s.Played, s.Planned, s.Of, s.Failed, s.Seconds, s.Worlds, s.Recovery)
	if c.kind == "pairs" {
		fmt.Printf("failpoints: %d of %d pairs reached their second point\n", s.Second, s.Played)
	}
	dir, err := postgrestest.StateDir()
	if err != nil {
		t.Fatal(err)
	}
	name := "failpoints-report"
	if c.kind != "singles" {
		name = "failpoints-" + c.kind + "-report"
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".json"), append(text, '\n'), 0o644)
	}
	if err == nil && c.kind != "pairs" {
		err = os.WriteFile(filepath.Join(dir, name+".md"), []byte(s.table()), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// table is a line a point and a column an action: the seconds from the fault
// until all was final, or what went wrong.
func (s summary) table() string {
	actions := []string{"crash", "panic", "error", "lost", "delay", "deadlock", "serialization"}
	cells := map[string]map[string]string{}
	for _, r := range s.PlayedAll {
		if cells[r.Point] == nil {
			cells[r.Point] = map[string]string{}
		}
		cells[r.Point][r.Action] = fmt.Sprintf("%.1f", r.Recovery)
		if !r.OK {
			cells[r.Point][r.Action] = "**failed**"
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Failpoints: %d of %d faults played, %d failed\n\nSeconds from the fault until all was final and as the gateways' truth.\n\n| point | %s |\n|---|%s\n",
		s.Played, s.Planned, s.Failed, strings.Join(actions, " | "), strings.Repeat("---|", len(actions)))
	for _, point := range slices.Sorted(maps.Keys(cells)) {
		fmt.Fprintf(&b, "| `%s`", point)
		for _, a := range actions {
			fmt.Fprintf(&b, " | %s", cells[point][a])
		}
		b.WriteString(" |\n")
	}
	return b.String()
}
