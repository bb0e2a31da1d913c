package pagpolar_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/pagpolar"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

func TestHalfAnAccessToTheAPIIsRefusedByName(t *testing.T) {
	t.Parallel()
	required := []string{"API_AUTH", "SALE_ID_PATH", "STATUS_PATH", "STATUS_MAP", "AMOUNT_PATH", "AMOUNT_UNIT"}
	for _, setting := range required {
		if _, err := pagpolar.New(source(map[string]string{setting: ""})); err == nil || !strings.Contains(err.Error(), "PAGPOLAR_"+setting) {
			t.Errorf("without %s: %v", setting, err)
		}
	}
	for name, change := range map[string]func(*provider.Source){
		"API_KEY":  func(s *provider.Source) { s.APIKey = "" },
		"API_BASE": func(s *provider.Source) { s.APIBase = "" },
	} {
		src := source()
		change(&src)
		if _, err := pagpolar.New(src); err == nil || !strings.Contains(err.Error(), "PAGPOLAR_"+name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	src := source()
	src.Setting = nil
	_, err := pagpolar.New(src)
	for _, setting := range append(required, "CURRENCY or PAGPOLAR_CURRENCY_PATH") {
		if err == nil || !strings.Contains(err.Error(), "PAGPOLAR_"+setting) {
			t.Errorf("without any: %v", err)
		}
	}
	src.APIKey, src.APIBase = "", ""
	p := build(t, src)
	if p.Traits().CanLookup || p.Traits().BodyAuthenticated {
		t.Errorf("%+v", p.Traits())
	}
	if _, err := p.Lookup(context.Background(), http.DefaultClient, "sale-1"); !errors.Is(err, provider.ErrRefused) {
		t.Error(err)
	}
}

func TestSettingsThatCannotBeMeantAreRefusedByName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ setting, value string }{
		{"API_AUTH", "Bearer {key}"}, {"API_AUTH", "Authorization: Bearer canary"}, {"API_AUTH", "Author ization: {key}"}, {"API_AUTH", ": {key}"},
		{"API_AUTH", "X: {key}{key}"}, {"API_AUTH", "X: a\x00{key}"}, {"SALE_PATH", "/sales"}, {"SALE_PATH", "/sales/{id}?x=canary"},
		{"SALE_PATH", "/{id}/{id}"}, {"SALE_PATH", "/sales/../{id}"}, {"SALE_PATH", "/sales//{id}"}, {"SALE_PATH", "/sales/x{id}"},
		{"STATUS_MAP", "PAID"}, {"STATUS_MAP", "PAID=canary"}, {"STATUS_MAP", "PAID=paid,"}, {"STATUS_MAP", "=paid"}, {"STATUS_MAP", "A=paid,A=failed"},
		{"AMOUNT_UNIT", "cents"}, {"CURRENCY", "canary"}, {"CURRENCY_PATH", "x"}, {"AMOUNT_PATH", "a..b"}, {"STATUS_PATH", ".a"}, {"SALE_ID_PATH", "a."},
		{"DELAYED_DAILY", "canary"}, {"TRANSACTION_ID_PATH", "a..b"},
	} {
		_, err := pagpolar.New(source(map[string]string{c.setting: c.value}))
		if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "PAGPOLAR_"+strings.SplitN(c.setting, "_", 2)[0]) {
			t.Errorf("%s=%q: %v", c.setting, c.value, err)
		}
	}
	both := map[string]string{"FEE_PATH": "a", "NET_PATH": "b"}
	if _, err := pagpolar.New(source(both)); err == nil {
		t.Error("fee and net path are both accepted")
	}
	for setting := range refundSettings() {
		some := refundSettings()
		delete(some, setting)
		if _, err := pagpolar.New(source(some)); err == nil || !strings.Contains(err.Error(), "PAGPOLAR_"+setting) {
			t.Errorf("refunds without %s: %v", setting, err)
		}
	}
	bad := map[string]string{"AMOUNT_UNIT": "x", "STATUS_MAP": "y", "API_AUTH": "z"}
	_, err := pagpolar.New(source(bad))
	for setting := range maps.Keys(bad) {
		if err == nil || !strings.Contains(err.Error(), "PAGPOLAR_"+setting) {
			t.Errorf("all faults at once: %v", err)
		}
	}
}

