package main

import (
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/umavez/umavez/pkg/daemon"
	"github.com/umavez/umavez/pkg/demo"
)

func demoCommand(out io.Writer) *cobra.Command {
	var cfg demo.Config
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "A storm of webhooks against everything on this machine, checked to the cent",
		Long: `demo starts a private PostgreSQL and NATS (or uses DATABASE_URL and NATS_URL),
ingest, two processors and a sweeper, and a simulator of the gateways. It sends
a storm of webhooks with duplicates, disorder, forgeries and losses, kills a
processor and the broker in the middle, and compares what is left with the
simulator's truth. In a database that was given it uses, and empties, the
schema umavez_demo.

Exit codes: 0 everything is as it should be, 1 something differs (the rows are
printed), 2 settings or arguments.`,
		Example: `  umavez demo
  umavez demo --seed 7 --payments 20000
  umavez demo --output json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := wantsOutput(cfg.Output); err != nil {
				return err
			}
			if cfg.Payments < 1 || cfg.Concurrency < 1 || cfg.Rate < 0 {
				return &daemon.ConfigError{Err: errors.New("--payments and --concurrency must be at least 1, --rate not negative")}
			}
			return demo.Run(cmd.Context(), cfg, out)
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Dir, "dir", ".umavez", "directory for servers, logs and demo-report.json")
	f.Uint64Var(&cfg.Seed, "seed", 1, "what is sent, and in which order, follows from it")
	f.IntVar(&cfg.Payments, "payments", 5000, "payments to simulate")
	f.IntVar(&cfg.Concurrency, "concurrency", 32, "webhooks under way at once")
	f.Float64Var(&cfg.Rate, "rate", 0, "webhooks a second at most; 0 is as fast as they are taken")
	f.DurationVar(&cfg.Settle, "settle", 3*time.Minute, "how long everything may take to become final after the storm")
	f.StringVarP(&cfg.Output, "output", "o", "table", "table or json")
	return cmd
}
