package provider

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrJSON is the reason of a body that is not strict JSON. Its text never
// contains the body.
var ErrJSON = errors.New("not valid JSON")

// Decode reads JSON of strangers, the same way at every stage: duplicate
// names are refused, names are matched in exact case, unknown ones ignored.
// Leading byte-order marks are skipped. A half surrogate or broken UTF-8 in a
// text becomes U+FFFD, since a customer's name must not hold up money; ids
// are checked by Text.
func Decode(body []byte, v any) error {
	body = SkipBOM(body)
	if err := json.Unmarshal(body, v, jsontext.AllowInvalidUTF8(true)); err != nil {
		var syn *jsontext.SyntacticError
		if errors.As(err, &syn) {
			if errors.Is(err, jsontext.ErrDuplicateName) {
				return fmt.Errorf("%w: a name occurs twice in one object", ErrJSON)
			}
			return fmt.Errorf("%w: syntax at byte %d", ErrJSON, syn.ByteOffset)
		}
		var sem *json.SemanticError
		if errors.As(err, &sem) {
			return fmt.Errorf("%w: unexpected %s at %s", ErrJSON, kindName(sem.JSONKind), pointerShape(string(sem.JSONPointer)))
		}
		return ErrJSON
	}
	return nil
}

// SkipBOM returns the body without leading UTF-8 byte-order marks.
func SkipBOM(body []byte) []byte {
	for bytes.HasPrefix(body, []byte("\xef\xbb\xbf")) {
		body = body[3:]
	}
	return body
}

func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 'f', 't':
		return "boolean"
	case '"':
		return "string"
	case '0':
		return "number"
	case '{':
		return "object"
	case '[':
		return "array"
	}
	return "value"
}

// pointerShape keeps a JSON pointer readable in a reason without letting a
// sender write what it likes there.
func pointerShape(p string) string {
	if p == "" {
		return "the top level"
	}
	if len(p) > 64 {
		p = p[:64]
	}
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '_' || r == '-' || r < 0x7f && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return '?'
	}, p)
}

// Text is an identifier, status or type word: a JSON string, or a number kept
// digit by digit (ids above 2^53 occur). null and absence are "".
type Text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(b []byte) error {
	v := jsontext.Value(b)
	switch v.Kind() {
	case 'n':
		*t = ""
		return nil
	case '0':
		*t = Text(b)
		return nil
	case '"':
		s, err := jsontext.AppendUnquote(nil, b)
		if err != nil && !utf8.Valid(b) || err != nil && len(s) == 0 {
			*t = Text(string(unicode.ReplacementChar))
			return nil
		}
		*t = Text(s)
		return nil
	}
	return fmt.Errorf("%w: a text is expected", ErrJSON)
}

// Clean says whether a text can name something: at most 255 bytes, valid
// UTF-8, no control characters, no replacement character.
func (t Text) Clean() bool {
	if len(t) > 255 || !utf8.ValidString(string(t)) {
		return false
	}
	for _, r := range string(t) {
		if r == unicode.ReplacementChar || unicode.IsControl(r) {
			return false
		}
	}
	return true
}

// Number is a JSON number (or a string that holds one) as text, never a
// float. null and absence are "".
type Number string

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(b []byte) error {
	v := jsontext.Value(b)
	switch v.Kind() {
	case 'n':
		*n = ""
		return nil
	case '0':
		*n = Number(b)
		return nil
	case '"':
		s, err := jsontext.AppendUnquote(nil, b)
		if err != nil {
			return fmt.Errorf("%w: a number is expected", ErrJSON)
		}
		*n = Number(s)
		return nil
	}
	return fmt.Errorf("%w: a number is expected", ErrJSON)
}
