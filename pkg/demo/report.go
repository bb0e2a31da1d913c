package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/truth"
)

// Report is what the demo found; its JSON names are an interface.
type Report struct {
	Error      string `json:"error,omitempty"` // why the demo did not come to its end; the rest is what was known
	Seed       uint64 `json:"seed"`
	EventsSent int    `json:"events_sent"` // requests, retries included
	Accepted   int    `json:"accepted"`    // deliveries answered with success
	Duplicates int    `json:"duplicates"`  // deliveries that were counted as repeats
	Rejected   int    `json:"rejected"`    // forged ones, refused
	Retries    int    `json:"retries"`     // after a 5xx or no answer
	Lost       int    `json:"lost"`        // webhooks that the gateways never sent
	Concurrent int    `json:"concurrent_duplicates"`

	EventsStored       int `json:"events_stored"`
	EventsAcknowledged int `json:"events_acknowledged"` // different events among the accepted
	Payments           int `json:"payments"`
	Unheard            int `json:"payments_unheard"` // all of whose webhooks were lost
	Beneficiaries      int `json:"beneficiaries"`
	Transitions        int `json:"transitions"`
	LedgerEntries      int `json:"ledger_entries"`
	Relayed            int `json:"domain_events_relayed"`

	Outcomes map[string]int `json:"outcomes"` // of events
	Statuses map[string]int `json:"statuses"` // of payments
	Kills    []string       `json:"kills"`

	Sweeps     int `json:"sweeps"`
	Reconciled int `json:"reconciled"`

	AckP50          float64 `json:"ack_p50_ms"`
	AckP99          float64 `json:"ack_p99_ms"`
	FinalP50        float64 `json:"received_to_final_p50_ms"`
	FinalP99        float64 `json:"received_to_final_p99_ms"`
	EventsPerSecond float64 `json:"events_per_second"`
	StormSeconds    float64 `json:"storm_seconds"`
	SettleSeconds   float64 `json:"settle_seconds"`
	TotalSeconds    float64 `json:"total_seconds"`

	PeakMiB map[string]float64 `json:"peak_resident_mib"` // of each process, as far as the system tells

	Mismatches  int                    `json:"mismatches"`
	Differences []string               `json:"differences,omitempty"` // the first ones
	Violations  int64                  `json:"violations"`
	Checks      []postgres.CheckResult `json:"checks"`
}

func newReport(seed uint64) *Report {
	return &Report{Seed: seed, Outcomes: map[string]int{}, Statuses: map[string]int{}, Kills: []string{}, Checks: []postgres.CheckResult{}}
}

// stormed takes over what the simulator counted.
func (r *Report) stormed(s gatewaysim.Report) {
	r.EventsSent, r.Accepted, r.Rejected, r.Retries = s.Requests, s.Acknowledged, s.Refused, s.Retries
	r.Lost, r.Concurrent = s.ByKind[gatewaysim.DeliveryLost], s.ByKind[gatewaysim.DeliveryConcurrent]
	r.AckP50, r.AckP99, r.EventsPerSecond, r.StormSeconds = s.Latency.P50, s.Latency.P99, s.EventsPerSecond, s.Elapsed.Seconds()
}

// compared takes over what differs from the truth.
func (r *Report) compared(t truth.Result) {
	r.Payments, r.Unheard, r.Beneficiaries, r.EventsAcknowledged = t.Payments, t.Unheard, t.Beneficiaries, t.EventsAcknowledged
	r.Statuses, r.Mismatches, r.Differences = t.Statuses, t.Mismatches, t.Differences
}

func (r *Report) mismatch(format string, args ...any) {
	r.Mismatches++
	r.Differences = append(r.Differences, fmt.Sprintf(format, args...))
}

// OK says whether everything is as it should be.
func (r *Report) OK() bool { return r.Mismatches == 0 && r.Violations == 0 }

func (r *Report) write(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := r.print(f); err != nil {
		f.Close() //nolint:errcheck // the first error counts
		return err
	}
	return f.Close()
}

func (r *Report) print(out io.Writer) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

func (r *Report) table(out io.Writer) {
	line := func(n any, format string, args ...any) {
		fmt.Fprintf(out, "%14v  %s\n", n, fmt.Sprintf(format, args...))
	}
	head := func(text string) { fmt.Fprintf(out, "\n%14s  %s\n", "", text) }
	head("WHAT THE GATEWAYS DID")
	line(r.EventsSent, "webhooks sent (%d retries)", r.Retries)
	line(r.Duplicates, "duplicates absorbed, %d sent at the same instant as the first", r.Concurrent)
	line(r.Rejected, "forged ones refused")
	line(r.Lost, "webhooks that never came")
	if r.Unheard == 1 {
		line(1, "payment of which no webhook ever came")
	} else {
		line(r.Unheard, "payments of which no webhook ever came")
	}
	for _, k := range r.Kills {
		line("kill", "%s", k)
	}
	head("WHAT UMAVEZ DID")
	line(r.Accepted, "deliveries answered with success, %d different events stored", r.EventsStored)
	line(fmt.Sprintf("%.0f/s", r.EventsPerSecond), "accepted, with everything on this machine")
	line(fmt.Sprintf("%.1f ms", r.AckP50), "answer to the gateway, median; p99 %.1f ms", r.AckP99)
	line(fmt.Sprintf("%.0f ms", r.FinalP50), "from receipt to final, median; p99 %.0f ms (kills included)", r.FinalP99)
	line(r.Outcomes["applied"], "events applied")
	line(r.Outcomes["repeated"], "facts repeated: already known, nothing booked")
	line(r.Outcomes["stale"], "late facts refused by the state machine")
	line(r.Outcomes["ignored"]+r.Outcomes["quarantined"], "stored and ignored, or quarantined (%d)", r.Outcomes["quarantined"])
	line(r.Sweeps, "sweeps")
	line(r.Reconciled, "payments asked about once more, for the webhooks that never came")
	line(r.Transitions, "transitions, %d ledger entries, %d domain events relayed", r.LedgerEntries, r.Relayed)
	for _, name := range slices.Sorted(maps.Keys(r.PeakMiB)) {
		line(fmt.Sprintf("%.0f MiB", r.PeakMiB[name]), "resident at most, %s", name)
	}
	head("WHAT IS TRUE NOW")
	for _, s := range slices.Sorted(maps.Keys(r.Statuses)) {
		line(r.Statuses[s], "%s", "payments "+s)
	}
	line(r.Payments, "payments compared with the gateways' truth, to the cent")
	line(r.Beneficiaries, "beneficiaries' balances compared")
	line(r.Mismatches, "differences")
	head("INVARIANTS")
	for _, c := range r.Checks {
		word := "holds"
		if c.Count > 0 {
			word = fmt.Sprintf("BROKEN (%d)", c.Count)
		}
		line(word, "%s", fmt.Sprintf("%d. %s", c.Invariant, c.Name))
	}
	for _, d := range r.Differences {
		fmt.Fprintln(out, "  "+strings.TrimSpace(d))
	}
	for _, c := range r.Checks {
		for _, v := range c.Rows {
			fmt.Fprintf(out, "  %s: %s: %s\n", c.Name, v.Subject, v.Detail)
		}
	}
	if r.OK() {
		fmt.Fprintf(out, "\nEverything is as it should be: nothing lost, nothing applied twice. (%.0f s)\n", r.TotalSeconds)
	} else {
		fmt.Fprintf(out, "\nNOT as it should be: %d differences, %d violations.\n", r.Mismatches, r.Violations)
	}
}
