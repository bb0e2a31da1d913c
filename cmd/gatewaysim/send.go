package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

// typeField is where each gateway's bodies name the event type.
var typeField = map[string]string{"stripe": "type", "asaas": "event", "pagpolar": "event"}

// send is one run of the command.
type send struct {
	simFlags
	targetFlags
	source, eventType string
	set               []string
}

// sent is what became of it.
type sent struct {
	URL     string          `json:"url"`
	Status  int             `json:"status"`
	Answer  string          `json:"answer"`
	Success bool            `json:"success"` // in the gateway's eyes
	Body    json.RawMessage `json:"body"`
}

func newSend() *cobra.Command {
	s := &send{}
	cmd := &cobra.Command{
		Use:   "send",
		Short: "Sends one webhook, made by hand and correctly signed",
		Long: `send takes an event of the simulation as a model, gives it an id of its own,
changes what --set says, signs it and sends it. A type that the simulation
does not know gets the body of another one of the same gateway.

A value of --set is JSON when it can be read as such, else a text. A path is
made of names and list positions joined by dots.`,
		Example: `  gatewaysim send --provider stripe --event payment_intent.succeeded
  gatewaysim send --provider asaas --event PAYMENT_RECEIVED --set payment.id=pay_1 --set payment.value=8.20
  gatewaysim send --provider stripe/loja2 --event charge.refunded --set data.object.amount_refunded=100`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.execute(cmd.Context(), cmd.OutOrStdout())
		},
	}
	s.simFlags.register(cmd, 400)
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
	body, err := s.edit(model)
	if err != nil {
		return err
	}
	header, path, _ := sim.Sign(s.source, body, time.Now())
	result := sent{URL: strings.TrimRight(s.target, "/") + path, Body: body}
	if err := result.post(ctx, header); err != nil {
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

func (s *send) edit(model *gatewaysim.Delivery) ([]byte, error) {
	_, body := model.Request(time.Now(), 0)
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber() // amounts and ids keep every digit
	var event map[string]any
	if err := dec.Decode(&event); err != nil {
		return nil, fmt.Errorf("the model is not a JSON object: %w", err)
	}
	event[typeField[model.Gateway]] = s.eventType
	event["id"] = newID(model.Gateway)
	for _, assignment := range s.set {
		path, value, ok := strings.Cut(assignment, "=")
		if !ok || path == "" {
			return nil, fmt.Errorf("--set %q is not path=value", assignment)
		}
		if err := assign(event, strings.Split(path, "."), parseValue(value)); err != nil {
			return nil, fmt.Errorf("--set %s: %w", path, err)
		}
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(event)
	return bytes.TrimSpace(out.Bytes()), err
}

// newID: a new event, so that it is no duplicate of the last one sent.
func newID(gateway string) string {
	n := strconv.FormatUint(rand.Uint64(), 16) + strconv.FormatUint(rand.Uint64(), 16)
	switch gateway {
	case "stripe":
		return "evt_1H" + n
	case "asaas":
		return "evt_" + (n + strings.Repeat("0", 32))[:32] + "&" + strconv.Itoa(rand.IntN(1e9))
	}
	return "att-" + n
}

func parseValue(text string) any {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil || dec.More() {
		return text
	}
	return v
}

// assign sets one value; objects on the way are made where they are missing.
func assign(into any, path []string, value any) error {
	last := len(path) == 1
	switch o := into.(type) {
	case map[string]any:
		if last {
			o[path[0]] = value
			return nil
		}
		if o[path[0]] == nil {
			o[path[0]] = map[string]any{}
		}
		return assign(o[path[0]], path[1:], value)
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(o) {
			return fmt.Errorf("the list has no position %q", path[0])
		}
		if last {
			o[i] = value
			return nil
		}
		return assign(o[i], path[1:], value)
	}
	return errors.New("the path leads through a value that is no object and no list")
}

func (r *sent) post(ctx context.Context, header http.Header) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(r.Body))
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
