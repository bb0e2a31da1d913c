package efi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/efi"
	"github.com/umavez/umavez/pkg/provider/providertest"
	"github.com/umavez/umavez/pkg/provider/registry"
)

func TestASourceThatCouldNotWorkIsRefused(t *testing.T) {
	t.Parallel()
	secrets := func(all ...provider.Secret) func(*provider.Source) {
		return func(s *provider.Source) { s.WebhookSecrets = all }
	}
	for name, c := range map[string]struct {
		settings []string
		change   func(*provider.Source)
		names    string // the variable that the error speaks of
	}{
		"no mode":                        {settings: []string{"AUTH="}, names: "EFI_AUTH"},
		"a mode of another name":         {settings: []string{"AUTH=canary"}, names: "EFI_AUTH"},
		"a mode in capitals":             {settings: []string{"AUTH=MTLS"}, names: "EFI_AUTH"},
		"another place for the token":    {settings: []string{"TOKEN_IN=canary"}, names: "EFI_TOKEN_IN"},
		"a place for a token, but none":  {settings: []string{"AUTH=mtls", "TOKEN_IN=path"}, change: secrets(), names: "EFI_TOKEN_IN"},
		"a token of 31 characters":       {change: secrets(provider.Secret(token[:31])), names: "EFI_WEBHOOK_SECRETS"},
		"a token with a slash":           {change: secrets("canary/" + token), names: "EFI_WEBHOOK_SECRETS"},
		"a token with a plus":            {change: secrets("canary+" + token), names: "EFI_WEBHOOK_SECRETS"},
		"a token with a percent sign":    {change: secrets("canary%2F" + token), names: "EFI_WEBHOOK_SECRETS"},
		"a token with an accent":         {change: secrets("canáry" + token), names: "EFI_WEBHOOK_SECRETS"},
		"a bad token behind a good one":  {change: secrets(token, "canary&"+token), names: "entry 2 of EFI_WEBHOOK_SECRETS"},
		"no client id":                   {settings: []string{"CLIENT_ID="}, names: "EFI_CLIENT_ID"},
		"a client id with a colon":       {settings: []string{"CLIENT_ID=canary:x"}, names: "EFI_CLIENT_ID"},
		"a client id with a line break":  {settings: []string{"CLIENT_ID=canary\nx"}, names: "EFI_CLIENT_ID"},
		"a client id without its secret": {change: func(s *provider.Source) { s.APIKey = "" }, names: "EFI_API_KEY"},
		"no certificate":                 {settings: []string{"CERTIFICATE_FILE=", "CERTIFICATE_KEY_FILE="}, names: "EFI_CERTIFICATE_FILE"},
		"a file that is not there":       {settings: []string{"CERTIFICATE_FILE=canary.pem"}, names: "EFI_CERTIFICATE_FILE"},
		"a key file that is not there":   {settings: []string{"CERTIFICATE_KEY_FILE=canary.pem"}, names: "EFI_CERTIFICATE_KEY_FILE"},
		"a file that is no certificate":  {settings: []string{"CERTIFICATE_FILE=other.pem"}, names: "EFI_CERTIFICATE_FILE"},
		"a certificate without its key":  {settings: []string{"CERTIFICATE_KEY_FILE="}, names: "EFI_CERTIFICATE_KEY_FILE"},
		"another meaning of tarifa":      {settings: []string{"TARIFA=canary"}, names: "EFI_TARIFA"},
	} {
		t.Run(name, func(t *testing.T) {
			src := source(c.settings...)
			if c.change != nil {
				c.change(&src)
			}
			_, err := efi.New(src)
			if err == nil {
				t.Fatal("accepted")
			}
			text := err.Error()
			if !strings.Contains(text, c.names) {
				t.Errorf("the error does not name %s: %v", c.names, err)
			}
			for _, secret := range []string{"canary", "canáry", token[:31], oldToken, apiKey, "PRIVATE KEY"} {
				if strings.Contains(text, secret) {
					t.Errorf("the error shows what was set: %v", err)
				}
			}
		})
	}
}

func TestAllFaultsOfASourceAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	src := source("AUTH=", "TOKEN_IN=x", "CLIENT_ID=", "CERTIFICATE_FILE=", "TARIFA=x")
	src.WebhookSecrets, src.Account = nil, "loja-2"
	_, err := efi.New(src)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, name := range []string{"AUTH", "TOKEN_IN", "WEBHOOK_SECRETS", "CLIENT_ID", "CERTIFICATE_FILE", "TARIFA"} {
		if !strings.Contains(err.Error(), "EFI_LOJA_2_"+name) {
			t.Errorf("nothing of %s: %v", name, err)
		}
	}
}

func TestACertificateAndItsKeyMayShareAFile(t *testing.T) {
	t.Parallel()
	p := build(t, source("CERTIFICATE_FILE=both.pem", "CERTIFICATE_KEY_FILE="))
	cert := p.(provider.ClientCertificate).ClientCertificate()
	if cert == nil || len(cert.Certificate) != 1 {
		t.Fatalf("%v", cert)
	}
	if again := p.(provider.ClientCertificate).ClientCertificate(); again != cert {
		t.Error("the pointer changes, and with it every connection")
	}
}

