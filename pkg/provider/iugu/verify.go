package iugu

import "github.com/umavez/umavez/pkg/provider"

// TokenHeader carries the value that was given as "authorization" when the
// trigger was registered, as it was given: no scheme is added or removed.
const TokenHeader = "Authorization"

// Verify compares the header, or what follows the account in the address,
// with every secret. The place that is not configured is not looked at: an
// address shows in the logs of proxies, so a secret that was meant for the
// header must not be good there, nor the other way round.
func (p *Provider) Verify(r provider.Request) (string, provider.Reason) {
	values := r.Header[TokenHeader]
	if p.place == inPath {
		values = []string{r.Path}
	}
	value, reason := provider.OneValue(values)
	if reason != provider.ReasonNone {
		return "", reason
	}
	return p.tokens.Match(value)
}
