package zoop_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
	"github.com/umavez/umavez/pkg/provider/zoop"
)

func TestASourceThatCouldNotWorkIsRefused(t *testing.T) {
	t.Parallel()
	with := func(name, value string) func(*provider.Source) {
		return func(s *provider.Source) { *s = source(map[string]string{name: value}) }
	}
	secrets := func(all ...provider.Secret) func(*provider.Source) {
		return func(s *provider.Source) { s.WebhookSecrets = all }
	}
	file := func(held string, err error) func(*provider.Source) {
		return func(s *provider.Source) {
			*s = source(map[string]string{"AUTHORIZATION_FILE": "/canary/path"})
			s.File = func(string) ([]byte, error) { return []byte(held), err }
		}
	}
	for name, c := range map[string]struct {
		change   func(*provider.Source)
		variable string
	}{
		"no marketplace":                        {with("MARKETPLACE_ID", ""), "ZOOP_MARKETPLACE_ID"},
		"a marketplace that is an address":      {with("MARKETPLACE_ID", "canary/../x"), "ZOOP_MARKETPLACE_ID"},
		"a marketplace of 65 characters":        {with("MARKETPLACE_ID", strings.Repeat("a", 65)), "ZOOP_MARKETPLACE_ID"},
		"a secret of 31 characters":             {secrets("canary-0123456789-0123456789-01"), "ZOOP_WEBHOOK_SECRETS"},
		"a secret with a slash":                 {secrets("canary-0123456789-0123456789/0123456789"), "ZOOP_WEBHOOK_SECRETS"},
		"a secret with a percent sign":          {secrets(secret, "canary-0123456789-0123456789%20123456789"), "ZOOP_WEBHOOK_SECRETS"},
		"a secret with a dot":                   {secrets("canary-0123456789-0123456789..0123456789"), "ZOOP_WEBHOOK_SECRETS"},
		"a secret with an accent":               {secrets("canary-0123456789-0123456789ã0123456789"), "ZOOP_WEBHOOK_SECRETS"},
		"a test key in production":              {func(s *provider.Source) { s.APIKey = "zpk_test_canary" }, "ZOOP_API_KEY"},
		"an owner field that does not exist":    {with("OWNER_FIELD", "canary"), "ZOOP_OWNER_FIELD"},
		"an owner field in capitals":            {with("OWNER_FIELD", "SELLER"), "ZOOP_OWNER_FIELD"},
		"a reference field that is no metadata": {with("REFERENCE_FIELD", "canary"), "ZOOP_REFERENCE_FIELD"},
		"a reference field without a name":      {with("REFERENCE_FIELD", "metadata."), "ZOOP_REFERENCE_FIELD"},
		"an authorization of two lines":         {with("AUTHORIZATION", "canary\n\nx"), "ZOOP_AUTHORIZATION"},
		"an authorization with outer spaces":    {with("AUTHORIZATION", "canary "), "ZOOP_AUTHORIZATION"},
		"an authorization with a tab":           {with("AUTHORIZATION", "canary\tx"), "ZOOP_AUTHORIZATION"},
		"an empty authorization file":           {file("", nil), "ZOOP_AUTHORIZATION_FILE"},
		"an authorization file of blank lines":  {file("canary\n  \n", nil), "ZOOP_AUTHORIZATION_FILE"},
		"an authorization file that is away":    {file("", errors.New("ZOOP_AUTHORIZATION_FILE names a file that cannot be read")), "ZOOP_AUTHORIZATION_FILE"},
		"an authorization file nobody can read": {with("AUTHORIZATION_FILE", "/canary"), "ZOOP_AUTHORIZATION_FILE"},
		"two authorizations": {func(s *provider.Source) {
			*s = source(map[string]string{"AUTHORIZATION": "canary", "AUTHORIZATION_FILE": "/canary"})
		}, "ZOOP_AUTHORIZATION"},
		"a fixed owner beside the seller": {func(s *provider.Source) {
			*s = source(map[string]string{"OWNER_FIELD": "seller"})
			s.Beneficiary = "canary"
		}, "ZOOP_BENEFICIARY"},
		"an owner's pattern beside the seller": {func(s *provider.Source) {
			*s = source(map[string]string{"OWNER_FIELD": "seller"})
			s.BeneficiaryPattern = regexp.MustCompile(`^(canary)`)
		}, "ZOOP_BENEFICIARY_PATTERN"},
	} {
		t.Run(name, func(t *testing.T) {
			src := source()
			c.change(&src)
			_, err := zoop.New(src)
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), c.variable) || !strings.Contains(err.Error(), "source zoop") {
				t.Errorf("the error does not name %s and the source: %v", c.variable, err)
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("the error repeats the value: %v", err)
			}
		})
	}
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	src := source(map[string]string{"MARKETPLACE_ID": "", "OWNER_FIELD": "x", "REFERENCE_FIELD": "x", "AUTHORIZATION": " "})
	src.WebhookSecrets = nil
	_, err := zoop.New(src)
	for _, variable := range []string{"MARKETPLACE_ID", "OWNER_FIELD", "REFERENCE_FIELD", "AUTHORIZATION", "WEBHOOK_SECRETS"} {
		if err == nil || !strings.Contains(err.Error(), "ZOOP_"+variable) {
			t.Errorf("%s is not named: %v", variable, err)
		}
	}
}

