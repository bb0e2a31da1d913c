package iugu_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/iugu"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

func TestASourceThatCouldNotWorkIsRefused(t *testing.T) {
	t.Parallel()
	const canary = "canary-0123456789"
	secrets := func(all ...provider.Secret) func(*provider.Source) {
		return func(s *provider.Source) { s.WebhookSecrets = all }
	}
	path := func(secret provider.Secret) func(*provider.Source) {
		return func(s *provider.Source) {
			s.Setting, s.WebhookSecrets = setting("path"), []provider.Secret{token, secret}
		}
	}
	for name, c := range map[string]struct {
		change func(*provider.Source)
		names  string
	}{
		"no place":                             {func(s *provider.Source) { s.Setting = setting("") }, "IUGU_AUTH"},
		"no settings at all":                   {func(s *provider.Source) { s.Setting = nil }, "IUGU_AUTH"},
		"a place that is none":                 {func(s *provider.Source) { s.Setting = setting(canary) }, "IUGU_AUTH"},
		"a place in capitals":                  {func(s *provider.Source) { s.Setting = setting("Header") }, "IUGU_AUTH"},
		"the place of a second account":        {func(s *provider.Source) { s.Account, s.Setting = "loja2", setting("") }, "IUGU_LOJA2_AUTH"},
		"a secret of 15 characters":            {secrets(token, "canary-01234567"), "IUGU_WEBHOOK_SECRETS"},
		"a path secret with a slash":           {path(canary + "/x"), "IUGU_WEBHOOK_SECRETS"},
		"a path secret with a space":           {path(canary + " x"), "IUGU_WEBHOOK_SECRETS"},
		"a path secret with a percent sign":    {path(canary + "%41"), "IUGU_WEBHOOK_SECRETS"},
		"a path secret with a question mark":   {path(canary + "?x"), "IUGU_WEBHOOK_SECRETS"},
		"a path secret with an accent":         {path(canary + "é"), "IUGU_WEBHOOK_SECRETS"},
		"a path secret of dots":                {path("................"), "IUGU_WEBHOOK_SECRETS"},
		"an API token with a colon":            {func(s *provider.Source) { s.APIKey = canary + ":" }, "IUGU_API_KEY"},
		"an API token with a space":            {func(s *provider.Source) { s.APIKey = canary + " x" }, "IUGU_API_KEY"},
		"an API token that is a header's line": {func(s *provider.Source) { s.APIKey = canary + "\nX: y" }, "IUGU_API_KEY"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := source("header")
			c.change(&src)
			_, err := iugu.New(src)
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), c.names) {
				t.Errorf("the error does not name %s: %v", c.names, err)
			}
			if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), token) || strings.Contains(err.Error(), apiKey) {
				t.Errorf("the error shows a value: %v", err)
			}
		})
	}
}

func TestAllFaultsOfASourceAreToldAtOnce(t *testing.T) {
	t.Parallel()
	src := source("")
	src.WebhookSecrets, src.APIKey = nil, "a b"
	_, err := iugu.New(src)
	for _, name := range []string{"IUGU_AUTH", "IUGU_WEBHOOK_SECRETS", "IUGU_API_KEY"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not in %v", name, err)
		}
	}
}

// The value of a header may be anything that was registered, a scheme and
// inner spaces too.
func TestAHeaderValueIsComparedAsItWasRegistered(t *testing.T) {
	t.Parallel()
	src := source("header")
	src.WebhookSecrets = []provider.Secret{"Basic dXNlcjpwYXNzd29yZA=="}
	p := build(t, src)
	for value, want := range map[string]provider.Reason{
		"Basic dXNlcjpwYXNzd29yZA==": provider.ReasonNone,
		"basic dXNlcjpwYXNzd29yZA==": provider.ReasonToken,
		"dXNlcjpwYXNzd29yZA==":       provider.ReasonToken,
	} {
		if _, reason := p.Verify(inHeader(value, []byte(paid), now)); reason != want {
			t.Errorf("%q: reason %q, want %q", value, reason, want)
		}
	}
}

