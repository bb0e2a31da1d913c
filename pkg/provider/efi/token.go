package efi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/umavez/umavez/pkg/provider"
)

// session keeps the access token of one account. Whoever needs a new one while
// it is being fetched waits for that one. It is safe for concurrent use.
type session struct {
	mu     sync.Mutex
	held   string
	until  time.Time // zero: until the API refuses it
	flight *flight   // the fetch under way; nil without one
}

// flight is one fetch. Its result may be read once done is closed.
type flight struct {
	done  chan struct{}
	token string
	err   error
}

// grant is an access token and how long it lives; 0 when that was not said.
type grant struct {
	token string
	life  time.Duration
}

// token returns a token that is neither over nor the one that was refused.
func (s *session) token(ctx context.Context, refused string, fetch func(context.Context) (grant, error)) (string, error) {
	for {
		token, f, lead := s.join(refused)
		if f == nil {
			return token, nil
		}
		if lead {
			return s.lead(ctx, f, fetch)
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return "", &provider.RetryError{Err: ctx.Err()}
		}
		// That the one who fetched ran out of time says nothing of us.
		if !errors.Is(f.err, context.Canceled) && !errors.Is(f.err, context.DeadlineExceeded) {
			return f.token, f.err
		}
	}
}

// join gives the token that is held, or the flight to wait for, or one that
// the caller has to lead.
func (s *session) join(refused string) (token string, f *flight, lead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != "" && s.held != refused && (s.until.IsZero() || time.Now().Before(s.until)) {
		return s.held, nil, false
	}
	if s.flight == nil {
		s.flight, lead = &flight{done: make(chan struct{}), err: context.Canceled}, true
	}
	return "", s.flight, lead
}

// lead fetches for all who wait.
func (s *session) lead(ctx context.Context, f *flight, fetch func(context.Context) (grant, error)) (string, error) {
	var g grant
	begun := time.Now()
	defer func() { // also when fetch panics: nobody is left waiting
		s.mu.Lock()
		defer s.mu.Unlock()
		s.flight = nil
		if f.err == nil {
			s.held, s.until = g.token, g.until(begun)
		}
		close(f.done)
	}()
	g, err := fetch(ctx)
	f.token, f.err = g.token, err
	return f.token, f.err
}

// until leaves a margin, so that no token ends on its way.
func (g grant) until(begun time.Time) time.Time {
	if g.life <= 0 {
		return time.Time{}
	}
	return begun.Add(g.life - min(time.Minute, g.life/10))
}

// grant asks for an access token.
func (a *api) grant(ctx context.Context, client *http.Client, secret provider.Secret) (grant, error) {
	var answer struct {
		AccessToken provider.Text   `json:"access_token"`
		ExpiresIn   provider.Number `json:"expires_in"`
	}
	err := provider.GetJSON(ctx, client, provider.Call{
		Base: a.base, Segments: []string{"oauth", "token"},
		Header: http.Header{"Authorization": {provider.Basic(a.clientID, secret.Reveal())}},
		// The contract does not say whether Efí reads a form or JSON; all
		// published code of Efí and its customers sends JSON.
		JSON: []byte(`{"grant_type":"client_credentials"}`),
	}, &answer)
	switch {
	case errors.Is(err, provider.ErrNotFound): // says nothing of any payment
		return grant{}, fmt.Errorf("%w: the API has no such address; check API_BASE", provider.ErrUnreadable)
	case err != nil:
		return grant{}, err
	case !headerSafe(string(answer.AccessToken)):
		return grant{}, fmt.Errorf("%w: access_token is missing or not a token", provider.ErrUnreadable)
	}
	seconds, err := strconv.ParseUint(string(answer.ExpiresIn), 10, 32)
	if err != nil {
		seconds = 0
	}
	return grant{string(answer.AccessToken), time.Duration(seconds) * time.Second}, nil
}

// headerSafe says whether a token can stand in a header: visible ASCII.
func headerSafe(token string) bool {
	return token != "" && !strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' })
}
