package chaostest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"
)

// Report is what a campaign did and found; its JSON names are an interface.
type Report struct {
	Error       string         `json:"error,omitempty"`
	Seed        uint64         `json:"seed"`
	Seconds     float64        `json:"seconds"`
	Faults      map[string]int `json:"faults"` // injected, by kind
	FaultsTotal int            `json:"faults_total"`
	Rescues     map[string]int `json:"rescues"` // by kind
	Events      int            `json:"events"`  // stored
	Payments    int            `json:"payments"`
	Attempts    map[string]int `json:"attempts"` // of the gateways: ok, failed, unknown
	Violations  int            `json:"violations"`
	Found       []string       `json:"found,omitempty"`   // the violations, in words
	Missing     []string       `json:"missing,omitempty"` // kinds that did not occur, in a campaign that demands them
	// NotInjected says why a kind of the deck was not, the last time.
	NotInjected  map[string]string `json:"not_injected,omitempty"`
	Checks       int               `json:"checks_during_the_run"`
	Calms        int               `json:"calms"`
	CalmEvents   int               `json:"calm_events"`
	CalmP99      float64           `json:"calm_final_p99_s"` // the worst calm's
	DomainEvents int               `json:"domain_events_heard"`
	DomainCopies int               `json:"domain_events_heard_again"`
	Restarts     int               `json:"restarts"` // of processes, wanted or not
	PeakMiB      float64           `json:"peak_mib"` // of a process under test, at the end of an act

	mu sync.Mutex
}

func newReport(cfg Config) *Report {
	return &Report{Seed: cfg.Seed, Faults: map[string]int{}, Rescues: map[string]int{}, Attempts: map[string]int{}, NotInjected: map[string]string{}}
}

// OK says whether nothing was found and nothing is missing.
func (r *Report) OK() bool { return r.Error == "" && r.Violations == 0 && len(r.Missing) == 0 }

func (r *Report) violation(kind, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Violations++
	if len(r.Found) < 100 {
		r.Found = append(r.Found, kind+": "+fmt.Sprintf(format, args...))
	}
}

func (r *Report) calm(events int, p99 float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Calms++
	r.CalmEvents += events
	r.CalmP99 = max(r.CalmP99, p99)
}

// take adds what an act did.
func (r *Report) take(n *nemesis, w *world, x *watch) {
	played, missed := n.counts()
	for kind, count := range played {
		r.Faults[kind] += count
		r.FaultsTotal += count
		delete(r.NotInjected, kind)
	}
	for kind, why := range missed {
		if r.Faults[kind] == 0 {
			r.NotInjected[kind] = why
		}
	}
	x.mu.Lock()
	r.Checks += x.looks
	for _, f := range x.found {
		r.Violations++
		r.Found = append(r.Found, f)
	}
	x.mu.Unlock()
	for _, node := range append(append([]*node{}, w.nodes...), w.brokers...) {
		node.mu.Lock()
		r.Restarts += node.starts - 1
		node.mu.Unlock()
	}
	for kind, count := range w.rescues() {
		r.Rescues[kind] += count
	}
}

