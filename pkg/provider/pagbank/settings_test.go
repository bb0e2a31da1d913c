package pagbank_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/pagbank"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

const addressSecret = "0123456789-address_secret"

func TestASourceThatCouldNotWorkIsRefused(t *testing.T) {
	t.Parallel()
	const canary = "canary"
	set := func(name, value string) func(*provider.Source) {
		return func(s *provider.Source) { *s = with(*s, settings{name: value}) }
	}
	for name, row := range map[string]struct {
		change   func(*provider.Source)
		variable string
	}{
		"a token of 15 characters":           {func(s *provider.Source) { s.WebhookSecrets = []provider.Secret{"canary-canary-1"} }, "PAGBANK_WEBHOOK_SECRETS"},
		"a token with a space":               {func(s *provider.Source) { s.WebhookSecrets = []provider.Secret{"canary canary canary canary"} }, "PAGBANK_WEBHOOK_SECRETS"},
		"an e-mail address without a host":   {set("EMAIL", canary+"@"), "PAGBANK_EMAIL"},
		"an e-mail address with a space":     {set("EMAIL", canary+" @example.com"), "PAGBANK_EMAIL"},
		"a name for an e-mail address":       {set("EMAIL", canary), "PAGBANK_EMAIL"},
		"a short address secret":             {set("NOTIFICATION_SECRET", canary), "PAGBANK_NOTIFICATION_SECRET"},
		"an address secret with a slash":     {set("NOTIFICATION_SECRET", canary+"/"+addressSecret), "PAGBANK_NOTIFICATION_SECRET"},
		"an empty one beside a good one":     {set("NOTIFICATION_SECRET", addressSecret+canary+","), "PAGBANK_NOTIFICATION_SECRET"},
		"the sandbox's secret in production": {set("SANDBOX_SECRET", addressSecret+canary), "PAGBANK_SANDBOX_SECRET"},
		"a bad secret of the sandbox": {func(s *provider.Source) {
			s.Production = false
			*s = with(*s, settings{"SANDBOX_SECRET": canary})
		}, "PAGBANK_SANDBOX_SECRET"},
		"an address that is none":        {set("NOTIFICATION_BASE", canary), "PAGBANK_NOTIFICATION_BASE"},
		"an address with a password":     {set("NOTIFICATION_BASE", "https://u:"+canary+"@example.com"), "PAGBANK_NOTIFICATION_BASE"},
		"an address with a query":        {set("NOTIFICATION_BASE", "https://example.com/?token="+canary), "PAGBANK_NOTIFICATION_BASE"},
		"an address without encryption":  {set("NOTIFICATION_BASE", "http://"+canary+".example.com"), "PAGBANK_NOTIFICATION_BASE"},
		"an address of another scheme":   {set("NOTIFICATION_BASE", "ftp://"+canary+".example.com"), "PAGBANK_NOTIFICATION_BASE"},
		"an address that cannot be read": {set("NOTIFICATION_BASE", "https://"+canary+"\x7f"), "PAGBANK_NOTIFICATION_BASE"},
	} {
		t.Run(name, func(t *testing.T) {
			src := source()
			row.change(&src)
			_, err := pagbank.New(src)
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), row.variable) {
				t.Errorf("the error does not name %s: %v", row.variable, err)
			}
			if strings.Contains(err.Error(), canary) {
				t.Errorf("the error shows what was set: %v", err)
			}
		})
	}
}

func TestTheEnvironmentChoosesTheAddresses(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		production bool
		base, want string
	}{
		{true, "", "https://api.pagseguro.com/charges/" + chargeID},
		{false, "", "https://sandbox.api.pagseguro.com/charges/" + chargeID},
		{true, "http://127.0.0.1:9/x", "http://127.0.0.1:9/x/charges/" + chargeID},
	} {
		src := source()
		src.Production, src.APIBase = row.production, row.base
		got := ""
		_, err := build(t, src).Lookup(context.Background(), over(func(w http.ResponseWriter, r *http.Request) {
			got = r.URL.String()
			w.WriteHeader(http.StatusNotFound)
		}), chargeID)
		if !errors.Is(err, provider.ErrNotFound) || got != row.want {
			t.Errorf("asks %s (%v), want %s", got, err, row.want)
		}
	}
	src := source()
	src.APIKey = ""
	if _, err := build(t, src).Lookup(context.Background(), over(func(http.ResponseWriter, *http.Request) { t.Error("asked") }), chargeID); !errors.Is(err, provider.ErrRefused) {
		t.Error(err)
	}
}

