package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "gatewaysim",
		Short: "Plays the payment gateways, and knows the truth",
		Long: `gatewaysim plays the payment gateways that umavez knows against a umavez on
this machine. A seed determines the payments, their histories, the bodies and
the order of the webhooks; the lookup API tells the same story. The commands
play the same payments where --seed, --payments and --gateways are the same, as
their defaults are.

Credentials are made from the seed. Where <SOURCE>_WEBHOOK_SECRETS and
<SOURCE>_API_KEY are set in the environment, as umavez itself reads them,
those are used instead. Other settings are not read: Pagar.me's webhooks,
PagBank's notification codes, and where Iugu and Efí put their secret, are
always those of "gatewaysim settings".

Exit codes: 0 all is well; 1 it ran, and the target did not behave; 2 it could
not run.`,
		Example: `  gatewaysim settings --seed 7 > sim.env     # umavez' environment
  gatewaysim storm --seed 7 --payments 2000 --target http://127.0.0.1:8080
  gatewaysim print --count 3 --provider asaas
  gatewaysim send --provider stripe --event payment_intent.succeeded`,
		SilenceUsage: true, SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(newServe(), newSettings(), newStorm(), newPrint(), newSend())
	return root
}

// defaultPayments is the same for all commands: serve answers for what print
// and send take from the simulation, and another number gives other payments.
const defaultPayments = 1000

// simFlags are the flags that describe a simulation.
type simFlags struct {
	cfg    gatewaysim.Config
	order  string
	output string
}

func (f *simFlags) register(cmd *cobra.Command, payments int) {
	fs := cmd.Flags()
	c := &f.cfg
	c.Shares = gatewaysim.DefaultShares()
	fs.Uint64Var(&c.Seed, "seed", 1, "determines payments, ids, bodies and order")
	fs.IntVar(&c.Payments, "payments", payments, "how many payments")
	fs.StringSliceVar(&c.Gateways, "gateways", gatewaysim.AllSources(), "sources, as in SOURCES; stripe/loja2 is a second account")
	fs.IntVar(&c.Beneficiaries, "beneficiaries", 10, "how many owners the payments have")
	fs.StringVarP(&f.output, "output", "o", "text", "text or json")
}

func (f *simFlags) registerShares(cmd *cobra.Command) {
	fs, s := cmd.Flags(), &f.cfg.Shares
	fs.Float64Var(&s.Duplicates, "duplicates", s.Duplicates, "duplicates, as a share of the events that are sent")
	fs.Float64Var(&s.Concurrent, "concurrent", s.Concurrent, "share of the duplicates that is sent at the same instant as the first")
	fs.Float64Var(&s.WrongSignatures, "wrong-signatures", s.WrongSignatures, "forged requests, as a share of the events")
	fs.Float64Var(&s.Malformed, "malformed", s.Malformed, "authentic requests that cannot be read, as a share of the events")
	fs.Float64Var(&s.Tests, "tests", s.Tests, "requests marked as tests or without content, as a share of the events")
	fs.Float64Var(&s.Lost, "lost", s.Lost, "share of the events that is never sent")
	fs.StringVar(&f.order, "order", string(gatewaysim.OrderShuffle), "order of the webhooks: shuffle, keep or reverse")
	fs.IntVar(&f.cfg.Window, "window", 0, "shuffle within so many places only; 0 is wholly")
}

func (f *simFlags) registerAPI(cmd *cobra.Command) {
	fs, a := cmd.Flags(), &f.cfg.API
	fs.DurationVar(&a.Latency, "api-latency", 0, "how long each lookup takes")
	fs.DurationVar(&a.Jitter, "api-jitter", 0, "up to so much longer")
	fs.Float64Var(&a.TooMany, "api-429", 0, "share of lookups answered 429")
	fs.DurationVar(&a.RetryAfter, "api-retry-after", time.Second, "what a 429 asks for")
	fs.Float64Var(&a.ServerErrors, "api-5xx", 0, "share of lookups answered 500 or 503")
	fs.Float64Var(&a.Stale, "api-stale", 0, "share of lookups answered by a replica that lags")
	fs.DurationVar(&a.StaleFor, "api-stale-for", time.Second, "by how much the replica lags")
}

