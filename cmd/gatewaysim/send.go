package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

// send is one run of the command.
type send struct {
	simFlags
	targetFlags
	source, eventType string
	set               []string
}

// sent is what became of it.
type sent struct {
	URL     string `json:"url"`
	Status  int    `json:"status"`
	Answer  string `json:"answer"`
	Success bool   `json:"success"` // in the gateway's eyes
	Body    string `json:"body"`    // exactly as sent
}

func newSend() *cobra.Command {
	s := &send{}
	cmd := &cobra.Command{
		Use:   "send",
		Short: "Sends one webhook, made by hand and correctly signed",
		Long: `send takes an event of the simulation as a model, gives it an id of its own,
changes what --set says, signs it and sends it. A type that the simulation
does not know gets the body of another one of the same gateway. A notification
code of PagBank keeps its id.

umavez asks the gateway about the payment: run "gatewaysim serve" beside it,
which tells of the simulation's payments as they are at the end, whatever --set
says. To see a body believed, or a payment of your own invention, set
<SOURCE>_LOOKUP=never for a gateway that authenticates its bodies.

A value of --set is JSON when it can be read as such, else a text: a gateway
that writes amounts as texts wants quotes, --set 'pix.0.valor="12.34"'. A path
is made of names and list positions joined by dots.`,
		Example: `  gatewaysim send --provider stripe --event payment_intent.succeeded
  gatewaysim send --provider asaas --event PAYMENT_RECEIVED --set payment.id=pay_1 --set payment.value=8.20
  gatewaysim send --provider stripe/loja2 --event charge.refunded --set data.object.amount_refunded=100`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.execute(cmd.Context(), cmd.OutOrStdout())
		},
	}
	s.simFlags.register(cmd, defaultPayments)
	s.targetFlags.register(cmd)
	cmd.Flags().StringVar(&s.source, "provider", "", "gateway, or gateway/account (required)")
	cmd.Flags().StringVar(&s.eventType, "event", "", "event type (required)")
	cmd.Flags().StringArrayVar(&s.set, "set", nil, "path=value, any number of times")
	for _, name := range []string{"provider", "event"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err)
		}
	}
	return cmd
}

func (s *send) execute(ctx context.Context, stdout io.Writer) error {
	if err := s.check(); err != nil {
		return err
	}
	if !slices.Contains(s.cfg.Gateways, s.source) {
		s.cfg.Gateways = append(s.cfg.Gateways, s.source)
	}
	sim, err := s.sim()
	if err != nil {
		return err
	}
	model, err := s.model(sim)
	if err != nil {
		return err
	}
	body, err := model.Edit(model.Request(time.Now(), 0).Body, s.eventType, rand.Uint64(), s.set)
	if err != nil {
		return fmt.Errorf("--set: %w", err)
	}
	signed, path, _ := sim.Sign(s.source, body, time.Now())
	result := sent{URL: strings.TrimRight(s.target, "/") + signed.Target(path), Body: string(signed.Body)}
	if err := result.post(ctx, signed.Header); err != nil {
		return err
	}
	result.Success = model.Success(result.Status)
	if s.output == "json" {
		err = writeJSON(stdout, result)
	} else {
		_, err = fmt.Fprintf(stdout, "%s\n-> %s %d %s\n", body, result.URL, result.Status, result.Answer)
	}
	if err == nil && !result.Success {
		return fmt.Errorf("%w: status %d is no success for this gateway", errTarget, result.Status)
	}
	return err
}

// model finds an event of the type, or else any of the gateway.
func (s *send) model(sim *gatewaysim.Sim) (*gatewaysim.Delivery, error) {
	var found *gatewaysim.Delivery
	all := sim.Deliveries()
	for i := range all {
		d := &all[i]
		if strings.TrimPrefix(d.Path, "/webhooks/") != s.source || d.Kind != gatewaysim.DeliveryFirst {
			continue
		}
		if found = d; d.EventType == s.eventType {
			return d, nil
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no event of %s in %d payments; raise --payments", s.source, s.cfg.Payments)
	}
	return found, nil
}

func (r *sent) post(ctx context.Context, header http.Header) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, strings.NewReader(r.Body))
	if err != nil {
		return err
	}
	req.Header = header
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", errTarget, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	r.Status, r.Answer = resp.StatusCode, strings.TrimSpace(string(answer))
	return err
}
