package lookup_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/lookup"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// gateway asks an address for a payment.
type gateway struct {
	base string
	rate float64
}

func (g gateway) Verify(provider.Request) (string, provider.Reason) {
	return "", provider.ReasonMissing
}
func (g gateway) Parse(provider.Request) []provider.Message   { return nil }
func (g gateway) Facts(*event.Event) ([]payment.Claim, error) { return nil, nil }
func (g gateway) Traits() provider.Traits {
	return provider.Traits{CanLookup: true, LookupRate: g.rate, LookupBurst: 1}
}

func (g gateway) Lookup(ctx context.Context, client *http.Client, ref string) (payment.Claim, error) {
	var v struct{}
	err := provider.GetJSON(ctx, client, provider.Call{Base: g.base, Segments: []string{ref}}, &v)
	return payment.Claim{GatewayID: ref}, err
}

// serve answers on loopback and counts.
func serve(t *testing.T, h http.HandlerFunc) (gateway, *atomic.Int64) {
	t.Helper()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return gateway{base: s.URL, rate: 1e6}, &asked
}

func newAsker(t *testing.T, cfg lookup.Config) *lookup.Asker {
	t.Helper()
	if cfg.Concurrency == 0 {
		cfg.Concurrency = 8
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 2 * time.Second
	}
	if cfg.BreakAfter == 0 {
		cfg.BreakAfter = 3
	}
	if cfg.Open == 0 {
		cfg.Open = time.Minute
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	a := lookup.New(cfg)
	t.Cleanup(a.Close)
	return a
}

func source(name string) provider.Source { return provider.Source{Provider: name} }

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }

func TestAGatewayThatKeepsFailingIsLeftAlone(t *testing.T) {
	t.Parallel()
	g, asked := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	a := newAsker(t, lookup.Config{})
	for range 3 {
		var retry *provider.RetryError
		if _, err := a.Ask(t.Context(), source("sick"), g, "p"); !errors.As(err, &retry) || retry.Status != 502 {
			t.Fatalf("%v", err)
		}
	}
	var wait *lookup.WaitError
	if _, err := a.Ask(t.Context(), source("sick"), g, "p"); !errors.As(err, &wait) || wait.For > time.Minute || wait.For < 50*time.Second {
		t.Errorf("%v", err)
	}
	if asked.Load() != 3 {
		t.Errorf("it was asked %d times, want 3", asked.Load())
	}
	healthy, _ := serve(t, ok)
	if _, err := a.Ask(t.Context(), source("healthy"), healthy, "p"); err != nil {
		t.Errorf("another gateway: %v", err)
	}
}

func TestWhoComesLateWaitsOnlyForWhatIsLeftOfTheBreak(t *testing.T) {
	t.Parallel()
	var well atomic.Bool
	g, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if !well.Load() {
			http.Error(w, "{}", http.StatusInternalServerError)
			return
		}
		w.Write([]byte("{}")) //nolint:errcheck // a test
	})
	a := newAsker(t, lookup.Config{BreakAfter: 2, Open: 3 * time.Second})
	src := provider.Source{Provider: "x", Account: "default"}
	for range 2 {
		if _, err := a.Ask(t.Context(), src, g, "pay_1"); err == nil {
			t.Fatal("a 500 is no answer")
		}
	}
	time.Sleep(2 * time.Second)
	var wait *lookup.WaitError
	if _, err := a.Ask(t.Context(), src, g, "pay_1"); !errors.As(err, &wait) || wait.For > 1100*time.Millisecond {
		t.Errorf("%v: two of three seconds have passed", err)
	}
	well.Store(true)
	time.Sleep(wait.For)
	if _, err := a.Ask(t.Context(), src, g, "pay_1"); err != nil {
		t.Errorf("after the wait that was asked for: %v", err)
	}
}

func TestAnAnswerThatWeDoNotLikeIsStillAnAnswer(t *testing.T) {
	t.Parallel()
	g, asked := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	a := newAsker(t, lookup.Config{})
	for range 10 {
		if _, err := a.Ask(t.Context(), source("gw"), g, "p"); !errors.Is(err, provider.ErrNotFound) {
			t.Fatalf("%v", err)
		}
	}
	if asked.Load() != 10 {
		t.Errorf("it was asked %d times, want 10", asked.Load())
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	t.Parallel()
	g, asked := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	a := newAsker(t, lookup.Config{})
	var retry *provider.RetryError
	if _, err := a.Ask(t.Context(), source("gw"), g, "p"); !errors.As(err, &retry) || retry.After != 30*time.Second {
		t.Fatalf("%v", err)
	}
	var wait *lookup.WaitError
	if _, err := a.Ask(t.Context(), source("gw"), g, "p"); !errors.As(err, &wait) || wait.For < 25*time.Second {
		t.Errorf("%v", err)
	}
	if asked.Load() != 1 {
		t.Errorf("it was asked %d times, want once", asked.Load())
	}
}

func TestNoRedirectIsFollowed(t *testing.T) {
	t.Parallel()
	elsewhere, followed := serve(t, ok)
	g, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.base+"/p", http.StatusFound)
	})
	if _, err := newAsker(t, lookup.Config{}).Ask(t.Context(), source("gw"), g, "p"); !errors.Is(err, provider.ErrUnreadable) {
		t.Errorf("%v", err)
	}
	if followed.Load() != 0 {
		t.Error("the redirect was followed")
	}
}

