// Package keyset holds the published keys with which a gateway signs: a JSON
// Web Key Set (RFC 7517) behind a URL, fetched when it is first needed and
// again when the gateway rotates its keys.
//
// What it promises:
//
//   - a signature is refused only on the word of a set that is not older than
//     the floor between two fetches, or that the publisher still stands by;
//     where that cannot be known it says ErrUnavailable instead;
//   - whoever sends forged signatures causes one fetch a floor, at most, and
//     those who wait for that fetch share it;
//   - a fetch that fails takes no key away; one that succeeds replaces all;
//   - a fetch is bounded in time and size, follows no redirect, and goes to
//     https, or to http on this very machine.
//
// Only RSA keys for signatures are taken: kty RSA, use sig, alg absent or
// RS256, at least 2048 bits. What else a set holds is skipped.
package keyset

import (
	"crypto/rsa"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// The outcomes of Check that are not acceptance.
var (
	// ErrUnavailable: there is no key to check with, or the named one may be
	// newer than our set, and the set cannot be fetched now.
	ErrUnavailable = errors.New("the key set cannot be fetched")
	// ErrUnknownKey: the set has no key of that name.
	ErrUnknownKey = errors.New("the key set has no such key")
	// ErrRefused: the set has the key, and the check failed with it.
	ErrRefused = errors.New("the check failed with the named key")
)

// The defaults of Config.
const (
	DefaultFloor   = 10 * time.Second
	DefaultMaxAge  = time.Hour
	DefaultTimeout = 1500 * time.Millisecond
)

// Config says where the set is and how it is fetched.
type Config struct {
	// URL of the set: https, or http with a loopback host. Required.
	URL string
	// Floor is the shortest time between two fetches; 0 is DefaultFloor.
	Floor time.Duration
	// MaxAge is how long a set is used before it is fetched again although it
	// has every key that is asked for, so that a withdrawn key goes; 0 is
	// DefaultMaxAge.
	MaxAge time.Duration
	// Timeout bounds one fetch, from dialling to the last byte; 0 is
	// DefaultTimeout. A sender waits for it, so it stays below what the
	// gateway waits for an answer.
	Timeout time.Duration
	// Transport carries the fetches; nil is one of the set's own.
	Transport http.RoundTripper
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Set is a key set. It is safe for concurrent use, and fetches nothing until
// it is asked for a key.
type Set struct {
	url    string
	floor  time.Duration
	maxAge time.Duration
	now    func() time.Time
	client *http.Client

	held atomic.Pointer[keys] // nil until the first successful fetch

	mu     sync.Mutex // held by the one that fetches; others wait for it
	tried  time.Time  // when the last fetch began
	failed error      // of the last fetch; nil when it succeeded
}

// keys is one fetched set. It does not change.
type keys struct {
	byID map[string][]*rsa.PublicKey
	at   time.Time
}

// New prepares a set, or says what is wrong with its address. The error does
// not quote the address.
func New(cfg Config) (*Set, error) {
	if err := checkURL(cfg.URL); err != nil {
		return nil, err
	}
	s := &Set{
		url: cfg.URL, floor: orElse(cfg.Floor, DefaultFloor), maxAge: orElse(cfg.MaxAge, DefaultMaxAge), now: cfg.Now,
		client: &http.Client{
			Transport: cfg.Transport, Timeout: orElse(cfg.Timeout, DefaultTimeout),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if s.now == nil {
		s.now = time.Now
	}
	if cfg.Transport == nil {
		s.client.Transport = transport()
	}
	return s, nil
}

func orElse(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// Check runs a check with the key of that name, and a second time when the
// first fails and a newer set can be had. It returns nil when the check
// passed, else an error that is ErrUnavailable, ErrUnknownKey or ErrRefused.
func (s *Set) Check(kid string, check func(*rsa.PublicKey) bool) error {
	seen := s.held.Load()
	if seen != nil && s.now().Sub(seen.at) >= s.maxAge {
		seen = s.renew(seen)
	}
	if seen.try(kid, check) {
		return nil
	}
	now, err := s.refresh(seen)
	switch {
	case now != seen && now.try(kid, check):
		return nil
	case now.has(kid):
		return ErrRefused
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return ErrUnknownKey
}

// Cached runs a check with the keys that are held, without any fetch.
func (s *Set) Cached(kid string, check func(*rsa.PublicKey) bool) bool {
	return s.held.Load().try(kid, check)
}

func (k *keys) has(kid string) bool { return k != nil && len(k.byID[kid]) > 0 }

func (k *keys) try(kid string, check func(*rsa.PublicKey) bool) bool {
	if k == nil {
		return false
	}
	for _, key := range k.byID[kid] {
		if check(key) {
			return true
		}
	}
	return false
}

// renew replaces a set that is old. One caller does it; the others go on with
// the old one, since nothing says that it is wrong.
func (s *Set) renew(seen *keys) *keys {
	if !s.mu.TryLock() {
		return seen
	}
	defer s.mu.Unlock()
	return s.fetchFrom(seen)
}

// refresh gives the set after seen, and why there may be none: the error of
// the last fetch, whoever made it. Callers wait for a fetch that is under way.
func (s *Set) refresh(seen *keys) (*keys, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.fetchFrom(seen)
	return held, s.failed
}

// fetchFrom fetches, unless somebody has done so since seen was looked at, or
// less than the floor ago. The lock is held.
func (s *Set) fetchFrom(seen *keys) *keys {
	held := s.held.Load()
	now := s.now()
	if held != seen || !s.tried.IsZero() && now.Sub(s.tried) < s.floor {
		return held
	}
	s.tried = now
	byID, err := s.fetch()
	if s.failed = err; err != nil {
		return held
	}
	held = &keys{byID: byID, at: now}
	s.held.Store(held)
	return held
}
