package pagarme_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/pagarme"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

func TestASourceThatCouldNotWorkIsRefused(t *testing.T) {
	t.Parallel()
	set := func(pairs ...string) func(*provider.Source) {
		return func(s *provider.Source) { s.Setting = settings(pairs...) }
	}
	signature := func(pairs ...string) func(*provider.Source) {
		return func(s *provider.Source) {
			s.WebhookSecrets, s.Setting = nil, settings(append([]string{"AUTH", "signature"}, pairs...)...)
		}
	}
	legacy := func(change func(*provider.Source), pairs ...string) func(*provider.Source) {
		return func(s *provider.Source) {
			*s = legacySource()
			s.Account, s.Setting = provider.DefaultAccount, settings(append([]string{"API_VERSION", "4"}, pairs...)...)
			if change != nil {
				change(s)
			}
		}
	}
	for name, c := range map[string]struct {
		change   func(*provider.Source)
		variable string
	}{
		"a version of tomorrow":                       {set("API_VERSION", "canary"), "API_VERSION"},
		"no accepted credentials":                     {set(), "AUTH"},
		"an unknown kind of credential":               {set("AUTH", "canary"), "AUTH"},
		"an empty kind":                               {set("AUTH", "basic,"), "AUTH"},
		"a kind twice":                                {set("AUTH", "basic,basic"), "AUTH"},
		"passwords that are not used":                 {set("AUTH", "signature", "ACCOUNT_ID", "acc_1"), "WEBHOOK_SECRETS"},
		"basic without passwords":                     {func(s *provider.Source) { s.WebhookSecrets = nil }, "WEBHOOK_SECRETS"},
		"both without passwords":                      {func(s *provider.Source) { signature()(s); s.Setting = settings("AUTH", "signature,basic") }, "WEBHOOK_SECRETS"},
		"a password without user":                     {func(s *provider.Source) { s.WebhookSecrets = []provider.Secret{":canary-0123456"} }, "WEBHOOK_SECRETS"},
		"a user without password":                     {func(s *provider.Source) { s.WebhookSecrets = []provider.Secret{"canary-0123456:"} }, "WEBHOOK_SECRETS"},
		"a short password":                            {func(s *provider.Source) { s.WebhookSecrets = []provider.Secret{"canary-0123456:1234567"} }, "WEBHOOK_SECRETS"},
		"no colon at all":                             {func(s *provider.Source) { s.WebhookSecrets = []provider.Secret{"canary-0123456"} }, "WEBHOOK_SECRETS"},
		"keys over http":                              {signature("JWKS_URL", "http://canary.example/jwks"), "JWKS_URL"},
		"keys at no address":                          {signature("JWKS_URL", "canary"), "JWKS_URL"},
		"signatures, and neither account nor lookups": {func(s *provider.Source) { signature()(s); s.Lookup = provider.LookupInDoubt }, "ACCOUNT_ID"},
		"an account with a line break":                {set("AUTH", "basic", "ACCOUNT_ID", "canary\nx"), "ACCOUNT_ID"},
		"a flag that is none":                         {set("AUTH", "basic", "PAYABLES", "canary"), "PAYABLES"},
		"fees without API key":                        {func(s *provider.Source) { set("AUTH", "basic", "PAYABLES", "true")(s); s.APIKey = "" }, "PAYABLES"},
		"fees without lookups":                        {func(s *provider.Source) { set("AUTH", "basic", "PAYABLES", "true")(s); s.Lookup = provider.LookupNever }, "PAYABLES"},
		"a reference nowhere":                         {set("AUTH", "basic", "REFERENCE_FIELD", "canary"), "REFERENCE_FIELD"},
		"a reference in unnamed metadata":             {set("AUTH", "basic", "REFERENCE_FIELD", "metadata."), "REFERENCE_FIELD"},
		"a test key in production":                    {func(s *provider.Source) { s.APIKey = "sk_test_canary" }, "API_KEY"},
		"a live key in the sandbox":                   {func(s *provider.Source) { s.APIKey, s.Production = "sk_live_canary", false }, "API_KEY"},
		"a public key":                                {func(s *provider.Source) { s.APIKey = "pk_canary" }, "API_KEY"},
		"a key of the older API":                      {func(s *provider.Source) { s.APIKey = "ak_live_canary" }, "API_KEY"},
		"a key with its password":                     {func(s *provider.Source) { s.APIKey = "sk_canary:" }, "API_KEY"},
		"v4 with lookups":                             {legacy(func(s *provider.Source) { s.Lookup = provider.LookupAlways }), "LOOKUP"},
		"v4 with credentials of v5":                   {legacy(nil, "AUTH", "basic"), "AUTH"},
		"v4 with keys of v5":                          {legacy(nil, "JWKS_URL", "https://canary.example/"), "JWKS_URL"},
		"v4 with an account of v5":                    {legacy(nil, "ACCOUNT_ID", "acc_canary"), "ACCOUNT_ID"},
		"v4 with fees":                                {legacy(nil, "PAYABLES", "true"), "PAYABLES"},
		"v4 with a reference in brackets":             {legacy(nil, "REFERENCE_FIELD", "metadata[canary]"), "REFERENCE_FIELD"},
		"v4 with an encryption key":                   {legacy(func(s *provider.Source) { s.WebhookSecrets = []provider.Secret{"ek_live_canary0123456789"} }), "WEBHOOK_SECRETS"},
		"v4 with a key of v5":                         {legacy(func(s *provider.Source) { s.WebhookSecrets = []provider.Secret{"sk_canary0123456789"} }), "WEBHOOK_SECRETS"},
		"v4 with a test key in production":            {legacy(func(s *provider.Source) { s.WebhookSecrets = []provider.Secret{"ak_test_canary0123456789"} }), "WEBHOOK_SECRETS"},
		"v4 with a short key":                         {legacy(func(s *provider.Source) { s.WebhookSecrets = []provider.Secret{"ak_canary"} }), "WEBHOOK_SECRETS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := source()
			c.change(&src)
			_, err := pagarme.New(src)
			if err == nil {
				t.Fatal("accepted")
			}
			text := err.Error()
			if !strings.Contains(text, "PAGARME_"+c.variable) {
				t.Errorf("the error does not name PAGARME_%s: %s", c.variable, text)
			}
			if strings.Contains(text, "canary") || strings.Contains(text, login) {
				t.Errorf("the error shows a value: %s", text)
			}
		})
	}
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	src := source()
	src.APIKey, src.Setting = "pk_x", settings("AUTH", "signature", "JWKS_URL", "http://x.example", "PAYABLES", "perhaps", "REFERENCE_FIELD", "x")
	_, err := pagarme.New(src)
	for _, variable := range []string{"API_KEY", "JWKS_URL", "PAYABLES", "REFERENCE_FIELD", "WEBHOOK_SECRETS"} {
		if err == nil || !strings.Contains(err.Error(), "PAGARME_"+variable) {
			t.Errorf("%s is not named: %v", variable, err)
		}
	}
}

