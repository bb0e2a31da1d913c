package registry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/provider"
)

// settings is a getenv of a map.
type settings map[string]string

func (s settings) getenv(name string) (string, bool) { v, ok := s[name]; return v, ok }

const (
	stripeSecret = "whsec_canary_0123456789abcdef"
	asaasToken   = "canary-token-0123456789-0123456789"
	bearer       = "canary_pagpolar_token"
	key          = "canary_api_key"
)

func pagpolarOnly() settings {
	return settings{
		"SOURCES": "pagpolar", "PAGPOLAR_WEBHOOK_SECRETS": bearer, "PAGPOLAR_API_KEY": key, "PAGPOLAR_API_BASE": "https://api.example.test/v1",
		"PAGPOLAR_API_AUTH": "Authorization: Bearer {key}", "PAGPOLAR_SALE_ID_PATH": "id", "PAGPOLAR_STATUS_PATH": "status",
		"PAGPOLAR_STATUS_MAP": "PAID=paid", "PAGPOLAR_AMOUNT_PATH": "amount", "PAGPOLAR_AMOUNT_UNIT": "minor", "PAGPOLAR_CURRENCY": "BRL",
	}
}

// full has three gateways, one of them with two accounts.
func full() settings {
	s := pagpolarOnly()
	s["SOURCES"] = "stripe, asaas,stripe/loja2,pagpolar"
	s["STRIPE_WEBHOOK_SECRETS"] = stripeSecret + " , " + stripeSecret + "_old"
	s["STRIPE_API_KEY"] = key
	s["STRIPE_LOJA2_WEBHOOK_SECRETS"] = stripeSecret + "_2"
	s["ASAAS_WEBHOOK_SECRETS"] = asaasToken
	s["ASAAS_BENEFICIARY_PATTERN"] = "^([a-z]+)-"
	return s
}

