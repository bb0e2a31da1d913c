package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/app"
	"github.com/umavez/umavez/pkg/postgres"
)

func migrateCommand(out io.Writer) *cobra.Command {
	var dryRun, skipQueue bool
	var output string
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database's schema and the queue's streams up to date",
		Long: `migrate runs the numbered, forward-only migrations under an advisory lock,
prepares the partitions of the coming days, and creates or updates the streams
and the consumer. It is harmless to run it twice, or twice at once.`,
		Example: `  DATABASE_URL=postgres://... NATS_URL=nats://... umavez migrate
  umavez migrate --dry-run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := wantsOutput(output); err != nil {
				return err
			}
			m, err := app.Migrate(cmd.Context(), zap.NewNop(), dryRun, !skipQueue, func(m postgres.Migration) {
				if output == "table" {
					fmt.Fprintf(os.Stderr, "migration %s\n", m.Name)
				}
			})
			if err != nil {
				return err
			}
			if output == "json" {
				return json.NewEncoder(out).Encode(m)
			}
			verb := "ran"
			if dryRun {
				verb = "would run"
			}
			fmt.Fprintf(out, "%s %d migrations; the schema is at version %d\n", verb, len(m.Database), postgres.SchemaVersion())
			for _, one := range m.Database {
				fmt.Fprintf(out, "  %s\n", one.Name)
			}
			if m.Queue {
				fmt.Fprintln(out, "streams and consumer are up to date")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be run, run nothing")
	cmd.Flags().BoolVar(&skipQueue, "skip-queue", false, "the database only")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}
