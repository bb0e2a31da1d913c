package provider

import (
	"crypto/sha256"
	"crypto/subtle"
	"strconv"
)

// Tokens are the digests of the header values that a gateway with a static
// shared token may send, one for each active secret, in their order.
type Tokens [][sha256.Size]byte

// NewTokens digests each secret behind a fixed prefix ("Bearer ", or nothing).
func NewTokens(prefix string, secrets []Secret) Tokens {
	t := make(Tokens, len(secrets))
	for i, s := range secrets {
		t[i] = sha256.Sum256([]byte(prefix + s.Reveal()))
	}
	return t
}

// Match compares a header value with every token, in constant time: digests
// are compared, so that not even a length shows, and all of them, so that the
// time does not tell which one matched. It returns the label of the secret.
func (t Tokens) Match(value string) (secret string, reason Reason) {
	got := sha256.Sum256([]byte(value))
	matched := 0
	for i := len(t) - 1; i >= 0; i-- {
		equal := subtle.ConstantTimeCompare(got[:], t[i][:])
		matched = subtle.ConstantTimeSelect(equal, i+1, matched)
	}
	if matched == 0 {
		return "", ReasonToken
	}
	return strconv.Itoa(matched), ReasonNone
}

// OneValue returns the only value of a header. One that comes twice is
// refused, since it is open which of the two a proxy on the way has checked.
func OneValue(values []string) (string, Reason) {
	switch {
	case len(values) > 1:
		return "", ReasonMalformed
	case len(values) == 0 || values[0] == "":
		return "", ReasonMissing
	}
	return values[0], ReasonNone
}
