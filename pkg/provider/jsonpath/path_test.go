package jsonpath

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestAPathLeadsThroughNamesAndPlaces(t *testing.T) {
	t.Parallel()
	v := jsontext.Value(`{"a":{"b":[{"c":"x"},{"c":9007199254740993}],"n":null,"":1},"a.b":2,"s":"t"}`)
	for path, want := range map[string]string{
		"a.b.0.c": "x", "a.b.1.c": "9007199254740993", "s": "t", "a.n": "", "a.b.2.c": "", "a.b.-1.c": "", "a.b.x": "",
		"s.t": "", "a.n.x": "", "nope": "", "A": "",
	} {
		p, ok := Parse(path)
		if !ok || p.String() != path {
			t.Fatalf("%q: %v %q", path, ok, p.String())
		}
		if got, err := p.Text(v); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
	whole, ok := Parse(".")
	if !ok || whole.String() != "." || string(whole.In(v)) != string(v) {
		t.Errorf("the whole value: %v %q", ok, whole)
	}
	if Path(nil).String() != "" {
		t.Error("an unset path has a text")
	}
	for _, path := range []string{"a", "a.b", "."} {
		p, _ := Parse(path)
		if got, err := p.Text(v); err == nil {
			t.Errorf("%s: %q is no text", path, got)
		}
		if got, err := p.Number(v); err == nil {
			t.Errorf("%s: %q is no number", path, got)
		}
	}
	for _, text := range []string{"", ".a", "a.", "a..b", ".."} {
		if p, ok := Parse(text); ok {
			t.Errorf("%q is taken for the path %v", text, p)
		}
	}
}
