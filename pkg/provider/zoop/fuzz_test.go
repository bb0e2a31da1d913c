package zoop_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

func FuzzVerify(f *testing.F) {
	plain := build(f, source())
	strict := build(f, source(map[string]string{"AUTHORIZATION": "Bearer x"}))
	for _, path := range []string{secret, oldSecret, secret + "/", "", "/", "\xff", secret + "x"} {
		f.Add(path, "Bearer x", 1)
		f.Add(path, "", 0)
		f.Add(path, "bearer x", 2)
	}
	f.Fuzz(func(t *testing.T, path, value string, times int) {
		r := provider.Request{Header: http.Header{}, Path: path}
		for range min(max(times, 0), 3) {
			r.Header["Authorization"] = append(r.Header["Authorization"], value)
		}
		good := path == secret || path == oldSecret
		for p, want := range map[provider.Provider]bool{plain: good, strict: good && len(r.Header["Authorization"]) == 1 && value == "Bearer x"} {
			label, reason := p.Verify(r)
			if want != (reason == provider.ReasonNone) || want != (label != "") {
				t.Fatalf("%q, %d times %q: label %q, reason %q", path, times, value, label, reason)
			}
		}
	})
}

func FuzzParseAndFacts(f *testing.F) {
	trusting := source()
	trusting.UnsafeTrust = true
	providers := map[provider.Provider]provider.Source{build(f, source()): source(), build(f, trusting): trusting}
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
		r := sign(secret, body, now)
		for p, src := range providers {
			for _, m := range p.Parse(r) {
				if m.DedupeKey == "" || m.Disposition != provider.Process && m.Reason == "" {
					t.Fatalf("not fit to be stored: %+v", m)
				}
				claims, err := p.Facts(providertest.EventOf(p, src, r, m))
				if err != nil || m.Disposition != provider.Process {
					continue
				}
				if len(claims) != 1 {
					t.Fatalf("%d claims", len(claims))
				}
				c := claims[0]
				if c.GatewayID != m.PaymentRef || c.Currency != "" && c.Currency != "BRL" || c.Captured.Known && c.Captured.Value <= 0 {
					t.Fatalf("message about %q gives claim %+v", m.PaymentRef, c)
				}
				payment.Apply(payment.Payment{GatewayID: c.GatewayID}, c)
			}
		}
	})
}

func FuzzLookup(f *testing.F) {
	p := build(f, source())
	for _, row := range lookups() {
		f.Add(bodyOf(row.Answer))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		client := &http.Client{Transport: providertest.HandlerTransport{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(body)
		})}}
		c, err := p.Lookup(context.Background(), client, id)
		if err != nil {
			return
		}
		if c.GatewayID != id || c.Currency != "BRL" || len(c.Facts) == 0 || c.Captured.Known && c.Captured.Value <= 0 {
			t.Fatalf("%+v", c)
		}
		c.At = time.Unix(1768480000, 0)
		r := payment.Apply(payment.Payment{GatewayID: id}, c)
		if r.Need != "" && r.Need != payment.NeedDisputeAmount {
			t.Fatalf("a lookup by itself needs %s: %+v", r.Need, c)
		}
	})
}

// bodyOf is what a handler answers.
func bodyOf(h http.HandlerFunc) []byte {
	var w recorder
	h(&w, nil)
	return w.body
}

type recorder struct{ body []byte }

func (*recorder) Header() http.Header { return http.Header{} }
func (*recorder) WriteHeader(int)     {}
func (r *recorder) Write(b []byte) (int, error) {
	r.body = append(r.body, b...)
	return len(b), nil
}
