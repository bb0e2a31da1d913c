package provider

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestGetJSONKeepsEachSegmentInItsPlace(t *testing.T) {
	t.Parallel()
	var path, query string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, query = r.URL.EscapedPath(), r.URL.RawQuery
		_, _ = w.Write([]byte(`{}`))
	}))
	defer server.Close()
	get := func(segments ...string) error {
		var v struct{}
		return GetJSON(context.Background(), server.Client(), Call{Base: server.URL + "/", Segments: segments, Query: url.Values{"a": {"x&y=z"}}}, &v)
	}
	for in, want := range map[string]string{
		"pay_1": "/v1/pay_1", "a/b": "/v1/a%2Fb", "a?b#c": "/v1/a%3Fb%23c", "../x": "/v1/..%2Fx", "%2e%2e": "/v1/%252e%252e", "é": "/v1/%C3%A9",
	} {
		if err := get("v1", in); err != nil || path != want || query != "a=x%26y%3Dz" {
			t.Errorf("%q: asked %q?%s, %v; want %q", in, path, query, err, want)
		}
	}
	for _, in := range []string{"", ".", ".."} {
		path = "not asked"
		if err := get("v1", in); !errors.Is(err, ErrMismatch) || path != "not asked" {
			t.Errorf("%q: asked %q, %v", in, path, err)
		}
	}
}

func TestGetJSONTellsPassingFailuresFromLastingOnes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		header map[string]string
		body   string
		want   error
		after  time.Duration // -1: not a RetryError
	}{
		{200, nil, `{"a":1}`, nil, -1},
		{404, nil, ``, ErrNotFound, -1},
		{401, nil, ``, ErrRefused, -1},
		{403, nil, ``, ErrRefused, -1},
		{400, nil, `{}`, ErrUnreadable, -1},
		{204, nil, ``, ErrUnreadable, -1},
		{200, nil, `{"a":1,"a":2}`, ErrUnreadable, -1},
		{200, nil, strings.Repeat(" ", maxAnswer+1), ErrUnreadable, -1},
		{429, map[string]string{"Retry-After": "7"}, ``, nil, 7 * time.Second},
		{503, map[string]string{"Retry-After": "99999"}, ``, nil, time.Hour},
		{503, map[string]string{"Retry-After": "99999999999999999999999"}, ``, nil, time.Hour},
		{503, map[string]string{"Retry-After": "-5"}, ``, nil, 0},
		{503, map[string]string{"Retry-After": "soon"}, ``, nil, 0},
		{503, map[string]string{"Date": "Thu, 01 Jan 2026 00:00:00 GMT", "Retry-After": "Thu, 01 Jan 2026 00:00:30 GMT"}, ``, nil, 30 * time.Second},
		{503, map[string]string{"Date": "Thu, 01 Jan 2026 00:00:30 GMT", "Retry-After": "Thu, 01 Jan 2026 00:00:00 GMT"}, ``, nil, 0},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for k, v := range c.header {
				w.Header().Set(k, v)
			}
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		var v struct{}
		err := GetJSON(context.Background(), server.Client(), Call{Base: server.URL, Segments: []string{"x"}}, &v)
		server.Close()
		var retry *RetryError
		if c.after >= 0 {
			if !errors.As(err, &retry) || retry.After != c.after || retry.Status != c.status {
				t.Errorf("%d %v: %#v", c.status, c.header, err)
			}
			continue
		}
		if !errors.Is(err, c.want) || errors.As(err, &retry) {
			t.Errorf("%d: %v, want %v", c.status, err, c.want)
		}
	}
}

func TestErrorsOfGetJSONDoNotShowTheAddress(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	var v struct{}
	err := GetJSON(context.Background(), http.DefaultClient, Call{Base: server.URL, Segments: []string{"pay_secret"}}, &v)
	var retry *RetryError
	if !errors.As(err, &retry) || strings.Contains(err.Error(), "pay_secret") {
		t.Errorf("%v", err)
	}
}