func mustLoad(t *testing.T, s settings) *Set {
	t.Helper()
	set, err := Load(s.getenv)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestSourcesAreReadFromTheirOwnVariables(t *testing.T) {
	t.Parallel()
	set := mustLoad(t, full())
	var names []string
	for _, e := range set.Entries() {
		names = append(names, e.Source.Name())
	}
	if got := strings.Join(names, " "); got != "stripe asaas stripe/loja2 pagpolar" {
		t.Errorf("sources %q", got)
	}
	p, src, ok := set.Lookup("stripe", "")
	if !ok || p == nil || !src.Production || src.Lookup != provider.LookupAlways || src.LookupLag != time.Minute || len(src.WebhookSecrets) != 2 ||
		src.WebhookSecrets[1].Reveal() != stripeSecret+"_old" || src.APIKey.Reveal() != key {
		t.Errorf("stripe: %+v", src)
	}
	if _, src, _ = set.Lookup("stripe", "loja2"); src.APIKey != "" || src.Lookup != provider.LookupNever || src.WebhookSecrets[0].Reveal() != stripeSecret+"_2" {
		t.Errorf("stripe/loja2: %+v", src)
	}
	if _, src, _ = set.Lookup("asaas", provider.DefaultAccount); src.Owner("joana-17") != "joana" {
		t.Errorf("asaas: owner %q", src.Owner("joana-17"))
	}
	for _, missing := range [][2]string{{"stripe", "loja3"}, {"asaas", "loja2"}, {"nosuchpay", ""}, {"", ""}} {
		if _, _, ok := set.Lookup(missing[0], missing[1]); ok {
			t.Errorf("found %v", missing)
		}
	}
}

func TestSettingsOfASourceAreTakenAsWritten(t *testing.T) {
	t.Parallel()
	s := full()
	for k, v := range map[string]string{
		"ENVIRONMENT": "sandbox", "STRIPE_LOOKUP": "in_doubt", "STRIPE_LOOKUP_RATE": "2.5", "STRIPE_LOOKUP_LAG": "2m", "STRIPE_API_BASE": "http://127.0.0.1:9000/x",
		"STRIPE_UNSAFE_TRUST_BODY": "true", "STRIPE_BENEFICIARY": "loja",
	} {
		s[k] = v
	}
	_, src, _ := mustLoad(t, s).Lookup("stripe", "")
	if src.Production || src.Lookup != provider.LookupInDoubt || src.LookupRate != 2.5 || src.LookupLag != 2*time.Minute ||
		src.APIBase != "http://127.0.0.1:9000/x" || !src.UnsafeTrust || src.Owner("") != "loja" {
		t.Errorf("%+v", src)
	}
}

func TestEveryFaultNamesItsVariableAndWhatToDo(t *testing.T) {
	t.Parallel()
	const canary = "canary"
	for _, c := range []struct {
		name   string
		change settings
		want   []string // parts of the error
	}{
		{"no sources", settings{"SOURCES": " "}, []string{"SOURCES is not set", "known gateways: asaas, "}},
		{"an unknown gateway", settings{"SOURCES": "stripe,nosuchpay"}, []string{`"nosuchpay"`, "known are asaas, "}},
		{"upper case", settings{"SOURCES": "Stripe"}, []string{`"Stripe"`, "a-z"}},
		{"a bad account", settings{"SOURCES": "stripe/a.b"}, []string{`"stripe/a.b"`}},
		{"an empty account", settings{"SOURCES": "stripe/"}, []string{`"stripe/"`}},
		{"an extra comma", settings{"SOURCES": "stripe,"}, []string{"entry 2 is empty"}},
		{"a source twice", settings{"SOURCES": "stripe,stripe"}, []string{"occurs twice"}},
		{"the default account twice", settings{"SOURCES": "stripe,stripe/default"}, []string{"occurs twice"}},
		{"an unknown environment", settings{"ENVIRONMENT": canary}, []string{"ENVIRONMENT", "sandbox"}},
		{"no secret", settings{"STRIPE_WEBHOOK_SECRETS": ""}, []string{"STRIPE_WEBHOOK_SECRETS is not set"}},
		{"an empty secret", settings{"STRIPE_WEBHOOK_SECRETS": stripeSecret + ",,"}, []string{"entry 2 of STRIPE_WEBHOOK_SECRETS is empty"}},
		{"only a comma", settings{"STRIPE_WEBHOOK_SECRETS": ","}, []string{"entry 1 of STRIPE_WEBHOOK_SECRETS is empty"}},
		{"secrets by line", settings{"STRIPE_WEBHOOK_SECRETS": stripeSecret + "\n" + stripeSecret}, []string{"entry 1 of STRIPE_WEBHOOK_SECRETS", "separate secrets by commas"}},
		{"a key on two lines", settings{"STRIPE_API_KEY": key + "\n" + key}, []string{"STRIPE_API_KEY contains a line break"}},
		{"an unknown lookup mode", settings{"STRIPE_LOOKUP": canary}, []string{"STRIPE_LOOKUP is not one of always, in_doubt and never"}},
		{"a rate of zero", settings{"STRIPE_LOOKUP_RATE": "0"}, []string{"STRIPE_LOOKUP_RATE"}},
		{"a rate of NaN", settings{"STRIPE_LOOKUP_RATE": "NaN"}, []string{"STRIPE_LOOKUP_RATE"}},
		{"an endless rate", settings{"STRIPE_LOOKUP_RATE": "Inf"}, []string{"STRIPE_LOOKUP_RATE"}},
		{"a lag without unit", settings{"STRIPE_LOOKUP_LAG": "60"}, []string{"STRIPE_LOOKUP_LAG", "60s"}},
		{"a lag below zero", settings{"STRIPE_LOOKUP_LAG": "-1s"}, []string{"STRIPE_LOOKUP_LAG"}},
		{"a switch that is no switch", settings{"STRIPE_UNSAFE_TRUST_BODY": canary}, []string{"STRIPE_UNSAFE_TRUST_BODY is neither"}},
		{"an address without scheme", settings{"STRIPE_API_BASE": canary + ".example/v1"}, []string{"STRIPE_API_BASE", "absolute"}},
		{"an address of another scheme", settings{"STRIPE_API_BASE": "ftp://" + canary}, []string{"STRIPE_API_BASE", "absolute"}},
		{"plain http", settings{"STRIPE_API_BASE": "http://" + canary + ".example"}, []string{"STRIPE_API_BASE", "https"}},
		{"plain http to a private address", settings{"STRIPE_API_BASE": "http://10.0.0.1"}, []string{"STRIPE_API_BASE", "https"}},
		{"a host that looks like this machine", settings{"STRIPE_API_BASE": "http://localhost." + canary + ".example"}, []string{"STRIPE_API_BASE", "https"}},
		{"a password in an address", settings{"STRIPE_API_BASE": "https://u:" + canary + "@x.example"}, []string{"STRIPE_API_BASE", "password"}},
		{"a query in an address", settings{"STRIPE_API_BASE": "https://x.example/?k=" + canary}, []string{"STRIPE_API_BASE", "query"}},
		{"a pattern that is none", settings{"STRIPE_BENEFICIARY_PATTERN": canary + "("}, []string{"STRIPE_BENEFICIARY_PATTERN", "regular expression"}},
		{"a pattern without group", settings{"STRIPE_BENEFICIARY_PATTERN": canary}, []string{"STRIPE_BENEFICIARY_PATTERN has 0 groups"}},
		{"a pattern with two groups", settings{"STRIPE_BENEFICIARY_PATTERN": "(a)(b)"}, []string{"STRIPE_BENEFICIARY_PATTERN has 2 groups"}},
		{"lookups without key", settings{"ASAAS_LOOKUP": "always"}, []string{"ASAAS_LOOKUP=always", "set ASAAS_API_KEY"}},
		{"lookups in doubt without key", settings{"ASAAS_LOOKUP": "in_doubt"}, []string{"ASAAS_LOOKUP=in_doubt", "set ASAAS_API_KEY"}},
		{"an open body with lookups in doubt", settings{"PAGPOLAR_LOOKUP": "in_doubt"}, []string{"PAGPOLAR_LOOKUP=always", "PAGPOLAR_UNSAFE_TRUST_BODY=true", "in_doubt is not enough"}},
		{"an open body without lookups", settings{"PAGPOLAR_LOOKUP": "never"}, []string{"PAGPOLAR_LOOKUP=always", "PAGPOLAR_UNSAFE_TRUST_BODY=true"}},
		{"half a lookup", settings{"PAGPOLAR_AMOUNT_PATH": "", "PAGPOLAR_CURRENCY": ""}, []string{"PAGPOLAR_AMOUNT_PATH", "PAGPOLAR_CURRENCY or PAGPOLAR_CURRENCY_PATH"}},
		{"variable and file", settings{"STRIPE_API_KEY_FILE": "/x/" + canary}, []string{"STRIPE_API_KEY and STRIPE_API_KEY_FILE are both set"}},
		{"a file that is not there", settings{"STRIPE_API_KEY": "", "STRIPE_API_KEY_FILE": "/nowhere/" + canary}, []string{"STRIPE_API_KEY_FILE names a file that cannot be read"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := full()
			for k, v := range c.change {
				s[k] = v
			}
			_, err := Load(s.getenv)
			if err == nil {
				t.Fatal("loads")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %q:\n%v", part, err)
				}
			}
			if strings.Contains(err.Error(), canary) {
				t.Errorf("the error repeats a value:\n%v", err)
			}
		})
	}
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	s := settings{
		"SOURCES": "stripe,nosuchpay,asaas,pagpolar", "ENVIRONMENT": "test", "STRIPE_WEBHOOK_SECRETS": stripeSecret, "STRIPE_LOOKUP": "sometimes",
		"STRIPE_API_BASE": "x", "PAGPOLAR_WEBHOOK_SECRETS": bearer, "PAGPOLAR_LOOKUP_LAG": "1",
	}
	_, err := Load(s.getenv)
	for _, part := range []string{"ENVIRONMENT", `"nosuchpay"`, "STRIPE_LOOKUP is", "STRIPE_API_BASE", "ASAAS_WEBHOOK_SECRETS", "PAGPOLAR_LOOKUP_LAG", "PAGPOLAR_UNSAFE_TRUST_BODY"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q:\n%v", part, err)
		}
	}
}

