package pagbank

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strconv"

	"github.com/umavez/umavez/pkg/provider"
)

// TokenHeader carries the digest of account token, hyphen and body.
const TokenHeader = "X-Authenticity-Token"

// RecurringHeader carries the signature of the recurring payments, another
// product. Its algorithm and key are not established, so nothing that has it
// alone is believed.
const RecurringHeader = "X-Payload-Signature"

// The labels of what stood for a token where none was checked.
const (
	labelAddress  = "address"  // the secret in the address
	labelUnsigned = "unsigned" // nothing did: a notification code
)

const digestLen = 2 * sha256.Size // in hexadecimal

// signer makes the digests of one account token.
type signer struct{ prefix []byte }

func newSigner(token provider.Secret) signer { return signer{[]byte(token.Reveal() + "-")} }

// digest is the lower-case hexadecimal SHA-256 of token, hyphen and body.
func (s signer) digest(body []byte) (text [digestLen]byte) {
	h := sha256.New()
	h.Write(s.prefix)
	h.Write(body)
	var sum [sha256.Size]byte
	hex.Encode(text[:], h.Sum(sum[:0]))
	return text
}

// Verify implements provider.Provider.
//
// A notification code (format B) is unsigned, and let through to be stored:
// it says nothing by itself, and what it stands for is asked with our own
// credentials. What a stranger gains by posting one is a row and a few lookups
// of a code that the API does not know. With NOTIFICATION_SECRET he needs the
// address too.
//
// Everything else needs the digest. In the sandbox alone, and only where the
// header is missing, the address with SANDBOX_SECRET stands for it; such a
// source authenticates no body (Traits), so each is read back by the API.
//
// A request of the recurring product is refused as one without credentials:
// nothing of a stranger's body is stored. It is stored, quarantined, when it
// came to the secret address.
func (p *Provider) Verify(r provider.Request) (string, provider.Reason) {
	if _, ok := readNotification(r.Body); ok {
		return p.verifyNotification(r)
	}
	value, reason := provider.OneValue(r.Header[TokenHeader])
	switch {
	case reason != provider.ReasonMissing:
		if reason != provider.ReasonNone {
			return "", reason
		}
		return p.verifyDigest(value, r.Body)
	case len(r.Header[TokenHeader]) > 0 || r.Path == "":
		return "", provider.ReasonMissing
	case recurring(r.Header[TokenHeader], r.Header[RecurringHeader]):
		return p.verifyAddress(r.Path, p.notification, p.sandbox)
	case len(p.sandbox) > 0:
		return p.verifyAddress(r.Path, p.sandbox)
	}
	return "", provider.ReasonMissing
}

// recurring says whether a request has the recurring product's signature and
// not the one that we know.
func recurring(token, payload []string) bool { return len(token) == 0 && len(payload) > 0 }

// verifyNotification lets a code through. One that is signed after all, which
// no source says, is known by that; a signature that is there must hold. A
// compressed body whose digest differs is checked once more as it was sent,
// and may look like a code then, while what is read is something else.
func (p *Provider) verifyNotification(r provider.Request) (string, provider.Reason) {
	if value, reason := provider.OneValue(r.Header[TokenHeader]); reason != provider.ReasonMissing {
		if reason != provider.ReasonNone {
			return "", reason
		}
		return p.verifyDigest(value, r.Body)
	}
	switch {
	case len(p.notification) == 0:
		return labelUnsigned, provider.ReasonNone
	case r.Path == "":
		return "", provider.ReasonMissing
	}
	return p.verifyAddress(r.Path, p.notification, p.sandbox)
}

func (p *Provider) verifyAddress(path string, lists ...provider.Tokens) (string, provider.Reason) {
	found := false
	for _, secrets := range lists {
		_, reason := secrets.Match(path)
		found = found || reason == provider.ReasonNone
	}
	if !found {
		return "", provider.ReasonToken
	}
	return labelAddress, provider.ReasonNone
}

// verifyDigest compares with the digest of every token, in constant time, and
// tells nothing by its time of which one matched. Only lower case is what
// PagBank sends.
func (p *Provider) verifyDigest(value string, body []byte) (string, provider.Reason) {
	if !isDigest(value) {
		return "", provider.ReasonMalformed
	}
	matched := 0
	for i := len(p.tokens) - 1; i >= 0; i-- {
		want := p.tokens[i].digest(body)
		equal := subtle.ConstantTimeCompare(want[:], []byte(value))
		matched = subtle.ConstantTimeSelect(equal, i+1, matched)
	}
	if matched == 0 {
		return "", provider.ReasonMismatch
	}
	return strconv.Itoa(matched), provider.ReasonNone
}

func isDigest(s string) bool {
	if len(s) != digestLen {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
