package pagbank

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/umavez/umavez/pkg/provider"
)

// Explain implements provider.Explainer. Beside the body as received it tries
// what becomes of one that was read and written anew on its way: PagBank's
// digest does not survive that.
func (p *Provider) Explain(r provider.Request) []provider.SignedText {
	value, reason := provider.OneValue(r.Header[TokenHeader])
	if reason != provider.ReasonNone || !isDigest(value) {
		return nil
	}
	texts := []provider.SignedText{p.signed("body as received", "<token>-<body>", value, r.Body)}
	texts[0].Accepted = true
	trimmed := bytes.TrimSpace(provider.SkipBOM(r.Body))
	texts = append(texts,
		p.signed("body without outer white space and byte-order mark", "<token>-<body, trimmed>", value, trimmed),
		p.signed("body with a line end", "<token>-<body>\n", value, append(bytes.Clone(trimmed), '\n')))
	var compact bytes.Buffer
	if json.Compact(&compact, trimmed) == nil {
		texts = append(texts, p.signed("body without white space between its parts", "<token>-<body, compact>", value, compact.Bytes()))
		var escaped bytes.Buffer
		json.HTMLEscape(&escaped, compact.Bytes())
		texts = append(texts, p.signed("body without white space, with &, < and > escaped", "<token>-<body, compact and escaped>", value, escaped.Bytes()))
	}
	return texts
}

func (p *Provider) signed(name, text, value string, body []byte) provider.SignedText {
	s := provider.SignedText{Name: name, Text: text}
	for i := range p.tokens {
		if d := p.tokens[i].digest(body); string(d[:]) == value {
			s.Secret = strconv.Itoa(i + 1)
			break
		}
	}
	return s
}
