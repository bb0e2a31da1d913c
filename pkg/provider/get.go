package provider

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Call is one request to a gateway's API: a GET, or with Form or JSON a POST
// (to obtain an access token, and for nothing that changes anything).
type Call struct {
	Base     string   // from configuration only
	Segments []string // path segments, each percent-encoded as one
	Query    url.Values
	Header   http.Header
	Form     url.Values
	JSON     []byte
	// MaybeMissing are further statuses that mean ErrNotFound, for gateways
	// that do not say 404.
	MaybeMissing []int
}

// maxAnswer bounds a lookup answer.
const maxAnswer = 4 << 20

// GetJSON performs the call and decodes the answer into v, or returns one of
// the errors of this package.
func GetJSON(ctx context.Context, client *http.Client, c Call, v any) error {
	body, err := GetBytes(ctx, client, c, "application/json")
	if err != nil {
		return err
	}
	if err := Decode(body, v); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return nil
}

// GetBytes performs the call and returns the answer as it came, or one of the
// errors of this package.
func GetBytes(ctx context.Context, client *http.Client, c Call, accept string) ([]byte, error) {
	req, err := c.request(ctx)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	resp, err := client.Do(req)
	if err != nil {
		return nil, &RetryError{Err: withoutURL(err)}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case resp.StatusCode == http.StatusNotFound || slices.Contains(c.MaybeMissing, resp.StatusCode):
		return nil, ErrNotFound
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("%w: status %d", ErrRefused, resp.StatusCode)
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500:
		return nil, &RetryError{Status: resp.StatusCode, After: retryAfter(resp.Header)}
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%w: status %d", ErrUnreadable, resp.StatusCode)
	case err != nil:
		return nil, &RetryError{Err: withoutURL(err)}
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("%w: larger than %d bytes", ErrUnreadable, maxAnswer)
	}
	return body, nil
}

func (c Call) request(ctx context.Context) (*http.Request, error) {
	var path strings.Builder
	path.WriteString(strings.TrimRight(c.Base, "/"))
	for _, s := range c.Segments {
		if s == "" || s == "." || s == ".." {
			return nil, fmt.Errorf("%w: empty or relative path segment", ErrMismatch)
		}
		path.WriteByte('/')
		path.WriteString(url.PathEscape(s))
	}
	if len(c.Query) > 0 {
		path.WriteByte('?')
		path.WriteString(c.Query.Encode())
	}
	method, contentType, body := http.MethodGet, "", io.Reader(nil)
	switch {
	case c.Form != nil:
		method, contentType, body = http.MethodPost, "application/x-www-form-urlencoded", strings.NewReader(c.Form.Encode())
	case c.JSON != nil:
		method, contentType, body = http.MethodPost, "application/json", bytes.NewReader(c.JSON)
	}
	req, err := http.NewRequestWithContext(ctx, method, path.String(), body)
	if err != nil {
		return nil, errors.New("the API base address is not a URL")
	}
	for name, values := range c.Header {
		req.Header[name] = values
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	return req, nil
}

// Basic is the Authorization header of HTTP Basic.
func Basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// withoutURL strips the address from a client error: it may carry an id.
func withoutURL(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		return ue.Err
	}
	return err
}

// retryAfter reads Retry-After, at most an hour: seconds, or a date by the
// gateway's own clock.
func retryAfter(h http.Header) time.Duration {
	const longest = time.Hour
	text := strings.TrimSpace(h.Get("Retry-After"))
	if until, err := http.ParseTime(text); err == nil {
		from, err := http.ParseTime(h.Get("Date"))
		if err != nil {
			from = time.Now()
		}
		return max(0, min(until.Sub(from), longest))
	}
	n, err := strconv.ParseUint(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && n > uint64(longest/time.Second):
		return longest
	case err != nil:
		return 0
	}
	return time.Duration(n) * time.Second
}
