package provider

import (
	"bytes"
	"encoding/json"
)

// Rewritten are the forms in which a body is often signed or passed on by
// mistake, each different from the body itself: the faults that on-call looks
// for first when a digest differs. Explainers try them; nobody accepts them.
func Rewritten(body []byte) (names []string, bodies [][]byte) {
	add := func(name string, b []byte) {
		if bytes.Equal(b, body) {
			return
		}
		for _, other := range bodies {
			if bytes.Equal(b, other) {
				return
			}
		}
		names, bodies = append(names, name), append(bodies, b)
	}
	add("the body without outer white space", bytes.TrimSpace(body))
	add("the body with a line break at its end", append(bytes.TrimRight(body, "\r\n"), '\n'))
	add("the body without a byte-order mark", SkipBOM(body))
	var out bytes.Buffer
	if json.Compact(&out, body) == nil {
		add("the body as JSON without spaces", out.Bytes())
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if dec.Decode(&v) == nil {
		if b, err := json.Marshal(v); err == nil {
			add("the body parsed and written anew, keys sorted", b)
		}
	}
	return names, bodies
}
