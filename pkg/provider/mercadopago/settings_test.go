package mercadopago_test

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
	"github.com/umavez/umavez/pkg/provider/mercadopago"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

func TestASourceThatCouldNotWorkIsRefusedByName(t *testing.T) {
	t.Parallel()
	set := func(setting string) func(*provider.Source) {
		return func(s *provider.Source) { s.Setting = source(setting).Setting }
	}
	for name, c := range map[string]struct {
		change   func(*provider.Source)
		variable string
	}{
		"a short secret":                {func(s *provider.Source) { s.WebhookSecrets = []provider.Secret{"canary-of-15-ch"} }, "MERCADOPAGO_WEBHOOK_SECRETS"},
		"no access token":               {func(s *provider.Source) { s.APIKey = "" }, "MERCADOPAGO_API_KEY"},
		"an access token with a space":  {func(s *provider.Source) { s.APIKey = "APP_USR canary" }, "MERCADOPAGO_API_KEY"},
		"a test token in production":    {func(s *provider.Source) { s.APIKey = "TEST-canary" }, "MERCADOPAGO_API_KEY"},
		"no lookups":                    {func(s *provider.Source) { s.Lookup = provider.LookupNever }, "MERCADOPAGO_LOOKUP"},
		"an id case of another word":    {set("ID_CASE=canary"), "MERCADOPAGO_ID_CASE"},
		"an id case in capitals":        {set("ID_CASE=LOWER"), "MERCADOPAGO_ID_CASE"},
		"a source of another word":      {set("MONEY_SOURCE=canary"), "MERCADOPAGO_MONEY_SOURCE"},
		"a tolerance without a unit":    {set("TOLERANCE=300"), "MERCADOPAGO_TOLERANCE"},
		"a tolerance of seconds":        {set("TOLERANCE=10s"), "MERCADOPAGO_TOLERANCE"},
		"a tolerance below zero":        {set("TOLERANCE=-1h"), "MERCADOPAGO_TOLERANCE"},
		"a tolerance of words":          {set("TOLERANCE=canary"), "MERCADOPAGO_TOLERANCE"},
		"a currency that is none":       {set("CURRENCY=canary"), "MERCADOPAGO_CURRENCY"},
		"a seller that is not a number": {set("USER_ID=canary"), "MERCADOPAGO_USER_ID"},
	} {
		t.Run(name, func(t *testing.T) {
			src := source()
			c.change(&src)
			_, err := mercadopago.New(src)
			if err == nil || !strings.Contains(err.Error(), c.variable) {
				t.Fatalf("error %v, want one that names %s", err, c.variable)
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("the error shows the value: %v", err)
			}
		})
	}
}

func TestAllFaultsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	src := source("ID_CASE=x", "MONEY_SOURCE=y", "TOLERANCE=z", "CURRENCY=w", "USER_ID=v")
	src.WebhookSecrets, src.APIKey = nil, ""
	_, err := mercadopago.New(src)
	for _, variable := range []string{"WEBHOOK_SECRETS", "ID_CASE", "MONEY_SOURCE", "TOLERANCE", "CURRENCY", "USER_ID", "API_KEY"} {
		if err == nil || !strings.Contains(err.Error(), "MERCADOPAGO_"+variable) {
			t.Errorf("%s is not named in: %v", variable, err)
		}
	}
}

func TestATestTokenIsGoodInTheSandboxAndForAnAddressOfItsOwn(t *testing.T) {
	t.Parallel()
	src := source()
	src.APIKey, src.Production = "TEST-x", false
	if _, err := mercadopago.New(src); err != nil {
		t.Error(err)
	}
	src.Production, src.APIBase = true, "https://api.example.test"
	if _, err := mercadopago.New(src); err != nil {
		t.Error(err)
	}
}

