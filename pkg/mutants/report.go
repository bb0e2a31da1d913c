package mutants

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"text/tabwriter"
	"time"
)

// Report is the outcome of a run; its JSON names are an interface.
type Report struct {
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"`       // all of it, with the compiler
	Limit    float64   `json:"limit_seconds"` // for the tests of one mutant
	System   string    `json:"system"`
	Cores    int       `json:"cores"`
	Mutants  int       `json:"mutants"`
	Killed   int       `json:"killed"`
	Score    float64   `json:"score_percent"`
	Verdicts []Verdict `json:"verdicts"`
}

// NewReport counts verdicts.
func NewReport(started time.Time, limit time.Duration, verdicts []Verdict) Report {
	r := Report{
		Started: started.UTC().Truncate(time.Second), Seconds: time.Since(started).Seconds(), Limit: limit.Seconds(),
		System: runtime.GOOS + "/" + runtime.GOARCH + " " + runtime.Version(), Cores: runtime.NumCPU(),
		Mutants: len(verdicts), Verdicts: verdicts,
	}
	for _, v := range verdicts {
		if v.Outcome == Killed {
			r.Killed++
		}
	}
	if r.Mutants > 0 {
		r.Score = 100 * float64(r.Killed) / float64(r.Mutants)
	}
	return r
}

// Save writes the report to a file.
func (r Report) Save(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // the repository's own directory
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644) //nolint:gosec // holds no secret
}

// Print writes the table for people.
func (r Report) Print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "mutant\toutcome\tby\tseconds") //nolint:errcheck // Flush reports it
	for _, v := range r.Verdicts {
		fmt.Fprintf(table, "%s\t%s\t%s\t%.1f\n", v.Mutant, v.Outcome, v.Test, v.Seconds) //nolint:errcheck // Flush reports it
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d of %d mutants killed, score %.1f %%, %.0f s with the compiler\n", r.Killed, r.Mutants, r.Score, r.Seconds)
	return err
}
