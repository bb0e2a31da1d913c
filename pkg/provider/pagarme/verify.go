package pagarme

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/keyset"
)

// SignatureHeader carries algorithm, key and signature of the body.
var SignatureHeader = http.CanonicalHeaderKey("X-Webhook-Asymmetric-Signature")

// maxHeader bounds the signature's header: one of 8192 bits has 1366
// characters, and a key's name 255.
const maxHeader = 2048

// Verify implements provider.Provider. A signature that is there decides by
// itself: one that is wrong says that the body was changed, which a password
// beside it cannot mend.
func (p *Provider) Verify(r provider.Request) (string, provider.Reason) {
	if signatures := r.Header[SignatureHeader]; p.keys != nil && (len(signatures) > 0 || len(p.basic) == 0) {
		value, reason := provider.OneValue(signatures)
		if reason != provider.ReasonNone {
			return "", reason
		}
		return p.verifySignature(value, r.Body)
	}
	value, reason := provider.OneValue(r.Header["Authorization"])
	if reason != provider.ReasonNone {
		return "", reason
	}
	return p.basic.Match(value)
}

func (p *Provider) verifySignature(value string, body []byte) (string, provider.Reason) {
	s, ok := parseSignature(value)
	if !ok {
		return "", provider.ReasonMalformed
	}
	switch err := p.keys.Check(s.kid, s.over(body)); {
	case err == nil:
		return s.label(), provider.ReasonNone
	case errors.Is(err, keyset.ErrUnavailable):
		return "", provider.ReasonUnavailable
	}
	return "", provider.ReasonMismatch
}

// signature is a parsed header.
type signature struct {
	kid   string
	bytes []byte
}

// label names the key in the place where other gateways name the secret.
func (s signature) label() string { return "kid:" + s.kid }

// over gives the check of the signature over a text: RSASSA-PKCS1-v1_5 with
// SHA-256.
func (s signature) over(text []byte) func(*rsa.PublicKey) bool {
	sum := sha256.Sum256(text)
	return func(key *rsa.PublicKey) bool {
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], s.bytes) == nil
	}
}

// parseSignature reads "alg=RS256; kid=...; signature=...". Parts of other
// names are skipped, so that Pagar.me may add some; one that occurs twice is
// refused, since it is open which of the two was meant.
func parseSignature(value string) (s signature, ok bool) {
	if len(value) > maxHeader || strings.TrimSpace(value) != value {
		return s, false
	}
	found := map[string]string{}
	for part := range strings.SplitSeq(value, ";") {
		name, text, ok := strings.Cut(strings.TrimSpace(part), "=")
		if _, twice := found[name]; !ok || twice {
			return s, false
		}
		found[name] = text
	}
	s.kid = found["kid"]
	if found["alg"] != "RS256" || s.kid == "" || !provider.Text(s.kid).Clean() {
		return s, false
	}
	s.bytes, ok = base64URL(found["signature"])
	return s, ok
}

// base64URL reads base64url, with its padding or without. The strict decoder
// still skips line breaks, which a header does not have.
func base64URL(text string) ([]byte, bool) {
	encoding := base64.RawURLEncoding
	if strings.HasSuffix(text, "=") {
		encoding = base64.URLEncoding
	}
	if text == "" || strings.ContainsAny(text, "\r\n") {
		return nil, false
	}
	b, err := encoding.Strict().DecodeString(text)
	return b, err == nil
}
