package pagbank_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/pagbank"
)

func unsigned(body, path string) provider.Request {
	return provider.Request{Header: http.Header{}, Path: path, Body: []byte(body), Now: clock}
}

func wantVerified(t *testing.T, p provider.Provider, r provider.Request, label string, reason provider.Reason) {
	t.Helper()
	if gotLabel, gotReason := p.Verify(r); gotLabel != label || gotReason != reason {
		t.Errorf("label %q, reason %q; want %q, %q", gotLabel, gotReason, label, reason)
	}
}

func TestACodeNeedsTheSecretAddressWhereThereIsOne(t *testing.T) {
	t.Parallel()
	p := build(t, with(source(), settings{"NOTIFICATION_SECRET": addressSecret + ", " + addressSecret + "-before"}))
	wantVerified(t, p, unsigned(form, addressSecret), "address", provider.ReasonNone)
	wantVerified(t, p, unsigned(form, addressSecret+"-before"), "address", provider.ReasonNone)
	wantVerified(t, p, unsigned("\xef\xbb\xbf"+form, addressSecret), "address", provider.ReasonNone)
	wantVerified(t, p, unsigned(form, ""), "", provider.ReasonMissing)
	for _, path := range []string{addressSecret + "/", addressSecret + "x", addressSecret[1:], strings.ToUpper(addressSecret), "é\xff", strings.Repeat("a", 64<<10), token} {
		wantVerified(t, p, unsigned(form, path), "", provider.ReasonToken)
	}
	// The address stands for no signature of a body.
	wantVerified(t, p, unsigned(paidOrder, addressSecret), "", provider.ReasonMissing)
	wantVerified(t, p, unsigned("", addressSecret), "", provider.ReasonMissing)
	r := sign(token, []byte(paidOrder), clock)
	r.Path = "anything"
	wantVerified(t, p, r, "1", provider.ReasonNone)
}

func TestOnlyTheSandboxTakesAnAddressForASignature(t *testing.T) {
	t.Parallel()
	src := source()
	src.Production = false
	wantVerified(t, build(t, src), unsigned(paidOrder, ""), "", provider.ReasonMissing)
	p := build(t, with(src, settings{"SANDBOX_SECRET": addressSecret}))
	wantVerified(t, p, unsigned(paidOrder, addressSecret), "address", provider.ReasonNone)
	wantVerified(t, p, unsigned(paidOrder, ""), "", provider.ReasonMissing)
	wantVerified(t, p, unsigned(paidOrder, addressSecret+"x"), "", provider.ReasonToken)
	// A signature that is there must be right, wherever it comes to.
	r := sign("some-other-token-of-nobody", []byte(paidOrder), clock)
	r.Path = addressSecret
	wantVerified(t, p, r, "", provider.ReasonMismatch)
	r.Header[pagbank.TokenHeader] = []string{""}
	wantVerified(t, p, r, "", provider.ReasonMissing)
	r.Header[pagbank.TokenHeader] = []string{"x", "y"}
	wantVerified(t, p, r, "", provider.ReasonMalformed)
	wantVerified(t, p, sign(oldToken, []byte(paidOrder), clock), "2", provider.ReasonNone)
	wantVerified(t, p, unsigned(form, ""), "unsigned", provider.ReasonNone)
	both := build(t, with(src, settings{"SANDBOX_SECRET": addressSecret, "NOTIFICATION_SECRET": addressSecret + "-codes"}))
	wantVerified(t, both, unsigned(form, addressSecret), "address", provider.ReasonNone)
	wantVerified(t, both, unsigned(form, addressSecret+"-codes"), "address", provider.ReasonNone)
	wantVerified(t, both, unsigned(form, ""), "", provider.ReasonMissing)
	wantVerified(t, both, unsigned(paidOrder, addressSecret+"-codes"), "", provider.ReasonToken)
}

