package efi

import (
	"net/url"
	"slices"
	"strings"

	"github.com/umavez/umavez/pkg/provider"
)

// tokenParameter is the query parameter of the shared token. Efí's customers
// call it hmac; it is a digest of nothing.
const tokenParameter = "hmac"

// byCertificate is the label of a request that a client certificate alone has
// authenticated.
const byCertificate = "client_certificate"

// suffixes are what Efí appends to the registered address: pix to a webhook of
// received Pix, the others to those of Pix Automático. The probe at the
// registration goes to the address as it is.
var suffixes = []string{"pix", "rec", "cobr"}

// Verify checks the client certificate, the token in the address, or both.
// Where the source has tokens they are required in either mode.
func (p *Provider) Verify(r provider.Request) (string, provider.Reason) {
	if p.mtls && !r.ClientVerified {
		return "", provider.ReasonNoClient
	}
	if len(p.tokens) == 0 {
		if !p.mtls || !bare(r.Path) { // New lets no source without tokens skip mTLS
			return "", provider.ReasonMalformed
		}
		return byCertificate, provider.ReasonNone
	}
	token, reason := p.token(r)
	if reason != provider.ReasonNone {
		return "", reason
	}
	return p.tokens.Match(token)
}

// NeedsClientVerified implements provider.ClientVerifier.
func (p *Provider) NeedsClientVerified() bool { return p.mtls }

// bare says whether nothing follows the account in the address but what Efí
// appends.
func bare(path string) bool { return path == "" || slices.Contains(suffixes, path) }

// token finds what the request has in the token's place. What Efí has glued to
// it is cut off only where the address was registered so that it is glued to
// it: elsewhere a token with something behind it is another token.
func (p *Provider) token(r provider.Request) (string, provider.Reason) {
	if p.place == inPath {
		if bare(r.Path) {
			return "", provider.ReasonMissing
		}
		return withoutSuffix(r.Path), provider.ReasonNone
	}
	if !bare(r.Path) {
		return "", provider.ReasonMalformed
	}
	token, reason := parameter(r.Query)
	if reason == provider.ReasonNone && p.place == inQueryWithoutIgnorar {
		token = withoutSuffix(token)
	}
	return token, reason
}

// withoutSuffix cuts one suffix off, with its slash.
func withoutSuffix(text string) string {
	if head, tail, ok := cutLast(text, "/"); ok && slices.Contains(suffixes, tail) {
		return head
	}
	return text
}

func cutLast(text, sep string) (before, after string, found bool) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(sep):], true
}

// parameter reads the token from a raw query. One that comes twice is
// refused, since it is open which of the two a proxy on the way has checked.
func parameter(query string) (string, provider.Reason) {
	var values []string
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if name, err := url.QueryUnescape(name); err != nil || name != tokenParameter {
			continue
		}
		value, err := url.QueryUnescape(value)
		if err != nil {
			return "", provider.ReasonMalformed
		}
		values = append(values, value)
	}
	return provider.OneValue(values)
}

// suffixOf is what Efí appended to the address of a verified request: at the
// end of the query if there is one, else of the path. "" for a probe.
func suffixOf(r provider.Request) string {
	end := r.Path
	if r.Query != "" {
		end, _ = url.QueryUnescape(r.Query)
	}
	for _, s := range suffixes {
		if end == s || strings.HasSuffix(end, "/"+s) {
			return s
		}
	}
	return ""
}
