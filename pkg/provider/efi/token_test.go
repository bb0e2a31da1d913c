package efi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// tokenAPI gives out numbered tokens and answers for those that are good.
type tokenAPI struct {
	fetched, asked atomic.Int32
	good           func(n int) bool // of the token's number
	grant          http.HandlerFunc // instead of a token, when not nil
	life           string
}

func (a *tokenAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/oauth/token") {
		n := a.fetched.Add(1)
		if a.grant != nil {
			a.grant(w, r)
			return
		}
		fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"Bearer"%s}`, n, a.life)
		return
	}
	a.asked.Add(1)
	var n int
	if _, err := fmt.Sscanf(r.Header.Get("Authorization"), "Bearer token-%d", &n); err != nil || a.good != nil && !a.good(n) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	fmt.Fprint(w, paidItem)
}

func (a *tokenAPI) client() *http.Client {
	return &http.Client{Transport: providertest.HandlerTransport{Handler: a}}
}

func look(p provider.Provider, client *http.Client) error {
	_, err := p.Lookup(context.Background(), client, pixID)
	return err
}

func TestOneAccessTokenIsFetchedForMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &tokenAPI{life: `,"expires_in":3600`}
		slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			api.ServeHTTP(w, r)
		})
		client, p := &http.Client{Transport: providertest.HandlerTransport{Handler: slow}}, build(t, source())
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if err := look(p, client); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := api.fetched.Load(); n != 1 {
			t.Errorf("%d tokens were fetched", n)
		}
	})
}

func TestAnAccessTokenIsReplacedBeforeItEnds(t *testing.T) {
	t.Parallel()
	for life, c := range map[string]struct{ kept, over time.Duration }{
		`,"expires_in":3600`:   {58 * time.Minute, 59*time.Minute + time.Second},
		`,"expires_in":"3600"`: {58 * time.Minute, 59*time.Minute + time.Second},
		`,"expires_in":100`:    {89 * time.Second, 91 * time.Second},
	} {
		t.Run(life, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, p := &tokenAPI{life: life}, build(t, source())
				for i, step := range []struct {
					wait time.Duration
					want int32
				}{{0, 1}, {c.kept, 1}, {c.over - c.kept, 2}, {time.Second, 2}} {
					time.Sleep(step.wait)
					if err := look(p, api.client()); err != nil || api.fetched.Load() != step.want {
						t.Errorf("step %d: %d tokens, %v", i, api.fetched.Load(), err)
					}
				}
			})
		})
	}
}

// Where its life is not told, a token is good until it is refused.
func TestAnAccessTokenWithoutATermIsKept(t *testing.T) {
	t.Parallel()
	for _, life := range []string{"", `,"expires_in":null`, `,"expires_in":0`, `,"expires_in":-1`, `,"expires_in":"soon"`} {
		synctest.Test(t, func(t *testing.T) {
			api, p := &tokenAPI{life: life}, build(t, source())
			for range 3 {
				if err := look(p, api.client()); err != nil {
					t.Error(err)
				}
				time.Sleep(24 * time.Hour)
			}
			if n := api.fetched.Load(); n != 1 {
				t.Errorf("%q: %d tokens were fetched", life, n)
			}
		})
	}
}

func TestARefusedAccessTokenIsReplacedOnce(t *testing.T) {
	t.Parallel()
	api, p := &tokenAPI{good: func(n int) bool { return n != 1 }}, build(t, source())
	if err := look(p, api.client()); err != nil || api.fetched.Load() != 2 || api.asked.Load() != 2 {
		t.Errorf("%v after %d tokens and %d questions", err, api.fetched.Load(), api.asked.Load())
	}
	never, p := &tokenAPI{good: func(int) bool { return false }}, build(t, source())
	if err := look(p, never.client()); !errors.Is(err, provider.ErrRefused) || never.fetched.Load() != 2 || never.asked.Load() != 2 {
		t.Errorf("%v after %d tokens and %d questions", err, never.fetched.Load(), never.asked.Load())
	}
}

// Many find out at once that their token was revoked; one replaces it.
func TestARevokedAccessTokenIsReplacedOnceForMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var revoked atomic.Bool
		api := &tokenAPI{good: func(n int) bool { return n > 1 || !revoked.Load() }}
		slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			api.ServeHTTP(w, r)
		})
		client, p := &http.Client{Transport: providertest.HandlerTransport{Handler: slow}}, build(t, source())
		if err := look(p, client); err != nil {
			t.Fatal(err)
		}
		revoked.Store(true)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := look(p, client); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := api.fetched.Load(); n != 2 {
			t.Errorf("%d tokens were fetched", n)
		}
	})
}

// Whoever fetches for the others may give up; the others do not with him.
func TestWhoFetchesAndGivesUpTakesNobodyWithHim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &tokenAPI{}
		slow := roundTrip(func(r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(10 * time.Second):
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
			return providertest.HandlerTransport{Handler: api}.RoundTrip(r)
		})
		client, p := &http.Client{Transport: slow}, build(t, source())
		hasty, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			_, err := p.Lookup(hasty, client, pixID)
			var retry *provider.RetryError
			if !errors.As(err, &retry) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the hasty one: %v", err)
			}
		})
		time.Sleep(time.Millisecond)
		for range 5 {
			all.Go(func() {
				if err := look(p, client); err != nil {
					t.Errorf("a patient one: %v", err)
				}
			})
		}
		brief, cancelBrief := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancelBrief()
		all.Go(func() {
			_, err := p.Lookup(brief, client, pixID)
			var retry *provider.RetryError
			if !errors.As(err, &retry) {
				t.Errorf("one who waits too long: %v", err)
			}
		})
		all.Wait()
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A token that is not to be had is no word about the payment.
func TestTroubleWithTheAccessToken(t *testing.T) {
	t.Parallel()
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(code)
			fmt.Fprint(w, `{"error":"canary"}`)
		}
	}
	for name, c := range map[string]struct {
		grant http.HandlerFunc
		want  error
	}{
		"an address that is not there": {status(404), provider.ErrUnreadable},
		"a wrong client secret":        {status(401), provider.ErrRefused},
		"a scope that is missing":      {status(403), provider.ErrRefused},
		"a bad request":                {status(400), provider.ErrUnreadable},
		"no token":                     {answer(`{"token_type":"Bearer"}`), provider.ErrUnreadable},
		"an empty one":                 {answer(`{"access_token":""}`), provider.ErrUnreadable},
		"one that breaks a header":     {answer(`{"access_token":"canary\r\nX: y"}`), provider.ErrUnreadable},
		"one with a space":             {answer(`{"access_token":"canary x"}`), provider.ErrUnreadable},
		"one that is an object":        {answer(`{"access_token":{}}`), provider.ErrUnreadable},
		"a web page":                   {answer(`<html>canary`), provider.ErrUnreadable},
	} {
		t.Run(name, func(t *testing.T) {
			api := &tokenAPI{grant: c.grant}
			err := look(build(t, source()), api.client())
			if !errors.Is(err, c.want) || errors.Is(err, provider.ErrNotFound) || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), apiKey) {
				t.Errorf("%v", err)
			}
			if api.asked.Load() != 0 {
				t.Error("the payment was asked for without a token")
			}
		})
	}
	for _, code := range []int{429, 500, 503} {
		err := look(build(t, source()), (&tokenAPI{grant: status(code)}).client())
		var retry *provider.RetryError
		if !errors.As(err, &retry) || retry.Status != code || retry.After != 7*time.Second {
			t.Errorf("%d: %v", code, err)
		}
	}
}

func TestTheRequestForAnAccessToken(t *testing.T) {
	t.Parallel()
	api := &tokenAPI{grant: func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		id, secret, _ := r.BasicAuth()
		if err != nil || string(body) != `{"grant_type":"client_credentials"}` || r.ContentLength != int64(len(body)) {
			t.Errorf("body %s of %d bytes, %v", body, r.ContentLength, err)
		}
		if r.Method != http.MethodPost || r.URL.String() != "https://pix.api.efipay.com.br/oauth/token" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s, %s", r.Method, r.URL, r.Header.Get("Content-Type"))
		}
		if id != clientID || secret != apiKey {
			t.Error("other credentials than those of the settings")
		}
		fmt.Fprint(w, `{"access_token":"token-1"}`)
	}}
	if err := look(build(t, source()), api.client()); err != nil {
		t.Error(err)
	}
}