// Explain names what happened to a body on its way. It shows neither a token
// nor a body.
func TestAWrongDigestIsExplained(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	body := []byte("{\n  \"id\": \"CHAR_1\",\n  \"note\": \"a & b\"\n}")
	for signed, want := range map[string]string{
		string(body):                          "account token, hyphen and body as received",
		string(body) + "\n":                   "the body with a line break at its end",
		`{"id":"CHAR_1","note":"a & b"}`:      "the body as JSON without spaces",
		`{"id":"CHAR_1","note":"a \u0026 b"}`: "the body parsed and written anew, keys sorted",
		`{}`:                                  "",
	} {
		r := provider.Request{Header: http.Header{pagbank.TokenHeader: {digest(oldToken, []byte(signed))}}, Body: body}
		found := ""
		for i, text := range p.Explain(r) {
			if text.Secret == "2" {
				found = text.Name
			}
			if text.Accepted != (i == 0) || strings.Contains(text.Text+text.Name, "CHAR_") || strings.Contains(text.Text+text.Name, oldToken) {
				t.Errorf("%s: %+v", want, text)
			}
		}
		if found != want {
			t.Errorf("explained as %q, want %q", found, want)
		}
		if label, reason := p.Verify(r); (label == "2") != (signed == string(body)) || (reason == provider.ReasonNone) != (label != "") {
			t.Errorf("%s: Verify says %q, %q", want, label, reason)
		}
	}
	for _, value := range [][]string{nil, {""}, {"x"}, {"a", "b"}} {
		if texts := p.Explain(provider.Request{Header: http.Header{pagbank.TokenHeader: value}, Body: body}); texts != nil {
			t.Errorf("%v: %+v", value, texts)
		}
	}
}

// Row A1: two spaces and a trailing zero are part of what is signed.
func TestCase_A1_PagBankRefusesABodyThatWasWrittenAnew(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	body := []byte(`{"amount": 100.10,  "id":"CHAR_T1"}`)
	r := sign(token, body, clock)
	wantVerified(t, p, r, "1", provider.ReasonNone)
	r.Body = []byte(`{"amount":100.1,"id":"CHAR_T1"}`)
	wantVerified(t, p, r, "", provider.ReasonMismatch)
}

// Row A14: the form is a form as sent, in any order and with further fields;
// it is never read from a rebuilt map, and nothing of it is believed.
func TestCase_A14_PagBankTakesACodeInAnyFormAndNoFactsFromIt(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for _, body := range []string{
		form, "notificationType=transaction&notificationCode=A-1", form + "&x=a+b%20c", "x=&" + form, "%6eotificationCode=A1&notificationType=transaction&n=1",
	} {
		label, reason := p.Verify(unsigned(body, ""))
		if body[0] == '%' { // begins like nothing that PagBank sends
			if reason != provider.ReasonMissing {
				t.Errorf("%s: %q", body, reason)
			}
			continue
		}
		if label != "unsigned" || reason != provider.ReasonNone {
			t.Errorf("%s: label %q, reason %q", body, label, reason)
		}
		m := p.Parse(unsigned(body, ""))
		if len(m) != 1 || m[0].Disposition != provider.Process || m[0].PaymentRef != "" || !bytes.Equal(m[0].Body, []byte(body)) {
			t.Errorf("%s: %+v", body, m)
		}
		if claims, err := p.Facts(&event.Event{Body: []byte(body)}); err != provider.ErrUnresolved || len(claims) != 0 {
			t.Errorf("%s: %+v, %v", body, claims, err)
		}
	}
}

// Row A25: what is not signed names no event.
func TestCase_A25_PagBankKeysDependOnTheSignedBodyAlone(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	key := func(product, body string) string {
		r := sign(token, []byte(body), clock)
		r.Header["X-Product-Id"] = []string{product}
		return p.Parse(r)[0].DedupeKey
	}
	if key("ORDE_1", paidOrder) != key("ORDE_2", paidOrder) {
		t.Error("a header changes the key")
	}
	if key("ORDE_1", paidOrder) == key("ORDE_1", strings.Replace(paidOrder, `"refunded":0`, `"refunded":5`, 1)) {
		t.Error("a new state is swallowed by the header of the old one")
	}
}

// Row A26: a mark before a form is no part of its first name.
func TestCase_A26_PagBankSkipsAMarkBeforeAForm(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	marked := p.Parse(unsigned("\xef\xbb\xbf\xef\xbb\xbf"+form, ""))[0]
	if plain := p.Parse(unsigned(form, ""))[0]; marked.DedupeKey != plain.DedupeKey || marked.ProviderEventID != plain.ProviderEventID || marked.Disposition != provider.Process {
		t.Errorf("%+v", marked)
	}
}
