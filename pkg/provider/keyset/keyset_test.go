package keyset_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/provider/keyset"
)

// someKeys are made once: it takes a moment.
var someKeys = sync.OnceValue(func() []*rsa.PublicKey {
	var keys []*rsa.PublicKey
	for range 2 {
		k, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		keys = append(keys, &k.PublicKey)
	}
	return keys
})

func jwk(kid string, key *rsa.PublicKey) string {
	return fmt.Sprintf(`{"kty":"RSA","use":"sig","alg":"RS256","kid":%q,"n":%q,"e":"AQAB"}`, kid, base64.RawURLEncoding.EncodeToString(key.N.Bytes()))
}

func set(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }

// world is a publisher whose set can be changed, and a clock.
type world struct {
	mu      sync.Mutex
	body    string
	status  int
	fetches atomic.Int64
	clock   atomic.Int64 // nanoseconds
	set     *keyset.Set
}

func newWorld(t *testing.T, body string) *world {
	t.Helper()
	w := &world{body: body, status: http.StatusOK}
	w.clock.Store(time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC).UnixNano())
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		w.fetches.Add(1)
		w.mu.Lock()
		defer w.mu.Unlock()
		rw.WriteHeader(w.status)
		fmt.Fprint(rw, w.body)
	}))
	t.Cleanup(server.Close)
	var err error
	if w.set, err = keyset.New(keyset.Config{URL: server.URL, Now: func() time.Time { return time.Unix(0, w.clock.Load()) }}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) publish(status int, body string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status, w.body = status, body
}

func (w *world) pass(d time.Duration) { w.clock.Add(int64(d)) }

// check asks for a key and accepts only the given one.
func (w *world) check(kid string, want *rsa.PublicKey) error {
	return w.set.Check(kid, func(k *rsa.PublicKey) bool { return k.Equal(want) })
}

