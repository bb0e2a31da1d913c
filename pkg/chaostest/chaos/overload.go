package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/umavez/umavez/pkg/chaostest"
	"github.com/umavez/umavez/pkg/daemon"
)

var errMinutes = errors.New("--minutes must be above 0, and 60 at most")

func overload() *cobra.Command {
	cfg := chaostest.OverloadConfig{Say: say}
	var minutes float64
	cmd := &cobra.Command{
		Use:   "overload",
		Short: "Offer ten times of what can be accepted, and look at what is kept",
		Long: `Offer ten times of what can be accepted, and look at what is kept.

The most webhooks that are accepted a second are found first. Then many times
of that is offered for some minutes, over loopback, on a bounded number of
connections, and it stops by itself. Exit codes: 0 every requirement holds, 1
one was missed, 2 arguments.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if minutes <= 0 || minutes > 60 {
				return &daemon.ConfigError{Err: errMinutes}
			}
			cfg.For = time.Duration(minutes * float64(time.Minute))
			r, err := chaostest.Overload(cmd.Context(), cfg)
			return deliver(cfg.Dir, "overload", r, err)
		},
	}
	places(cmd, &cfg.Dir, &cfg.Programs, &cfg.Seed)
	f := cmd.Flags()
	f.Float64Var(&minutes, "minutes", 5, "of overload; to find the peak and to settle takes some more")
	f.Float64Var(&cfg.Times, "times", 10, "the peak")
	f.IntVar(&cfg.Conns, "connections", 4000, "at most")
	return cmd
}
