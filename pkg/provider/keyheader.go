package provider

import (
	"errors"
	"net/http"
	"strings"
	"unicode"
)

// ErrKeyHeader is what is wrong with a template of KeyHeader.
var ErrKeyHeader = errors.New(`is not a header with {key} in it, like "Authorization: Bearer {key}"`)

// KeyHeader makes the header that carries an API key from a setting such as
// "Authorization: Bearer {key}". The name is sent as it is written there.
func KeyHeader(template string, key Secret) (http.Header, error) {
	name, value, ok := strings.Cut(template, ":")
	value = strings.TrimSpace(value)
	if !ok || !isToken(name) || strings.Count(value, "{key}") != 1 || strings.ContainsFunc(value, unicode.IsControl) {
		return nil, ErrKeyHeader
	}
	return http.Header{name: {strings.Replace(value, "{key}", key.Reveal(), 1)}}, nil
}

// isToken says whether a text can be the name of a header (RFC 9110, 5.6.2).
func isToken(name string) bool {
	for _, c := range name {
		if c > 0x7e || !(unicode.IsLetter(c) || unicode.IsDigit(c) || strings.ContainsRune("!#$%&'*+-.^_`|~", c)) {
			return false
		}
	}
	return name != ""
}