func expect(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || want == nil && got != nil {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func (w *world) expectFetches(t *testing.T, want int64) {
	t.Helper()
	if got := w.fetches.Load(); got != want {
		t.Errorf("%d fetches, want %d", got, want)
	}
}

func TestASetIsFetchedOnceAndThenHeld(t *testing.T) {
	t.Parallel()
	a := someKeys()[0]
	w := newWorld(t, set(jwk("a", a)))
	w.expectFetches(t, 0)
	for range 20 {
		expect(t, "the published key", w.check("a", a), nil)
	}
	w.expectFetches(t, 1)
	if !w.set.Cached("a", func(k *rsa.PublicKey) bool { return k.Equal(a) }) {
		t.Error("Cached does not know the key")
	}
}

func TestANewKeyIsFoundByFetchingAgain(t *testing.T) {
	t.Parallel()
	a, b := someKeys()[0], someKeys()[1]
	w := newWorld(t, set(jwk("a", a)))
	expect(t, "before", w.check("a", a), nil)
	w.publish(200, set(jwk("a", a), jwk("b", b)))
	w.pass(keyset.DefaultFloor)
	expect(t, "the new key", w.check("b", b), nil)
	expect(t, "the old key", w.check("a", a), nil)
	w.expectFetches(t, 2)
}

func TestAKeyThatWasReplacedUnderItsNameIsFoundByFetchingAgain(t *testing.T) {
	t.Parallel()
	a, b := someKeys()[0], someKeys()[1]
	w := newWorld(t, set(jwk("a", a)))
	expect(t, "before", w.check("a", a), nil)
	w.publish(200, set(jwk("a", b)))
	w.pass(keyset.DefaultFloor)
	expect(t, "the replaced key", w.check("a", b), nil)
	expect(t, "the key before it", w.check("a", a), keyset.ErrRefused)
	w.expectFetches(t, 2)
}

func TestForgersCauseOneFetchAFloor(t *testing.T) {
	t.Parallel()
	a, b := someKeys()[0], someKeys()[1]
	w := newWorld(t, set(jwk("a", a)))
	for i := range 100 {
		expect(t, "an invented key", w.check(fmt.Sprint("forged-", i), b), keyset.ErrUnknownKey)
		expect(t, "a wrong signature", w.check("a", b), keyset.ErrRefused)
	}
	w.expectFetches(t, 1)
	w.pass(keyset.DefaultFloor)
	for i := range 100 {
		expect(t, "an invented key", w.check(fmt.Sprint("forged-", i), b), keyset.ErrUnknownKey)
	}
	w.expectFetches(t, 2)
}

func TestAFailedFetchTakesNoKeyAway(t *testing.T) {
	t.Parallel()
	a, b := someKeys()[0], someKeys()[1]
	for name, outage := range map[string]func(*world){
		"an error":      func(w *world) { w.publish(500, set(jwk("b", b))) },
		"a page":        func(w *world) { w.publish(200, "<html>maintenance</html>") },
		"an empty set":  func(w *world) { w.publish(200, set()) },
		"null":          func(w *world) { w.publish(200, "null") },
		"no content":    func(w *world) { w.publish(204, "") },
		"a redirect":    func(w *world) { w.publish(302, set(jwk("b", b))) },
		"a huge answer": func(w *world) { w.publish(200, set(jwk("b", b), `"`+strings.Repeat("x", 256<<10)+`"`)) },
		"too many keys": func(w *world) {
			w.publish(200, set(append(make([]string, 0), strings.Split(strings.Repeat("{}|", 64)+jwk("b", b), "|")...)...))
		},
		"half an answer": func(w *world) { w.publish(200, set(jwk("b", b))[:100]) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, set(jwk("a", a)))
			expect(t, "before", w.check("a", a), nil)
			outage(w)
			w.pass(keyset.DefaultFloor)
			expect(t, "a key that may be new", w.check("b", b), keyset.ErrUnavailable)
			w.expectFetches(t, 2)
			expect(t, "the same within the floor", w.check("b", b), keyset.ErrUnavailable)
			w.expectFetches(t, 2)
			expect(t, "a wrong signature", w.check("a", b), keyset.ErrRefused)
			expect(t, "the held key", w.check("a", a), nil)
			w.publish(200, set(jwk("a", a), jwk("b", b)))
			w.pass(keyset.DefaultFloor)
			expect(t, "after the outage", w.check("b", b), nil)
		})
	}
}

func TestWithoutAnyKeyTheSetIsUnavailable(t *testing.T) {
	t.Parallel()
	a := someKeys()[0]
	w := newWorld(t, set(jwk("a", a)))
	w.publish(503, "")
	expect(t, "during the outage", w.check("a", a), keyset.ErrUnavailable)
	expect(t, "again", w.check("a", a), keyset.ErrUnavailable)
	w.expectFetches(t, 1)
	w.publish(200, set(jwk("a", a)))
	expect(t, "within the floor", w.check("a", a), keyset.ErrUnavailable)
	w.pass(keyset.DefaultFloor)
	expect(t, "after the floor", w.check("a", a), nil)
}

func TestAWithdrawnKeyGoesWhenTheSetIsOld(t *testing.T) {
	t.Parallel()
	a, b := someKeys()[0], someKeys()[1]
	w := newWorld(t, set(jwk("a", a)))
	expect(t, "before", w.check("a", a), nil)
	w.publish(200, set(jwk("b", b)))
	w.pass(keyset.DefaultMaxAge - time.Nanosecond)
	expect(t, "while the set is not old", w.check("a", a), nil)
	w.pass(time.Nanosecond)
	expect(t, "when it is", w.check("a", a), keyset.ErrUnknownKey)
	expect(t, "the new key", w.check("b", b), nil)
	w.expectFetches(t, 2)
	w.publish(500, "")
	w.pass(2 * keyset.DefaultMaxAge)
	expect(t, "an old set that cannot be replaced", w.check("b", b), nil)
	w.expectFetches(t, 3)
}

