package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/umavez/umavez/pkg/app"
	"github.com/umavez/umavez/pkg/daemon"
	"github.com/umavez/umavez/pkg/postgres"
)

func verifyCommand(out io.Writer) *cobra.Command {
	var o postgres.VerifyOptions
	var output string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check every invariant on a live database",
		Long: `verify checks every guarantee on the database that DATABASE_URL names, in one
read-only snapshot, beside a system at work. It reads everything: run it at a
quiet hour on a large database, since vacuum waits for the snapshot. It prints a
line for each check and the offending rows. Its user needs to read everything:
the owner, or one with the role umavez_sweeper.

Exit codes: 0 all hold, 1 at least one is broken, 2 settings, arguments, or a
database that could not be read to the end.`,
		Example: `  umavez verify
  umavez verify --pending-limit 15m --output json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := wantsOutput(output); err != nil {
				return err
			}
			if o.Rows < 1 {
				return &daemon.ConfigError{Err: fmt.Errorf("--rows is %d; it must be at least 1", o.Rows)}
			}
			if o.PendingLimit < 0 {
				return &daemon.ConfigError{Err: fmt.Errorf("--pending-limit is %s; it must not be negative", o.PendingLimit)}
			}
			if o.BodiesSince < 0 {
				return &daemon.ConfigError{Err: fmt.Errorf("--bodies-since is %s; it must not be negative", o.BodiesSince)}
			}
			db, err := app.OpenDatabase(cmd.Context())
			if err != nil {
				return err
			}
			defer db.Close()
			if err := db.CheckSchema(cmd.Context()); err != nil {
				return &daemon.ConfigError{Err: err}
			}
			results, err := db.Verify(cmd.Context(), o, verifyProgress(output))
			if err != nil {
				return &daemon.ExitError{Code: daemon.ExitConfig, Err: err}
			}
			return printChecks(out, output, results)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&o.PendingLimit, "pending-limit", time.Hour, "how long an event may be pending, and a domain event unsent")
	f.DurationVar(&o.BodiesSince, "bodies-since", 30*24*time.Hour, "events younger than this must have their body (BODY_RETENTION)")
	f.IntVar(&o.Rows, "rows", 20, "offending rows to show for each check")
	f.StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

func verifyProgress(output string) func(postgres.CheckResult) {
	if output != "table" || !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil
	}
	bar := progressbar.NewOptions(len(postgres.Checks()), progressbar.OptionSetWriter(os.Stderr),
		progressbar.OptionSetDescription("verifying"), progressbar.OptionClearOnFinish())
	return func(postgres.CheckResult) { _ = bar.Add(1) }
}

// printChecks prints the results and says by its error whether all hold.
func printChecks(out io.Writer, output string, results []postgres.CheckResult) error {
	broken := int64(0)
	for _, r := range results {
		broken += r.Count
	}
	if output == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(map[string]any{"violations": broken, "checks": results}); err != nil {
			return &daemon.ExitError{Code: daemon.ExitConfig, Err: err}
		}
	} else {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, r := range results {
			word := "holds"
			if r.Count > 0 {
				word = fmt.Sprintf("BROKEN by %d", r.Count)
			}
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", r.Invariant, word, r.Name, r.Took.Round(time.Millisecond))
			for _, v := range r.Rows {
				fmt.Fprintf(w, "\t\t  %s: %s\t\n", v.Subject, v.Detail)
			}
		}
		if err := w.Flush(); err != nil {
			return &daemon.ExitError{Code: daemon.ExitConfig, Err: err}
		}
	}
	if broken > 0 {
		return fmt.Errorf("%d rows break an invariant", broken)
	}
	return nil
}
