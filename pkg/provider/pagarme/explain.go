package pagarme

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/umavez/umavez/pkg/provider"
)

// rewritten are texts that a body is signed as by a sender, or turned into by
// something on the way: only the first is accepted.
func rewritten(body []byte) (names []string, texts [][]byte) {
	names, texts = []string{"the body"}, [][]byte{body}
	add := func(name string, text []byte) {
		if !bytes.Equal(text, body) {
			names, texts = append(names, name), append(texts, text)
		}
	}
	add("the body without outer white space", bytes.TrimSpace(body))
	add("the body and a line feed", append(bytes.Clone(bytes.TrimSpace(body)), '\n'))
	var compact bytes.Buffer
	if json.Compact(&compact, body) == nil {
		add("the body without white space between its parts", compact.Bytes())
	} else if form, err := url.ParseQuery(string(body)); err == nil && len(form) > 0 {
		add("the form written anew, its fields sorted", []byte(form.Encode()))
	}
	return names, texts
}

// Explain implements provider.Explainer. It uses the keys that are held, and
// fetches none.
func (p *Provider) Explain(r provider.Request) []provider.SignedText {
	if p.keys == nil {
		return nil
	}
	value, _ := provider.OneValue(r.Header[SignatureHeader])
	s, ok := parseSignature(value)
	return explain(r.Body, func(text []byte) string {
		if ok && p.keys.Cached(s.kid, s.over(text)) {
			return s.label()
		}
		return ""
	})
}

// Explain implements provider.Explainer.
func (p *Legacy) Explain(r provider.Request) []provider.SignedText {
	value, _ := provider.OneValue(r.Header[HubSignatureHeader])
	sent, err := hex.DecodeString(strings.TrimPrefix(value, "sha1="))
	return explain(r.Body, func(text []byte) string {
		if err != nil {
			return ""
		}
		return p.match(sent, text)
	})
}

func explain(body []byte, label func([]byte) string) (list []provider.SignedText) {
	names, texts := rewritten(body)
	for i, name := range names {
		shown := "<body>"
		if i > 0 {
			shown = "<body>, changed: " + name
		}
		list = append(list, provider.SignedText{Name: name, Text: shown, Secret: label(texts[i]), Accepted: i == 0})
	}
	return list
}