func TestManyWaitersShareOneFetch(t *testing.T) {
	t.Parallel()
	a := someKeys()[0]
	const waiters = 40
	var fetches atomic.Int64
	arrived, release := make(chan struct{}, waiters), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		fetches.Add(1)
		<-release
		fmt.Fprint(rw, set(jwk("a", a)))
	}))
	defer server.Close()
	s, err := keyset.New(keyset.Config{URL: server.URL, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range waiters {
		all.Go(func() {
			arrived <- struct{}{}
			if err := s.Check("a", func(k *rsa.PublicKey) bool { return k.Equal(a) }); err != nil {
				t.Error(err)
			}
		})
	}
	for range waiters {
		<-arrived
	}
	close(release)
	all.Wait()
	if n := fetches.Load(); n != 1 {
		t.Errorf("%d fetches", n)
	}
}

// One that renews an old set waits; the others go on with it meanwhile.
func TestAnOldSetServesTheOthersWhileItIsRenewed(t *testing.T) {
	t.Parallel()
	a := someKeys()[0]
	var fetches atomic.Int64
	begun, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if fetches.Add(1) == 2 {
			close(begun)
			<-release
		}
		fmt.Fprint(rw, set(jwk("a", a)))
	}))
	defer server.Close()
	var clock atomic.Int64
	s, err := keyset.New(keyset.Config{URL: server.URL, Timeout: 20 * time.Second, Now: func() time.Time { return time.Unix(0, clock.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	check := func() error { return s.Check("a", func(k *rsa.PublicKey) bool { return k.Equal(a) }) }
	expect(t, "first", check(), nil)
	clock.Store(int64(2 * keyset.DefaultMaxAge))
	done := make(chan error)
	go func() { done <- check() }()
	<-begun
	expect(t, "while it is renewed", check(), nil)
	close(release)
	expect(t, "the one that renewed it", <-done, nil)
}

func TestASlowPublisherIsNotWaitedForLongerThanTheTimeout(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, `{"keys":[`)
		rw.(http.Flusher).Flush()
		<-release
	}))
	defer server.Close()
	defer close(release)
	s, err := keyset.New(keyset.Config{URL: server.URL, Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	expect(t, "a publisher that drips", s.Check("a", func(*rsa.PublicKey) bool { return true }), keyset.ErrUnavailable)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		t.Error("followed")
		fmt.Fprint(rw, set(jwk("a", someKeys()[0])))
	}))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusFound))
	defer server.Close()
	s, err := keyset.New(keyset.Config{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "a redirect", s.Check("a", func(*rsa.PublicKey) bool { return true }), keyset.ErrUnavailable)
}

func TestOnlySafeAddressesAreAccepted(t *testing.T) {
	t.Parallel()
	for url, good := range map[string]bool{
		"https://hubapi.pagar.me/.well-known/jwks.json": true, "http://127.0.0.1:8181/jwks": true, "http://[::1]:8181/jwks": true, "http://localhost/jwks": true,
		"": false, "http://hubapi.pagar.me/jwks": false, "http://10.0.0.1/jwks": false, "http://localhost.example/jwks": false, "ftp://127.0.0.1/": false,
		"file:///etc/passwd": false, "https://": false, "hubapi.pagar.me/jwks": false, "https://canary:pw@hubapi.pagar.me/": false, "https://a\x00b/": false, "//host/path": false,
	} {
		_, err := keyset.New(keyset.Config{URL: url})
		if (err == nil) != good {
			t.Errorf("%q: %v", url, err)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("the error quotes the address: %v", err)
		}
	}
}

