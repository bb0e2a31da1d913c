package stripe

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/provider"
)

// The reasons that only Stripe's messages have.
const (
	reasonThin       = "thin_event_unsupported"
	reasonLivemode   = "livemode_mismatch" // a live event at a sandbox's address
	reasonNoLivemode = "livemode_missing"
	reasonNoPayment  = "no_payment" // the object rightly belongs to no payment
)

// envelope is the outer object of an event.
type envelope struct {
	ID         provider.Text   `json:"id"`
	Object     provider.Text   `json:"object"`
	Type       provider.Text   `json:"type"`
	APIVersion provider.Text   `json:"api_version"`
	Created    provider.Number `json:"created"`
	Livemode   *bool           `json:"livemode"`
	Data       jsontext.Value  `json:"data"`
}

// object returns data.object, or nil when the event carries none.
func (e *envelope) object() (jsontext.Value, error) {
	if provider.Empty(e.Data) {
		return nil, nil
	}
	var data struct {
		Object jsontext.Value `json:"object"`
	}
	if err := provider.Decode(e.Data, &data); err != nil {
		return nil, err
	}
	if provider.Empty(data.Object) {
		return nil, nil
	}
	return data.Object, nil
}

// at is the event's time in UTC, or the zero time when it has none that makes
// sense.
func at(seconds provider.Number) time.Time {
	const year10000 = 253402300800
	n, err := money.ParseMinor(string(seconds))
	if err != nil || n <= 0 || n >= year10000 {
		return time.Time{}
	}
	return time.Unix(n, 0).UTC()
}

// Parse implements provider.Provider: one message a request. Arrays, and
// whatever else is not one readable event, are quarantined.
func (g *gateway) Parse(r provider.Request) []provider.Message {
	return []provider.Message{g.open(r.Body).message}
}

// opened is a body as far as it could be read.
type opened struct {
	message  provider.Message
	envelope envelope
	subject  subject // nil unless the message is to be processed
}

// open reads a body. Parse and Facts both go through it, so that what one has
// set aside never becomes money in the other.
func (g *gateway) open(body []byte) *opened {
	o := &opened{message: provider.Message{Body: body}}
	m, e := &o.message, &o.envelope
	if err := provider.Decode(body, e); err != nil {
		setQuarantine(m, err.Error())
		return o
	}
	if e.Type == "invoice.upcoming" && e.ID == "" {
		// A reminder of something that does not exist yet has no id.
		m.DedupeKey, m.Type, m.OccurredAt = event.BodyKey(body), string(e.Type), at(e.Created)
		m.Disposition, m.Reason = provider.Ignore, provider.ReasonInformational
		g.markMode(m, e)
		return o
	}
	switch {
	case e.ID == "" || !e.ID.Clean():
		setQuarantine(m, "id is missing or has characters that an id cannot have")
		return o
	case e.Type == "" || !e.Type.Clean():
		setQuarantine(m, "type is missing or has characters that a type cannot have")
		return o
	}
	m.DedupeKey = event.Key("event", string(e.ID))
	m.ProviderEventID, m.Type, m.OccurredAt = string(e.ID), string(e.Type), at(e.Created)
	o.subject = g.route(m, e)
	g.markMode(m, e)
	return o
}

// markMode sets aside what belongs to the other mode: a test event must not
// reach a production ledger, nor a live one a sandbox.
func (g *gateway) markMode(m *provider.Message, e *envelope) {
	switch {
	case e.Livemode == nil:
		if m.Disposition == provider.Process {
			m.Disposition, m.Reason = provider.Quarantine, provider.ReasonUnreadable+": "+reasonNoLivemode
		}
	case !*e.Livemode && g.src.Production:
		m.Test, m.Disposition, m.Reason = true, provider.Ignore, provider.ReasonTestEvent
	case !*e.Livemode:
		m.Test = true
	case !g.src.Production:
		m.Disposition, m.Reason = provider.Ignore, reasonLivemode
	}
}

// route fills disposition, reason and payment reference, and returns the
// object of a message that is to be processed.
func (g *gateway) route(m *provider.Message, e *envelope) subject {
	settle := func(d provider.Disposition, reason string) { m.Disposition, m.Reason = d, reason }
	unreadable := func(why string) { settle(provider.Quarantine, provider.ReasonUnreadable+": "+why) }

	if e.Object == "v2.core.event" {
		settle(provider.Ignore, reasonThin)
		return nil
	}
	if e.Object != "event" && e.Object != "" {
		unreadable("object is not an event")
		return nil
	}
	object, err := e.object()
	switch {
	case err != nil:
		unreadable(err.Error())
		return nil
	case object == nil:
		settle(provider.Ignore, provider.ReasonEmptyData)
		return nil
	}
	s, known := newSubject(m.Type)
	if !known {
		settle(provider.Ignore, provider.ReasonUnknownType)
		if informational(m.Type) {
			m.Reason = provider.ReasonInformational
			m.PaymentRef = looseRef(object)
		}
		return nil
	}
	if err := readSubject(s, object); err != nil {
		unreadable(err.Error())
		return nil
	}
	ref, missing := s.payment(m.Type)
	switch {
	case ref == "" && missing == reasonNoPayment:
		settle(provider.Ignore, reasonNoPayment)
	case ref == "":
		unreadable(missing)
	case !ref.Clean():
		unreadable("the payment's id has characters that an id cannot have")
	default:
		m.PaymentRef = string(ref)
		settle(provider.Process, "")
		return s
	}
	return nil
}

// informationalPrefixes are the families that never change a payment.
var informationalPrefixes = []string{"invoice.", "customer.subscription.", "radar.early_fraud_warning.", "review."}

func informational(typ string) bool {
	for _, p := range informationalPrefixes {
		if strings.HasPrefix(typ, p) {
			return true
		}
	}
	return false
}

// looseRef reads the payment of an object that only informs, if it is there.
func looseRef(object jsontext.Value) string {
	var o struct {
		PaymentIntent reference `json:"payment_intent"`
		Charge        reference `json:"charge"`
	}
	if provider.Decode(object, &o) != nil {
		return ""
	}
	ref := firstOf(o.PaymentIntent.id, o.Charge.id)
	if !ref.Clean() {
		return ""
	}
	return string(ref)
}

// setQuarantine keeps a body that cannot be read, under the hash of its bytes.
func setQuarantine(m *provider.Message, why string) {
	m.DedupeKey = event.BodyKey(m.Body)
	m.Disposition, m.Reason = provider.Quarantine, provider.ReasonUnreadable+": "+why
}
