package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/app"
	"github.com/umavez/umavez/pkg/daemon"
	"github.com/umavez/umavez/pkg/postgres"
)

func devCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Everything in one process, for trying it and for developing",
		Long: `dev runs ingest, processor and sweeper in one process, with an embedded NATS
and, unless DATABASE_URL is set, a private PostgreSQL below --dir. Without
SOURCES it takes webhooks of Stripe and Asaas with secrets that it makes up and
prints. Stop it with Ctrl-C; the data stays for the next time.`,
		Example: `  umavez dev
  SOURCES=stripe STRIPE_WEBHOOK_SECRETS=whsec_... STRIPE_API_KEY=sk_test_... umavez dev`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDev(cmd.Context(), dir) },
	}
	cmd.Flags().StringVar(&dir, "dir", ".umavez", "directory of the private servers")
	return cmd
}

func runDev(ctx context.Context, dir string) error {
	if dir == "" {
		return &daemon.ConfigError{Err: errors.New("--dir is empty; give a directory")}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return &daemon.ConfigError{Err: fmt.Errorf("--dir: %w", err)}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return &daemon.ConfigError{Err: fmt.Errorf("--dir: %w", err)}
	}
	setDefault("INGEST_ADDR", "127.0.0.1:8080")
	setDefault("ADMIN_ADDR", "127.0.0.1:9090")
	setDefault("ENVIRONMENT", "sandbox")
	setDefault("LOG_LEVEL", "warn")
	if err := free("INGEST_ADDR", "ADMIN_ADDR"); err != nil {
		return err
	}
	w := welcome{token: devSources(), database: os.Getenv("DATABASE_URL") != ""}
	local, err := app.StartLocal(ctx, dir)
	if err != nil {
		return err
	}
	defer local.Stop()
	roles := []app.Build{app.IngestRole, app.ProcessorRole, app.SweeperRole}
	if err := app.Check(roles...); err != nil {
		return err
	}
	if _, err := app.Migrate(ctx, zap.NewNop(), false, true, func(m postgres.Migration) {
		fmt.Printf("migration %s\n", m.Name)
	}); err != nil {
		return err
	}
	w.print(local)
	return app.Serve(ctx, "dev", roles...)
}

// free refuses addresses that cannot be listened on before anything is
// started and the banner names them.
func free(settings ...string) error {
	var faults []error
	for _, name := range settings {
		addr := os.Getenv(name)
		if addr == "off" && name == "ADMIN_ADDR" {
			continue
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
			continue
		}
		l.Close() //nolint:errcheck // nobody has connected
	}
	if len(faults) > 0 {
		return &daemon.ConfigError{Err: errors.Join(faults...)}
	}
	return nil
}

func setDefault(name, value string) {
	if os.Getenv(name) == "" {
		os.Setenv(name, value) //nolint:errcheck // the names are valid
	}
}

// devSources configures two gateways with made-up secrets when none is
// configured, and returns the Asaas token for the example.
func devSources() (token string) {
	if os.Getenv("SOURCES") != "" {
		return ""
	}
	token = "dev-" + strings.ToLower(rand.Text()) + strings.ToLower(rand.Text())[:10]
	for name, value := range map[string]string{
		"SOURCES":                "stripe,asaas",
		"STRIPE_WEBHOOK_SECRETS": "whsec_dev_" + strings.ToLower(rand.Text()),
		"STRIPE_LOOKUP":          "never",
		"ASAAS_WEBHOOK_SECRETS":  token,
		"ASAAS_LOOKUP":           "never",
	} {
		os.Setenv(name, value) //nolint:errcheck // the names are valid
	}
	return token
}

// welcome is the banner.
type welcome struct {
	token    string // of the Asaas source that was made up, or ""
	database bool   // DATABASE_URL was given; it is not shown
}

func (w welcome) print(local *app.Local) {
	database, broker := os.Getenv("DATABASE_URL"), os.Getenv("NATS_URL")
	psql := "'" + database + "'"
	if w.database {
		psql = `"$DATABASE_URL"`
	}
	if local.NATS == nil {
		broker = "$NATS_URL"
	}
	fmt.Printf("\numavez is running; Ctrl-C stops it.\n\n")
	for _, s := range strings.Split(os.Getenv("SOURCES"), ",") {
		fmt.Printf("  webhooks   http://%s/webhooks/%s\n", os.Getenv("INGEST_ADDR"), strings.TrimSpace(s))
	}
	if admin := os.Getenv("ADMIN_ADDR"); admin != "off" {
		fmt.Printf("  metrics    http://%s/metrics\n", admin)
	}
	fmt.Printf("  database   psql %s\n", psql)
	if pg := local.Postgres; pg != nil && pg.Moved() {
		fmt.Printf("             it lives in %s: its user cannot reach --dir\n", pg.Dir())
	}
	fmt.Printf("  queue      %s\n", broker)
	if w.token == "" {
		fmt.Println()
		return
	}
	fmt.Printf(`
Pay something (twice, if you like: it is credited once):

  curl -i http://%s/webhooks/asaas -H 'asaas-access-token: %s' \
    -d '{"id":"evt_dev_1","event":"PAYMENT_RECEIVED","dateCreated":"2026-01-20 14:01:09","payment":{"object":"payment","id":"pay_dev_1","value":59.90,"netValue":57.91,"billingType":"PIX","status":"RECEIVED","externalReference":"PED-1001","refunds":null}}'

  psql %s -c 'SELECT status, captured, fee, net FROM payments' -c 'SELECT kind, amount, debit_account, credit_account FROM ledger_entries'

Thousands of webhooks, with the gateways' APIs: stop this, then

  gatewaysim settings > sim.env; set -a; . ./sim.env; set +a; umavez dev
  gatewaysim storm --linger 2m        # in another terminal

`, os.Getenv("INGEST_ADDR"), w.token, psql)
}