// maxPayments bounds what the simulator holds in memory.
const maxPayments = 1_000_000

// checkSizes names the first flag that cannot be right; the simulation checks the
// rest.
func (f *simFlags) checkSizes() error {
	if n := f.cfg.Payments; n < 1 || n > maxPayments {
		return fmt.Errorf("--payments is %d; it must be from 1 to %d", n, maxPayments)
	}
	if n := f.cfg.Beneficiaries; n < 1 || n > maxPayments {
		return fmt.Errorf("--beneficiaries is %d; it must be from 1 to %d", n, maxPayments)
	}
	if f.cfg.Window < 0 {
		return fmt.Errorf("--window is %d; it must not be negative", f.cfg.Window)
	}
	s, a := f.cfg.Shares, f.cfg.API
	for _, share := range []struct {
		flag  string
		value float64
		most  float64
	}{
		{"duplicates", s.Duplicates, 100}, {"concurrent", s.Concurrent, 1}, {"wrong-signatures", s.WrongSignatures, 1},
		{"malformed", s.Malformed, 1}, {"tests", s.Tests, 1}, {"lost", s.Lost, 1},
		{"api-429", a.TooMany, 1}, {"api-5xx", a.ServerErrors, 1}, {"api-stale", a.Stale, 1},
	} {
		if !(share.value >= 0 && share.value <= share.most) { // so that NaN is refused too
			return fmt.Errorf("--%s is %v; it must be from 0 to %v", share.flag, share.value, share.most)
		}
	}
	return notNegative(map[string]time.Duration{"api-latency": a.Latency, "api-jitter": a.Jitter,
		"api-retry-after": a.RetryAfter, "api-stale-for": a.StaleFor})
}

// notNegative names the first duration of these flags that is below zero.
func notNegative(flags map[string]time.Duration) error {
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if d := flags[name]; d < 0 {
			return fmt.Errorf("--%s is %s; it must not be negative", name, d)
		}
	}
	return nil
}

// sim builds the simulation that the flags describe.
func (f *simFlags) sim() (*gatewaysim.Sim, error) {
	if err := f.checkSizes(); err != nil {
		return nil, err
	}
	if f.output != "text" && f.output != "json" {
		return nil, fmt.Errorf("--output %q is neither text nor json", f.output)
	}
	f.cfg.Order = gatewaysim.Order(f.order)
	f.cfg.Credentials = map[string]gatewaysim.Credentials{}
	for _, source := range f.cfg.Gateways {
		f.cfg.Credentials[source] = fromEnvironment(source)
	}
	return gatewaysim.New(f.cfg)
}

// fromEnvironment reads the credentials of one source as umavez does.
func fromEnvironment(source string) gatewaysim.Credentials {
	prefix := strings.ToUpper(strings.NewReplacer("/", "_", "-", "_").Replace(strings.TrimSuffix(source, "/default"))) + "_"
	c := gatewaysim.Credentials{APIKey: strings.TrimSpace(os.Getenv(prefix + "API_KEY"))}
	for secret := range strings.SplitSeq(os.Getenv(prefix+"WEBHOOK_SECRETS"), ",") {
		// With a public key nothing can be signed; that of the settings is made
		// from the seed, and so is its other half.
		if secret = strings.TrimSpace(secret); secret != "" && !strings.HasPrefix(secret, "whpk_") {
			c.WebhookSecrets = append(c.WebhookSecrets, secret)
		}
	}
	return c
}

// targetFlags say where webhooks go.
type targetFlags struct {
	target      string
	allowRemote bool
}

func (f *targetFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.target, "target", "http://127.0.0.1:8080", "address of ingest, without /webhooks")
	cmd.Flags().BoolVar(&f.allowRemote, "allow-remote", false, "send to a target that is not this machine")
}

// check refuses to send anything to another machine by mistake.
func (f *targetFlags) check() error {
	u, err := url.Parse(f.target)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("--target is not an address like http://127.0.0.1:8080")
	}
	if ip := net.ParseIP(u.Hostname()); f.allowRemote || u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return errors.New("--target is not this machine; forged webhooks are sent there only with --allow-remote")
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// shellQuote makes a text one word of a POSIX shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
