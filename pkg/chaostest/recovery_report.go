package chaostest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
)

// RecoveryReport is what was measured; its JSON names are an interface. Times
// are in seconds.
type RecoveryReport struct {
	Error   string            `json:"error,omitempty"`
	Seed    uint64            `json:"seed"`
	Brokers int               `json:"brokers"`
	Seconds float64           `json:"seconds"`
	Bound   float64           `json:"bound_p99_s"`
	Probes  int               `json:"probes"`
	P50     float64           `json:"p50_s"`
	P99     float64           `json:"p99_s"`
	Max     float64           `json:"max_s"`
	Kinds   []*RecoveryKind   `json:"kinds"`
	Skipped map[string]string `json:"skipped,omitempty"` // cards of the deck that are no faults, and why
	Missed  []string          `json:"missed,omitempty"`  // the requirement, kind by kind
	Found   []string          `json:"found,omitempty"`   // harm
	finals  []float64
}

// RecoveryKind is one kind of fault.
type RecoveryKind struct {
	Kind        string   `json:"kind"`
	Rounds      int      `json:"rounds"`
	NotInjected string   `json:"not_injected,omitempty"` // why a round was not played
	Probes      int      `json:"probes"`
	P50         float64  `json:"p50_s"` // from acceptance to final
	P99         float64  `json:"p99_s"`
	Max         float64  `json:"max_s"`
	AcceptedMax float64  `json:"accepted_max_s"` // from a gateway's first attempt to success
	Unaccepted  int      `json:"unaccepted"`     // after probeAcceptance
	Unfinished  int      `json:"unfinished"`     // after probeFinality
	Slowest     *probe   `json:"slowest,omitempty"`
	SlowestIn   string   `json:"slowest_in,omitempty"` // the round: what was hit, and how
	Details     []string `json:"details"`
	finals      []float64
}

// take adds a round.
func (k *RecoveryKind) take(detail string, ps []*probe) {
	k.Details = append(k.Details, detail)
	for _, p := range ps {
		k.Probes++
		switch {
		case p.at.IsZero():
			k.Unaccepted++
			continue
		case p.Final == 0:
			k.Unfinished++
			p.Final = probeFinality.Seconds()
		}
		k.AcceptedMax = max(k.AcceptedMax, p.Accepted)
		k.finals = append(k.finals, p.Final)
		if k.Slowest == nil || p.Final > k.Slowest.Final {
			k.Slowest, k.SlowestIn = p, detail
		}
	}
}

func (k *RecoveryKind) finish() {
	slices.Sort(k.finals)
	k.P50, k.P99, k.Max = quantile(k.finals, 0.5), quantile(k.finals, 0.99), quantile(k.finals, 1)
}

func (k *RecoveryKind) line() string {
	if k.Rounds == 0 {
		return "not injected: " + k.NotInjected
	}
	return fmt.Sprintf("%4d probes, p50 %.2f s, p99 %.2f s, slowest %.2f s, accepted within %.2f s", k.Probes, k.P50, k.P99, k.Max, k.AcceptedMax)
}

// quantile is by nearest rank, of sorted values.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// finish sums up and says what was missed.
func (r *RecoveryReport) finish() {
	for _, k := range r.Kinds {
		r.Probes += k.Probes
		r.finals = append(r.finals, k.finals...)
		switch {
		case k.Rounds == 0:
			r.Missed = append(r.Missed, k.Kind+" was not injected: "+k.NotInjected)
		case k.Unaccepted > 0:
			r.Missed = append(r.Missed, fmt.Sprintf("%s: %d new events were not accepted within %s", k.Kind, k.Unaccepted, probeAcceptance))
		case k.Unfinished > 0:
			r.Missed = append(r.Missed, fmt.Sprintf("%s: %d new events were not final within %s", k.Kind, k.Unfinished, probeFinality))
		case k.P99 > r.Bound:
			r.Missed = append(r.Missed, fmt.Sprintf("%s: p99 is %.2f s", k.Kind, k.P99))
		}
	}
	slices.Sort(r.finals)
	r.P50, r.P99, r.Max = quantile(r.finals, 0.5), quantile(r.finals, 0.99), quantile(r.finals, 1)
	if r.P99 > r.Bound {
		r.Missed = append(r.Missed, fmt.Sprintf("over all: p99 is %.2f s", r.P99))
	}
}

// OK says whether the requirement holds and nothing was harmed.
func (r *RecoveryReport) OK() bool {
	return r.Error == "" && len(r.Missed) == 0 && len(r.Found) == 0 && r.Probes > 0
}

// WriteJSON writes the report to a file.
func (r *RecoveryReport) WriteJSON(path string) error { return writeJSON(path, r) }

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Markdown writes the report for people.
func (r *RecoveryReport) Markdown(out io.Writer) {
	fmt.Fprintf(out, "Seed %d, %d broker(s), %.0f s. %d new events after faults of %d kinds, each played by itself and healed: half of them were final within %.2f s of their acceptance, 99 of 100 within **%.2f s** (bound %.0f s), the slowest within %.2f s.\n\n",
		r.Seed, r.Brokers, r.Seconds, r.Probes, len(r.Kinds), r.P50, r.P99, r.Bound, r.Max)
	if r.Error != "" {
		fmt.Fprintf(out, "It did not come to its end: %s\n\n", r.Error)
	}
	for _, m := range r.Missed {
		fmt.Fprintf(out, "- missed: %s\n", m)
	}
	for _, f := range r.Found {
		fmt.Fprintf(out, "- harm: %s\n", f)
	}
	fmt.Fprint(out, "\n| fault | rounds | probes | p50 | p99 | slowest | accepted within | the slowest |\n|---|---|---|---|---|---|---|---|\n")
	for _, k := range r.Kinds {
		fmt.Fprintf(out, "| %s | %d | %d | %.2f s | %.2f s | %.2f s | %.2f s | %s |\n", k.Kind, k.Rounds, k.Probes, k.P50, k.P99, k.Max, k.AcceptedMax, k.why())
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Skipped)) {
		fmt.Fprintf(out, "\nNot played: %s (%s).\n", kind, r.Skipped[kind])
	}
}

// why explains the slowest, by what its row said.
func (k *RecoveryKind) why() string {
	if k.Slowest == nil {
		return k.NotInjected
	}
	text := fmt.Sprintf("%s, sent %.1f s after healing", k.Slowest.Gateway, k.Slowest.Sent)
	if len(k.Slowest.Waited) > 0 {
		text += ": " + strings.Join(k.Slowest.Waited, "; ")
	}
	return strings.ReplaceAll(text, "|", "/")
}
