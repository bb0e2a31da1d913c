package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/umavez/umavez/pkg/app"
	"github.com/umavez/umavez/pkg/daemon"
	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/replay"
)

// replaying is one run of the command.
type replaying struct {
	filter               replay.Filter
	statuses             []string
	since, until, output string
	dryRun               bool
	limit, rows          int
	wait                 time.Duration
}

func replayCommand(out io.Writer) *cobra.Command {
	r := &replaying{}
	cmd := &cobra.Command{
		Use:   "replay [EVENT ID]...",
		Short: "Run stored events through the processor again",
		Long: `replay puts settled events back to work, by their ids (webhook_events.id) or by a
filter: after an adapter was repaired, after an incident, or while you develop.
The gateway is not needed to send anything, nor is the queue: processors take
the events up within a second, and look up what they always look up.

Nothing is applied twice: what was applied is found repeated. It is safe to run
it twice, or twice at once; an event that is unfinished is left alone, and so is
one that today's adapters would settle on receipt as well (a test event in
production, a body that still nobody can read), one whose body is gone, and one
whose source is not in SOURCES. A filter without --status means dead and
quarantined events. It uses the settings of the sweeper: DATABASE_URL, SOURCES
and those of the sources; its user may have the role umavez_sweeper.

Exit codes: 0 all well, 1 an event that was named by its id was left alone or
not found, or --wait was not long enough, 2 settings or arguments.`,
		Example: `  umavez replay --status dead --since 24h --dry-run     what would be put back
  umavez replay --status dead,quarantined --provider asaas
  umavez replay --payment pay_123 --status processed --wait 10s
  umavez replay 4711 4712 --wait 10s -o json`,
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args, out) },
	}
	f := cmd.Flags()
	f.BoolVar(&r.dryRun, "dry-run", false, "change nothing; say what would be done")
	f.StringVar(&r.filter.Provider, "provider", "", "only this gateway")
	f.StringVar(&r.filter.Account, "account", "", "only this account")
	f.StringVar(&r.filter.Payment, "payment", "", "only this payment, by the gateway's id")
	f.StringSliceVar(&r.statuses, "status", nil, "dead, quarantined, ignored, processed; several with commas (default dead,quarantined)")
	f.StringVar(&r.since, "since", "", "received from then on: RFC 3339, or a time ago such as 24h")
	f.StringVar(&r.until, "until", "", "received before then: RFC 3339, or a time ago such as 1h")
	f.IntVar(&r.limit, "limit", 10000, "events at most")
	f.IntVar(&r.rows, "rows", 20, "events to list")
	f.DurationVar(&r.wait, "wait", 0, "wait so long for the processors, and say what became of the events")
	f.StringVarP(&r.output, "output", "o", "table", "table or json")
	return cmd
}

