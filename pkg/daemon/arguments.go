package daemon

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Execute runs a command line whose commands have no hooks of their own. What
// is wrong before a command runs (an unknown command, a flag, an argument too
// many) is a ConfigError that says where help is.
func Execute(ctx context.Context, root *cobra.Command) error {
	ran := false
	root.PersistentPreRun = func(*cobra.Command, []string) { ran = true }
	root.SilenceUsage, root.SilenceErrors = true, true
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil || ran {
		return err
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return &ConfigError{fmt.Errorf("%s; see %s --help", first, cmd.CommandPath())}
}

// Arguments reads the command line of a binary that takes none: it prints the
// usage for --help, and refuses everything else with a ConfigError.
func Arguments(name, usage string, args []string, out io.Writer) (help bool, err error) {
	for _, arg := range args {
		switch arg {
		case "-h", "-help", "--help", "help":
			_, err := io.WriteString(out, usage)
			return true, err
		}
	}
	if len(args) > 0 {
		return false, &ConfigError{fmt.Errorf("%.80q is not known: %s takes no arguments, its settings come from the environment; see %s --help", args[0], name, name)}
	}
	return false, nil
}