func TestASecondAccountHasSettingsOfItsOwn(t *testing.T) {
	t.Parallel()
	src := source(map[string]string{"MARKETPLACE_ID": ""})
	src.Account = "loja2"
	if _, err := zoop.New(src); err == nil || !strings.Contains(err.Error(), "ZOOP_LOJA2_MARKETPLACE_ID") {
		t.Errorf("%v", err)
	}
}

func TestATestKeyIsRightInTheSandbox(t *testing.T) {
	t.Parallel()
	src := source()
	src.APIKey, src.Production = "zpk_test_EXAMPLEKEY0001", false
	asked := ""
	client := &http.Client{Transport: providertest.HandlerTransport{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String() + " " + r.Header.Get("Authorization")
		w.WriteHeader(http.StatusNotFound)
	})}}
	_, err := build(t, src).Lookup(context.Background(), client, "a b")
	want := "https://api.zoop.ws/v1/marketplaces/" + marketplace + "/transactions/a%20b Basic enBrX3Rlc3RfRVhBTVBMRUtFWTAwMDE6"
	if !errors.Is(err, provider.ErrNotFound) || asked != want {
		t.Errorf("asked %q (%v), want %q", asked, err, want)
	}
}

func TestWithoutAPIKeyNothingIsAsked(t *testing.T) {
	t.Parallel()
	src := source()
	src.APIKey = ""
	p := build(t, src)
	if p.Traits().CanLookup {
		t.Error("CanLookup")
	}
	client := &http.Client{Transport: providertest.HandlerTransport{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked") })}}
	if _, err := p.Lookup(context.Background(), client, id); !errors.Is(err, provider.ErrRefused) || !strings.Contains(err.Error(), "ZOOP_API_KEY") {
		t.Error(err)
	}
}

// The Authorization header is a second factor: it never replaces the secret.
func TestAnAuthorizationHeaderMayBeDemandedAsWell(t *testing.T) {
	t.Parallel()
	fromFile := source(map[string]string{"AUTHORIZATION_FILE": "/etc/umavez/zoop"})
	fromFile.File = func(setting string) ([]byte, error) {
		if setting != "AUTHORIZATION_FILE" {
			t.Errorf("reads the file of %s", setting)
		}
		return []byte("Bearer new value\r\nBasic b2xkOg==\n"), nil
	}
	request := func(path string, values ...string) provider.Request {
		r := sign(path, []byte(succeeded), now)
		if values != nil {
			r.Header["Authorization"] = values
		}
		return r
	}
	for name, src := range map[string]provider.Source{
		"a setting": source(map[string]string{"AUTHORIZATION": "Bearer new value"}), "a file of two lines": fromFile,
	} {
		p := build(t, src)
		for _, c := range []struct {
			name   string
			r      provider.Request
			label  string
			reason provider.Reason
		}{
			{"both are right", request(secret, "Bearer new value"), "1", provider.ReasonNone},
			{"the previous secret", request(oldSecret, "Bearer new value"), "2", provider.ReasonNone},
			{"no header", request(secret), "", provider.ReasonMissing},
			{"an empty header", request(secret, ""), "", provider.ReasonMissing},
			{"another header", request(secret, "Bearer another"), "", provider.ReasonToken},
			{"other letter case", request(secret, "bearer new value"), "", provider.ReasonToken},
			{"the header twice", request(secret, "Bearer new value", "Bearer new value"), "", provider.ReasonMalformed},
			{"non-ASCII (CASES A9)", request(secret, "\xff\xfeé"), "", provider.ReasonToken},
			{"64 KB (CASES A9)", request(secret, strings.Repeat("a", 64<<10)), "", provider.ReasonToken},
			{"the header, and a wrong secret", request(secret+"x", "Bearer new value"), "", provider.ReasonToken},
			{"the header, and no secret", request("", "Bearer new value"), "", provider.ReasonMissing},
		} {
			if label, reason := p.Verify(c.r); label != c.label || reason != c.reason {
				t.Errorf("%s, %s: %q, %q; want %q, %q", name, c.name, label, reason, c.label, c.reason)
			}
		}
		label, reason := p.Verify(request(secret, "Basic b2xkOg=="))
		if second := name == "a file of two lines"; second != (label == "1") || second != (reason == provider.ReasonNone) {
			t.Errorf("%s: the second line gives %q, %q", name, label, reason)
		}
	}
	if _, reason := build(t, source()).Verify(request(secret, "Bearer whatever")); reason != provider.ReasonNone {
		t.Errorf("off by default, but %q", reason)
	}
}

func TestCase_D11_ZoopsAnswersAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	tr := build(t, source()).Traits()
	if (tr.Success != provider.Answer{Status: 200, Body: "ok"}) || tr.Unauthorized.Status != 401 {
		t.Errorf("%+v", tr)
	}
	if tr.BodyAuthenticated || !tr.OwnsPath || tr.EmptyBodies || tr.OtherCredentials {
		t.Errorf("%+v", tr)
	}
}

func TestAPrintedProviderShowsNoSecret(t *testing.T) {
	t.Parallel()
	p := build(t, source(map[string]string{"AUTHORIZATION": "Bearer canary"}))
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{p, struct{ P provider.Provider }{p}, []any{p}} {
			text := fmt.Sprintf(format, v)
			for _, s := range []string{secret, oldSecret, apiKey, "canary"} {
				if strings.Contains(text, s) {
					t.Errorf("%s shows a secret: %s", format, text)
				}
			}
		}
	}
}

