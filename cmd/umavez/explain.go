package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/umavez/umavez/pkg/app"
	"github.com/umavez/umavez/pkg/daemon"
	"github.com/umavez/umavez/pkg/explain"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// explaining is one run of the command.
type explaining struct {
	headers                            []string
	source, address, at, state, output string
	captured                           int64
	clientVerified                     bool
}

func explainCommand(in io.Reader, out io.Writer) *cobra.Command {
	e := &explaining{}
	cmd := &cobra.Command{
		Use:   "explain [FILE]",
		Short: "Say what umavez makes of one webhook",
		Long: `explain reads a webhook's body from FILE or standard input and says which
gateway it is from, whether its credentials hold and, if not, which text was
signed instead; its dedupe key, its payment, its facts, and what they would do
to a payment in a given state. It needs no database and asks no gateway; only
the keys that Pagar.me publishes are fetched.
Secrets come from the usual settings. Without --source it tries those of
SOURCES, else every gateway whose webhook secrets are set.

FILE may also be a whole HTTP request, as a proxy or netcat writes it down
("POST /webhooks/asaas HTTP/1.1", headers, empty line, body).

Exit codes: 0 verified, 1 not verified, 2 settings or arguments.`,
		Example: `  umavez explain body.json --source asaas -H 'asaas-access-token: TOKEN'
  umavez explain body.json -H 'Stripe-Signature: t=...,v1=...' --at 2026-01-15T12:00:00Z
  umavez explain body.json --url '/webhooks/mercadopago?data.id=123&type=payment' \
    -H 'x-signature: ts=...,v1=...' -H 'x-request-id: ...' --state paid --output json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return e.run(args, in, out) },
	}
	f := cmd.Flags()
	f.StringArrayVarP(&e.headers, "header", "H", nil, "one header, 'Name: value'; any number of times")
	f.StringVar(&e.source, "source", "", "gateway, or gateway/account")
	f.StringVar(&e.address, "url", "", "the address it was sent to, with its query, or from the path on")
	f.StringVar(&e.at, "at", "", "when it was received, RFC 3339; now by default")
	f.StringVar(&e.state, "state", "", "status of the payment that it meets; unheard of by default")
	f.Int64Var(&e.captured, "captured", 0, "captured amount of that payment in minor units; that of the webhook by default")
	f.BoolVar(&e.clientVerified, "client-verified", false, "a client certificate was shown and verified")
	f.StringVarP(&e.output, "output", "o", "table", "table or json")
	return cmd
}

func (e *explaining) run(args []string, in io.Reader, out io.Writer) error {
	if err := wantsOutput(e.output); err != nil {
		return err
	}
	state, err := e.stateOf()
	if err != nil {
		return &daemon.ConfigError{Err: err}
	}
	r, err := e.request(args, in)
	if err != nil {
		return &daemon.ConfigError{Err: err}
	}
	candidates, err := app.ExplainSources(e.source)
	if err != nil {
		return err
	}
	if r.Path, err = e.placeOf(&candidates); err != nil {
		return &daemon.ConfigError{Err: err}
	}
	report, err := explain.Request(r, candidates, state)
	if err != nil {
		return &daemon.ConfigError{Err: err}
	}
	if e.output == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		err = enc.Encode(report)
	} else {
		err = report.Print(out)
	}
	if err == nil && !report.Verified {
		err = fmt.Errorf("not verified: %s%s", report.Reason, e.hint(report.Provider, candidates))
	}
	return err
}

// hint names what is missing of a request whose credentials may be in its
// address.
func (e *explaining) hint(name string, candidates []explain.Candidate) string {
	for _, c := range candidates {
		if e.address == "" && c.Source.Provider == name && c.Provider.Traits().OwnsPath {
			return "; this gateway may have its secret in the address: give it with --url"
		}
	}
	return ""
}

func (e *explaining) stateOf() (s explain.State, err error) {
	s.Status = payment.Status(e.state)
	if s.Status != "" && !slices.Contains(explain.States, s.Status) {
		return s, fmt.Errorf("--state is not one of %v", explain.States)
	}
	if e.captured < 0 {
		return s, errors.New("--captured is below zero")
	}
	if e.captured > 0 {
		s.Captured = payment.Of(e.captured)
	}
	return s, nil
}

// request reads the webhook as ingest would have got it.
func (e *explaining) request(args []string, in io.Reader) (r provider.Request, err error) {
	if len(args) == 1 && args[0] != "-" {
		f, err := os.Open(args[0])
		if err != nil {
			return r, err
		}
		defer f.Close()
		in = f
	}
	r = provider.Request{Header: http.Header{}, Now: time.Now(), ClientVerified: e.clientVerified}
	if r.Body, err = io.ReadAll(io.LimitReader(in, 16<<20)); err != nil {
		return r, err
	}
	if bytes.HasPrefix(r.Body, []byte("POST ")) {
		if err := e.dump(&r); err != nil {
			return r, fmt.Errorf("it begins like an HTTP request and cannot be read as one: %w", err)
		}
	}
	for _, h := range e.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return r, errors.New("--header is not 'Name: value'")
		}
		r.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if e.at != "" {
		if r.Now, err = time.Parse(time.RFC3339, e.at); err != nil {
			return r, errors.New("--at is not a time like 2026-01-15T12:00:00Z")
		}
	}
	if e.address != "" {
		u, err := url.Parse(e.address)
		if err != nil {
			return r, errors.New("--url is not an address, or the path of one")
		}
		r.Query = u.RawQuery
	}
	return r, nil
}

// dump takes a written-down request apart.
func (e *explaining) dump(r *provider.Request) error {
	head, body, found := bytes.Cut(r.Body, []byte("\r\n\r\n"))
	if !found {
		head, body, found = bytes.Cut(r.Body, []byte("\n\n"))
	}
	if !found {
		return errors.New("no empty line ends its headers")
	}
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(string(head) + "\r\n\r\n")))
	if err != nil {
		return err
	}
	r.Header, r.Body, r.Query = req.Header, body, req.URL.RawQuery
	if e.address == "" {
		e.address = req.URL.RequestURI()
	}
	return nil
}

// placeOf narrows the sources to that of the address, and gives what the
// address has behind the account.
func (e *explaining) placeOf(candidates *[]explain.Candidate) (rest string, err error) {
	u, err := url.Parse(e.address)
	if err != nil || u.Path == "" {
		return "", nil
	}
	path, ok := strings.CutPrefix(u.Path, "/webhooks/")
	if !ok {
		return "", errors.New("--url has no /webhooks/<gateway> in its path")
	}
	name, behind, _ := strings.Cut(strings.TrimSuffix(path, "/"), "/")
	account, more, _ := strings.Cut(behind, "/")
	var exact, plain []explain.Candidate
	for _, c := range *candidates {
		switch {
		case c.Source.Provider != name:
		case c.Source.Account == account || account == "" && c.Source.Account == provider.DefaultAccount:
			exact = append(exact, c)
		case c.Source.Account == provider.DefaultAccount || e.source != "":
			plain = append(plain, c)
		}
	}
	switch {
	case len(exact) > 0:
		*candidates = exact
		return more, nil
	case len(plain) > 0 && plain[0].Provider.Traits().OwnsPath:
		*candidates = plain
		return behind, nil
	}
	return "", fmt.Errorf("--url names the source %q, which is not among those to try", strings.TrimSuffix(name+"/"+account, "/"))
}
