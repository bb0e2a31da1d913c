// Package command is the sweeper's command line: flags, progress, and the
// summary for people and for scripts.
package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/term"

	"github.com/umavez/umavez/pkg/app"
	"github.com/umavez/umavez/pkg/daemon"
	"github.com/umavez/umavez/pkg/sweep"
	"github.com/umavez/umavez/pkg/sweeper"
)

type options struct {
	dryRun    bool
	output    string
	filter    sweep.Filter
	limit     int
	reconcile bool
	verbose   bool
}

// Run is "sweeper run": one pass.
func Run(out io.Writer) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Make one pass, print a summary, exit",
		Example: `  sweeper run --dry-run                  what would be done, and why things wait
  sweeper run                            what a CronJob calls
  sweeper run --older-than 30s           after an incident: do not wait five minutes
  sweeper run --provider asaas -o json   one gateway, for a script`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd, out) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.dryRun, "dry-run", false, "change nothing, publish nothing; say what would be done")
	f.DurationVar(&o.filter.OlderThan, "older-than", 0, "also pending events received so long ago that are not due yet (default: those that are due)")
	f.IntVar(&o.limit, "limit", 0, "events a pass at most (default SWEEP_LIMIT, 200000)")
	f.StringVar(&o.filter.Provider, "provider", "", "only this gateway")
	f.BoolVar(&o.reconcile, "reconcile-all", false, "also look up payments that look settled, not seen for RECONCILE_AFTER")
	f.StringVarP(&o.output, "output", "o", "table", "table or json")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log to stderr")
	return cmd
}

func (o *options) run(cmd *cobra.Command, out io.Writer) error {
	if o.output != "table" && o.output != "json" {
		return &daemon.ConfigError{Err: fmt.Errorf("--output is %q; it must be table or json", o.output)}
	}
	if o.limit < 0 {
		return &daemon.ConfigError{Err: errors.New("--limit must not be negative")}
	}
	if o.filter.OlderThan < 0 {
		return &daemon.ConfigError{Err: errors.New("--older-than must not be negative")}
	}
	log := zap.NewNop()
	if o.verbose {
		var err error
		if log, err = daemon.Logger(os.Getenv("LOG_LEVEL")); err != nil {
			return err
		}
	}
	s, err := app.NewSweeper(cmd.Context(), log, app.NewRegistry(), func(c *sweeper.Config) {
		if o.limit > 0 {
			c.Limit = o.limit
		}
		c.ReconcileAll = c.ReconcileAll || o.reconcile
	})
	if err != nil {
		return &daemon.ConfigError{Err: err}
	}
	defer s.Close()
	if o.filter.Provider != "" && !slices.Contains(s.Gateways, o.filter.Provider) {
		return &daemon.ConfigError{Err: fmt.Errorf("--provider %.40q is no gateway of SOURCES", o.filter.Provider)}
	}
	if o.output == "table" && term.IsTerminal(int(os.Stderr.Fd())) {
		bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription("sweeping"),
			progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
		s.Progress = func(looked int) { _ = bar.Set(looked) }
		defer bar.Finish() //nolint:errcheck // a progress bar
	}
	sum, err := s.Pass(cmd.Context(), o.filter, o.dryRun)
	if err == nil && o.dryRun {
		sum.Parked, err = s.DB.ParkedReasons(cmd.Context(), o.filter)
	}
	if printErr := o.print(out, sum); err == nil {
		err = printErr
	}
	if err == nil && sum.Failed > 0 {
		err = fmt.Errorf("%d events could not be published; the next run tries again", sum.Failed)
	}
	return err
}

func (o *options) print(out io.Writer, sum sweep.Summary) error {
	if o.output == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(sum)
	}
	did := "did"
	if sum.DryRun {
		did = "would do"
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "what the sweep %s\tevents\n", did)
	for _, row := range []struct {
		n    int
		what string
	}{
		{sum.Looked, "due and looked at"},
		{sum.Lost, "put back: never published, or lost by the broker"},
		{sum.Due, "put back: parked or failed, and due"},
		{sum.Waiting, "still in the queue, left alone"},
		{sum.Failed, "not published; the next run tries again"},
		{sum.Dead, "made dead: parked for longer than PARK_LIMIT"},
		{sum.Reconciled, "payments entered for a lookup"},
		{sum.Days, "days whose bodies were dropped: older than BODY_RETENTION"},
		{sum.Forgotten, "settled events forgotten: older than KEY_RETENTION"},
	} {
		fmt.Fprintf(w, "%s\t%d\n", row.what, row.n)
	}
	for _, reason := range slices.Sorted(maps.Keys(sum.Reasons)) {
		fmt.Fprintf(w, "  waits: %s\t%d\n", reason, sum.Reasons[reason])
	}
	for _, p := range sum.Parked {
		fmt.Fprintf(w, "  parked, not due yet: %s\t%d, the first in %s\n", p.Reason, p.Events, time.Until(p.NextAt).Round(time.Second))
	}
	fmt.Fprintf(w, "took\t%s\n", sum.Took.Round(time.Millisecond))
	return w.Flush()
}
