package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

// printed is one webhook as print shows it.
type printed struct {
	Gateway   string                  `json:"gateway"`
	Account   string                  `json:"account"`
	Kind      gatewaysim.DeliveryKind `json:"kind"`
	EventType string                  `json:"event_type"`
	URL       string                  `json:"url"`
	Header    http.Header             `json:"header"`
	Body      string                  `json:"body"`
}

func newPrint() *cobra.Command {
	f := &simFlags{}
	var count int
	var provider, eventType, target string
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Prints webhooks as curl command lines",
		Long: `print shows webhooks of the schedule as curl command lines, signed now. A
Stripe signature is good for five minutes.`,
		Example: `  gatewaysim print --count 3 --provider asaas
  gatewaysim print --event charge.refunded --count 1 | sh`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if count < 1 {
				return fmt.Errorf("--count is %d; it must be at least 1", count)
			}
			sim, err := f.sim()
			if err != nil {
				return err
			}
			shown := []printed{}
			all := sim.Deliveries()
			for i := range all {
				d := &all[i]
				if len(shown) >= count || d.Kind == gatewaysim.DeliveryLost || provider != "" && d.Gateway != provider && d.Path != "/webhooks/"+provider || eventType != "" && d.EventType != eventType {
					continue
				}
				sent := d.Request(time.Now(), 0)
				shown = append(shown, printed{d.Gateway, d.Account, d.Kind, d.EventType, strings.TrimRight(target, "/") + sent.Target(d.Path), sent.Header, string(sent.Body)})
			}
			if len(shown) == 0 {
				return fmt.Errorf("no webhook of this simulation is of provider %q and event %q; more --payments may have one", provider, eventType)
			}
			if f.output == "json" {
				return writeJSON(cmd.OutOrStdout(), shown)
			}
			for _, p := range shown {
				p.curl(cmd.OutOrStdout())
			}
			return nil
		},
	}
	f.register(cmd, defaultPayments)
	f.registerShares(cmd)
	cmd.Flags().IntVarP(&count, "count", "n", 5, "how many")
	cmd.Flags().StringVar(&provider, "provider", "", "of this gateway only, or gateway/account")
	cmd.Flags().StringVar(&eventType, "event", "", "of this event type only")
	cmd.Flags().StringVar(&target, "target", "http://127.0.0.1:8080", "address in the command lines")
	return cmd
}

func (p *printed) curl(w io.Writer) {
	fmt.Fprintf(w, "# %s %s (%s)\ncurl -sS -i -X POST %s", p.Gateway, p.EventType, p.Kind, shellQuote(p.URL))
	for _, name := range slices.Sorted(maps.Keys(p.Header)) {
		for _, value := range p.Header[name] {
			if value == "" {
				fmt.Fprintf(w, " \\\n  -H %s", shellQuote(name+";")) // curl's way to send an empty one
				continue
			}
			fmt.Fprintf(w, " \\\n  -H %s", shellQuote(name+": "+value))
		}
	}
	fmt.Fprintf(w, " \\\n  --data-binary %s\n", shellQuote(p.Body))
}
