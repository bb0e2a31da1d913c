package pagbank_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/pagbank"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

func FuzzVerify(f *testing.F) {
	p := build(f, with(source(), settings{"NOTIFICATION_SECRET": addressSecret}))
	f.Add(vectorDigest, []byte(vectorBody), "", 1)
	f.Add(vectorDigest, []byte(vectorBody), "", 2)
	f.Add(strings.ToUpper(vectorDigest), []byte(vectorBody), addressSecret, 1)
	f.Add("", []byte(form), addressSecret, 0)
	f.Add("", []byte(form), "", 0)
	f.Add("\xff", []byte("\xef\xbb\xbf"+form+"&a=%"), "x", 1)
	f.Fuzz(func(t *testing.T, value string, body []byte, path string, times int) {
		r := provider.Request{Header: http.Header{}, Body: body, Path: path}
		for range min(max(times, 0), 3) {
			r.Header[pagbank.TokenHeader] = append(r.Header[pagbank.TokenHeader], value)
		}
		label, reason := p.Verify(r)
		signed := len(r.Header[pagbank.TokenHeader]) == 1 && (value == digest(token, body) || value == digest(oldToken, body))
		accepted := reason == provider.ReasonNone
		if accepted != (label != "") || signed && !accepted {
			t.Fatalf("label %q, reason %q, signed %v", label, reason, signed)
		}
		if !accepted || signed {
			return
		}
		// What is let through without a signature is at the secret address,
		// and gives no facts, whatever it looks like.
		if path != addressSecret {
			t.Fatalf("accepted at %q: %q", path, body)
		}
		if claims, err := p.Facts(&event.Event{Body: body}); err == nil || len(claims) != 0 {
			t.Fatalf("facts of what nobody signed: %+v\n%q", claims, body)
		}
	})
}

func FuzzParseAndFacts(f *testing.F) {
	p := build(f, source())
	for _, pattern := range []string{"testdata/*.json", "testdata/*.form"} {
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
	f.Fuzz(func(t *testing.T, body []byte) {
		r := sign(token, body, clock)
		for _, m := range p.Parse(r) {
			if m.DedupeKey == "" || m.Disposition != provider.Process && m.Reason == "" {
				t.Fatalf("not fit to be stored: %+v", m)
			}
			claims, err := p.Facts(providertest.EventOf(p, source(), r, m))
			switch {
			case errors.Is(err, provider.ErrUnresolved) && m.PaymentRef != "":
				t.Fatalf("the event names %q, and is to be asked about", m.PaymentRef)
			case err != nil || m.Disposition != provider.Process:
				continue
			}
			found := false
			for _, c := range claims {
				found = found || c.GatewayID == m.PaymentRef
				if c.Captured.Value < 0 || c.GatewayID == "" {
					t.Fatalf("%+v", c)
				}
				payment.Apply(payment.Payment{GatewayID: c.GatewayID}, c)
			}
			if !found {
				t.Fatalf("no claim is about %q: %+v", m.PaymentRef, claims)
			}
		}
	})
}

func FuzzLookup(f *testing.F) {
	p := build(f, source())
	for _, body := range []string{paidCharge, chargeBody("CANCELED", 14990, 14990), chargeBody("WAITING", 0, 0), vectorBody, "null"} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, answered []byte) {
		c, err := p.Lookup(context.Background(), over(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(answered) }), chargeID)
		if err != nil {
			return
		}
		if c.GatewayID != chargeID || c.Currency != "BRL" || len(c.Facts) == 0 {
			t.Fatalf("%+v", c)
		}
		for _, fact := range c.Facts {
			if fact.Status == payment.StatusPaid && fact.At.IsZero() {
				t.Fatalf("paid at no time, which would be the time of asking: %+v", c)
			}
		}
		payment.Apply(payment.Payment{GatewayID: chargeID}, c)
	})
}

func FuzzTransaction(f *testing.F) {
	p := build(f, source())
	for _, number := range []string{"1", "3", "5", "6", "8"} {
		f.Add(latin1(f, transactionXML(number)))
		f.Add([]byte(transactionXML(number)))
	}
	f.Add([]byte(`<?xml version="1.0" encoding="UTF-16"?><transaction/>`))
	f.Fuzz(func(t *testing.T, answered []byte) {
		claims, err := resolve(t, p, answered)
		if err != nil {
			return
		}
		if len(claims) != 1 || claims[0].Reference == "" || claims[0].GatewayID != "" || len(claims[0].Facts) > 0 && claims[0].At.IsZero() {
			t.Fatalf("%+v", claims)
		}
		payment.Apply(payment.Payment{GatewayID: chargeID}, joined(claims[0]))
	})
}
