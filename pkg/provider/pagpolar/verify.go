package pagpolar

import (
	"strings"

	"github.com/umavez/umavez/pkg/provider"
)

// scheme stands before the token, in exactly this spelling.
const scheme = "Bearer "

// Verify compares the whole header value with every token.
func (p *Provider) Verify(r provider.Request) (string, provider.Reason) {
	value, reason := provider.OneValue(r.Header["Authorization"])
	switch {
	case reason != provider.ReasonNone:
		return "", reason
	case !strings.HasPrefix(value, scheme) || len(value) == len(scheme):
		return "", provider.ReasonMalformed
	}
	return p.tokens.Match(value)
}