func TestSettingsThatWork(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*provider.Source){
		"signature with Pagar.me's own keys": func(s *provider.Source) { s.WebhookSecrets, s.Setting = nil, settings("AUTH", "signature") },
		"signature and account, no lookups": func(s *provider.Source) {
			s.WebhookSecrets, s.APIKey, s.Lookup = nil, "", provider.LookupNever
			s.Setting = settings("AUTH", "signature", "ACCOUNT_ID", account)
		},
		"a test key at an address of its own": func(s *provider.Source) { s.APIKey, s.APIBase = "sk_test_x", "https://api.example.test" },
		"a test key in the sandbox":           func(s *provider.Source) { s.APIKey, s.Production = "sk_test_x", false },
		"a reference in the metadata": func(s *provider.Source) {
			s.Setting = settings("AUTH", "basic", "REFERENCE_FIELD", "metadata.order_id")
		},
	} {
		src := source()
		change(&src)
		p, err := pagarme.New(src)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if others := len(src.WebhookSecrets) == 0; p.Traits().OtherCredentials != others {
			t.Errorf("%s: OtherCredentials is %v", name, p.Traits().OtherCredentials)
		}
	}
}

func TestWithoutAPIKeyNothingIsAsked(t *testing.T) {
	t.Parallel()
	src := source()
	src.APIKey, src.Lookup = "", provider.LookupNever
	p := build(t, src)
	if p.Traits().CanLookup {
		t.Error("CanLookup")
	}
	client := &http.Client{Transport: providertest.HandlerTransport{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked") })}}
	if _, err := p.Lookup(context.Background(), client, ref); !errors.Is(err, provider.ErrRefused) {
		t.Error(err)
	}
}

func TestLookupsGoToPagarmeUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{"": "https://api.pagar.me/core/v5/charges/ch_1", "https://proxy.example/p": "https://proxy.example/p/charges/ch_1"} {
		src := source()
		src.APIBase = base
		got := ""
		client := &http.Client{Transport: providertest.HandlerTransport{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r.URL.String()
			w.WriteHeader(http.StatusNotFound)
		})}}
		if _, err := build(t, src).Lookup(context.Background(), client, "ch_1"); !errors.Is(err, provider.ErrNotFound) || got != want {
			t.Errorf("asks %s (%v), want %s", got, err, want)
		}
	}
}

