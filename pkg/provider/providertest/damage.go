package providertest

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/umavez/umavez/pkg/provider"
)

const (
	// digits40 is a number that fits nowhere; no reason may quote it.
	digits40 = "3141592653589793238462643383279502884197"
	// canary is a text that no reason or error may quote.
	canary = "CANARY7f3aPersonalNote"
)

// damages are values put in the place of each value of a body.
var damages = []string{
	"null", "true", "false", "0", "-1", "-0", "0.5", "1e2", "1e400", "1e-400", "9007199254740993",
	"9223372036854775808", "-9223372036854775809", digits40, "-" + digits40, digits40 + "." + digits40,
	`""`, `" "`, `"` + canary + `"`, `"` + canary + `\u0000"`, `"\ud83d"`, "\"\xff" + canary + `"`, `"` + digits40 + `"`,
	`"../../` + canary + `"`, `"a.b.*.>"`, `"` + strings.Repeat("x", 400) + `"`, `"é© ` + canary + `"`,
	"[]", "{}", "[null]", `["` + canary + `"]`, `[{}]`, `{"id":null}`, `{"id":"` + canary + `"}`, `{"` + canary + `":"` + canary + `"}`,
	`{"id":{"id":{}}}`, `{"data":[{}]}`, `{"data":null}`,
}

// node is a JSON value with the order of its members kept.
type node struct {
	raw   string // of a scalar
	names []string
	items []*node
	kind  byte // '{', '[' or 0
}

func readNode(d *json.Decoder) (*node, error) {
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		raw, err := json.Marshal(tok)
		return &node{raw: string(raw)}, err
	}
	n := &node{kind: byte(delim)}
	for d.More() {
		if delim == '{' {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			n.names = append(n.names, name.(string))
		}
		item, err := readNode(d)
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, item)
	}
	_, err = d.Token()
	return n, err
}

// text writes the value, with one value inside replaced. An empty
// replacement removes the member or element.
func (n *node) text(target *node, replacement string) string {
	if n == target {
		return replacement
	}
	if n.kind == 0 {
		return n.raw
	}
	var parts []string
	for i, item := range n.items {
		text := item.text(target, replacement)
		if text == "" {
			continue
		}
		if n.kind == '{' {
			name, _ := json.Marshal(n.names[i])
			text = string(name) + ":" + text
		}
		parts = append(parts, text)
	}
	if n.kind == '{' {
		return "{" + strings.Join(parts, ",") + "}"
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func (n *node) walk(path string, visit func(path string, n *node)) {
	visit(path, n)
	for i, item := range n.items {
		name := fmt.Sprint(i)
		if n.kind == '{' {
			name = n.names[i]
		}
		item.walk(path+"/"+name, visit)
	}
}

// Damage returns bodies made from one JSON body by putting, in the place of
// each of its values, what does not belong there, and by leaving each out.
// Fuzz targets use them as seeds. It returns nil for what is not JSON.
func Damage(body []byte) []string {
	d := json.NewDecoder(strings.NewReader(strings.TrimPrefix(string(body), "\ufeff")))
	d.UseNumber()
	root, err := readNode(d)
	if err != nil {
		return nil
	}
	var out []string
	root.walk("", func(_ string, n *node) {
		if n != root {
			out = append(out, root.text(n, ""))
		}
		for _, v := range damages {
			out = append(out, root.text(n, v))
		}
	})
	return out
}

// leaks says whether a text that operators will read quotes what a stranger
// wrote into the body.
func leaks(text string) bool {
	return strings.Contains(text, "CANARY") || strings.Contains(text, digits40[:12]) || !utf8.ValidString(text)
}

// damaged runs every damaged form of the body and of each golden body.
func (s Spec) damaged(t *testing.T) {
	if s.Form {
		s.damagedForms(t)
		return
	}
	p := s.build(t)
	bodies := map[string][]byte{"Spec.Body": s.Body}
	for name, body := range s.goldenBodies(t) {
		bodies[name] = body
	}
	names := make([]string, 0, len(bodies))
	for name := range bodies {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		t.Run(name+" with each value replaced by each bad one", func(t *testing.T) {
			all := Damage(bodies[name])
			if len(all) == 0 && name == "Spec.Body" {
				t.Fatal("Spec.Body is not JSON")
			}
			for _, body := range all {
				s.tryDamaged(t, p, []byte(body))
			}
		})
	}
}

// tryDamaged takes one damaged body all the way: nothing may panic, every
// message and claim must be fit for storage, and no reason may quote the body.
func (s Spec) tryDamaged(t *testing.T, p provider.Provider, body []byte) {
	t.Helper()
	r := s.sign(body)
	verify(t, p, r)
	for _, m := range s.parse(t, p, r) {
		if leaks(m.Reason) {
			t.Errorf("the reason quotes the body: %q\nbody: %.300q", m.Reason, body)
		}
		if _, err := s.facts(t, p, r, m); err != nil && leaks(err.Error()) {
			t.Errorf("the error quotes the body: %q\nbody: %.300q", err, body)
		}
	}
}
