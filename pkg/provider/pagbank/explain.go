package pagbank

import (
	"strconv"

	"github.com/umavez/umavez/pkg/provider"
)

// explained is the text that is signed, without its secret.
const explained = "<token>-<body>"

// Explain implements provider.Explainer: the one text that counts, and those
// that somebody on the way makes of it. PagBank's digest does not survive a
// body that was read and written anew.
func (p *Provider) Explain(r provider.Request) []provider.SignedText {
	value, reason := provider.OneValue(r.Header[TokenHeader])
	if reason != provider.ReasonNone || !isDigest(value) {
		return nil
	}
	texts := []provider.SignedText{{
		Name: "account token, hyphen and body as received", Text: explained, Secret: p.signer(value, r.Body), Accepted: true,
	}}
	names, bodies := provider.Rewritten(r.Body)
	for i, body := range bodies {
		if secret := p.signer(value, body); secret != "" {
			texts = append(texts, provider.SignedText{Name: names[i], Text: explained, Secret: secret})
		}
	}
	return texts
}

// signer is the label of the token whose digest of the body was sent, or "".
func (p *Provider) signer(value string, body []byte) string {
	for i := range p.tokens {
		if d := p.tokens[i].digest(body); string(d[:]) == value {
			return strconv.Itoa(i + 1)
		}
	}
	return ""
}
