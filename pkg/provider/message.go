package provider

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/event"
)

// Quarantined is the one message of a body that nobody can read further.
func Quarantined(body []byte, eventType, reason string) []Message {
	return []Message{{
		DedupeKey: event.BodyKey(body), Type: eventType, Body: body, Disposition: Quarantine, Reason: reason,
	}}
}

// Empty says whether a JSON value is absent, null, {} or [].
func Empty(v jsontext.Value) bool {
	t := bytes.TrimSpace(v)
	if len(t) == 0 || string(t) == "null" {
		return true
	}
	first, last := t[0], t[len(t)-1]
	return (first == '{' && last == '}' || first == '[' && last == ']') && len(bytes.TrimSpace(t[1:len(t)-1])) == 0
}
