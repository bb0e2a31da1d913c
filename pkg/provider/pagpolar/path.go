package pagpolar

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/provider"
)

// path leads to a value within JSON: names, or places in an array, joined by
// dots ("data.items.0.id"). "." is the value itself. A nil path is unset.
type path []string

func parsePath(text string) (path, bool) {
	if text == "." {
		return path{}, true
	}
	p := path(strings.Split(text, "."))
	for _, s := range p {
		if s == "" {
			return nil, false
		}
	}
	return p, true
}

// in returns the value that the path leads to, or nil when there is none. v
// has been read by provider.Decode before.
func (p path) in(v jsontext.Value) jsontext.Value {
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

// text reads the string or number at the path; "" when there is none.
func (p path) text(v jsontext.Value) (provider.Text, error) {
	found := p.in(v)
	if found == nil {
		return "", nil
	}
	var t provider.Text
	if err := provider.Decode(found, &t); err != nil {
		return "", fmt.Errorf("%w: a text or a number is expected", provider.ErrJSON)
	}
	return t, nil
}

// number reads the number at the path; "" when there is none.
func (p path) number(v jsontext.Value) (provider.Number, error) {
	found := p.in(v)
	if found == nil {
		return "", nil
	}
	var n provider.Number
	if err := provider.Decode(found, &n); err != nil {
		return "", fmt.Errorf("%w: a number is expected", provider.ErrJSON)
	}
	return n, nil
}