func TestTheAddressIsMercadoPagosOwnUnlessSet(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{"": "https://api.mercadopago.com/v1/payments/1", "https://api.example.test/mp/": "https://api.example.test/mp/v1/payments/1"} {
		src := source()
		src.APIBase = base
		p, err := mercadopago.New(src)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		client := clientOf(func(w http.ResponseWriter, r *http.Request) {
			got = r.URL.String()
			w.WriteHeader(http.StatusNotFound)
		})
		if _, err := p.Lookup(context.Background(), client, "1"); !errors.Is(err, provider.ErrNotFound) || got != want {
			t.Errorf("asks %s (%v), want %s", got, err, want)
		}
	}
}

func clientOf(h http.HandlerFunc) *http.Client {
	return &http.Client{Transport: providertest.HandlerTransport{Handler: h}}
}

// 202 and 204 are failures to Mercado Pago (CASES D11).
func TestCase_D11_MercadoPagoIsAnsweredExactly200And401(t *testing.T) {
	t.Parallel()
	tr := build(t).Traits()
	if (tr.Success != provider.Answer{Status: 200, Body: "ok"}) || tr.Unauthorized.Status != 401 {
		t.Errorf("%+v", tr)
	}
	if tr.BodyAuthenticated || !tr.CanLookup || tr.OwnsPath || tr.EmptyBodies || tr.OtherCredentials {
		t.Errorf("%+v", tr)
	}
}

func TestAPrintedProviderShowsNoSecret(t *testing.T) {
	t.Parallel()
	p := build(t)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{p, struct{ P provider.Provider }{p}, []any{p}} {
			if text := fmt.Sprintf(format, v); strings.Contains(text, secret) || strings.Contains(text, apiKey) {
				t.Errorf("%s shows a secret: %s", format, text)
			}
		}
	}
}

// The owner comes from the reference that the API gives, never from a body.
func TestTheOwnerComesFromTheReferenceOfTheAnswer(t *testing.T) {
	t.Parallel()
	src := source("MONEY_SOURCE=order")
	src.BeneficiaryPattern = regexp.MustCompile(`^([A-Z]+)-`)
	p, err := mercadopago.New(src)
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.Lookup(context.Background(), clientOf(ord("processed", "accredited", "")), ordID)
	if err != nil || c.Beneficiary != "PED" || c.Reference != "PED-1001" {
		t.Errorf("%+v, %v", c, err)
	}
	r := sign(secret, body(t, "orders/order_processed"), clock)
	claims, err := p.Facts(providertest.EventOf(p, src, r, p.Parse(r)[0]))
	if err != nil || len(claims) != 1 || claims[0].Beneficiary != "" || claims[0].Reference != "" || claims[0].Captured != (payment.Minor{}) {
		t.Errorf("%+v, %v", claims, err)
	}
}

// A secret's address may serve several sellers; those of others are set aside.
func TestNotificationsForAnotherSellerAreSetAside(t *testing.T) {
	t.Parallel()
	updated := body(t, "payment_updated")
	for setting, want := range map[string]provider.Disposition{"": provider.Process, "USER_ID=444555666": provider.Process, "USER_ID=444555667": provider.Ignore} {
		p := build(t, setting)
		for name, b := range map[string][]byte{"a number": updated, "a text": changer(updated)(`444555666`, `"444555666"`)} {
			if m := p.Parse(sign(secret, b, clock))[0]; m.Disposition != want || want == provider.Ignore && m.Reason != mercadopago.ReasonOtherUser {
				t.Errorf("%s, %s: %s (%s)", setting, name, m.Disposition, m.Reason)
			}
		}
		if m := p.Parse(sign(secret, changer(updated)(`"user_id":444555666,`, ``), clock))[0]; m.Disposition != provider.Process {
			t.Errorf("%s: without user_id: %s", setting, m.Reason)
		}
	}
}

func TestATestOrderIsProcessedInTheSandbox(t *testing.T) {
	t.Parallel()
	src := source("MONEY_SOURCE=order")
	src.Production = false
	p, err := mercadopago.New(src)
	if err != nil {
		t.Fatal(err)
	}
	m := p.Parse(sign(secret, body(t, "order_of_a_test"), clock))[0]
	if !m.Test || m.Disposition != provider.Process || !strings.HasPrefix(m.PaymentRef, "ORDTST") {
		t.Errorf("%+v", m)
	}
}
