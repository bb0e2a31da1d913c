package chaostest

import (
	"fmt"
	"io"
	"strings"
)

// OverloadReport is what an overload did; its JSON names are an interface.
type OverloadReport struct {
	Error         string   `json:"error,omitempty"`
	Seed          uint64   `json:"seed"`
	Times         float64  `json:"times_wanted"`
	TimesOffered  float64  `json:"times_offered"` // what the generator could
	Peak          float64  `json:"peak_accepted_per_s"`
	Kept          float64  `json:"kept"` // accepted a second of the peak's
	Steps         []flow   `json:"steps"`
	Overload      flow     `json:"overload"`
	StartMiB      float64  `json:"start_mib"` // of ingest
	HalfPeakMiB   float64  `json:"peak_mib_first_half"`
	PeakMiB       float64  `json:"peak_mib"`
	EndMiB        float64  `json:"end_mib"`
	LastMiB       float64  `json:"last_mib"` // when everything was final
	Acknowledged  int64    `json:"acknowledged"`
	Stored        int64    `json:"stored"`
	Lost          int64    `json:"lost"` // acknowledged and not stored
	Backlog       int64    `json:"backlog_at_end"`
	LeftToSweeper int      `json:"left_to_sweeper"` // notices that found no place in the publisher's line
	Left          int      `json:"left"`            // not final drained_after_s later
	DrainSeconds  float64  `json:"drained_after_s"`
	Before        pulse    `json:"before"`
	After         pulse    `json:"after"`
	RestoredAfter float64  `json:"restored_after_s"`
	Restored      bool     `json:"restored"`
	Missed        []string `json:"missed,omitempty"`
	Found         []string `json:"found,omitempty"`
}

// pulse is how new events fare one by one; in seconds.
type pulse struct {
	Events      int     `json:"events"`
	Missing     int     `json:"missing"` // not accepted, or not final
	AcceptedP99 float64 `json:"accepted_p99_s"`
	FinalP50    float64 `json:"final_p50_s"`
	FinalP99    float64 `json:"final_p99_s"`
}

func (p pulse) String() string {
	return fmt.Sprintf("%d of %d new events final, p50 %.3f s, p99 %.3f s; accepted p99 %.3f s", p.Events-p.Missing, p.Events, p.FinalP50, p.FinalP99, p.AcceptedP99)
}

// asBefore says whether new events fare as well.
func (p pulse) asBefore(before pulse) bool {
	within := func(now, was float64) bool { return now <= max(overloadSlower*was, was+overloadResolve) }
	return p.Missing == 0 && within(p.FinalP99, before.FinalP99) && within(p.AcceptedP99, before.AcceptedP99)
}

// finish sums up and says what was missed. How much could be offered is a
// matter of the machine, and said, not judged.
func (r *OverloadReport) finish() {
	o := r.Overload
	r.TimesOffered = o.perSecond(o.Sent) / r.Peak
	r.Kept = o.perSecond(o.Accepted) / r.Peak
	miss := func(format string, args ...any) { r.Missed = append(r.Missed, fmt.Sprintf(format, args...)) }
	if r.Kept < overloadKept {
		miss("%.0f %% of the peak were accepted; at least %.0f %% are wanted", 100*r.Kept, 100*overloadKept)
	}
	if o.Hasty > 0 {
		miss("%d refusals were no 503 with Retry-After: %v", o.Hasty, o.Others)
	}
	if o.Broken > 0 {
		miss("%d requests got no answer: %v", o.Broken, o.BrokenWhy)
	}
	if quick, slowest := float64(overloadQuick.Milliseconds()), float64(overloadSlowest.Milliseconds()); o.RefusedMs.P99 > quick || o.RefusedMs.Max > slowest {
		miss("99 of 100 refusals took up to %.0f ms and one %.0f ms; %.0f ms and %.0f ms are wanted", o.RefusedMs.P99, o.RefusedMs.Max, quick, slowest)
	}
	if r.PeakMiB > r.HalfPeakMiB+overloadMiB {
		miss("ingest grew to %.0f MiB, %.0f more than in the first half", r.PeakMiB, r.PeakMiB-r.HalfPeakMiB)
	}
	if r.Lost > 0 {
		miss("%d events were answered 200 and are not stored", r.Lost)
	}
	if !r.Restored {
		miss("new events did not fare as before within %s", overloadAfter)
	}
}

// OK says whether every requirement holds.
func (r *OverloadReport) OK() bool {
	return r.Error == "" && len(r.Missed) == 0 && len(r.Found) == 0 && r.Acknowledged > 0
}

// WriteJSON writes the report to a file.
func (r *OverloadReport) WriteJSON(path string) error { return writeJSON(path, r) }

func (r *OverloadReport) overload() string {
	o := r.Overload
	return fmt.Sprintf("%.0f requests/s sent (%.1f times the peak; %d withheld for want of a free connection), %.0f accepted/s, %.0f refused/s (p50 %.0f ms, p99 %.0f ms, slowest %.0f ms), %d other answers, %d without; accepted p50 %.0f ms, p99 %.0f ms",
		o.perSecond(o.Sent), o.perSecond(o.Sent)/r.Peak, o.Withheld, o.perSecond(o.Accepted), o.perSecond(o.Refused), o.RefusedMs.P50, o.RefusedMs.P99, o.RefusedMs.Max, o.Hasty, o.Broken, o.AcceptedMs.P50, o.AcceptedMs.P99)
}

// Markdown writes the report for people.
func (r *OverloadReport) Markdown(out io.Writer) {
	fmt.Fprintf(out, "Peak %.0f accepted/s. Overload for %.0f s: %s. **%.0f %% of the peak were kept.**\n\n", r.Peak, r.Overload.Seconds, r.overload(), 100*r.Kept)
	fmt.Fprintf(out, "Memory of ingest: %.0f MiB at the start, at most %.0f MiB in the first half and %.0f MiB in all, %.0f MiB at the end, %.0f MiB when everything was final. %d events were answered 200, %d of them are not stored.\n\n",
		r.StartMiB, r.HalfPeakMiB, r.PeakMiB, r.EndMiB, r.LastMiB, r.Acknowledged, r.Lost)
	fmt.Fprintf(out, "New events before: %s. From %.1f s after the overload: %s. As it ended %d events waited to be processed; %.0f s later %d of them were not final. Notices of %d events found no place in the publisher's line and were left to the sweeper.\n",
		r.Before, r.RestoredAfter, r.After, r.Backlog, r.DrainSeconds, r.Left, r.LeftToSweeper)
	var lines []string
	if r.Error != "" {
		lines = append(lines, "it did not come to its end: "+r.Error)
	}
	for _, m := range r.Missed {
		lines = append(lines, "missed: "+m)
	}
	for _, f := range r.Found {
		lines = append(lines, "harm: "+f)
	}
	if len(lines) > 0 {
		fmt.Fprintf(out, "\n- %s\n", strings.Join(lines, "\n- "))
	}
}
