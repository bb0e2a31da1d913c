package mercadopago

import (
	"strconv"
	"strings"

	"github.com/umavez/umavez/pkg/provider"
)

// longestPart bounds what a stranger wrote in an explanation.
const longestPart = 100

// Explain implements provider.Explainer. It tells which of the readings of
// Mercado Pago's documentation a sender has used, and names the two faults
// that are seen most: a proxy that puts a request id of its own in the place
// of the one that was signed, and notifications that cannot be verified.
func (p *Provider) Explain(r provider.Request) []provider.SignedText {
	var s signature
	header, _ := provider.OneValue(r.Header[SignatureHeader])
	if !s.parse(header) {
		return nil
	}
	request, _ := requestID(r)
	id := signedID(r.Query)
	if id == "" {
		why := "no data.id in the address, so nothing can be verified"
		if parameter(r.Query, "topic") != "" {
			why = "an IPN, which cannot be verified; end notification_url with ?source_news=webhooks"
		}
		return []provider.SignedText{{Name: why, Text: string(manifest(nil, "", short(request), s.stamp))}}
	}
	lower := strings.ToLower(id)
	texts := []provider.SignedText{p.signed(&s, "data.id as sent", id, request, p.idCase != caseLower || lower == id)}
	if lower != id {
		texts = append(texts, p.signed(&s, "data.id in lower case", lower, request, p.idCase != caseSent))
	}
	if request != "" {
		texts = append(texts, p.signed(&s, "without x-request-id, which a proxy may have added", id, "", false))
	}
	return texts
}

func (p *Provider) signed(s *signature, name, id, request string, accepted bool) provider.SignedText {
	t := provider.SignedText{Name: name, Text: string(manifest(nil, short(id), short(request), s.stamp)), Accepted: accepted}
	text := manifest(nil, id, request, s.stamp)
	for i := len(p.keys) - 1; i >= 0; i-- {
		if s.holds(p.keys[i], text) == 1 {
			t.Secret = strconv.Itoa(i + 1)
		}
	}
	return t
}

func short(t string) string {
	if len(t) > longestPart {
		return t[:longestPart] + "..."
	}
	return t
}
