package asaas

import (
	"crypto/sha256"
	"crypto/subtle"
	"strconv"

	"github.com/umavez/umavez/pkg/provider"
)

// TokenHeader carries the shared token.
const TokenHeader = "Asaas-Access-Token"

// Verify compares the token with every secret, in constant time: digests are
// compared, so that not even a length shows, and all of them, so that the
// time does not tell which one matched. A header that comes twice is refused,
// since it is open which of the two a proxy on the way has checked.
func (p *Provider) Verify(r provider.Request) (string, provider.Reason) {
	values := r.Header[TokenHeader]
	switch {
	case len(values) > 1:
		return "", provider.ReasonMalformed
	case len(values) == 0 || values[0] == "":
		return "", provider.ReasonMissing
	}
	got := sha256.Sum256([]byte(values[0]))
	matched := 0
	for i := len(p.digests) - 1; i >= 0; i-- {
		equal := subtle.ConstantTimeCompare(got[:], p.digests[i][:])
		matched = subtle.ConstantTimeSelect(equal, i+1, matched)
	}
	if matched == 0 {
		return "", provider.ReasonToken
	}
	return strconv.Itoa(matched), provider.ReasonNone
}
