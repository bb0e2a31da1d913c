package pagpolar

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth bounds the work on data that is nested to waste our time; such
// data is known by its bytes.
const maxDepth = 64

// fingerprint names a state of data: 32 hex digits of the SHA-256 of its
// canonical form. Spaces, escapes and the order of names do not count.
func fingerprint(data jsontext.Value) string {
	canonical, ok := appendCanonical(make([]byte, 0, len(data)), data)
	if !ok {
		canonical = data
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:16])
}

// appendCanonical writes a value without spaces, with the names of objects
// sorted and strings in one spelling. Numbers keep their digits: RFC 8785,
// which jsontext's Canonicalize follows, would pass them through a float64
// and make one id out of two above 2^53.
func appendCanonical(dst []byte, v jsontext.Value) (canonical []byte, ok bool) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(v), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	return canonicalValue(dst, dec, 0)
}

func canonicalValue(dst []byte, dec *jsontext.Decoder, depth int) ([]byte, bool) {
	switch {
	case depth > maxDepth:
		return dst, false
	case dec.PeekKind() == '{':
		return canonicalObject(dst, dec, depth)
	case dec.PeekKind() == '[':
		return canonicalArray(dst, dec, depth)
	case dec.PeekKind() == '"':
		return canonicalString(dst, dec)
	}
	v, err := dec.ReadValue() // a number, true, false or null
	return append(dst, v...), err == nil
}

// canonicalString spells a string in the one canonical way. One that is not
// proper Unicode keeps its own spelling, so that two of them stay two.
func canonicalString(dst []byte, dec *jsontext.Decoder) ([]byte, bool) {
	raw, err := dec.ReadValue()
	if err != nil {
		return dst, false
	}
	if plain, err := jsontext.AppendUnquote(nil, raw); err == nil {
		if quoted, err := jsontext.AppendQuote(dst, plain); err == nil {
			return quoted, true
		}
	}
	return append(dst, raw...), true
}

func canonicalArray(dst []byte, dec *jsontext.Decoder, depth int) ([]byte, bool) {
	if _, err := dec.ReadToken(); err != nil {
		return dst, false
	}
	dst = append(dst, '[')
	ok := true
	for first := true; dec.PeekKind() != ']'; first = false {
		if !first {
			dst = append(dst, ',')
		}
		if dst, ok = canonicalValue(dst, dec, depth+1); !ok {
			return dst, false
		}
	}
	_, err := dec.ReadToken()
	return append(dst, ']'), err == nil
}

func canonicalObject(dst []byte, dec *jsontext.Decoder, depth int) ([]byte, bool) {
	if _, err := dec.ReadToken(); err != nil {
		return dst, false
	}
	type member struct{ name, text []byte }
	var members []member
	for dec.PeekKind() != '}' {
		text, ok := canonicalString(nil, dec)
		if !ok {
			return dst, false
		}
		name := text
		if text, ok = canonicalValue(append(text, ':'), dec, depth+1); !ok {
			return dst, false
		}
		members = append(members, member{text[:len(name)], text})
	}
	if _, err := dec.ReadToken(); err != nil {
		return dst, false
	}
	slices.SortStableFunc(members, func(a, b member) int {
		return cmp.Or(bytes.Compare(a.name, b.name), bytes.Compare(a.text, b.text))
	})
	dst = append(dst, '{')
	for i, m := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, m.text...)
	}
	return append(dst, '}'), true
}
