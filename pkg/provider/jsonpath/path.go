// Package jsonpath finds values in JSON by paths that come from settings, for
// gateways whose bodies and answers are described by configuration.
//
// A value is read as strangers' JSON is read everywhere else: texts and
// numbers as provider.Text and provider.Number, digit by digit.
package jsonpath

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/provider"
)

// Path leads to a value within JSON: names, or places in an array, joined by
// dots ("data.items.0.id"). "." is the value itself. A nil Path is unset.
type Path []string

// Parse reads a path. It returns false for an empty text and for one that has
// an empty name.
func Parse(text string) (Path, bool) {
	if text == "." {
		return Path{}, true
	}
	p := Path(strings.Split(text, "."))
	for _, s := range p {
		if s == "" {
			return nil, false
		}
	}
	return p, true
}

// String is the path as it is written in settings; "" when unset.
func (p Path) String() string {
	if p != nil && len(p) == 0 {
		return "."
	}
	return strings.Join(p, ".")
}

// In returns the value that the path leads to, or nil when there is none. v
// has been read by provider.Decode before.
func (p Path) In(v jsontext.Value) jsontext.Value {
	for _, step := range p {
		if v = child(v, step); v == nil {
			return nil
		}
	}
	return v
}

func child(v jsontext.Value, step string) jsontext.Value {
	dec := jsontext.NewDecoder(bytes.NewBuffer(v), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	open, err := dec.ReadToken()
	if err != nil {
		return nil
	}
	kind, at := open.Kind(), -1
	if kind == '[' {
		if at, err = strconv.Atoi(step); err != nil {
			return nil
		}
	} else if kind != '{' {
		return nil
	}
	for i := 0; ; i++ {
		switch dec.PeekKind() {
		case '}', ']', 0:
			return nil
		}
		wanted := i == at
		if kind == '{' {
			name, err := dec.ReadToken()
			if err != nil {
				return nil
			}
			wanted = name.String() == step
		}
		if wanted {
			found, err := dec.ReadValue()
			if err != nil {
				return nil
			}
			return found.Clone()
		}
		if dec.SkipValue() != nil {
			return nil
		}
	}
}

// Text reads the string or number at the path; "" when there is none, or null.
func (p Path) Text(v jsontext.Value) (provider.Text, error) {
	found := p.In(v)
	if found == nil {
		return "", nil
	}
	var t provider.Text
	if err := provider.Decode(found, &t); err != nil {
		return "", fmt.Errorf("%w: a text or a number is expected", provider.ErrJSON)
	}
	return t, nil
}

// Number reads the number at the path; "" when there is none, or null.
func (p Path) Number(v jsontext.Value) (provider.Number, error) {
	found := p.In(v)
	if found == nil {
		return "", nil
	}
	var n provider.Number
	if err := provider.Decode(found, &n); err != nil {
		return "", fmt.Errorf("%w: a number is expected", provider.ErrJSON)
	}
	return n, nil
}