// rescues counts how often umavez had to save something, by what the processes
// counted and by what is in the database.
func (w *world) rescues() map[string]int {
	c := w.scraped.counters()
	sum, _ := w.sweeps.summary()
	all := map[string]int{
		"redelivery of a settled event":              int(c["umavez_deliveries_settled_before_total"]),
		"commit whose outcome was unknown":           int(c["umavez_commits_unknown_total"]),
		"transaction run again":                      int(c["umavez_batch_reruns_total"]),
		"batch split around a poison event":          int(c["umavez_batch_splits_total"]),
		"publish failed and left to the sweeper":     int(c["umavez_publish_total/failed"]),
		"lost event put back by a sweep":             sum.Lost,
		"sweep refused by the queue":                 sum.Waiting,
		"outdated snapshot dropped":                  int(c["umavez_events_parked_total/snapshot_outdated"]),
		"answer about another payment refused":       int(c["umavez_events_parked_total/lookup_mismatch"]),
		"unreadable answer refused":                  int(c["umavez_events_parked_total/lookup_unreadable"]),
		"answer that contradicts the event":          int(c["umavez_events_parked_total/contradicted_by_lookup"]),
		"gateway that gave no answer":                int(c["umavez_events_parked_total/lookup_unavailable"] + c["umavez_events_parked_total/lookup_failed"]),
		"gateway left alone (429, breaker)":          int(c["umavez_events_parked_total/lookup_waits"]),
		"payment that the gateway does not know yet": int(c["umavez_events_parked_total/lookup_not_found"]),
		"clock told from a forgery":                  int(c["umavez_ingest_clock_skew_total"]),
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for kind, sql := range map[string]string{
		"late fact refused":                    `SELECT count(*) FROM event_results WHERE outcome = 'stale'`,
		"repeated fact booked nothing":         `SELECT count(*) FROM event_results WHERE outcome = 'repeated'`,
		"walk over several steps":              `SELECT count(*) FROM (SELECT FROM payment_transitions GROUP BY event_id, payment_id HAVING count(*) > 1) AS walks`,
		"event that failed until it was dead":  `SELECT count(*) FROM event_results WHERE status = 'dead'`,
		"dead event revived by a resend":       `SELECT count(*) FROM event_results r WHERE turn > 1 AND EXISTS (SELECT FROM event_results d WHERE d.event_id = r.event_id AND d.turn < r.turn AND d.status = 'dead')`,
		"duplicate absorbed":                   `SELECT COALESCE(sum(count), 0) FROM event_redeliveries`,
		"payment of a lost webhook, looked up": `SELECT count(DISTINCT t.payment_id) FROM payment_transitions t JOIN events e ON e.id = t.event_id WHERE e.type = 'umavez.reconcile'`,
	} {
		var n int
		if w.db.Pool.QueryRow(ctx, sql).Scan(&n) == nil {
			all[kind] = n
		}
	}
	return all
}

// leastKinds and leastFaults are what a campaign is worth nothing below.
const (
	leastKinds  = 20
	leastFaults = 300
)

// demand notes what should have occurred and did not.
func (r *Report) demand() {
	for _, kind := range slices.Sorted(maps.Keys(r.Rescues)) {
		if r.Rescues[kind] == 0 {
			r.Missing = append(r.Missing, "rescue: "+kind)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(r.NotInjected)) {
		if r.Faults[kind] == 0 {
			r.Missing = append(r.Missing, "fault: "+kind+" ("+r.NotInjected[kind]+")")
		}
	}
	if len(r.Faults) < leastKinds || r.FaultsTotal < leastFaults {
		r.Missing = append(r.Missing, fmt.Sprintf("faults: %d of %d kinds; at least %d of %d are wanted", r.FaultsTotal, len(r.Faults), leastFaults, leastKinds))
	}
	if r.Attempts["unknown"] == 0 || r.Attempts["failed"] == 0 {
		r.Missing = append(r.Missing, "the gateways never met an error, or never lost an answer")
	}
	if r.Checks == 0 || r.Calms == 0 {
		r.Missing = append(r.Missing, "nothing was checked during the run")
	}
}

// WriteJSON writes the report to a file.
func (r *Report) WriteJSON(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Markdown writes the report for people.
func (r *Report) Markdown(out io.Writer) {
	fmt.Fprintf(out, "Seed %d, %.0f s. %d faults of %d kinds; %d webhooks stored of %d payments; %d of the gateways' attempts accepted, %d refused or failed, %d without an answer.\n\n",
		r.Seed, r.Seconds, r.FaultsTotal, len(r.Faults), r.Events, r.Payments, r.Attempts["ok"], r.Attempts["failed"], r.Attempts["unknown"])
	fmt.Fprintf(out, "**%d violations.** Every invariant was checked %d times during the run. In %d calms, %d events came in; 99 of 100 were final within %.1f s in the worst calm. %d domain events were heard, %d of them again. Processes were started again %d times.\n\n",
		r.Violations, r.Checks, r.Calms, r.CalmEvents, r.CalmP99, r.DomainEvents, r.DomainCopies, r.Restarts)
	if r.Error != "" {
		fmt.Fprintf(out, "The campaign did not come to its end: %s\n\n", r.Error)
	}
	for _, f := range r.Found {
		fmt.Fprintf(out, "- %s\n", f)
	}
	for _, m := range r.Missing {
		fmt.Fprintf(out, "- missing: %s\n", m)
	}
	table := func(head string, counts map[string]int) {
		fmt.Fprintf(out, "\n| %s | times |\n|---|---|\n", head)
		for _, kind := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(out, "| %s | %d |\n", kind, counts[kind])
		}
	}
	table("fault", r.Faults)
	table("rescue", r.Rescues)
}
