package zoop

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
)

// envelope is what every webhook of Zoop has round its object.
type envelope struct {
	ID        provider.Text `json:"id"`
	Type      provider.Text `json:"type"`
	CreatedAt provider.Text `json:"created_at"`
	Payload   struct {
		Object jsontext.Value `json:"object"`
	} `json:"payload"`
}

// Parse gives the one message of a request.
func (p *Provider) Parse(r provider.Request) []provider.Message {
	var env envelope
	if err := provider.Decode(r.Body, &env); err != nil {
		return provider.Quarantined(r.Body, "", provider.ReasonUnreadable+": "+err.Error())
	}
	switch {
	case env.Type == "" || !env.Type.Clean():
		return provider.Quarantined(r.Body, "", provider.ReasonUnreadable+": type is missing or not a clean word")
	case !env.ID.Clean():
		return provider.Quarantined(r.Body, string(env.Type), provider.ReasonUnreadable+": id is not a clean identifier")
	}
	m := provider.Message{
		ProviderEventID: string(env.ID), Type: string(env.Type), OccurredAt: instant(env.CreatedAt),
		DedupeKey: p.dedupeKey(env.ID, r.Body), Body: r.Body, Disposition: provider.Process,
	}
	if isOther(m.Type) || !strings.HasPrefix(m.Type, transactions) {
		m.Disposition, m.Reason = provider.Ignore, provider.ReasonUnknownType
		if isOther(m.Type) {
			m.Reason = provider.ReasonInformational
		}
		m.PaymentRef = mentioned(env.Payload.Object)
		return []provider.Message{m}
	}
	ref, err := reference(env.Payload.Object)
	if err != nil {
		return provider.Quarantined(r.Body, m.Type, provider.ReasonUnreadable+": "+err.Error())
	}
	m.PaymentRef = ref
	return []provider.Message{m}
}

// dedupeKey is Zoop's event id, which names a stored resource of the API and
// so is the same on every delivery. Type and transaction would not do: several
// partial refunds of one transaction are all transaction.canceled.
func (p *Provider) dedupeKey(id provider.Text, body []byte) string {
	if id == "" {
		return event.BodyKey(body)
	}
	return event.Key("event", p.settings.marketplace, string(id))
}

// reference is the transaction's id. Some code looks for it at payload.id or
// data.id; whether that ever was right is not known, so it is not guessed.
func reference(object jsontext.Value) (string, error) {
	if provider.Empty(object) {
		return "", errors.New("payload.object is missing or empty")
	}
	var o struct {
		ID       provider.Text `json:"id"`
		Resource provider.Text `json:"resource"`
	}
	if err := provider.Decode(object, &o); err != nil {
		return "", fmt.Errorf("payload.object: %w", err)
	}
	switch {
	case o.ID == "" || !o.ID.Clean():
		return "", errors.New("payload.object.id is missing or not a clean identifier")
	case o.Resource != "" && o.Resource != "transaction":
		return "", errors.New("payload.object.resource is not transaction")
	}
	return string(o.ID), nil
}

// mentioned is the transaction that an event about something else carries, if
// it does.
func mentioned(object jsontext.Value) string {
	var o struct {
		ID       provider.Text `json:"id"`
		Resource provider.Text `json:"resource"`
	}
	if provider.Decode(object, &o) != nil || o.Resource != "transaction" || !o.ID.Clean() {
		return ""
	}
	return string(o.ID)
}

// instant reads "2026-01-15T12:00:40+00:00". What is not such a text is the
// zero time, which means that the gateway did not say.
func instant(t provider.Text) time.Time {
	at, err := time.Parse(time.RFC3339, string(t))
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}