func TestTheUnsafeSwitchLetsAnOpenBodyIn(t *testing.T) {
	t.Parallel()
	s := settings{"SOURCES": "pagpolar", "PAGPOLAR_WEBHOOK_SECRETS": bearer, "PAGPOLAR_UNSAFE_TRUST_BODY": "true"}
	if _, src, ok := mustLoad(t, s).Lookup("pagpolar", ""); !ok || !src.UnsafeTrust || src.Lookup != provider.LookupNever {
		t.Errorf("%+v", src)
	}
}

func TestNamesThatMakeAVariableBelongToTwoSourcesAreRefused(t *testing.T) {
	t.Parallel()
	for sources, want := range map[string]string{
		"stripe,stripe/api":             "STRIPE_API_KEY",
		"stripe/api":                    "STRIPE_API_KEY",
		"stripe/webhook":                "STRIPE_WEBHOOK_SECRETS",
		"stripe/webhook_secrets":        "STRIPE_WEBHOOK_SECRETS_FILE",
		"stripe/lookup":                 "STRIPE_LOOKUP_RATE",
		"stripe/unsafe":                 "STRIPE_UNSAFE_TRUST_BODY",
		"stripe/loja-2,stripe/loja_2":   "STRIPE_LOJA_2_",
		"stripe/loja,stripe/loja_api":   "STRIPE_LOJA_API_KEY",
		"asaas/user":                    "ASAAS_USER_AGENT", // a setting of that gateway alone
		"stripe/loja-api,stripe/loja":   "STRIPE_LOJA_API_KEY",
		"stripe/default,stripe/api-key": "STRIPE_API_KEY_FILE",
	} {
		t.Run(sources, func(t *testing.T) {
			t.Parallel()
			secret := func(name string) (string, bool) {
				switch {
				case name == "SOURCES":
					return sources, true
				case strings.HasSuffix(name, "WEBHOOK_SECRETS"):
					return asaasToken, true
				}
				return "", false
			}
			_, err := Load(secret)
			if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") > 0 {
				t.Errorf("want one fault about %s:\n%v", want, err)
			}
		})
	}
	s := full()
	s["SOURCES"] = "stripe,stripe/loja2,stripe/loja"
	s["STRIPE_LOJA_WEBHOOK_SECRETS"] = stripeSecret
	mustLoad(t, s) // alike, and still not ambiguous
}

func TestEveryGatewayIsListed(t *testing.T) {
	t.Parallel()
	folders, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	known := Factories()
	for _, f := range folders {
		if _, err := os.Stat(filepath.Join("..", f.Name(), "provider.go")); err == nil && f.IsDir() && known[f.Name()] == nil {
			t.Errorf("the folder %s is not in Factories", f.Name())
		}
	}
	if len(known) < 3 {
		t.Errorf("%d gateways", len(known))
	}
}
