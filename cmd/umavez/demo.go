package main

import (
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

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
schema umavez_demo. A NATS that was given is refused when it has the streams
WEBHOOKS or PAYMENTS already, since the demo's payments are invented; the demo
takes its own streams away when it ends.

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
			if !cmd.Flags().Changed("nats") { // as a flag's default --help would show its password
				cfg.NATS = os.Getenv("NATS_URL")
			}
			return demo.Run(cmd.Context(), cfg, out)
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Dir, "dir", ".umavez", "directory for servers, logs and demo-report.json")
	f.StringVar(&cfg.NATS, "nats", "", "NATS to use instead of one of the demo's own (default NATS_URL); refused when its streams are in use")
	f.Uint64Var(&cfg.Seed, "seed", 1, "what is sent, and in which order, follows from it")
	f.IntVar(&cfg.Payments, "payments", 5000, "payments to simulate")
	f.IntVar(&cfg.Concurrency, "concurrency", 32, "webhooks under way at once")
	f.Float64Var(&cfg.Rate, "rate", 0, "webhooks a second at most; 0 is as fast as they are taken")
	f.DurationVar(&cfg.Settle, "settle", 3*time.Minute, "how long everything may take to become final after the storm")
	f.StringVarP(&cfg.Output, "output", "o", "table", "table or json")
	return cmd
}
