package postgres

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/umavez/umavez/pkg/event"
)

// Bounds of what strangers can make us keep outside the body, in bytes.
const (
	maxText   = 255
	maxReason = 300
	maxHeader = 4096
)

// storable makes a text of strangers fit for a text column: valid UTF-8
// without NUL, at most so many bytes, cut between runes.
func storable(s string, most int) string {
	if strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) {
		s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
	}
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// storableTime drops a gateway time that is no date of this era.
func storableTime(t time.Time) *time.Time {
	if y := t.Year(); t.IsZero() || y < 1 || y > 9999 {
		return nil
	}
	return &t
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// headersLiteral writes headers as a text[] literal, name, value, name, value;
// an array parameter cannot hold arrays of different lengths.
func headersLiteral(headers []event.Header) string {
	if len(headers) == 0 {
		return "{}"
	}
	var b strings.Builder
	quote := func(s string) {
		b.WriteByte('"')
		for i := range len(s) {
			if s[i] == '"' || s[i] == '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(s[i])
		}
		b.WriteByte('"')
	}
	b.WriteByte('{')
	for i, h := range headers {
		if i > 0 {
			b.WriteByte(',')
		}
		quote(storable(h.Name, maxText))
		b.WriteByte(',')
		quote(storable(h.Value, maxHeader))
	}
	b.WriteByte('}')
	return b.String()
}
