package iugu_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

func FuzzVerify(f *testing.F) {
	header, path := build(f, source("header")), build(f, source("path"))
	for _, s := range []string{token, oldToken, "Bearer " + token, token + "/" + token, "", "\xff", token[1:]} {
		f.Add(s, 1)
		f.Add(s, 2)
	}
	f.Fuzz(func(t *testing.T, value string, times int) {
		r := provider.Request{Header: http.Header{}}
		for range min(max(times, 0), 3) {
			r.Header["Authorization"] = append(r.Header["Authorization"], value)
		}
		known := value == token || value == oldToken
		check := func(p provider.Provider, good bool) {
			label, reason := p.Verify(r)
			if good != (reason == provider.ReasonNone) || good != (label != "") {
				t.Fatalf("%q, %d times: label %q, reason %q", value, times, label, reason)
			}
		}
		check(header, known && len(r.Header["Authorization"]) == 1)
		check(path, false)
		r = provider.Request{Header: http.Header{}, Path: value}
		check(path, known)
		check(header, false)
	})
}

func FuzzParseAndFacts(f *testing.F) {
	p := build(f, source("header"))
	files, err := filepath.Glob("testdata/*.form")
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
	for _, damaged := range providertest.DamageForm([]byte(paid)) {
		f.Add([]byte(damaged))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := inHeader(token, body, now)
		messages := p.Parse(r)
		if len(messages) != 1 {
			t.Fatalf("%d messages", len(messages))
		}
		m := messages[0]
		if m.DedupeKey == "" || m.Disposition != provider.Process && m.Reason == "" || m.Reopen != (m.Disposition == provider.Process) {
			t.Fatalf("not fit to be stored: %+v", m)
		}
		claims, err := p.Facts(providertest.EventOf(p, source("header"), r, m))
		switch m.Disposition {
		case provider.Process:
			if err != nil || len(claims) != 1 || claims[0].GatewayID != m.PaymentRef || m.PaymentRef == "" {
				t.Fatalf("message about %q gives claims %+v, %v", m.PaymentRef, claims, err)
			}
			if c := claims[0]; c.Captured.Known || c.Expected.Known || c.Currency != "" || c.Reference != "" || !c.At.IsZero() {
				t.Fatalf("a body is taken at its word: %+v", c)
			}
		case provider.Quarantine:
			if err == nil {
				t.Fatal("Facts finds no fault with what Parse could not read")
			}
		default:
			if err != nil || len(claims) != 0 {
				t.Fatalf("an ignored message has claims %+v, %v", claims, err)
			}
		}
	})
}

func FuzzLookup(f *testing.F) {
	p := build(f, source("header"))
	for _, s := range []string{
		`{"id":"` + inv + `","status":"paid"` + received + `}`, `{"id":"` + inv + `","status":"refunded"` + back("4990") + `}`,
		`{"id":"` + inv + `","status":"in_protest","total_paid_cents":"5"}`, `{"id":"` + inv + `","status":"pending","total_cents":1e2,"currency":"BRL"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		client := &http.Client{Transport: providertest.HandlerTransport{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(answer) })}}
		c, err := p.Lookup(context.Background(), client, inv)
		if err != nil {
			return
		}
		if c.GatewayID != inv || c.Currency != "BRL" || len(c.Facts) == 0 || c.Captured.Known && c.Captured.Value <= 0 {
			t.Fatalf("%+v", c)
		}
		if r := payment.Apply(payment.Payment{GatewayID: inv}, c); r.Need == "" && r.Payment.Refunded+r.Payment.ChargedBack > r.Payment.Captured.Value {
			t.Fatalf("more left than came in: %+v", r.Payment)
		}
	})
}
