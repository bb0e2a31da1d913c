package standardwebhooks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/provider/jsonpath"
)

// path reads a setting that is one path; nil when it is unset.
func (r *reader) path(setting string) jsonpath.Path {
	text := r.text(setting)
	if text == "" {
		return nil
	}
	return r.parsePath(setting, text)
}

func (r *reader) parsePath(setting, text string) jsonpath.Path {
	p, ok := jsonpath.Parse(text)
	if !ok || len(text) > 200 {
		r.fault(setting, "is not a path: names joined by dots, like data.id")
	}
	return p
}

// pairs reads "WORD=meaning,WORD=meaning", or an object of a file.
func (r *reader) pairs(setting string) []pair {
	v := r.get(setting)
	if v.list != nil {
		r.fault(setting, "is a list; it is an object of texts")
	}
	pairs := v.pairs
	if v.text != "" {
		for i, entry := range strings.Split(v.text, ",") {
			word, meaning, ok := strings.Cut(entry, "=")
			if !ok {
				r.fault(setting, "has an entry, number %d, that is not WORD=meaning", i+1)
				return nil
			}
			pairs = append(pairs, pair{strings.TrimSpace(word), strings.TrimSpace(meaning)})
		}
	}
	seen := map[string]bool{}
	for i, p := range pairs {
		switch {
		case p.word == "" || p.meaning == "":
			r.fault(setting, "has an entry, number %d, with nothing on one side", i+1)
		case seen[p.word]:
			r.fault(setting, "has an entry, number %d, whose word was mapped before", i+1)
		}
		seen[p.word] = true
	}
	return pairs
}

// words reads a table of words to a fixed set of meanings.
func words[S ~string](r *reader, setting string, allowed []S) map[string]S {
	pairs := r.pairs(setting)
	if len(pairs) == 0 {
		return nil
	}
	m := make(map[string]S, len(pairs))
	for i, p := range pairs {
		if !slices.Contains(allowed, S(p.meaning)) {
			r.fault(setting, "has an entry, number %d, whose meaning is none of %s", i+1, join(allowed))
			continue
		}
		m[p.word] = S(p.meaning)
	}
	return m
}

func join[S ~string](words []S) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}

// byType is a table whose words are event types, or prefixes of them that end
// in a star. The exact type counts first, then the longest prefix.
type byType[V any] struct {
	exact    map[string]V
	prefixes []prefixed[V] // longest first
}

type prefixed[V any] struct {
	prefix string
	v      V
}

func (t *byType[V]) add(word string, v V) bool {
	prefix, starred := strings.CutSuffix(word, "*")
	if strings.Contains(prefix, "*") {
		return false
	}
	if starred {
		t.prefixes = append(t.prefixes, prefixed[V]{prefix, v})
		slices.SortFunc(t.prefixes, func(a, b prefixed[V]) int { return len(b.prefix) - len(a.prefix) })
		return true
	}
	if t.exact == nil {
		t.exact = map[string]V{}
	}
	t.exact[word] = v
	return true
}

func (t *byType[V]) of(eventType string) (v V, ok bool) {
	if v, ok = t.exact[eventType]; ok {
		return v, true
	}
	for _, p := range t.prefixes {
		if strings.HasPrefix(eventType, p.prefix) {
			return p.v, true
		}
	}
	return v, false
}

// paymentIDs reads PAYMENT_ID_PATH: one path, or paths by event type.
func (r *reader) paymentIDs() (t byType[jsonpath.Path]) {
	const setting = "PAYMENT_ID_PATH"
	v := r.get(setting)
	if v.text != "" && !strings.Contains(v.text, "=") {
		t.add("*", r.parsePath(setting, v.text))
		return t
	}
	for i, p := range r.pairs(setting) {
		if !t.add(p.word, r.parsePath(setting, p.meaning)) {
			r.fault(setting, "has an entry, number %d, with a star that is not at its end", i+1)
		}
	}
	return t
}

func (r *reader) currency(setting string) string {
	text := r.text(setting)
	if text == "" {
		return ""
	}
	code, err := money.Currency(text)
	if err != nil {
		r.fault(setting, "is not an ISO 4217 code like BRL")
	}
	return code
}

// The units of amounts.
const (
	unitMinor   = "minor"
	unitDecimal = "decimal"
)

func (r *reader) decimal(setting string) bool {
	return r.one(setting, unitMinor, unitDecimal) == unitDecimal
}

// need reports the settings without which a shape cannot be read.
func (r *reader) need(what string, missing []string) {
	if len(missing) == 0 {
		return
	}
	for i, setting := range missing {
		missing[i] = r.src.Variable(setting)
	}
	r.faults = append(r.faults, fmt.Errorf("source %s: %s, set also %s (or their fields in the mapping file)",
		r.src.Name(), what, strings.Join(missing, ", ")))
}
