package campaign

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/umavez/umavez/pkg/powercut"
)

// Report is what `make powercut` writes; its JSON names are an interface.
type Report struct {
	Seed    uint64    `json:"seed"`
	Command string    `json:"replay"` // what plays it again
	Results []*Result `json:"campaigns"`
}

// OK says whether every campaign came to its end and found nothing.
func (r *Report) OK() bool {
	return !slices.ContainsFunc(r.Results, func(one *Result) bool { return !one.OK() })
}

// rows are the table of one campaign: what is counted, and how much.
func (r *Result) rows() [][2]string {
	var modes []string
	for _, mode := range powercut.Modes {
		modes = append(modes, fmt.Sprintf("%d %s", r.ByMode[mode], mode))
	}
	n := func(i int) string { return fmt.Sprint(i) }
	rows := [][2]string{
		{"power cuts", fmt.Sprintf("%d (%s), over %d loads", r.Cuts, strings.Join(modes, ", "), r.Phases)},
		{"of them with umavez killed too", n(r.Kills)},
		{"unsynced pieces kept / lost", fmt.Sprintf("%d / %d", r.PiecesKept, r.PiecesLost)},
		{"attempts ok / failed / unknown", fmt.Sprintf("%d / %d / %d", r.Attempts.OK, r.Attempts.Failed, r.Attempts.Unknown)},
		{"different events acknowledged", n(r.Acknowledged)},
		{"acknowledged events lost", n(r.Lost)},
		{"payments, transitions, ledger entries", fmt.Sprintf("%d, %d, %d", r.Payments, r.Transitions, r.Entries)},
		{"events put back by sweeps", n(r.Rescued)},
		{"restart, median / longest", fmt.Sprintf("%.0f ms / %.0f ms", r.RestartMedian, r.RestartMax)},
	}
	if b := r.Broker; b != nil {
		for _, name := range slices.Sorted(maps.Keys(b.BySync)) {
			l := b.BySync[name]
			rows = append(rows,
				[2]string{"sync " + name + ": cuts, streams gone whole", fmt.Sprintf("%d, %d", l.Cuts, l.Vanished)},
				[2]string{"sync " + name + ": messages of events the broker lost", n(l.Events)},
				[2]string{"sync " + name + ": messages of domain events it lost", n(l.Domain)},
				[2]string{"sync " + name + ": domain events, relayed again, never heard", fmt.Sprintf("%d, %d, %d", l.Relayed, l.Again, l.Untold)},
				[2]string{"sync " + name + ": of the unheard, in the stream", n(l.Skipped)})
		}
		rows = append(rows, [2]string{"starts on a torn store that were refused", n(b.Refused)},
			[2]string{"consumers of which a cut had left too little, removed", n(b.Remade)})
	}
	return append(rows, [2]string{"faults", n(r.Faulty)}, [2]string{"time", fmt.Sprintf("%.0f s", r.Seconds)})
}

// Table writes the results for people.
func (r *Report) Table(out io.Writer) {
	for _, one := range r.Results {
		fmt.Fprintf(out, "\n%s, seed %d\n", one.Name, r.Seed)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, row := range one.rows() {
			fmt.Fprintf(w, "  %s\t%s\n", row[0], row[1])
		}
		w.Flush() //nolint:errcheck // a terminal
		for _, fault := range one.Faults {
			fmt.Fprintf(out, "  FAULT %s\n", fault)
		}
		if one.Error != "" {
			fmt.Fprintf(out, "  it did not come to its end: %s\n", one.Error)
		}
	}
}

// markdown is the same for documents.
func (r *Report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Power cuts\n\nSeed %d. Again: `%s`\n", r.Seed, r.Command)
	for _, one := range r.Results {
		fmt.Fprintf(&b, "\n## %s\n\n| what | how much |\n|---|---|\n", one.Name)
		for _, row := range one.rows() {
			fmt.Fprintf(&b, "| %s | %s |\n", row[0], row[1])
		}
		for _, fault := range one.Faults {
			fmt.Fprintf(&b, "\n- **fault**: %s", fault)
		}
		if one.Error != "" {
			fmt.Fprintf(&b, "\nIt did not come to its end: %s\n", one.Error)
		}
	}
	return b.String()
}

// Write writes powercut-report.json and powercut-report.md into a directory.
func (r *Report) Write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "powercut-report.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "powercut-report.md"), []byte(r.markdown()), 0o644)
}
