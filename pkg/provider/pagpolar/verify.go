package pagpolar

import (
	"crypto/sha256"
	"crypto/subtle"
	"strconv"
	"strings"

	"github.com/umavez/umavez/pkg/provider"
)

// scheme stands before the token, in exactly this spelling.
const scheme = "Bearer "

// Verify compares the whole header value with every token, in constant time:
// digests are compared, so that not even a length shows, and all of them, so
// that the time does not tell which one matched.
func (p *Provider) Verify(r provider.Request) (string, provider.Reason) {
	values := r.Header["Authorization"]
	switch {
	case len(values) > 1:
		return "", provider.ReasonMalformed
	case len(values) == 0 || values[0] == "":
		return "", provider.ReasonMissing
	case !strings.HasPrefix(values[0], scheme) || len(values[0]) == len(scheme):
		return "", provider.ReasonMalformed
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
