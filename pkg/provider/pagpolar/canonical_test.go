package pagpolar

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/provider/jsonpath"
)

func TestCanonicalFormSortsNamesAndKeepsNumbers(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		` { "b" : 1 , "a" : { "d":[ 2, 1 ], "c":null } } `: `{"a":{"c":null,"d":[2,1]},"b":1}`,
		`{"a":9007199254740993,"b":1.50,"c":1e2}`:          `{"a":9007199254740993,"b":1.50,"c":1e2}`,
		`{"\u00e7":"\/\u00e7","b":true}`:                   `{"b":true,"ç":"/ç"}`,
		`[]`:                                               `[]`,
		`"x"`:                                              `"x"`,
	} {
		got, ok := appendCanonical(nil, jsontext.Value(in))
		if !ok || string(got) != want {
			t.Errorf("%s becomes %s (%v), want %s", in, got, ok, want)
		}
	}
}

func TestDataNestedToWasteTimeIsKnownByItsBytes(t *testing.T) {
	t.Parallel()
	deep := func(n int) jsontext.Value {
		return jsontext.Value(strings.Repeat(`{"b":1,"a":`, n) + "0" + strings.Repeat("}", n))
	}
	if _, ok := appendCanonical(nil, deep(maxDepth)); !ok {
		t.Error("the deepest data that is allowed has no canonical form")
	}
	if _, ok := appendCanonical(nil, deep(maxDepth+1)); ok {
		t.Error("deeper data has a canonical form")
	}
	if fingerprint(deep(5000)) == fingerprint(deep(5001)) {
		t.Error("two deep states are one")
	}
}

func TestPathsLeadToWhatTheySay(t *testing.T) {
	t.Parallel()
	v := jsontext.Value(`{"a":{"b":[{"c":"x"},{"c":7}],"":1},"n":null}`)
	for text, want := range map[string]string{
		"a.b.0.c": `"x"`, "a.b.1.c": "7", "a.b.2.c": "", "a.b.-1.c": "", "a.c": "", "n": "null", "n.a": "", "a.b.x": "", ".": string(v),
	} {
		p, ok := jsonpath.Parse(text)
		if got := string(p.In(v)); !ok || got != want {
			t.Errorf("%s leads to %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"a..b", ".a", "a.", ".."} {
		if _, ok := jsonpath.Parse(text); ok {
			t.Errorf("%q is accepted", text)
		}
	}
}
