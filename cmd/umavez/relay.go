package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/umavez/umavez/pkg/app"
	"github.com/umavez/umavez/pkg/daemon"
)

func relayCommand(out io.Writer) *cobra.Command {
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "relay --since 24h",
		Short: "Tell the domain events of the last while again",
		Long: `relay marks the domain events that were relayed within the last while as unsent;
the processors relay them again, in order per payment. It is for a broker that
lost more than PROCESSOR_RELAY_AGAIN covers: its store was removed, or put back
from a copy. Applications know each domain event by (payment_id, seq) and see
those that were not lost a second time. Running it twice is harmless.`,
		Example: `  umavez relay --since 24h`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since <= 0 {
				return &daemon.ConfigError{Err: fmt.Errorf("--since is %s; it must be a time such as 24h", since)}
			}
			db, err := app.OpenDatabase(cmd.Context())
			if err != nil {
				return err
			}
			defer db.Close()
			if err := db.CheckSchema(cmd.Context()); err != nil {
				return &daemon.ConfigError{Err: err}
			}
			n, err := db.RelayAgain(cmd.Context(), since)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "%d domain events of the last %s will be relayed again by the processors\n", n, since)
			return err
		},
	}
	cmd.Flags().DurationVar(&since, "since", 0, "how far back: at least to the newest message that the broker still has")
	return cmd
}
