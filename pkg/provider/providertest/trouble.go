package providertest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/provider"
)

// lookupFailures answers as gateways in trouble do.
func (s Spec) lookupFailures(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(code)
			_, _ = w.Write([]byte(`{"error":{"message":"` + canary + `"}}`))
		}
	}
	for code, want := range map[int]error{
		404: provider.ErrNotFound, 401: provider.ErrRefused, 403: provider.ErrRefused,
	} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			if _, err := s.ask(t, status(code), s.LookupRef, nil); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		})
	}
	for _, code := range []int{429, 500, 502, 503, 504} {
		t.Run(http.StatusText(code)+" is to be retried", func(t *testing.T) {
			_, err := s.ask(t, status(code), s.LookupRef, nil)
			var retry *provider.RetryError
			if !errors.As(err, &retry) || retry.Status != code || retry.After != 7*time.Second {
				t.Errorf("%#v", err)
			}
		})
	}
	for name, answer := range map[string]http.HandlerFunc{
		"a redirect":       status(302),
		"no content":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
		"an empty answer":  func(http.ResponseWriter, *http.Request) {},
		"a web page":       func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>" + canary)) },
		"null":             func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("null")) },
		"an empty object":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) },
		"an array":         func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[]")) },
		"a number":         func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(digits40)) },
		"a huge answer":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 5<<20)) },
		"a closed line":    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a half answer":    half(s.LookupAnswer),
		"a bad request":    status(400),
		"a teapot's reply": status(418),
	} {
		t.Run(name+" is an error", func(t *testing.T) {
			claim, err := s.ask(t, answer, s.LookupRef, nil)
			if err == nil {
				t.Errorf("taken for %+v", claim)
			}
			if errors.Is(err, provider.ErrNotFound) && !(s.BadRequestIsMissing && name == "a bad request") {
				t.Error("taken for a payment that does not exist")
			}
		})
	}
	t.Run("a deadline is a failure to retry", func(t *testing.T) {
		release := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
		defer server.Close()
		defer close(release)
		p, err := s.Factory(s.at(server.URL, nil))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_, err = s.safely(t, p, ctx, client(nil), s.LookupRef)
		var retry *provider.RetryError
		if !errors.As(err, &retry) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

// half sends the first half of an answer and drops the line.
func half(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		h(rec, r)
		w.Header().Set("Content-Length", "100000")
		_, _ = w.Write(rec.Body.Bytes()[:rec.Body.Len()/2])
		panic(http.ErrAbortHandler)
	}
}

// lookupMismatches asks for one payment and is told of another, and asks with
// references that would be another address if they were not encoded.
func (s Spec) lookupMismatches(t *testing.T) {
	for _, ref := range []string{s.LookupRef + "x", s.LookupRef[:len(s.LookupRef)-1], "x" + s.LookupRef, swapCase(s.LookupRef)} {
		if ref == s.LookupRef {
			continue // an id without letters
		}
		t.Run("another id is a mismatch", func(t *testing.T) {
			if _, err := s.ask(t, s.LookupAnswer, ref, nil); !errors.Is(err, provider.ErrMismatch) {
				t.Errorf("%v, want a mismatch", err)
			}
		})
	}
	for _, ref := range []string{
		"", ".", "..", "../secrets", s.LookupRef + "/../x", s.LookupRef + "/refund", s.LookupRef + "?x=1",
		s.LookupRef + "#x", "a b", "%2e%2e", "a%2Fb", "x&y=z", "é", "a\x00b", "a\nb", "\xff", "//evil.example", "http://evil.example/",
	} {
		t.Run("the reference cannot leave its place: "+ref, func(t *testing.T) {
			var paths []string
			depth := 0
			count := func(w http.ResponseWriter, r *http.Request) {
				paths = append(paths, r.URL.EscapedPath()+"?"+r.URL.RawQuery)
				depth = max(depth, strings.Count(r.URL.EscapedPath(), "/"))
				s.LookupAnswer(w, r)
			}
			if _, err := s.ask(t, http.HandlerFunc(count), s.LookupRef, nil); err != nil {
				t.Fatal(err)
			}
			normal := depth
			paths, depth = nil, 0
			if _, err := s.ask(t, http.HandlerFunc(count), ref, nil); err == nil {
				t.Error("answered")
			}
			if depth > normal {
				t.Errorf("the address has more segments than it should: %q", paths)
			}
			for _, p := range paths {
				for segment := range strings.SplitSeq(strings.SplitN(p, "?", 2)[0], "/") {
					if segment == "." || segment == ".." {
						t.Errorf("a relative segment: %q", p)
					}
				}
			}
		})
	}
}
