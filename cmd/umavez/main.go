// Command umavez is the operator's and developer's tool: everything in one
// process (dev), a storm with a checked report (demo), the schema (migrate),
// the invariants of a live database (verify), one webhook taken apart (explain),
// stored events run again (replay), and domain events told again (relay).
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/umavez/umavez/pkg/daemon"
)

// version is set by the build.
var version = "dev"

func main() {
	daemon.Main("umavez", func(ctx context.Context) error {
		root := &cobra.Command{
			Use:   "umavez",
			Short: "Apply each payment fact exactly once",
			Long: `umavez takes payment-gateway webhooks, which come repeated, late, out of order
and sometimes forged, and applies the effect of each payment fact exactly once.

Exit codes: 0 all is well, 1 something is not, 2 settings or arguments.`,
			Version: version,
		}
		root.AddCommand(devCommand(), demoCommand(os.Stdout), migrateCommand(os.Stdout), verifyCommand(os.Stdout), explainCommand(os.Stdin, os.Stdout), replayCommand(os.Stdout), relayCommand(os.Stdout), roleCommand(), brokerCommand())
		return daemon.Execute(ctx, root)
	})
}

// wantsOutput checks an --output flag.
func wantsOutput(output string) error {
	if output != "table" && output != "json" {
		return &daemon.ConfigError{Err: fmt.Errorf("--output is %q; it must be table or json", output)}
	}
	return nil
}