func TestTraitsSayWhatTheSettingsAllow(t *testing.T) {
	t.Parallel()
	plain := build(t, source()).Traits()
	if !plain.BodyAuthenticated || !plain.CanLookup || plain.OwnsPath || plain.OtherCredentials || plain.EmptyBodies {
		t.Errorf("%+v", plain)
	}
	if (plain.Success != provider.Answer{Status: 200, Body: "ok"}) || plain.Unauthorized.Status != 401 {
		t.Errorf("answers %+v, %+v", plain.Success, plain.Unauthorized)
	}
	secret := build(t, with(source(), settings{"NOTIFICATION_SECRET": addressSecret})).Traits()
	if !secret.BodyAuthenticated || !secret.OwnsPath {
		t.Errorf("with an address secret: %+v", secret)
	}
	src := source()
	src.Production = false
	sandbox := build(t, src).Traits()
	if !sandbox.BodyAuthenticated || sandbox.OwnsPath {
		t.Errorf("a sandbox that demands signatures: %+v", sandbox)
	}
	open := build(t, with(src, settings{"SANDBOX_SECRET": addressSecret})).Traits()
	if open.BodyAuthenticated || !open.OwnsPath {
		t.Errorf("a sandbox that takes an address for a signature: %+v", open)
	}
}

func TestAPrintedProviderShowsNoSecret(t *testing.T) {
	t.Parallel()
	src := source()
	src.Production = false
	p := build(t, with(src, settings{"NOTIFICATION_SECRET": addressSecret, "SANDBOX_SECRET": addressSecret + "2"}))
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{p, struct{ P provider.Provider }{p}, []any{p}} {
			text := fmt.Sprintf(format, v)
			for _, secret := range []string{token, oldToken, addressSecret, email} {
				if strings.Contains(text, secret) {
					t.Errorf("%s of %T shows a secret: %s", format, v, text)
				}
			}
		}
	}
}

func TestOwnerComesFromTheReference(t *testing.T) {
	t.Parallel()
	src := source()
	src.BeneficiaryPattern = regexp.MustCompile(`^([A-Z]+)-`)
	p := build(t, src)
	if c := claimOf(t, p, paidOrder); c.Beneficiary != "PED" || c.Reference != "PED-1001" {
		t.Errorf("%+v", c)
	}
	if claims, err := resolve(t, p, latin1(t, transactionXML("5"))); err != nil || claims[0].Beneficiary != "PED" {
		t.Errorf("%+v, %v", claims, err)
	}
	if c := claimOf(t, p, strings.Replace(paidOrder, `"reference_id":"PED-1001","status"`, `"status"`, 1)); c.Reference != "PED-1001" {
		t.Errorf("a charge does not have its order's reference: %+v", c)
	}
}

// The recurring product's body that came to a secret address is kept, and
// gives no facts however often it is tried.
func TestARecurringPaymentIsKeptForAPerson(t *testing.T) {
	t.Parallel()
	p := build(t, with(source(), settings{"NOTIFICATION_SECRET": addressSecret}))
	r := provider.Request{Header: http.Header{pagbank.RecurringHeader: {"MEUCIQDx"}}, Path: addressSecret, Body: []byte(paidOrder), Now: clock}
	if label, reason := p.Verify(r); label != "address" || reason != provider.ReasonNone {
		t.Fatalf("label %q, reason %q", label, reason)
	}
	m := p.Parse(r)
	if len(m) != 1 || m[0].Disposition != provider.Quarantine || !strings.Contains(m[0].Reason, "X-Payload-Signature") {
		t.Fatalf("%+v", m)
	}
	if claims, err := p.Facts(providertest.EventOf(p, source(), r, m[0])); err == nil {
		t.Errorf("facts of a body that nobody signed: %+v", claims)
	}
	signed := sign(token, []byte(paidOrder), clock)
	signed.Header[pagbank.RecurringHeader] = []string{"MEUCIQDx"}
	if claims, err := p.Facts(providertest.EventOf(p, source(), signed, p.Parse(signed)[0])); err != nil || len(claims) != 1 {
		t.Errorf("a body with both signatures: %+v, %v", claims, err)
	}
}

func TestAChargebacksBodyIsForAPerson(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	r := sign(token, []byte(`{"id":"CBKS_1","status":"OPEN"}`), clock)
	m := p.Parse(r)[0]
	if m.Disposition != provider.Quarantine || m.Type != "chargeback" {
		t.Errorf("%+v", m)
	}
	if _, err := p.Facts(&event.Event{Body: r.Body}); err == nil || errors.Is(err, provider.ErrUnresolved) {
		t.Error(err)
	}
}