func (r *replaying) run(ctx context.Context, args []string, out io.Writer) error {
	if err := r.read(args, time.Now()); err != nil {
		return &daemon.ConfigError{Err: err}
	}
	if err := wantsOutput(r.output); err != nil {
		return err
	}
	a, err := app.NewReplay(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	if r.output == "table" && term.IsTerminal(int(os.Stderr.Fd())) {
		bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription("replaying"),
			progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
		a.Progress = func(looked int) { _ = bar.Set(looked) }
		defer bar.Finish() //nolint:errcheck // a progress bar
	}
	sum, err := a.Run(ctx, r.filter, r.dryRun, r.limit, r.rows)
	unfinished := 0
	if err == nil && r.wait > 0 && !r.dryRun {
		waiting, cancel := context.WithTimeout(ctx, r.wait)
		defer cancel()
		unfinished, err = a.Await(waiting, &sum)
	}
	if printErr := r.print(out, sum); err == nil {
		err = printErr
	}
	if err != nil {
		return err
	}
	return r.complain(sum, unfinished)
}

// complain says what of an order that named its events was not done.
func (r *replaying) complain(sum replay.Summary, unfinished int) error {
	var faults []error
	if len(sum.NotFound) > 0 {
		faults = append(faults, fmt.Errorf("no such events: %s", strings.Trim(fmt.Sprint(sum.NotFound), "[]")))
	}
	if sum.More && len(r.filter.IDs) > 0 {
		faults = append(faults, fmt.Errorf("--limit is %d and %d events are named", r.limit, len(r.filter.IDs)))
	}
	if left := sum.Matched - sum.Replayed; left > 0 && len(r.filter.IDs) > 0 {
		faults = append(faults, fmt.Errorf("%d of the events were left alone", left))
	}
	if unfinished > 0 {
		faults = append(faults, fmt.Errorf("%d events are unfinished after %s; is a processor running?", unfinished, r.wait))
	}
	return errors.Join(faults...)
}

// read checks arguments and flags.
func (r *replaying) read(args []string, now time.Time) (err error) {
	for _, a := range args {
		id, err := strconv.ParseInt(a, 10, 64)
		if err != nil || id < 1 {
			return fmt.Errorf("%.40q is not an event's id; ids are those of webhook_events", a)
		}
		if !slices.Contains(r.filter.IDs, id) {
			r.filter.IDs = append(r.filter.IDs, id)
		}
	}
	for _, s := range r.statuses {
		r.filter.Statuses = append(r.filter.Statuses, event.Status(strings.TrimSpace(s)))
	}
	if r.filter.Since, err = when(r.since, now); err != nil {
		return fmt.Errorf("--since %w", err)
	}
	if r.filter.Until, err = when(r.until, now); err != nil {
		return fmt.Errorf("--until %w", err)
	}
	if err := r.filter.Validate(); err != nil {
		return err
	}
	if len(r.filter.IDs) == 0 && len(r.filter.Statuses) == 0 {
		r.filter.Statuses = []event.Status{event.StatusDead, event.StatusQuarantined}
	}
	switch {
	case r.limit < 1:
		return errors.New("--limit must be at least 1")
	case r.rows < 0:
		return errors.New("--rows must not be negative")
	case r.wait < 0:
		return errors.New("--wait must not be negative")
	}
	return nil
}

// when reads a time, or how long ago.
func when(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("%.40q is neither a time like 2026-01-15T12:00:00Z nor a time ago like 24h", text)
	}
	return at, nil
}

func (r *replaying) print(out io.Writer, sum replay.Summary) error {
	if r.output == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(sum)
	}
	did, put := "did", "put back to work"
	if sum.DryRun {
		did, put = "would do", "would be put back to work"
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, e := range sum.Events {
		what := put
		if e.LeftAlone != "" {
			what = "left alone: " + e.LeftAlone
		} else if e.Became != "" {
			what = "now " + e.Became
		}
		fmt.Fprintf(w, "%d\t%s/%s\t%s\t%s\t%s\t%s\t%s\n", e.ID, e.Provider, e.Account, e.Type, e.Payment,
			e.ReceivedAt.UTC().Format(time.RFC3339), e.Was, what)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if more := sum.Matched - len(sum.Events); more > 0 && len(sum.Events) > 0 {
		fmt.Fprintf(out, "and %d more; --rows shows more of them\n", more)
	}
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "what the replay %s\tevents\nmatched\t%d\n%s\t%d\n", did, sum.Matched, put, sum.Replayed)
	for _, why := range slices.Sorted(maps.Keys(sum.LeftAlone)) {
		fmt.Fprintf(w, "left alone: %s\t%d\n", why, sum.LeftAlone[why])
	}
	for _, what := range slices.Sorted(maps.Keys(sum.Became)) {
		fmt.Fprintf(w, "  now %s\t%d\n", what, sum.Became[what])
	}
	if sum.More {
		fmt.Fprintf(w, "more match than --limit\t\n")
	}
	fmt.Fprintf(w, "took\t%s\n", sum.Took.Round(time.Millisecond))
	return w.Flush()
}
