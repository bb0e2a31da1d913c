package provider

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/umavez/umavez/pkg/event"
)

// KeptHeaders are the headers of a request that a gateway's Traits name, with
// the query parameters that they name behind a question mark.
func KeptHeaders(r Request, names []string) (kept []event.Header) {
	var query url.Values
	for _, name := range names {
		if parameter, ok := strings.CutPrefix(name, "?"); ok {
			if query == nil {
				query, _ = url.ParseQuery(r.Query) // what cannot be read is not there
			}
			for _, v := range query[parameter] {
				kept = append(kept, event.Header{Name: name, Value: strings.ToValidUTF8(v, "\uFFFD")})
			}
			continue
		}
		name = http.CanonicalHeaderKey(name)
		for _, v := range r.Header.Values(name) {
			kept = append(kept, event.Header{Name: name, Value: v})
		}
	}
	return kept
}
