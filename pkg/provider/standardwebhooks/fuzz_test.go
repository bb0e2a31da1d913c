package standardwebhooks

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// FuzzVerify: what is accepted has among its entries, letter for letter, one
// that the holder of a key makes for this id, time and body, and nothing
// makes Verify or Explain panic.
func FuzzVerify(f *testing.F) {
	body := testdata(f, "vector")
	for _, signature := range []string{byNow, byOld, byPrivate, combined, "", "v1,", "v1a,", "v1 v1a", "garbage v1 v2,AAAA " + byNow, " " + byNow, "v1=" + byNow[3:], "é©"} {
		f.Add(vectorID, "1767225600", signature, body, int64(vectorStamp))
	}
	f.Add("a.b", "01767225600", combined, body, int64(0))
	p := build(f, source(vectorNow, vectorPublic))
	f.Fuzz(func(t *testing.T, id, stamp, signature string, body []byte, now int64) {
		r := request(id, stamp, signature, body, time.Unix(now, 0))
		label, reason := p.Verify(r)
		if (label == "") != (reason != "") {
			t.Fatalf("label %q, reason %q", label, reason)
		}
		p.Explain(r)
		if reason != "" {
			return
		}
		var s signed
		if readSigned(r.Header, standardHeaders, &s) != "" || strings.Contains(id, ".") {
			t.Fatalf("accepted what cannot be read: %q %q", id, stamp)
		}
		for _, secret := range []string{vectorNow, vectorPrivate} {
			want, err := Sign(secret, id, time.Unix(s.seconds, 0), body)
			if err != nil {
				t.Fatal(err)
			}
			for entry := range strings.SplitSeq(signature, " ") {
				if entry == want {
					return
				}
			}
		}
		t.Fatalf("accepted %q, which no key of ours makes", signature)
	})
}

func seeds(f *testing.F, pattern string) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		f.Fatalf("no bodies at %s: %v", pattern, err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
}

// FuzzParseAndFacts: one sound message for whatever body, the same one again,
// and no claim of what was not let through, or of money below zero.
func FuzzParseAndFacts(f *testing.F) {
	seeds(f, "testdata/*.json")
	seeds(f, "testdata/mapped/*.json")
	sources := []provider.Source{source(), mapped()}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, src := range sources {
			p := build(t, src)
			r := request(messageID, "1767225600", byNow, body, clock)
			a, b := p.Parse(r), p.Parse(r)
			if len(a) != 1 || a[0].DedupeKey == "" || !bytes.Equal(a[0].Body, body) || a[0].DedupeKey != b[0].DedupeKey || a[0].Disposition != b[0].Disposition {
				t.Fatalf("%+v, then %+v", a, b)
			}
			m := a[0]
			if (m.Disposition == provider.Process) != (m.Reason == "") || m.Disposition == provider.Process && (m.PaymentRef == "" || m.Test) {
				t.Fatalf("%+v", m)
			}
			claims, err := p.Facts(providertest.EventOf(p, src, r, m))
			if len(claims) > 0 && err != nil {
				t.Fatalf("claims %+v beside the error %v", claims, err)
			}
			for _, c := range claims {
				if m.Disposition == provider.Process && c.GatewayID != m.PaymentRef || c.Captured.Value < 0 || c.Expected.Value < 0 {
					t.Fatalf("%+v", c)
				}
				for _, fact := range c.Facts {
					if fact.Amount.Value < 0 {
						t.Fatalf("%+v", fact)
					}
				}
				payment.Apply(payment.Payment{GatewayID: c.GatewayID}, c)
			}
		}
	})
}

// FuzzLookup: whatever the API answers, the claim is about what was asked for.
func FuzzLookup(f *testing.F) {
	add := func(h http.HandlerFunc, path string) {
		server := &http.Client{Transport: providertest.HandlerTransport{Handler: h}}
		resp, err := server.Get("http://gateway.test" + path)
		if err != nil {
			f.Fatal(err)
		}
		defer resp.Body.Close()
		var b bytes.Buffer
		if _, err := b.ReadFrom(resp.Body); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes(), []byte(`[{"code":"gb_1","value":1,"state":"DONE"}]`))
	}
	for _, row := range lookups() {
		add(row.Answer, "/payments/pay_0001")
	}
	for _, row := range mappedLookups() {
		add(row.Answer, "/search/charges")
	}
	sources := map[string]provider.Source{"pay_0001": source(), "CH/12.a": mapped()}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		for ref, src := range sources {
			calls := 0
			client := &http.Client{Transport: providertest.HandlerTransport{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if calls++; calls == 1 {
					_, _ = w.Write(first)
					return
				}
				_, _ = w.Write(second)
			})}}
			claim, err := build(t, src).Lookup(context.Background(), client, ref)
			if calls > 2 {
				t.Fatalf("%d calls", calls)
			}
			if err == nil {
				if claim.GatewayID != ref || len(claim.Facts) == 0 || claim.Captured.Value < 0 {
					t.Fatalf("%+v", claim)
				}
				payment.Apply(payment.Payment{GatewayID: ref}, claim)
			}
		}
	})
}

// FuzzMappingFile: no file makes New panic, and no complaint quotes one.
func FuzzMappingFile(f *testing.F) {
	for _, s := range []string{"{}", "null", `{"type_path":"type","events":{"a":"paid"},"payment_id_path":{"*":"id"},"dedupe":"fields","dedupe_fields":["id"]}`, `{"lookup_url":"/a?b={id}"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, content string) {
		if p, err := New(inFile(source(), content)); (p == nil) != (err != nil) {
			t.Fatalf("%v, %v", p, err)
		}
	})
}
