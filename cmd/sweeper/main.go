// Command sweeper finds what got stuck and puts it back on the queue: once
// (run), or every few minutes (loop). It is the tool for on-call as well: dry
// runs, a summary as a table or as JSON, stable exit codes.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/umavez/umavez/pkg/app"
	"github.com/umavez/umavez/pkg/daemon"
	"github.com/umavez/umavez/pkg/sweeper/command"
)

func main() {
	daemon.Main("sweeper", func(ctx context.Context) error {
		root := &cobra.Command{
			Use:   "sweeper",
			Short: "Put lost and due events back on the queue",
			Long: `sweeper finds events whose message was never published or was lost, and parked
events whose time has come, and puts them back on the queue. Any number of
sweepers at once, and any number of runs, is harmless.

Exit codes: 0 all went well, 1 the run failed or part of it could not be
published, 2 settings or arguments.`,
		}
		root.AddCommand(command.Run(os.Stdout), &cobra.Command{
			Use:   "loop",
			Short: "Sweep every SWEEP_EVERY (5m) until stopped",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return app.Serve(cmd.Context(), "sweeper", app.SweeperRole)
			},
		})
		return daemon.Execute(ctx, root)
	})
}