// Over plain http, which only an address of this machine may be, there is no
// certificate to show.
func TestASimulatorOnThisMachineNeedsNoCertificate(t *testing.T) {
	t.Parallel()
	src := source("CERTIFICATE_FILE=", "CERTIFICATE_KEY_FILE=")
	src.APIBase = "http://127.0.0.1:8181/efi"
	p := build(t, src)
	if !p.Traits().CanLookup || p.(provider.ClientCertificate).ClientCertificate() != nil {
		t.Error("not set up for lookups without a certificate")
	}
	src.APIBase = "https://api.example.test"
	if _, err := efi.New(src); err == nil {
		t.Error("https without a certificate is accepted")
	}
}

func TestTheEnvironmentChoosesTheAddress(t *testing.T) {
	t.Parallel()
	for production, want := range map[bool]string{true: "https://pix.api.efipay.com.br", false: "https://pix-h.api.efipay.com.br"} {
		src := source()
		src.Production = production
		var asked []string
		client := &http.Client{Transport: providertest.HandlerTransport{Handler: withToken(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.String())
			w.WriteHeader(http.StatusNotFound)
		}))}}
		_, err := build(t, src).Lookup(context.Background(), client, pixID)
		if !errors.Is(err, provider.ErrNotFound) || len(asked) != 1 || asked[0] != want+"/v2/pix/"+pixID {
			t.Errorf("production %v asks %q: %v", production, asked, err)
		}
	}
}

func TestWithoutAPIKeyNothingIsAsked(t *testing.T) {
	t.Parallel()
	src := source("CLIENT_ID=", "CERTIFICATE_FILE=", "CERTIFICATE_KEY_FILE=")
	src.APIKey = ""
	p := build(t, src)
	if p.Traits().CanLookup || p.(provider.ClientCertificate).ClientCertificate() != nil {
		t.Error("CanLookup")
	}
	client := &http.Client{Transport: providertest.HandlerTransport{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked") })}}
	if _, err := p.Lookup(context.Background(), client, pixID); !errors.Is(err, provider.ErrRefused) || !strings.Contains(err.Error(), "EFI_API_KEY") {
		t.Error(err)
	}
}

// Nothing signs the body, so a source that cannot ask does not load.
func TestASourceThatCannotAskIsRefusedUnlessTheOperatorTrustsBodies(t *testing.T) {
	t.Parallel()
	load := func(more ...string) error {
		all := map[string]string{"SOURCES": "efi", "EFI_AUTH": "skip-mtls", "EFI_WEBHOOK_SECRETS": token}
		for _, m := range more {
			name, value, _ := strings.Cut(m, "=")
			all[name] = value
		}
		_, err := registry.LoadWith(func(name string) (string, bool) { v, ok := all[name]; return v, ok }, map[string]provider.Factory{"efi": efi.New})
		return err
	}
	if err := load(); err == nil || !strings.Contains(err.Error(), "EFI_UNSAFE_TRUST_BODY") {
		t.Error(err)
	}
	if err := load("EFI_UNSAFE_TRUST_BODY=true"); err != nil {
		t.Error(err)
	}
	if err := load("EFI_API_KEY="+apiKey, "EFI_CLIENT_ID="+clientID, "EFI_API_BASE=http://127.0.0.1:1", "EFI_LOOKUP=in_doubt"); err == nil {
		t.Error("in_doubt is accepted, though a body may always be forged")
	}
}

// CASES D11: the documentation's own answer is a plain "200".
func TestCase_D11_EfiAnswersAreExactlyThoseOfTheContract(t *testing.T) {
	t.Parallel()
	tr := build(t, source()).Traits()
	if (tr.Success != provider.Answer{Status: 200, Body: "200"}) || tr.Unauthorized.Status != 401 {
		t.Errorf("%+v", tr)
	}
	if !tr.OwnsPath || !tr.EmptyBodies || len(tr.SignedHeaders) != 0 || tr.LookupRate > 5 {
		t.Errorf("%+v", tr)
	}
}

func TestAPrintedProviderShowsNoSecret(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	client := &http.Client{Transport: providertest.HandlerTransport{Handler: withToken(answer(paidItem))}}
	if _, err := p.Lookup(context.Background(), client, pixID); err != nil { // so that it holds an access token
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{p, struct{ P provider.Provider }{p}, []any{p}} {
			text := fmt.Sprintf(format, v)
			for _, secret := range []string{token, oldToken, apiKey, clientID, "the-token-of-the-tests"} {
				if strings.Contains(text, secret) {
					t.Errorf("%s shows a secret: %s", format, text)
				}
			}
		}
	}
}

func TestTheOwnerComesFromTheTxid(t *testing.T) {
	t.Parallel()
	src := source()
	src.BeneficiaryPattern = regexp.MustCompile(`^([a-z]+)txid`)
	p := build(t, src)
	r := sign(token, []byte(paidBody), now)
	claims, err := p.Facts(providertest.EventOf(p, src, r, p.Parse(r)[0]))
	if err != nil || claims[0].Beneficiary != "example" || claims[0].Reference != "exampletxid00000000000000001" {
		t.Errorf("%+v, %v", claims, err)
	}
}