func TestOnlyKeysForThisSignatureAreTaken(t *testing.T) {
	t.Parallel()
	a := someKeys()[0]
	n := base64.RawURLEncoding.EncodeToString(a.N.Bytes())
	tiny := base64.RawURLEncoding.EncodeToString(new(big.Int).Rsh(a.N, 1024).Bytes())
	huge := base64.RawURLEncoding.EncodeToString(new(big.Int).Lsh(a.N, 8192).Bytes())
	almost := base64.RawURLEncoding.EncodeToString(new(big.Int).Rsh(a.N, 1).Bytes())
	key := func(members string) string { return `{"kid":"x",` + members + `}` }
	for name, text := range map[string]string{
		"another kind":        key(`"kty":"EC","use":"sig","crv":"P-256","x":"AQ","y":"AQ"`),
		"a shared secret":     key(`"kty":"oct","use":"sig","k":"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"`),
		"a kind of tomorrow":  key(`"kty":"PQ","use":"sig"`),
		"for encryption":      key(`"kty":"RSA","use":"enc","n":"` + n + `","e":"AQAB"`),
		"for an unsaid use":   key(`"kty":"RSA","n":"` + n + `","e":"AQAB"`),
		"another algorithm":   key(`"kty":"RSA","use":"sig","alg":"PS256","n":"` + n + `","e":"AQAB"`),
		"the algorithm none":  key(`"kty":"RSA","use":"sig","alg":"none","n":"` + n + `","e":"AQAB"`),
		"1024 bits":           key(`"kty":"RSA","use":"sig","n":"` + tiny + `","e":"AQAB"`),
		"2047 bits":           key(`"kty":"RSA","use":"sig","n":"` + almost + `","e":"AQAB"`),
		"10240 bits":          key(`"kty":"RSA","use":"sig","n":"` + huge + `","e":"AQAB"`),
		"an exponent of one":  key(`"kty":"RSA","use":"sig","n":"` + n + `","e":"AQ"`),
		"an even exponent":    key(`"kty":"RSA","use":"sig","n":"` + n + `","e":"BA"`),
		"a private key":       key(`"kty":"RSA","use":"sig","n":"` + n + `","e":"AQAB","d":"AQAB","p":"AQAB","q":"AQAB"`),
		"no modulus":          key(`"kty":"RSA","use":"sig","e":"AQAB"`),
		"no name":             `{"kty":"RSA","use":"sig","n":"` + n + `","e":"AQAB"}`,
		"a name that is long": `{"kid":"` + strings.Repeat("x", 256) + `","kty":"RSA","use":"sig","n":"` + n + `","e":"AQAB"}`,
		"a number":            `17`,
		"null":                `null`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, set(text, jwk("good", a)))
			always := func(*rsa.PublicKey) bool { return true }
			for _, kid := range []string{"x", "", strings.Repeat("x", 256)} {
				expect(t, "the key", w.set.Check(kid, always), keyset.ErrUnknownKey)
			}
			expect(t, "the good key beside it", w.check("good", a), nil)
		})
	}
	w := newWorld(t, set(strings.Replace(jwk("a", a), `"alg":"RS256",`, "", 1)))
	expect(t, "a key without algorithm", w.check("a", a), nil)
}

func TestTwoKeysOfOneNameAreBothTried(t *testing.T) {
	t.Parallel()
	a, b := someKeys()[0], someKeys()[1]
	w := newWorld(t, set(jwk("a", a), jwk("a", b)))
	expect(t, "the first", w.check("a", a), nil)
	expect(t, "the second", w.check("a", b), nil)
}

func FuzzSet(f *testing.F) {
	a := someKeys()[0]
	f.Add(set(jwk("a", a)))
	f.Add(set(`{"kty":"EC"}`, jwk("a", a), "null"))
	f.Add(`{"keys":[{"kty":"RSA","use":"sig","kid":"a","n":"AQ","e":"AQAB"}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		s, err := keyset.New(keyset.Config{URL: "http://localhost/", Transport: respond(body)})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Check("a", func(k *rsa.PublicKey) bool {
			if k.N.BitLen() < 2048 || k.E < 3 || k.E%2 == 0 {
				t.Fatalf("a key of %d bits with exponent %d was taken", k.N.BitLen(), k.E)
			}
			return true
		})
		if err != nil && !errors.Is(err, keyset.ErrUnavailable) && !errors.Is(err, keyset.ErrUnknownKey) {
			t.Fatal(err)
		}
	})
}

// respond is a transport that answers everything with one body.
type respond string

func (r respond) RoundTrip(*http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	_, _ = rec.WriteString(string(r))
	return rec.Result(), nil
}
