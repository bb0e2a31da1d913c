package gatewaysim

import (
	"encoding/json"
	"strconv"
	"strings"
)

// object is a JSON object that keeps the order of its fields, so that bodies
// look like the gateways' and are the same each time.
type object []field

type field struct {
	name  string
	value any
}

// raw is JSON text, for numbers whose spelling matters.
type raw string

func (o object) with(name string, value any) object {
	return append(o, field{name, value})
}

func (o object) bytes() []byte { return appendJSON(make([]byte, 0, 1024), o) }

func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case raw:
		return append(b, v...)
	case string:
		return appendText(b, v)
	case bool:
		return strconv.AppendBool(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case object:
		b = append(b, '{')
		for i, f := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendText(b, f.name), ':')
			b = appendJSON(b, f.value)
		}
		return append(b, '}')
	case []object:
		b = append(b, '[')
		for i, o := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, o)
		}
		return append(b, ']')
	case []string:
		b = append(b, '[')
		for i, s := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendText(b, s)
		}
		return append(b, ']')
	}
	panic("gatewaysim: no JSON for this type")
}

// appendText leaves everything but what JSON demands unescaped, as most
// gateways do: '&' in Asaas' ids, accents, U+2028.
func appendText(b []byte, s string) []byte {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == '"' || r == '\\' }) {
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	q, err := json.Marshal(s)
	if err != nil {
		panic("gatewaysim: " + err.Error())
	}
	return append(b, q...)
}

// orNull is a text, or null for "".
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
