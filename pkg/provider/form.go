package provider

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// ErrForm is the reason of a body that is not a strict form. Its text never
// contains the body.
var ErrForm = errors.New("not a valid form")

// maxFields bounds a form.
const maxFields = 2000

// Form is a decoded application/x-www-form-urlencoded body: names as sent,
// brackets and all ("data[id]"), each with its one value.
type Form map[string]Text

// DecodeForm reads a form of strangers as strictly as Decode reads JSON: a
// name that occurs twice is refused, since it is open which of the two the
// sender meant, and so is what is not percent-encoded well. Leading byte-order
// marks are skipped. Broken UTF-8 in a value becomes U+FFFD.
func DecodeForm(body []byte) (Form, error) {
	body = SkipBOM(body)
	form := Form{}
	for i := 0; len(body) > 0; i++ {
		if i == maxFields {
			return nil, fmt.Errorf("%w: more than %d fields", ErrForm, maxFields)
		}
		var pair []byte
		pair, body, _ = bytes.Cut(body, []byte("&"))
		if len(pair) == 0 {
			continue
		}
		name, value, _ := strings.Cut(string(pair), "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			return nil, fmt.Errorf("%w: the name of field %d is not well encoded", ErrForm, i+1)
		}
		if value, err = url.QueryUnescape(value); err != nil {
			return nil, fmt.Errorf("%w: the value of field %d is not well encoded", ErrForm, i+1)
		}
		if _, twice := form[name]; twice {
			return nil, fmt.Errorf("%w: field %d has the name of an earlier one", ErrForm, i+1)
		}
		form[name] = Text(strings.ToValidUTF8(value, "\uFFFD"))
	}
	return form, nil
}

// Under returns the fields of a bracketed group by their inner names: those
// of "data" are "id" for "data[id]" and "customer[name]" for
// "data[customer][name]".
func (f Form) Under(group string) Form {
	inner := Form{}
	for name, v := range f {
		rest, ok := strings.CutPrefix(name, group+"[")
		if !ok {
			continue
		}
		if first, more, ok := strings.Cut(rest, "]"); ok && (more == "" || more[0] == '[') {
			inner[first+more] = v
		}
	}
	return inner
}
