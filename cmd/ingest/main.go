// Command ingest receives webhooks, stores each under its unique key and
// answers once the commit is flushed. It takes its settings from the
// environment; see the table in README.md.
package main

import (
	"context"
	"os"

	"github.com/umavez/umavez/pkg/app"
	"github.com/umavez/umavez/pkg/daemon"
)

const usage = `ingest receives webhooks at POST /webhooks/{provider}[/{account}].
All settings come from the environment:

  DATABASE_URL               PostgreSQL, migrated with "umavez migrate" (required)
  NATS_URL                   NATS with JetStream (default nats://127.0.0.1:4222)
  SOURCES                    configured accounts, for example stripe,asaas (required)
  <SOURCE>_WEBHOOK_SECRETS   secrets of each source, STRIPE_WEBHOOK_SECRETS (required)
  <SOURCE>_API_KEY           its key, by which processors ask the gateway
  INGEST_ADDR                public address (default :8080)
  ADMIN_ADDR                 health, metrics and pprof (default :9090)

The full table is in README.md. It stops in order on SIGTERM and SIGINT.
Exit codes: 0 stopped in order, 1 failed while running, 2 did not start.
`

func main() {
	daemon.Main("ingest", func(ctx context.Context) error {
		if help, err := daemon.Arguments("ingest", usage, os.Args[1:], os.Stdout); help || err != nil {
			return err
		}
		return app.Serve(ctx, "ingest", app.IngestRole)
	})
}
