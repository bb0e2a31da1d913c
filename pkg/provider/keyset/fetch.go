package keyset

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// The bounds of a set.
const (
	maxSet  = 256 << 10 // bytes
	maxKeys = 64
	maxID   = 255 // bytes of a key's name
	minBits = 2048
	maxBits = 8192 // more would make each check slow
)

func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return errors.New("is not set")
	case err != nil || u.Host == "" || u.Hostname() == "":
		return errors.New("is not an absolute URL")
	case u.User != nil:
		return errors.New("contains a user or password, which a published key set does not need")
	case u.Scheme == "https":
		return nil
	case u.Scheme != "http":
		return errors.New("is not an https address")
	case !loopback(u.Hostname()):
		return errors.New("is an http address of another machine; whoever is on the way could replace the keys, use https")
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// transport is that of a client which asks one host, seldom.
func transport() http.RoundTripper {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConns: 1,
		IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 64 << 10,
	}
}

// fetch gets and reads the set. Its errors hold no part of the answer.
func (s *Set) fetch() (map[string][]*rsa.PublicKey, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.url, nil)
	if err != nil {
		return nil, errors.New("the address is not a URL")
	}
	req.Header.Set("Accept", "application/json, application/jwk-set+json")
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, errors.New("no answer")
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("answered %d", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxSet+1))
	switch {
	case err != nil:
		return nil, errors.New("the answer broke off")
	case len(body) > maxSet:
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxSet)
	}
	return parse(body)
}

// parse reads a set and keeps the keys that may sign. A set without any is
// an error: a page of an outage must not take our keys away.
func parse(body []byte) (map[string][]*rsa.PublicKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, errors.New("the answer is not a key set")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the set has more than %d keys", maxKeys)
	}
	byID := map[string][]*rsa.PublicKey{}
	for _, text := range set.Keys {
		// One by one: a key of a kind that the library does not know must not
		// spoil those beside it.
		if kid, key, ok := signingKey(text); ok {
			byID[kid] = append(byID[kid], key)
		}
	}
	if len(byID) == 0 {
		return nil, errors.New("the set has no RSA key for signatures of 2048 bits or more")
	}
	return byID, nil
}

func signingKey(text []byte) (string, *rsa.PublicKey, bool) {
	var jwk jose.JSONWebKey
	if err := jwk.UnmarshalJSON(text); err != nil {
		return "", nil, false
	}
	key, ok := jwk.Key.(*rsa.PublicKey) // neither a secret one nor another kind
	switch {
	case !ok || jwk.KeyID == "" || len(jwk.KeyID) > maxID,
		jwk.Use != "sig",
		jwk.Algorithm != "" && jwk.Algorithm != string(jose.RS256),
		key.N.BitLen() < minBits || key.N.BitLen() > maxBits,
		key.E < 3 || key.E%2 == 0:
		return "", nil, false
	}
	return jwk.KeyID, key, true
}
