package providertest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// formToy is the toy gateway with forms and without lookups; the token is at
// the end of the address. Each flaw breaks one thing of forms.
type formToy struct{ toy }

func newFormToy(flaw string) provider.Factory {
	return func(src provider.Source) (provider.Provider, error) {
		if err := src.CheckSecrets(8); err != nil {
			return nil, err
		}
		return &formToy{toy{src, flaw}}, nil
	}
}

func (g *formToy) Verify(r provider.Request) (string, provider.Reason) {
	if g.flaw == "looks at the header" {
		return g.toy.Verify(r)
	}
	path := r.Path
	if first, _, more := strings.Cut(path, "/"); more && g.flaw == "first part of the path" {
		path = first
	}
	values := http.Header{}
	if path != "" {
		values.Set("X-Token", path)
	}
	r.Header = values
	return g.toy.Verify(r)
}

// fields reads a form, in the way of the flaw.
func (g *formToy) fields(body []byte) (provider.Form, error) {
	switch g.flaw {
	case "keeps the mark":
		if bytes.HasPrefix(body, []byte("\xef\xbb\xbf")) {
			body = append([]byte("x"), body...)
		}
	case "takes the first of two", "takes what it can":
		values, err := url.ParseQuery(string(provider.SkipBOM(body)))
		if err != nil && g.flaw != "takes what it can" {
			return nil, provider.ErrForm
		}
		form := provider.Form{}
		for name := range values {
			form[name] = provider.Text(strings.ToValidUTF8(values.Get(name), "\uFFFD"))
		}
		return form, nil
	case "names as they are":
		form := provider.Form{}
		for pair := range strings.SplitSeq(string(provider.SkipBOM(body)), "&") {
			name, value, _ := strings.Cut(pair, "=")
			if _, twice := form[strings.ReplaceAll(strings.ReplaceAll(name, "%5B", "["), "%5D", "]")]; twice {
				return nil, provider.ErrForm
			}
			value, err := url.QueryUnescape(value)
			if err != nil {
				return nil, provider.ErrForm
			}
			form[strings.ReplaceAll(strings.ReplaceAll(name, "%5B", "["), "%5D", "]")] = provider.Text(strings.ToValidUTF8(value, "\uFFFD"))
		}
		return form, nil
	}
	return provider.DecodeForm(body)
}

func (g *formToy) Parse(r provider.Request) []provider.Message {
	form, err := g.fields(r.Body)
	id := form["data[id]"]
	switch {
	case g.flaw == "panics on a missing field" && err == nil && form["type"] != "" && id == "":
		panic("no id")
	case err == nil && g.flaw == "quotes" && !id.Clean():
		return provider.Quarantined(r.Body, "", "bad id "+strings.Map(func(c rune) rune {
			if c < ' ' {
				return -1
			}
			return c
		}, string(id)))
	case err != nil || !id.Clean() || id == "" || !form["type"].Clean() || form["type"] == "":
		return provider.Quarantined(r.Body, "", provider.ReasonUnreadable)
	}
	m := provider.Message{DedupeKey: event.Key("event", string(form["type"]), string(id)), Type: string(form["type"]), PaymentRef: string(id), Body: r.Body, Disposition: provider.Process}
	if g.flaw == "hash" {
		m.DedupeKey = event.BodyKey(r.Body)
	}
	return []provider.Message{m}
}

func (g *formToy) Facts(e *event.Event) ([]payment.Claim, error) {
	form, err := g.fields(e.Body)
	if err != nil {
		return nil, err
	}
	id := form["data[id]"]
	if id == "" || !id.Clean() {
		return nil, provider.ErrForm
	}
	return []payment.Claim{{GatewayID: string(id), Reason: e.Type, Facts: []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusPaid}}}}, nil
}

func (g *formToy) Lookup(context.Context, *http.Client, string) (payment.Claim, error) {
	return payment.Claim{}, provider.ErrRefused
}

func (g *formToy) Traits() provider.Traits {
	t := g.toy.Traits()
	t.CanLookup, t.OwnsPath = false, true
	return t
}

func formToySpec(t *testing.T, flaw string) Spec {
	s := toySpec("")
	const body = "type=paid&data%5Bid%5D=pay_0001&data%5Bnote%5D=a+b"
	s.Factory, s.Form, s.CredentialHeader, s.CredentialPath = newFormToy(flaw), true, "", true
	s.Sign = func(secret string, b []byte, now time.Time) provider.Request {
		return provider.Request{Header: http.Header{}, Path: secret, Body: b, Now: now}
	}
	s.Body, s.Amounts, s.OutOfRange = []byte(body), nil, nil
	s.Keys = []KeyPair{{Name: "other id", A: []byte(body), B: []byte(strings.Replace(body, "0001", "0002", 1))}}
	s.Lookups, s.LookupRef, s.LookupAnswer, s.LookupAmounts = nil, "", nil, nil
	s.GoldenDir = t.TempDir()
	golden := fmt.Sprintf("message process key=%s type=paid ref=pay_0001\n  claim pay_0001 reason=paid\n    fact status status=paid\n", event.Key("event", "paid", "pay_0001"))
	for name, text := range map[string]string{"paid.form": body, "paid.golden": golden} {
		if err := os.WriteFile(s.GoldenDir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// formFlawVariable makes the form toy of this process a broken one.
const formFlawVariable = "UMAVEZ_FORM_TOY_FLAW"

func TestACorrectGatewayWithFormsPassesTheSuite(t *testing.T) {
	t.Parallel()
	Run(t, formToySpec(t, os.Getenv(formFlawVariable)))
}

func TestTheSuiteFindsEachFlawOfForms(t *testing.T) {
	t.Parallel()
	if os.Getenv(formFlawVariable) != "" {
		t.Fatal("this test starts the broken ones itself")
	}
	for flaw, part := range map[string]string{
		"looks at the header":       "secret_1_is_accepted",
		"first part of the path":    "credentials_sent_twice",
		"keeps the mark":            "a_byte-order_mark",
		"takes the first of two":    "a_second_value_of",
		"takes what it can":         "shapes",
		"names as they are":         "every_byte_of_the_names_encoded",
		"panics on a missing field": "damaged_values",
		"quotes":                    "damaged_values",
		"hash":                      "foreign_bytes",
	} {
		t.Run(flaw, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestACorrectGatewayWithFormsPassesTheSuite$")
			cmd.Env = append(os.Environ(), formFlawVariable+"="+flaw)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatal("the suite passes")
			}
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, "--- FAIL") && strings.Contains(line, part) {
					return
				}
			}
			t.Errorf("fails, but not in %q:\n%.3000s", part, out)
		})
	}
}
