package asaas_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/asaas"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

func TestASourceThatCouldNotWorkIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*provider.Source){
		"a token of 31 characters": func(s *provider.Source) { s.WebhookSecrets = []provider.Secret{provider.Secret(token[:31])} },
		"a token of 256 characters": func(s *provider.Source) {
			s.WebhookSecrets = []provider.Secret{provider.Secret(strings.Repeat("a", 256))}
		},
		"a token with a space inside":           func(s *provider.Source) { s.WebhookSecrets = []provider.Secret{"aaaaaaaaaaaaaaaa aaaaaaaaaaaaaaaaaa"} },
		"an API key in the place of a token":    func(s *provider.Source) { s.WebhookSecrets = []provider.Secret{"$aact_prod_" + token} },
		"a sandbox key in production":           func(s *provider.Source) { s.APIKey = "$aact_hmlg_canary" },
		"a production key in the sandbox":       func(s *provider.Source) { s.APIKey, s.Production = "$aact_prod_canary", false },
		"a user agent with a control character": func(s *provider.Source) { s.Setting = func(string) string { return "a\nb" } },
	} {
		t.Run(name, func(t *testing.T) {
			src := source()
			change(&src)
			_, err := asaas.New(src)
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), "ASAAS_") {
				t.Errorf("the error names no setting: %v", err)
			}
			if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), token[:31]) {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestAKeyOfTheOtherEnvironmentIsTheOperatorsWordWithAnAddressOfItsOwn(t *testing.T) {
	t.Parallel()
	src := source()
	src.APIKey, src.APIBase = "$aact_hmlg_x", "https://api.example.test"
	build(t, src)
}

func TestTheEnvironmentChoosesTheAddress(t *testing.T) {
	t.Parallel()
	for production, want := range map[bool]string{true: "https://api.asaas.com/v3/payments/pay_1", false: "https://api-sandbox.asaas.com/v3/payments/pay_1"} {
		src := source()
		src.Production = production
		got := ""
		client := &http.Client{Transport: providertest.HandlerTransport{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r.URL.String()
			w.WriteHeader(http.StatusNotFound)
		})}}
		if _, err := build(t, src).Lookup(context.Background(), client, "pay_1"); !errors.Is(err, provider.ErrNotFound) || got != want {
			t.Errorf("production %v asks %s (%v), want %s", production, got, err, want)
		}
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
	if _, err := p.Lookup(context.Background(), client, "pay_1"); !errors.Is(err, provider.ErrRefused) {
		t.Error(err)
	}
}

// Asaas counts only 200 as success; 201 and 204 stop the queue.
func TestCase_D11_AnswersAreExactlyThoseOfTheContract(t *testing.T) {
	t.Parallel()
	tr := build(t, source()).Traits()
	if (tr.Success != provider.Answer{Status: 200, Body: "ok"}) {
		t.Errorf("success %+v", tr.Success)
	}
	if tr.Unauthorized.Status != 401 {
		t.Errorf("unauthorized %+v", tr.Unauthorized)
	}
	if !tr.BodyAuthenticated || tr.LookupRate*12*60*60 > 25000 || tr.LookupBurst > 50 {
		t.Errorf("%+v", tr)
	}
}

func TestAPrintedProviderShowsNoSecret(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{p, struct{ P provider.Provider }{p}, []any{p}} {
			if text := fmt.Sprintf(format, v); strings.Contains(text, token) || strings.Contains(text, apiKey) {
				t.Errorf("%s shows a secret: %s", format, text)
			}
		}
	}
}

func TestOwnerComesFromTheReference(t *testing.T) {
	t.Parallel()
	src := source()
	src.BeneficiaryPattern = regexp.MustCompile(`^([A-Z]+)-`)
	p := build(t, src)
	r := sign(token, []byte(confirmed), time.Unix(1768480000, 0))
	claims, err := p.Facts(providertest.EventOf(p, src, r, p.Parse(r)[0]))
	if err != nil || claims[0].Beneficiary != "PED" || claims[0].Reference != "PED-1001" {
		t.Errorf("%+v, %v", claims, err)
	}
}

// A refund's id is made of its content; the order of the list is of no account.
func TestRefundsHaveTheSameIDsInAnyOrderOfTheList(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	items := []string{
		`{"dateCreated":"2026-01-25 10:00:00","status":"DONE","value":10}`,
		`{"dateCreated":"2026-01-25 10:00:00","status":"PENDING","value":10.00}`,
		`{"dateCreated":"2026-01-25 10:00:00","status":"CANCELLED","value":"10.0"}`,
		`{"dateCreated":"2026-01-24 10:00:00","status":"DONE","value":10}`,
	}
	body, err := os.ReadFile("testdata/payment_partially_refunded_without_list.json")
	if err != nil {
		t.Fatal(err)
	}
	ids := func(order []string) map[string]payment.RefundState {
		b := strings.Replace(string(body), `"refunds": null`, `"refunds":[`+strings.Join(order, ",")+`]`, 1)
		r := sign(token, []byte(b), time.Unix(1768480000, 0))
		claims, err := p.Facts(providertest.EventOf(p, source(), r, p.Parse(r)[0]))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]payment.RefundState{}
		for _, f := range claims[0].Facts {
			if f.Kind == payment.FactRefund {
				got[f.ID] = f.Refund
			}
		}
		return got
	}
	want := ids(items)
	if len(want) != 4 {
		t.Fatalf("%v", want)
	}
	permute(items, func(order []string) {
		if got := ids(order); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// permute calls visit with every order of the items.
func permute(items []string, visit func([]string)) {
	var rec func(n int)
	rec = func(n int) {
		if n == len(items) {
			visit(append([]string(nil), items...))
			return
		}
		for i := n; i < len(items); i++ {
			items[n], items[i] = items[i], items[n]
			rec(n + 1)
			items[n], items[i] = items[i], items[n]
		}
	}
	rec(0)
}

// "Partially refunded" without the list asks for the refunds' ids. Where
// nobody can be asked, a second one does not pass for a repetition.
func TestAPartialRefundWithoutListAsksForTheIDs(t *testing.T) {
	t.Parallel()
	body, err := os.ReadFile("testdata/payment_partially_refunded_without_list.json")
	if err != nil {
		t.Fatal(err)
	}
	known := payment.Refund{ID: "x", Amount: 1000, State: payment.RefundSucceeded, Booked: true}
	held := payment.Payment{GatewayID: "pay_example0001", Status: payment.StatusPartiallyRefunded, Currency: "BRL",
		Captured: payment.Of(14990), Refunded: 1000, Details: payment.Details{Refunds: []payment.Refund{known}}}
	for mode, want := range map[provider.LookupMode]payment.Need{
		provider.LookupAlways: "", provider.LookupInDoubt: payment.NeedRefundIDs, provider.LookupNever: payment.NeedRefundIDs,
	} {
		src := source()
		src.Lookup = mode
		p := build(t, src)
		r := sign(token, body, time.Unix(1768480000, 0))
		claims, err := p.Facts(providertest.EventOf(p, src, r, p.Parse(r)[0]))
		if err != nil {
			t.Fatal(err)
		}
		if got := payment.Apply(payment.Payment{GatewayID: "pay_example0001"}, claims[0]).Need; got != payment.NeedRefundIDs {
			t.Errorf("lookup %s, no refund known: need %q", mode, got)
		}
		if got := payment.Apply(held, claims[0]).Need; got != want {
			t.Errorf("lookup %s, one refund known: need %q, want %q", mode, got, want)
		}
	}
}
