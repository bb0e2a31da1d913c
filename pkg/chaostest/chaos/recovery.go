package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/umavez/umavez/pkg/chaostest"
	"github.com/umavez/umavez/pkg/daemon"
)

// say prints a line for a person.
func say(format string, args ...any) {
	fmt.Printf("%s  %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}

// places are the flags of every measurement.
func places(cmd *cobra.Command, dir, programs *string, seed *uint64) {
	cmd.Flags().StringVar(dir, "dir", ".umavez", "directory of the report and of the processes' logs")
	cmd.Flags().StringVar(programs, "programs", "bin/failpoints", "directory of the programs, built with the tag failpoints")
	cmd.Flags().Uint64Var(seed, "seed", 1, "seed of the gateways and of what is chosen by chance")
}

func recovery() *cobra.Command {
	cfg := chaostest.RecoveryConfig{Say: say}
	var kinds string
	cmd := &cobra.Command{
		Use:   "recovery",
		Short: "Time new events after each kind of fault was healed",
		Long: `Time new events after each kind of fault was healed.

Each kind of fault is played by itself under a light load and healed; from then
on new events are sent for some seconds, and each is timed from its acceptance
until it is final. 99 of 100 must be within 5 s, for each kind. Exit codes: 0
they are, 1 they are not, or harm was done, 2 arguments.`,
		Example: `  chaos recovery                           every kind, twice
  chaos recovery --kinds 'postgres|broker' --rounds 5`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if cfg.Kinds, err = regexp.Compile(kinds); err != nil {
				return &daemon.ConfigError{Err: err}
			}
			r, err := chaostest.Recovery(cmd.Context(), cfg)
			return deliver(cfg.Dir, "recovery", r, err)
		},
	}
	places(cmd, &cfg.Dir, &cfg.Programs, &cfg.Seed)
	f := cmd.Flags()
	f.StringVar(&kinds, "kinds", "", "regular expression of the kinds to play")
	f.IntVar(&cfg.Rounds, "rounds", 2, "of each kind")
	f.IntVar(&cfg.Brokers, "brokers", 1, "1 or 3")
	f.Float64Var(&cfg.Seconds, "seconds", 5, "of new events after each healing")
	return cmd
}

// report is what a measurement leaves.
type report interface {
	comparable
	OK() bool
	WriteJSON(path string) error
	Markdown(io.Writer)
}

// deliver writes a measurement's report, as <name>-report.json and .md, and
// turns a missed requirement into an error.
func deliver[R report](dir, name string, r R, err error) error {
	var none R
	if r == none {
		return err
	}
	path := filepath.Join(dir, name+"-report.json")
	md, openErr := os.Create(filepath.Join(dir, name+"-report.md"))
	if openErr != nil {
		return errors.Join(err, openErr)
	}
	r.Markdown(md)
	r.Markdown(os.Stdout)
	err = errors.Join(err, md.Close(), r.WriteJSON(path))
	if errors.Is(err, context.Canceled) {
		return err
	}
	if err == nil && !r.OK() {
		err = fmt.Errorf("a requirement was missed; see above and %s", path)
	}
	return err
}
