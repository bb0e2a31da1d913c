package asaas_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/asaas"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

func build(t testing.TB, src provider.Source) provider.Provider {
	t.Helper()
	p, err := asaas.New(src)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func FuzzVerify(f *testing.F) {
	p := build(f, source())
	for _, s := range []string{token, oldToken, token + " ", "", "\xff", strings.ToUpper(token)} {
		f.Add(s, 1)
		f.Add(s, 2)
	}
	f.Fuzz(func(t *testing.T, value string, times int) {
		r := provider.Request{Header: http.Header{}}
		for range min(max(times, 0), 3) {
			r.Header[asaas.TokenHeader] = append(r.Header[asaas.TokenHeader], value)
		}
		label, reason := p.Verify(r)
		good := len(r.Header[asaas.TokenHeader]) == 1 && (value == token || value == oldToken)
		if good != (reason == provider.ReasonNone) || good != (label != "") {
			t.Fatalf("%d times %q: label %q, reason %q", times, value, label, reason)
		}
	})
}

func FuzzParseAndFacts(f *testing.F) {
	p := build(f, source())
	files, err := filepath.Glob("testdata/*.json")
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
	f.Fuzz(func(t *testing.T, body []byte) {
		r := sign(token, body, time.Unix(1768480000, 0))
		for _, m := range p.Parse(r) {
			if m.DedupeKey == "" || m.Disposition != provider.Process && m.Reason == "" {
				t.Fatalf("not fit to be stored: %+v", m)
			}
			claims, err := p.Facts(providertest.EventOf(p, source(), r, m))
			if err != nil || m.Disposition != provider.Process {
				continue
			}
			for _, c := range claims {
				if c.GatewayID != m.PaymentRef || c.Captured.Value < 0 {
					t.Fatalf("message about %q gives claim %+v", m.PaymentRef, c)
				}
				payment.Apply(payment.Payment{GatewayID: c.GatewayID}, c)
			}
		}
	})
}

func FuzzLookup(f *testing.F) {
	p := build(f, source())
	f.Add([]byte(`{"id":"pay_1","status":"REFUNDED","value":1.5,"netValue":1,"refunds":null}`), []byte(`{"data":[{"status":"DONE","value":1.5}]}`))
	f.Add([]byte(`{"id":"pay_1","status":"RECEIVED","value":"10","chargeback":{"status":"REVERSED","value":3}}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, sale, list []byte) {
		client := &http.Client{Transport: providertest.HandlerTransport{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/refunds") {
				_, _ = w.Write(list)
				return
			}
			_, _ = w.Write(sale)
		})}}
		c, err := p.Lookup(context.Background(), client, "pay_1")
		if err != nil {
			return
		}
		if c.GatewayID != "pay_1" || c.Currency != "BRL" || len(c.Facts) == 0 {
			t.Fatalf("%+v", c)
		}
		payment.Apply(payment.Payment{GatewayID: "pay_1"}, c)
	})
}

// BenchmarkVerifyAndParse takes a body of 1 KB through what ingest does with
// it before it is stored.
func BenchmarkVerifyAndParse(b *testing.B) {
	p := build(b, source())
	body := []byte(strings.Replace(confirmed, `"object":"payment",`, `"object":"payment","description":"`+strings.Repeat("x", 1024-len(confirmed)-len(`"description":"",`))+`",`, 1))
	if len(body) != 1024 {
		b.Fatalf("%d bytes", len(body))
	}
	r := sign(oldToken, body, time.Unix(1768480000, 0))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, reason := p.Verify(r); reason != "" {
			b.Fatal(reason)
		}
		if m := p.Parse(r); m[0].Disposition != provider.Process {
			b.Fatal(m[0].Reason)
		}
	}
}
