package asaas

import "github.com/umavez/umavez/pkg/provider"

// TokenHeader carries the shared token.
const TokenHeader = "Asaas-Access-Token"

// Verify compares the token with every secret.
func (p *Provider) Verify(r provider.Request) (string, provider.Reason) {
	value, reason := provider.OneValue(r.Header[TokenHeader])
	if reason != provider.ReasonNone {
		return "", reason
	}
	return p.tokens.Match(value)
}
