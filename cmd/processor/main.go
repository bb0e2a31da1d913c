// Command processor takes events from the queue, asks the gateways what is
// true, and settles the events in the database. It takes its settings from
// the environment; see the table in README.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/umavez/umavez/pkg/app"
	"github.com/umavez/umavez/pkg/daemon"
)

const usage = `processor settles stored webhooks. All settings come from the environment:

  DATABASE_URL   PostgreSQL, migrated with "umavez migrate" (required)
  NATS_URL       NATS with JetStream (default nats://127.0.0.1:4222)
  SOURCES        configured accounts, for example stripe,asaas (required)
  ADMIN_ADDR     health, metrics and pprof (default :9090)

The full table is in README.md. It stops in order on SIGTERM and SIGINT.
Exit codes: 0 stopped in order, 1 failed while running, 2 did not start.
`

func main() {
	flag.Usage = func() { fmt.Fprint(os.Stdout, usage) }
	flag.Parse()
	daemon.Main("processor", func(ctx context.Context) error {
		return app.Serve(ctx, "processor", app.ProcessorRole)
	})
}