func TestCase_D11_PagarmeAnswersAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	tr := build(t, source()).Traits()
	if (tr.Success != provider.Answer{Status: 200, Body: "ok"}) || tr.Unauthorized.Status != 401 {
		t.Errorf("%+v", tr)
	}
	if !tr.BodyAuthenticated || tr.LookupRate*60+float64(tr.LookupBurst) > 200 {
		t.Errorf("%+v", tr)
	}
	for _, h := range tr.SignedHeaders {
		if h == "Authorization" {
			t.Error("the password would be kept beside the body")
		}
	}
}

func TestAPrintedProviderShowsNoSecret(t *testing.T) {
	t.Parallel()
	for _, p := range []provider.Provider{build(t, source()), build(t, legacySource())} {
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			for _, v := range []any{p, struct{ P provider.Provider }{p}, []any{p}} {
				text := fmt.Sprintf(format, v)
				for _, secret := range []string{login, "hookpass", apiKey, hubKey} {
					if strings.Contains(text, secret) {
						t.Errorf("%s shows a secret: %s", format, text)
					}
				}
			}
		}
	}
}

func TestTheReferenceAndTheOwnerComeFromTheField(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{"": "CH-1", "code": "CH-1", "order.code": "OR-2", "metadata.order_id": "MD-3", "metadata.in_order": "OM-4", "metadata.none": "", "metadata.list": ""} {
		src := source()
		src.Setting = settings("AUTH", "basic", "REFERENCE_FIELD", field)
		src.BeneficiaryPattern = regexp.MustCompile(`^([A-Z]+)-`)
		p := build(t, src)
		body := change(paidBody, `"code":"PED-1001"`, `"code":"CH-1"`, `"metadata":{"order_id":"PED-1001"}`, `"metadata":{"order_id":"MD-3","list":[1]}`,
			`"code":"PED-1001","status"`, `"code":"OR-2","metadata":{"in_order":"OM-4"},"status"`)
		r := sign(login, body, now)
		claims, err := p.Facts(providertest.EventOf(p, src, r, p.Parse(r)[0]))
		if err != nil || claims[0].Reference != want || want != "" && claims[0].Beneficiary != want[:2] {
			t.Errorf("%q: %+v, %v", field, claims, err)
		}
	}
	// Without a code of its own the charge has its order's, and PHP's empty
	// array is no metadata.
	p := build(t, source())
	body := change(paidBody, `"code":"PED-1001",`, "", `{"order_id":"PED-1001"}`, "[]")
	r := sign(login, body, now)
	claims, err := p.Facts(providertest.EventOf(p, source(), r, p.Parse(r)[0]))
	if err != nil || claims[0].Reference != "PED-1001" {
		t.Errorf("%+v, %v", claims, err)
	}
}