// Whose money it is: by the reference, or by the seller of the transaction.
func TestTheOwnerComesFromTheReferenceOrTheSeller(t *testing.T) {
	t.Parallel()
	pattern := source()
	pattern.BeneficiaryPattern = regexp.MustCompile(`^([A-Z]+)-`)
	fixed := source()
	fixed.Beneficiary = "loja"
	seller := source(map[string]string{"OWNER_FIELD": "seller"})
	for name, c := range map[string]struct {
		src           provider.Source
		seller, owner string
	}{
		"nothing is set":                {source(), `"5001"`, ""},
		"a pattern":                     {pattern, `"5001"`, "PED"},
		"one owner for all":             {fixed, `"5001"`, "loja"},
		"the seller":                    {seller, `"5001"`, "5001"},
		"no seller":                     {seller, `null`, ""},
		"a seller's number":             {seller, `9007199254740993`, "9007199254740993"},
		"a seller that is an object":    {seller, `{"id":"5001"}`, ""},
		"a seller that is not storable": {seller, `"50\u000001"`, ""},
	} {
		body := answer(strings.Replace(object("succeeded", `"149.90"`, `"149.90"`, ""), `"5001"`, c.seller, 1))
		claim, err := build(t, c.src).Lookup(context.Background(), &http.Client{Transport: providertest.HandlerTransport{Handler: body}}, id)
		if err != nil || claim.Beneficiary != c.owner || claim.Reference != "PED-1001" {
			t.Errorf("%s: owner %q, reference %q, %v", name, claim.Beneficiary, claim.Reference, err)
		}
	}
}
