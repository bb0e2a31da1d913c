package pagpolar_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

func FuzzVerify(f *testing.F) {
	p := build(f, source())
	for _, s := range []string{"Bearer " + token, "Bearer " + oldToken, "bearer " + token, "Bearer ", token, "", "\xff"} {
		f.Add(s, 1)
		f.Add(s, 2)
	}
	f.Fuzz(func(t *testing.T, value string, times int) {
		r := provider.Request{Header: http.Header{}}
		for range min(max(times, 0), 3) {
			r.Header["Authorization"] = append(r.Header["Authorization"], value)
		}
		label, reason := p.Verify(r)
		good := len(r.Header["Authorization"]) == 1 && (value == "Bearer "+token || value == "Bearer "+oldToken)
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
		r := sign(token, body, now)
		for _, m := range p.Parse(r) {
			if m.DedupeKey == "" || m.Disposition != provider.Process && m.Reason == "" {
				t.Fatalf("not fit to be stored: %+v", m)
			}
			claims, err := p.Facts(providertest.EventOf(p, source(), r, m))
			if err != nil || m.Disposition != provider.Process {
				continue
			}
			for _, c := range claims {
				if c.GatewayID != m.PaymentRef || c.Captured.Known || c.Currency != "" {
					t.Fatalf("message about %q gives claim %+v", m.PaymentRef, c)
				}
			}
		}
	})
}

func FuzzLookup(f *testing.F) {
	p := build(f, source(refundSettings()))
	f.Add([]byte(`{"data":{"id":"sale-1001","status":"PAID","order":"x","values":[{"total":14990}]}}`), []byte(`[{"id":"7","amount":4990,"status":"DONE"}]`))
	f.Add([]byte(`{"data":{"id":"sale-1001","status":"PART","values":[{"total":"5"}]}}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, sale, list []byte) {
		client := &http.Client{Transport: providertest.HandlerTransport{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/refunds") {
				_, _ = w.Write(list)
				return
			}
			_, _ = w.Write(sale)
		})}}
		c, err := p.Lookup(context.Background(), client, "sale-1001")
		if err != nil {
			return
		}
		if c.GatewayID != "sale-1001" || c.Currency != "BRL" || len(c.Facts) == 0 {
			t.Fatalf("%+v", c)
		}
		payment.Apply(payment.Payment{GatewayID: "sale-1001"}, c)
	})
}

// BenchmarkVerifyAndParse takes bodies of 1 KB through what ingest does with
// them before they are stored: one keyed by its ids, one by its content.
func BenchmarkVerifyAndParse(b *testing.B) {
	p := build(b, source())
	for _, event := range []string{"TRANSACTION_PAID", "TRANSACTION_ASK_REFUNDING"} {
		b.Run(event, func(b *testing.B) {
			body := strings.Replace(paidBody, "TRANSACTION_PAID", event, 1)
			fill := `"description":"` + strings.Repeat("x", 1024-len(body)-len(`"description":"",`)) + `",`
			body = strings.Replace(body, `"status"`, fill+`"status"`, 1)
			if len(body) != 1024 {
				b.Fatalf("%d bytes", len(body))
			}
			r := sign(oldToken, []byte(body), now)
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
		})
	}
}
