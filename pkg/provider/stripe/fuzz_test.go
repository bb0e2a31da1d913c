package stripe

import (
	"bytes"
	"context"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// FuzzVerify: no header is accepted for a body but one that carries the digest
// that Sign makes, and none makes Verify panic.
func FuzzVerify(f *testing.F) {
	body := testdata(f, "vector")
	for _, header := range []string{
		"t=1767225600,v1=" + digestNow, "t=1767225600,v1=" + digestOld + ",v1=" + digestNow, "", "t=,v1=", "v1=é©", "t=1767225600,v0=" + digestNow, ",=,=", "t=9999999999999999999,v1=00",
	} {
		f.Add(header, body, int64(stamp))
	}
	p := gatewayOf(f, source())
	f.Fuzz(func(t *testing.T, header string, body []byte, now int64) {
		label, reason := p.Verify(withHeader(header, body, now))
		if (label == "") != (reason != "") {
			t.Fatalf("label %q, reason %q", label, reason)
		}
		if reason != "" {
			return
		}
		for _, secret := range []string{secretNow, secretOld} {
			for _, item := range bytes.Split([]byte(header), []byte(",")) {
				var s signature
				if parseSignature(header, &s) && bytes.HasPrefix(item, []byte("v1=")) {
					want := Sign(secret, timeOf(s.seconds), body)
					if bytes.HasSuffix([]byte(want), bytes.ToLower(item)) {
						return
					}
				}
			}
		}
		t.Fatalf("accepted %q, which no secret of ours makes", header)
	})
}

func seedBodies(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds")
	}
	for _, file := range files {
		f.Add(testdata(f, filepath.Base(file[:len(file)-len(".json")])))
	}
}

// FuzzParse: one sound message for whatever body, and the same one again.
func FuzzParse(f *testing.F) {
	seedBodies(f)
	p := gatewayOf(f, source())
	f.Fuzz(func(t *testing.T, body []byte) {
		r := signed(secretNow, body, clock)
		a, b := p.Parse(r), p.Parse(r)
		if len(a) != 1 || a[0].DedupeKey == "" || !bytes.Equal(a[0].Body, body) || a[0].DedupeKey != b[0].DedupeKey || a[0].Disposition != b[0].Disposition {
			t.Fatalf("%+v, then %+v", a, b)
		}
		if m := a[0]; (m.Disposition == provider.Process) != (m.Reason == "") || m.Disposition == provider.Process && m.PaymentRef == "" {
			t.Fatalf("%+v", m)
		}
	})
}

// FuzzFacts: no claim without a payment, none of money below zero, none from
// a body that Parse did not let through.
func FuzzFacts(f *testing.F) {
	seedBodies(f)
	src := source()
	p := gatewayOf(f, src)
	f.Fuzz(func(t *testing.T, body []byte) {
		r := signed(secretNow, body, clock)
		m := p.Parse(r)[0]
		claims, err := p.Facts(providertest.EventOf(p, src, r, m))
		if len(claims) > 0 && (err != nil || m.Disposition != provider.Process) {
			t.Fatalf("claims %+v of a message that is %s, error %v", claims, m.Disposition, err)
		}
		for _, c := range claims {
			if c.GatewayID != m.PaymentRef || c.Captured.Value < 0 || c.Expected.Value < 0 {
				t.Fatalf("%+v", c)
			}
			for _, fact := range c.Facts {
				if fact.Amount.Value < 0 {
					t.Fatalf("%+v", fact)
				}
			}
			payment.Apply(payment.Payment{GatewayID: c.GatewayID}, c)
		}
	})
}

// FuzzLookup: whatever the API answers, the claim is about what was asked for.
func FuzzLookup(f *testing.F) {
	for _, h := range []http.HandlerFunc{answerAbout(""), paid(""), intentAnswer(`"amount":1,"status":"processing"`), intentAnswer(`"status":"canceled"`)} {
		rec := recorder{}
		h(&rec, &http.Request{URL: mustURL("/v1/payment_intents/pi_1Look")})
		f.Add(rec.Bytes(), []byte(refundList(false, refundJSON("re_1", 1, "succeeded"))))
	}
	p := gatewayOf(f, source())
	f.Fuzz(func(t *testing.T, first, rest []byte) {
		calls := 0
		h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if calls++; calls == 1 {
				_, _ = w.Write(first)
				return
			}
			_, _ = w.Write(rest)
		})
		client := &http.Client{Transport: providertest.HandlerTransport{Handler: h}}
		claim, err := p.Lookup(context.Background(), client, "pi_1Look")
		if calls > 2*maxPages+1 {
			t.Fatalf("%d calls", calls)
		}
		if err == nil {
			if claim.GatewayID != "pi_1Look" || len(claim.Facts) == 0 || claim.Captured.Value < 0 {
				t.Fatalf("%+v", claim)
			}
			payment.Apply(payment.Payment{GatewayID: claim.GatewayID}, claim)
		}
	})
}
