package providertest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// HandlerTransport is an http.RoundTripper that asks a handler without a
// socket: quick enough for thousands of answers.
type HandlerTransport struct{ Handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (h HandlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	h.Handler.ServeHTTP(rec, r)
	return rec.Result(), nil
}

// client behaves as the processor's: a deadline, no redirects.
func client(rt http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     rt,
		Timeout:       5 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (s Spec) around(h http.Handler) http.Handler {
	if s.Around == nil {
		return h
	}
	return s.Around(h)
}

// ask builds the gateway against a handler and looks a payment up.
func (s Spec) ask(t *testing.T, h http.Handler, ref string, settings map[string]string) (payment.Claim, error) {
	t.Helper()
	server := httptest.NewServer(s.around(h))
	defer server.Close()
	p, err := s.Factory(s.at(server.URL, settings))
	if err != nil {
		t.Fatal(err)
	}
	c := client(server.Client().Transport)
	return s.safely(t, p, context.Background(), c, ref)
}

func (s Spec) at(base string, settings map[string]string) provider.Source {
	src := s.Source
	src.APIBase = base
	if settings != nil {
		src.Setting = func(name string) string {
			if v, ok := settings[name]; ok {
				return v
			}
			if s.Source.Setting != nil {
				return s.Source.Setting(name)
			}
			return ""
		}
	}
	return src
}

// safely looks up, and checks what must hold of every answer and error.
func (s Spec) safely(t *testing.T, p provider.Provider, ctx context.Context, c *http.Client, ref string) (payment.Claim, error) {
	t.Helper()
	defer func() {
		if v := recover(); v != nil {
			t.Fatalf("Lookup panicked with %v", v)
		}
	}()
	claim, err := p.Lookup(ctx, c, ref)
	if err != nil {
		text := err.Error()
		if key := s.Source.APIKey.Reveal(); key != "" && strings.Contains(text, key) {
			t.Error("the error shows the API key")
		}
		if ref != "" && len(ref) > 4 && strings.Contains(text, ref) || leaks(text) {
			t.Errorf("the error quotes what was asked or answered: %q", text)
		}
		return claim, err
	}
	if claim.GatewayID != ref {
		t.Errorf("asked for %q, the claim is about %q", ref, claim.GatewayID)
	}
	for _, fault := range claimFaults(claim) {
		t.Errorf("claim: %s", fault)
	}
	payment.Apply(payment.Payment{GatewayID: ref}, claim)
	return claim, nil
}

func (s Spec) lookup(t *testing.T) {
	p := s.build(t)
	if len(s.Lookups) == 0 {
		t.Run("a gateway without lookups says so", func(t *testing.T) {
			if p.Traits().CanLookup {
				t.Error("Traits().CanLookup is true, but Spec has no rows")
			}
		})
		return
	}
	t.Run("the traits give a rate that a limiter can use", func(t *testing.T) {
		tr := p.Traits()
		if !tr.CanLookup || tr.LookupRate <= 0 || tr.LookupBurst < 1 {
			t.Errorf("%+v", tr)
		}
	})
	for i, row := range s.Lookups {
		t.Run(row.Name, func(t *testing.T) {
			handler := row.Answer
			if i == 0 && s.CheckLookup != nil {
				handler = func(w http.ResponseWriter, r *http.Request) {
					if err := s.CheckLookup(r); err != nil {
						t.Errorf("request: %v", err)
					}
					row.Answer(w, r)
				}
			}
			claim, err := s.ask(t, handler, row.Ref, row.Setting)
			s.compare(t, row, claim, err)
		})
	}
	t.Run("failures", s.lookupFailures)
	t.Run("answers about something else", s.lookupMismatches)
	t.Run("damaged answers", s.lookupDamage)
	if s.LookupAmounts != nil {
		t.Run("every cent from 0.01 to 100.00 is exact (CASES D5)", s.lookupAmounts)
	}
}

func (s Spec) compare(t *testing.T, row Lookup, claim payment.Claim, err error) {
	t.Helper()
	if row.Err != nil {
		if !errors.Is(err, row.Err) {
			t.Errorf("error %v, want %v", err, row.Err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if row.Status != "" {
		r := payment.Apply(payment.Payment{GatewayID: row.Ref}, claim)
		if r.Payment.Status != row.Status || r.Need != "" {
			t.Errorf("leads to %q (need %q), want %q", r.Payment.Status, r.Need, row.Status)
		}
	}
	if row.Facts != nil {
		if d := DiffClaims([]payment.Claim{{Facts: row.Facts}}, []payment.Claim{{Facts: claim.Facts}}); d != "" {
			t.Errorf("facts (-want +got):\n%s", d)
		}
	}
	if row.Claim != nil {
		if d := DiffClaims([]payment.Claim{*row.Claim}, []payment.Claim{claim}); d != "" {
			t.Errorf("claim (-want +got):\n%s", d)
		}
	}
}

// lookupDamage changes each value of the answer. What comes out must be an
// error or a sound claim; never a panic.
func (s Spec) lookupDamage(t *testing.T) {
	var first []byte
	record := func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		s.LookupAnswer(rec, r)
		if first == nil {
			first = rec.Body.Bytes()
		}
		_, _ = w.Write(rec.Body.Bytes())
	}
	if _, err := s.ask(t, http.HandlerFunc(record), s.LookupRef, nil); err != nil {
		t.Fatalf("the undamaged answer: %v", err)
	}
	p, err := s.Factory(s.at("http://gateway.test", nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range Damage(first) {
		calls := 0
		damaged := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if calls++; calls == 1 {
				_, _ = w.Write([]byte(body))
				return
			}
			s.LookupAnswer(w, r)
		})
		had := t.Failed()
		_, _ = s.safely(t, p, context.Background(), client(HandlerTransport{s.around(damaged)}), s.LookupRef)
		if t.Failed() && !had {
			t.Errorf("the first of these is about the answer: %.300q", body)
		}
	}
}

func (s Spec) lookupAmounts(t *testing.T) {
	p, err := s.Factory(s.at("http://gateway.test", nil))
	if err != nil {
		t.Fatal(err)
	}
	for cents := int64(1); cents <= 10000; cents++ {
		for _, answer := range s.LookupAmounts(cents) {
			claim, err := s.safely(t, p, context.Background(), client(HandlerTransport{s.around(answer)}), s.LookupRef)
			if err != nil {
				t.Fatalf("%d cents: %v", cents, err)
			}
			if got := s.amountOf(claim); !got.Known || got.Value != cents {
				t.Fatalf("%d cents became %+v", cents, got)
			}
		}
	}
}
