package e2e

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// found is the first text that a pattern finds in a body, otherwise what is
// given.
func found(pattern *regexp.Regexp, body []byte, otherwise string) string {
	if m := pattern.FindSubmatch(body); m != nil {
		return string(m[1])
	}
	return otherwise
}

func reais(centavos int64) string { return fmt.Sprintf("%d.%02d", centavos/100, centavos%100) }

// formText writes a note into a form: as it is, but for what has a meaning in
// one.
func formText(note string) string {
	return strings.NewReplacer("%", "%25", "&", "%26", "+", "%2B", "=", "%3D", ";", "%3B", " ", "+").Replace(strings.Trim(note, `"`))
}

// wider is a body with a field more.
func (g *gateway) wider(body []byte) []byte {
	if g.form {
		return append(slices.Clone(body), "&invoice_number=NF-1"...)
	}
	note := `"` + cmp.Or(g.note, "description") + `":`
	return []byte(strings.Replace(string(body), note, `"invoice_number":"NF-1",`+note, 1))
}

// padded is a body of so many bytes that says the same.
func (g *gateway) padded(body []byte, size int) []byte {
	if g.form {
		return append(slices.Concat(body, []byte("&padding=")), strings.Repeat("a", max(0, size-len(body)-len("&padding=")))...)
	}
	return append(slices.Clone(body), strings.Repeat(" ", max(0, size-len(body)))...)
}

// worth is the body of a paid hook with another amount, as it is written.
func (g *gateway) worth(body []byte, amount string) []byte {
	name := g.amount[:strings.LastIndexAny(g.amount, ":=")+1]
	return []byte(strings.Replace(string(body), g.amount, name+amount, 1))
}

// dot is what an event id may not have everywhere.
func (g *gateway) dot() string {
	if g.noDots {
		return ""
	}
	return "."
}
