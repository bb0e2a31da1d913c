package main

import (
	"github.com/spf13/cobra"

	"github.com/umavez/umavez/pkg/chaostest"
)

func prefetch() *cobra.Command {
	cfg := chaostest.PrefetchConfig{Say: say}
	cmd := &cobra.Command{
		Use:   "prefetch",
		Short: "Kill a processor with full hands under a backlog, and time its events",
		Long: `Kill a processor with full hands under a backlog, and time its events.

No event that was in its hands may be delayed by more than the ack wait and
10 s. Exit codes: 0 none was, 1 one was, 2 arguments.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := chaostest.Prefetch(cmd.Context(), cfg)
			return deliver(cfg.Dir, "prefetch", r, err)
		},
	}
	places(cmd, &cfg.Dir, &cfg.Programs, &cfg.Seed)
	f := cmd.Flags()
	f.IntVar(&cfg.Rounds, "rounds", 5, "deaths, at a different step each")
	f.IntVar(&cfg.Backlog, "backlog", 3000, "events that wait as it dies")
	f.DurationVar(&cfg.AckWait, "ack-wait", 0, "NATS_ACK_WAIT; 0 is its default")
	return cmd
}
