package standardwebhooks

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/jsonpath"
)

// dedupeBy says what makes two requests the same event.
type dedupeBy string

const (
	dedupeID     dedupeBy = "id"
	dedupeBody   dedupeBy = "body"
	dedupeFields dedupeBy = "fields"
)

type dedupe struct {
	by     dedupeBy
	fields []jsonpath.Path
}

func (r *reader) dedupe() dedupe {
	d := dedupe{by: dedupeBy(r.one("DEDUPE", string(dedupeID), string(dedupeBody), string(dedupeFields)))}
	v := r.get("DEDUPE_FIELDS")
	list := v.list
	if v.text != "" {
		list = splitList(v.text)
	}
	if v.pairs != nil {
		r.fault("DEDUPE_FIELDS", "is an object; it is a list of paths")
	}
	if len(list) > 0 && d.by != dedupeFields {
		r.fault("DEDUPE_FIELDS", "is set, and %s is not %s", r.name("DEDUPE"), dedupeFields)
	}
	for _, text := range list {
		d.fields = append(d.fields, r.parsePath("DEDUPE_FIELDS", text))
	}
	return d
}

// key is the dedupe key of a message. The webhook-id is signed, so nobody can
// give an old body a new one. Where a field of a composite key is missing, or
// is no text, the bytes themselves are the key. A test never takes the
// composite key of a live event.
func (d *dedupe) key(id string, test bool, body jsontext.Value, raw []byte) string {
	switch d.by {
	case dedupeID:
		if id != "" {
			return event.Key("id", id)
		}
	case dedupeFields:
		parts := make([]string, 0, len(d.fields))
		for _, at := range d.fields {
			text, err := at.Text(body)
			if err != nil || text == "" {
				return event.BodyKey(raw)
			}
			parts = append(parts, string(text))
		}
		if test {
			return event.Key("test_fields", parts...)
		}
		return event.Key("fields", parts...)
	}
	return event.BodyKey(raw)
}

// Parse implements provider.Provider; there is one message in a request.
func (p *Provider) Parse(r provider.Request) []provider.Message {
	var body jsontext.Value
	if err := provider.Decode(r.Body, &body); err != nil {
		return provider.Quarantined(r.Body, "", provider.ReasonUnreadable+": "+err.Error())
	}
	if body.Kind() != '{' {
		return provider.Quarantined(r.Body, "", provider.ReasonUnreadable+": not an object")
	}
	typ, err := p.shape.typ.Text(body)
	if err != nil || typ == "" || !typ.Clean() {
		return provider.Quarantined(r.Body, "", provider.ReasonUnreadable+": "+p.shape.typ.String()+" is missing or not a clean word")
	}
	m := provider.Message{Type: string(typ), OccurredAt: p.shape.time(body), Body: r.Body, Disposition: provider.Process}
	if id, reason := provider.OneValue(r.Header[p.headersOf(r.Header)[0]]); reason == provider.ReasonNone && plainID(id) {
		m.ProviderEventID = id
	}
	if m.Test, err = p.shape.isTest(body); err != nil {
		return provider.Quarantined(r.Body, m.Type, provider.ReasonUnreadable+": "+err.Error())
	}
	m.DedupeKey = p.dedupe.key(m.ProviderEventID, m.Test, body, r.Body)
	what, known := p.shape.events.of(m.Type)
	ref, at := p.shape.payment(m.Type, body)
	m.PaymentRef = ref
	switch {
	case m.Test && p.src.Production:
		m.Reason = provider.ReasonTestEvent
	case !known:
		m.Reason = provider.ReasonUnknownType
	case what == meansNone:
		m.Reason = provider.ReasonInformational
	case ref == "" && emptyAround(body, at):
		m.Reason = provider.ReasonEmptyData
	case ref == "":
		return provider.Quarantined(r.Body, m.Type, provider.ReasonUnreadable+": "+missingID(at))
	}
	if m.Reason != "" {
		m.Disposition = provider.Ignore
	}
	return []provider.Message{m}
}

// payment is the id of the payment that an event is about, and where it was
// looked for; "" when none is there, or none that can be one.
func (s *shape) payment(eventType string, body jsontext.Value) (string, jsonpath.Path) {
	at, _ := s.paymentID.of(eventType)
	if at == nil {
		return "", nil
	}
	id, err := at.Text(body)
	if err != nil || !id.Clean() {
		return "", at
	}
	return string(id), at
}

func missingID(at jsonpath.Path) string {
	if at == nil {
		return "no path to the payment's id is configured for this type"
	}
	return at.String() + " is missing or not a clean identifier"
}

// emptyAround says whether the part of the body that would hold the payment's
// id holds nothing at all ("data": null).
func emptyAround(body jsontext.Value, at jsonpath.Path) bool {
	return len(at) > 1 && provider.Empty(at[:1].In(body))
}
