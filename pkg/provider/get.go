package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Call is one GET of a gateway's API.
type Call struct {
	Base     string   // from configuration only
	Segments []string // path segments, each percent-encoded as one
	Query    url.Values
	Header   http.Header
}

// maxAnswer bounds a lookup answer.
const maxAnswer = 4 << 20

// GetJSON performs the call and decodes the answer into v, or returns one of
// the errors of this package.
func GetJSON(ctx context.Context, client *http.Client, c Call, v any) error {
	var path strings.Builder
	path.WriteString(strings.TrimRight(c.Base, "/"))
	for _, s := range c.Segments {
		if s == "" || s == "." || s == ".." {
			return fmt.Errorf("%w: empty or relative path segment", ErrMismatch)
		}
		path.WriteByte('/')
		path.WriteString(url.PathEscape(s))
	}
	if len(c.Query) > 0 {
		path.WriteByte('?')
		path.WriteString(c.Query.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, path.String(), nil)
	if err != nil {
		return errors.New("the API base address is not a URL")
	}
	for name, values := range c.Header {
		req.Header[name] = values
	}
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return &RetryError{Err: withoutURL(err)}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return ErrNotFound
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%w: status %d", ErrRefused, resp.StatusCode)
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500:
		return &RetryError{Status: resp.StatusCode, After: retryAfter(resp.Header)}
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%w: status %d", ErrUnreadable, resp.StatusCode)
	case err != nil:
		return &RetryError{Err: withoutURL(err)}
	case len(body) > maxAnswer:
		return fmt.Errorf("%w: larger than %d bytes", ErrUnreadable, maxAnswer)
	}
	if err := Decode(body, v); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return nil
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
