package zoop

import "github.com/umavez/umavez/pkg/provider"

// Verify compares what follows the account in the address with every secret
// and, where one is configured, the Authorization header with its values. Both
// are always compared, so that the time does not tell which of them was wrong.
func (p *Provider) Verify(r provider.Request) (string, provider.Reason) {
	label, reason := p.secrets.Match(r.Path)
	if r.Path == "" {
		reason = provider.ReasonMissing
	}
	if second := p.authorization(r); reason == provider.ReasonNone {
		reason = second
	}
	if reason != provider.ReasonNone {
		return "", reason
	}
	return label, provider.ReasonNone
}

func (p *Provider) authorization(r provider.Request) provider.Reason {
	if len(p.headers) == 0 {
		return provider.ReasonNone
	}
	value, reason := provider.OneValue(r.Header["Authorization"])
	if reason == provider.ReasonNone {
		_, reason = p.headers.Match(value)
	}
	return reason
}