func TestAnUnknownStatusIsNamedOnlyWhenItIsAWord(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for status, named := range map[string]bool{"ODD_WORD": true, "odd": true, "Maria": false, "123.456.789-00": false, "two words": false, strings.Repeat("A", 41): false} {
		client := &http.Client{Transport: providertest.HandlerTransport{Handler: sale(status, "", "")}}
		_, err := p.Lookup(context.Background(), client, "sale-1001")
		if !errors.Is(err, provider.ErrUnreadable) || !strings.Contains(err.Error(), "PAGPOLAR_STATUS_MAP") || named != strings.Contains(err.Error(), status) {
			t.Errorf("%q: %v", status, err)
		}
	}
}

func TestTheAddressOfSalesAndOfTheirIDsAreSettings(t *testing.T) {
	t.Parallel()
	src := source(map[string]string{"SALE_PATH": "api/{id}/show", "TRANSACTION_ID_PATH": "transaction.code"})
	p := build(t, src)
	body := strings.Replace(paidBody, `"id":"sale-1001"`, `"id":"x","code":"sale 1001"`, 1)
	m := p.Parse(sign(token, []byte(body), now))[0]
	if m.PaymentRef != "sale 1001" {
		t.Errorf("reference %q", m.PaymentRef)
	}
	asked := ""
	client := &http.Client{Transport: providertest.HandlerTransport{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		w.WriteHeader(http.StatusNotFound)
	})}}
	if _, err := p.Lookup(context.Background(), client, m.PaymentRef); !errors.Is(err, provider.ErrNotFound) || asked != "https://api.example.test/v1/api/sale%201001/show" {
		t.Errorf("asked %s, %v", asked, err)
	}
}

// The header marks a test as well as the body does (CASES D9).
func TestCase_D9_PlaygroundEventsAreIgnoredInProductionAlone(t *testing.T) {
	t.Parallel()
	sandbox := source()
	sandbox.Production = false
	inBody := strings.Replace(paidBody, `"id":"att-0002"`, `"test":true`, 1)
	for _, c := range []struct {
		name, body, header string
		test               bool
	}{
		{"neither", paidBody, "", false}, {"the body", inBody, "", true}, {"the header", paidBody, "true", true}, {"the header in capitals", paidBody, "TRUE", true},
		{"the header says false", paidBody, "false", false}, {"the header says false, the body true", inBody, "false", true},
	} {
		r := sign(token, []byte(c.body), now)
		if c.header != "" {
			r.Header.Set("X-PagPolar-Test", c.header)
		}
		production, other := build(t, source()).Parse(r)[0], build(t, sandbox).Parse(r)[0]
		want := provider.Process
		if c.test {
			want = provider.Ignore
		}
		if production.Test != c.test || production.Disposition != want || other.Test != c.test || other.Disposition != provider.Process {
			t.Errorf("%s: production %v %s, sandbox %v %s", c.name, production.Test, production.Disposition, other.Test, other.Disposition)
		}
	}
}

func TestADelayedSubscriptionMayHaveOneKeyADay(t *testing.T) {
	t.Parallel()
	body := []byte(`{"event":"SUBSCRIPTION_DELAYED","id":"att-0030","data":{"subscription":{"id":"sub-77","next_billing_at":"2026-03-01T00:00:00Z"}}}`)
	for setting, want := range map[string]int{"": 1, "true": 2} {
		p := build(t, source(map[string]string{"DELAYED_DAILY": setting}))
		keys := map[string]bool{}
		for _, at := range []string{"2026-03-02T03:00:00Z", "2026-03-02T23:00:00Z", "2026-03-03T02:59:59Z", "2026-03-03T03:00:00Z"} { // Sao Paulo is three hours behind
			when, err := time.Parse(time.RFC3339, at)
			if err != nil {
				t.Fatal(err)
			}
			keys[p.Parse(sign(token, body, when))[0].DedupeKey] = true
		}
		if len(keys) != want {
			t.Errorf("DELAYED_DAILY=%q gives %d keys, want %d", setting, len(keys), want)
		}
	}
}

func TestOnlyARefundRequestIsOpenedAgainByARepeat(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for event, want := range map[string]bool{"TRANSACTION_ASK_REFUNDING": true, "TRANSACTION_PAID": false, "TRANSACTION_CREATED": false, "TRANSACTION_X": false} {
		m := p.Parse(sign(token, []byte(strings.Replace(paidBody, "TRANSACTION_PAID", event, 1)), now))[0]
		if m.Reopen != want {
			t.Errorf("%s: reopen %v", event, m.Reopen)
		}
	}
}

func TestCase_D11_AnswersAreExactlyThoseOfTheContract(t *testing.T) {
	t.Parallel()
	tr := build(t, source()).Traits()
	if (tr.Success != provider.Answer{Status: 200, Body: "ok"}) || tr.Unauthorized.Status != 401 || tr.LookupRate != 5 {
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