// Iugu counts 200 alone as success (CASES D11); no body of it moves money.
func TestCase_D11_IuguAnswersAndTraitsAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	for place, owns := range map[string]bool{"header": false, "path": true} {
		tr := build(t, source(place)).Traits()
		if (tr.Success != provider.Answer{Status: 200, Body: "ok"}) || tr.Unauthorized.Status != 401 {
			t.Errorf("answers %+v, %+v", tr.Success, tr.Unauthorized)
		}
		if tr.BodyAuthenticated || !tr.CanLookup || tr.OwnsPath != owns || tr.OtherCredentials || tr.EmptyBodies || len(tr.SignedHeaders) > 0 {
			t.Errorf("%s: %+v", place, tr)
		}
	}
}

func TestWithoutAPITokenNothingIsAsked(t *testing.T) {
	t.Parallel()
	src := source("header")
	src.APIKey = ""
	p := build(t, src)
	if p.Traits().CanLookup {
		t.Error("CanLookup")
	}
	client := &http.Client{Transport: providertest.HandlerTransport{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked") })}}
	if _, err := p.Lookup(context.Background(), client, inv); !errors.Is(err, provider.ErrRefused) || !strings.Contains(err.Error(), "IUGU_API_KEY") {
		t.Error(err)
	}
}

func TestLiveAndTestTokensAskTheSameAddress(t *testing.T) {
	t.Parallel()
	for _, production := range []bool{true, false} {
		src := source("header")
		src.Production = production
		got := ""
		client := &http.Client{Transport: providertest.HandlerTransport{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r.URL.String()
			w.WriteHeader(http.StatusNotFound)
		})}}
		if _, err := build(t, src).Lookup(context.Background(), client, inv); !errors.Is(err, provider.ErrNotFound) || got != "https://api.iugu.com/v1/invoices/"+inv {
			t.Errorf("asks %s (%v)", got, err)
		}
	}
}

func TestAPrintedProviderShowsNoSecret(t *testing.T) {
	t.Parallel()
	p := build(t, source("header"))
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{p, struct{ P provider.Provider }{p}, []any{p}} {
			if text := fmt.Sprintf(format, v); strings.Contains(text, token) || strings.Contains(text, apiKey) {
				t.Errorf("%s shows a secret: %s", format, text)
			}
		}
	}
}

func TestReferenceAndOwnerComeFromTheAnswer(t *testing.T) {
	t.Parallel()
	src := source("header")
	src.BeneficiaryPattern = regexp.MustCompile(`^([A-Z]+)-`)
	p := build(t, src)
	for fields, want := range map[string][2]string{
		`"external_reference":"LOJA-1","order_id":"OTHER-2"`: {"LOJA-1", "LOJA"},
		`"external_reference":null,"order_id":"OTHER-2"`:     {"OTHER-2", "OTHER"},
		`"external_reference":"","order_id":1001`:            {"1001", ""},
		`"external_reference":"A\u0000B-1","order_id":"C-1"`: {"C-1", "C"},
		`"order_id":"\ud83d"`:                                {"", ""},
		`"total_cents":1`:                                    {"", ""},
	} {
		c := look(t, p, body(`{"id":"`+inv+`","status":"pending",`+fields+`}`))
		if got := [2]string{c.Reference, c.Beneficiary}; got != want {
			t.Errorf("%s: %q, want %q", fields, got, want)
		}
	}
}

// Without lookups (the unsafe switch) no refund is guessed at: it waits, but
// for one that the status calls whole. With lookups in doubt, the API is asked.
func TestARefundIsNeverOneCentavo(t *testing.T) {
	t.Parallel()
	held := payment.Payment{GatewayID: inv, Status: payment.StatusPaid, Currency: "BRL", Captured: payment.Of(14990)}
	for mode, want := range map[provider.LookupMode]struct {
		facts int
		part  payment.Need
	}{
		provider.LookupInDoubt: {0, ""}, provider.LookupNever: {1, payment.NeedRefundAmount},
	} {
		src := source("header")
		src.Lookup, src.UnsafeTrust = mode, true
		p := build(t, src)
		c := claimOf(t, p, form("invoice.refund", "paid"))
		if r := payment.Apply(held, c); len(c.Facts) != want.facts || r.Need != want.part || r.Applied() {
			t.Errorf("%s: %+v, need %q", mode, c.Facts, r.Need)
		}
		c = claimOf(t, p, form("invoice.refund", "refunded"))
		if r := payment.Apply(held, c); mode == provider.LookupNever && r.Payment.Refunded != 14990 || mode == provider.LookupInDoubt && r.Applied() {
			t.Errorf("%s: whole refund gives %+v", mode, r.Payment)
		}
	}
}
