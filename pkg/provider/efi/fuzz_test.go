package efi_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/efi"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// FuzzVerify: whoever gets in has one of the tokens in his address.
func FuzzVerify(f *testing.F) {
	places := []string{"query", "query-without-ignorar", "path"}
	var all []provider.Provider
	for _, place := range places {
		all = append(all, build(f, source("TOKEN_IN="+place)))
	}
	for i := range places {
		f.Add(i, token+"/pix", "")
		f.Add(i, "pix", "hmac="+token+"&ignorar=/pix")
		f.Add(i, "", "hmac="+oldToken+"%2Fpix")
		f.Add(i, "", "hmac="+token+"&hmac="+token)
		f.Add(i, "\xff", "%zz=&;&hmac")
	}
	f.Fuzz(func(t *testing.T, which int, path, query string) {
		i := (which%3 + 3) % 3
		label, reason := all[i].Verify(provider.Request{Path: path, Query: query})
		if (reason == provider.ReasonNone) != (label == "1" || label == "2") {
			t.Fatalf("label %q, reason %q", label, reason)
		}
		if reason != provider.ReasonNone {
			return
		}
		secret := map[string]string{"1": token, "2": oldToken}[label]
		in := path
		if places[i] != "path" {
			in = query
		}
		// Encoded letters are letters; none of the tokens needs encoding.
		if !strings.Contains(in, secret) && !strings.Contains(in, "%") {
			t.Fatalf("%s: path %q and query %q let in by secret %s", places[i], path, query, label)
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
			if m.DedupeKey == "" || m.Disposition != provider.Process && m.Reason == "" || !bytes.Contains(body, m.Body) {
				t.Fatalf("not fit to be stored: %+v", m)
			}
			claims, err := p.Facts(providertest.EventOf(p, source(), r, m))
			if m.Disposition != provider.Process {
				continue
			}
			if err != nil || len(claims) != 1 || claims[0].GatewayID != m.PaymentRef {
				t.Fatalf("message about %q gives %+v, %v", m.PaymentRef, claims, err)
			}
			checkClaim(t, claims[0])
		}
	})
}

// checkClaim: whatever was received was paid, and no more of it comes back
// under one name than once.
func checkClaim(t *testing.T, c payment.Claim) {
	t.Helper()
	if !c.Captured.Known || c.Captured.Value <= 0 || c.Currency != "BRL" || c.Reference == "" ||
		len(c.Facts) == 0 || c.Facts[0].Status != payment.StatusPaid {
		t.Fatalf("%+v", c)
	}
	var ids []string
	for _, f := range c.Facts[1:] {
		if f.ID == "" || !f.Amount.Known || f.Amount.Value <= 0 || slices.Contains(ids, f.ID) {
			t.Fatalf("%+v in %+v", f, c)
		}
		ids = append(ids, f.ID)
	}
	r := payment.Apply(payment.Payment{GatewayID: c.GatewayID}, c)
	if p := r.Payment; p.Refunded+p.ChargedBack > p.Captured.Value {
		t.Fatalf("more went out than came in: %+v", p)
	}
}

func FuzzLookup(f *testing.F) {
	p := build(f, source())
	f.Add([]byte(paidItem))
	f.Add([]byte(with(devolucoes(devolucao("1", "49.90", "DEVOLVIDO"), devolucao("2", "100", "DEVOLVIDO", `"natureza":"MED_FRAUDE"`)), `"gnExtras":{"tarifa":1.79}`)))
	f.Add([]byte(with(`"tipo":"SOLICITACAO"`)))
	f.Add([]byte(`{"nome":"pix_nao_encontrado"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		client := &http.Client{Transport: providertest.HandlerTransport{Handler: withToken(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))}}
		c, err := p.Lookup(context.Background(), client, pixID)
		if err != nil {
			return
		}
		if c.GatewayID != pixID {
			t.Fatalf("%+v", c)
		}
		checkClaim(t, c)
	})
}

// FuzzAccessToken: whatever the token's address answers, the payment is asked
// for with something that fits a header, or not at all.
func FuzzAccessToken(f *testing.F) {
	src := source()
	f.Add([]byte(`{"access_token":"x","expires_in":3600}`))
	f.Add([]byte(`{"access_token":"x\r\ny","expires_in":1e9}`))
	f.Add([]byte(`{"access_token":7,"expires_in":99999999999999999999}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := efi.New(src)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if strings.ContainsFunc(r.Header.Get("Authorization"), func(c rune) bool { return c < ' ' || c > '~' }) {
				t.Errorf("%q", r.Header.Get("Authorization"))
			}
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/oauth/token") {
					_, _ = w.Write(body)
					return
				}
				_, _ = w.Write([]byte(paidItem))
			})
			return providertest.HandlerTransport{Handler: h}.RoundTrip(r)
		})}
		_, _ = p.Lookup(context.Background(), client, pixID)
	})
}
