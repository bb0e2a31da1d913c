package pagarme_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/pagarme"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

func FuzzVerify(f *testing.F) {
	p := build(f, source())
	for _, s := range []string{provider.Basic("hookuser", "hookpass-0001"), "Basic ", "", "\xff", "basic aG9va3VzZXI6aG9va3Bhc3MtMDAwMQ=="} {
		f.Add(s)
	}
	good := map[string]string{provider.Basic("hookuser", "hookpass-0001"): "1", provider.Basic("umavez", "earlier:pass-22"): "2"}
	f.Fuzz(func(t *testing.T, value string) {
		label, reason := p.Verify(provider.Request{Header: http.Header{"Authorization": {value}}})
		if label != good[value] || (reason == provider.ReasonNone) != (good[value] != "") {
			t.Fatalf("%q: label %q, reason %q", value, label, reason)
		}
	})
}

func FuzzVerifySignature(f *testing.F) {
	p := build(f, signedSource(published()))
	for _, s := range []string{vectorHeader, vectorHeader + "==", "alg=RS256; kid=test-key-1; signature=", "alg=none", ";;==", "kid=;alg=RS256;signature=AA"} {
		f.Add(s, []byte(vectorBody))
	}
	f.Fuzz(func(t *testing.T, value string, body []byte) {
		label, reason := p.Verify(signed(value, body))
		if (reason == provider.ReasonNone) != (label != "") {
			t.Fatalf("label %q, reason %q", label, reason)
		}
		if reason == provider.ReasonNone && (string(body) != vectorBody || !strings.Contains(value, vectorSignature)) {
			t.Fatalf("%q accepted for another body", value)
		}
		explainer, _ := provider.As[provider.Explainer](p)
		explainer.Explain(signed(value, body))
	})
}

func FuzzVerifyPostback(f *testing.F) {
	p := build(f, legacySource())
	digest := hubDigest(hubKey, []byte(postback))
	for _, s := range []string{digest, "sha1=" + digest, "sha1=", strings.ToUpper(digest), "sha256=" + digest} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		label, reason := p.Verify(hub(value, []byte(postback)))
		good := strings.EqualFold(strings.TrimPrefix(value, "sha1="), digest)
		if good != (reason == provider.ReasonNone) || good != (label == "1") {
			t.Fatalf("%q: label %q, reason %q", value, label, reason)
		}
	})
}

// fuzzFacts takes a body all the way; nothing may panic, and what comes out
// must be fit to be stored.
func fuzzFacts(t *testing.T, p provider.Provider, src provider.Source, r provider.Request) {
	for _, m := range p.Parse(r) {
		if m.DedupeKey == "" || m.Disposition != provider.Process && m.Reason == "" {
			t.Fatalf("not fit to be stored: %+v", m)
		}
		claims, err := p.Facts(providertest.EventOf(p, src, r, m))
		if err != nil || m.Disposition != provider.Process {
			continue
		}
		if len(claims) > 0 && claims[0].GatewayID != m.PaymentRef {
			t.Fatalf("message about %q gives claim %+v", m.PaymentRef, claims[0])
		}
		for _, c := range claims {
			if c.GatewayID == "" || c.Captured.Value < 0 || c.Captured.Known && c.Captured.Value == 0 {
				t.Fatalf("%+v", c)
			}
			payment.Apply(payment.Payment{GatewayID: c.GatewayID}, c)
		}
	}
}

func seeds(f *testing.F, pattern string) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		f.Fatalf("no bodies in testdata: %v", err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
}

func FuzzParseAndFacts(f *testing.F) {
	p := build(f, source())
	seeds(f, "testdata/*.json")
	f.Fuzz(func(t *testing.T, body []byte) { fuzzFacts(t, p, source(), sign(login, body, now)) })
}

func FuzzPostbackFacts(f *testing.F) {
	p := build(f, legacySource())
	seeds(f, "testdata/v4/*.form")
	f.Fuzz(func(t *testing.T, body []byte) { fuzzFacts(t, p, legacySource(), hubSign(hubKey, body, now)) })
}

func FuzzLookup(f *testing.F) {
	src := source()
	src.Setting = settings("AUTH", "basic", "PAYABLES", "true")
	p, err := pagarme.New(src)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"id":"ch_1","status":"paid","amount":100,"paid_amount":100,"currency":"BRL"}`), []byte(`{"data":[{"type":"credit","fee":1,"installment":1}],"paging":{"total":1,"next":null}}`))
	f.Add([]byte(`{"id":"ch_1","status":"canceled","amount":100,"canceled_amount":100,"last_transaction":{"status":"refunded"}}`), []byte(`{"data":[],"paging":{"next":"https://x/?page=2"}}`))
	f.Add([]byte(`{"id":"ch_1","status":"chargedback","paid_amount":"7"}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, sale, list []byte) {
		client := &http.Client{Transport: providertest.HandlerTransport{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/payables") {
				_, _ = w.Write(list)
				return
			}
			_, _ = w.Write(sale)
		})}}
		c, err := p.Lookup(context.Background(), client, "ch_1")
		if err != nil {
			return
		}
		if c.GatewayID != "ch_1" || len(c.Facts) == 0 || c.Captured.Known && c.Captured.Value <= 0 {
			t.Fatalf("%+v", c)
		}
		payment.Apply(payment.Payment{GatewayID: "ch_1"}, c)
	})
}
