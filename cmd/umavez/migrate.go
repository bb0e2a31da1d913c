package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/app"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/queue"
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
					fmt.Fprintf(out, "migration %s\n", m.Name)
				}
			})
			if errors.Is(err, app.ErrQueueNotMigrated) && errors.Is(err, queue.ErrUnavailable) {
				return fmt.Errorf("%w; is NATS_URL right? --skip-queue leaves the queue out", err)
			}
			if err != nil {
				return err
			}
			return printMigrated(out, output, m)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be run, run nothing")
	cmd.Flags().BoolVar(&skipQueue, "skip-queue", false, "the database only")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

func printMigrated(out io.Writer, output string, m app.Migrated) error {
	if len(m.MissingRoles) > 0 {
		fmt.Fprintf(os.Stderr, "umavez: these roles are missing, and this user may not create them: %s\n"+
			"umavez: an administrator runs schema/003_roles.sql as the owner of the tables, with CREATEROLE and\n"+
			"umavez: search_path set to umavez' schema; it can be run again. Until then only the owner can be used\n", strings.Join(m.MissingRoles, ", "))
	}
	if output == "json" {
		return json.NewEncoder(out).Encode(m)
	}
	switch {
	case m.DryRun:
		for _, one := range m.Database {
			fmt.Fprintf(out, "would run migration %s\n", one.Name)
		}
		fmt.Fprintf(out, "the schema is at version %d, and would be at %d\n", m.From, m.To)
	case len(m.Database) == 0:
		fmt.Fprintf(out, "the schema is at version %d already\n", m.To)
	default:
		fmt.Fprintf(out, "the schema was at version %d and is at %d\n", m.From, m.To)
	}
	if m.Queue {
		fmt.Fprintln(out, "streams and consumer are up to date")
	}
	return nil
}