func TestAnIdIsOnePathSegment(t *testing.T) {
	t.Parallel()
	var path atomic.Value
	g, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		path.Store(r.RequestURI)
		ok(w, r)
	})
	if _, err := newAsker(t, lookup.Config{}).Ask(t.Context(), source("gw"), g, "../a/b?c=d#e"); err != nil {
		t.Fatal(err)
	}
	if got, want := path.Load(), "/..%2Fa%2Fb%3Fc=d%23e"; got != want {
		t.Errorf("asked for %v, want %v", got, want)
	}
}

func TestOneSickGatewayLeavesRoomForTheOthers(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	hanging, _ := serve(t, func(http.ResponseWriter, *http.Request) { <-release })
	slow := gateway{base: hanging.base, rate: 0.01} // its rate has no room either
	healthy, _ := serve(t, ok)
	a := newAsker(t, lookup.Config{Concurrency: 4, BreakAfter: 1000})
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() { _, _ = a.Ask(ctx, source("hanging"), hanging, "p") })
		wg.Go(func() { _, _ = a.Ask(ctx, source("slow"), slow, "p") })
	}
	for range 50 {
		begin := time.Now()
		if _, err := a.Ask(t.Context(), source("healthy"), healthy, "p"); err != nil {
			t.Fatalf("after %s: %v", time.Since(begin), err)
		}
	}
	close(release)
	stop()
	wg.Wait()
}

func TestNoMoreThanTheLimitIsUnderWay(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	g, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(5 * time.Millisecond)
		now.Add(-1)
		ok(w, r)
	})
	a := newAsker(t, lookup.Config{Concurrency: 6})
	var wg sync.WaitGroup
	for range 60 {
		wg.Go(func() {
			if _, err := a.Ask(t.Context(), source("gw"), g, "p"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if most.Load() > 3 {
		t.Errorf("%d were under way at once, want at most half of 6", most.Load())
	}
}

// certified is a gateway whose API wants a client certificate.
type certified struct {
	gateway
	cert *tls.Certificate
}

func (c *certified) ClientCertificate() *tls.Certificate { return c.cert }

func TestAGatewayThatWantsAClientCertificateIsShownTheNewestOne(t *testing.T) {
	t.Parallel()
	var shown atomic.Value
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown.Store("")
		if len(r.TLS.PeerCertificates) > 0 {
			shown.Store(string(r.TLS.PeerCertificates[0].Raw))
		}
		ok(w, r)
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	a := newAsker(t, lookup.Config{})
	lookup.Trust(a, roots)
	g := &certified{gateway: gateway{base: s.URL, rate: 1e6}}
	ask := func() string {
		t.Helper()
		if _, err := a.Ask(t.Context(), source("certified"), g, "pay_1"); err != nil {
			t.Fatal(err)
		}
		return shown.Load().(string)
	}
	if got := ask(); got != "" {
		t.Error("a certificate was shown before there was one")
	}
	for range 2 { // replaced while we run
		g.cert = selfSigned(t)
		for range 2 {
			if got := ask(); got != string(g.cert.Certificate[0]) {
				t.Error("another certificate was shown, or none")
			}
		}
	}
}

func selfSigned(t *testing.T) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

type resolver struct{ gateway }

func (r resolver) Resolve(ctx context.Context, client *http.Client, e *event.Event) ([]payment.Claim, error) {
	c, err := r.Lookup(ctx, client, string(e.Body))
	return []payment.Claim{c}, err
}

func TestAskingAboutAnEventKeepsTheSameBounds(t *testing.T) {
	t.Parallel()
	g, asked := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/later" {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		ok(w, r)
	})
	a := newAsker(t, lookup.Config{})
	about := func(code string) ([]payment.Claim, error) {
		return a.Resolve(t.Context(), source("coded"), g, resolver{g}, &event.Event{Body: []byte(code)})
	}
	if claims, err := about("c1"); err != nil || len(claims) != 1 || claims[0].GatewayID != "c1" {
		t.Errorf("%v %v", claims, err)
	}
	var retry *provider.RetryError
	if _, err := about("later"); !errors.As(err, &retry) || retry.After != time.Minute {
		t.Errorf("%v", err)
	}
	var wait *lookup.WaitError
	if _, err := a.Ask(t.Context(), source("coded"), g, "pay_1"); !errors.As(err, &wait) || asked.Load() != 2 {
		t.Errorf("%v after %d questions: Retry-After holds for all questions of a source", err, asked.Load())
	}
}
