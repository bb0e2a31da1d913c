package asaas

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
)

// envelope is what every webhook of Asaas has round its resource.
type envelope struct {
	ID          provider.Text  `json:"id"`
	Event       provider.Text  `json:"event"`
	DateCreated provider.Text  `json:"dateCreated"`
	Payment     jsontext.Value `json:"payment"`
}

// Parse gives the one message of a request.
func (p *Provider) Parse(r provider.Request) []provider.Message {
	var env envelope
	if err := provider.Decode(r.Body, &env); err != nil {
		return provider.Quarantined(r.Body, "", provider.ReasonUnreadable+": "+err.Error())
	}
	switch {
	case env.Event == "":
		return provider.Quarantined(r.Body, "", provider.ReasonUnreadable+": event is missing")
	case !env.Event.Clean():
		return provider.Quarantined(r.Body, "", provider.ReasonUnreadable+": event is not a clean word")
	case !env.ID.Clean():
		return provider.Quarantined(r.Body, string(env.Event), provider.ReasonUnreadable+": id is not a clean identifier")
	}
	m := provider.Message{
		ProviderEventID: string(env.ID), Type: string(env.Event), OccurredAt: localTime(env.DateCreated),
		Body: r.Body, Disposition: provider.Process,
	}
	if !strings.HasPrefix(m.Type, "PAYMENT_") {
		return []provider.Message{settle(m, provider.ReasonInformational, env, r.Body)}
	}
	if provider.Empty(env.Payment) {
		return []provider.Message{settle(m, provider.ReasonEmptyData, env, r.Body)}
	}
	var pay struct {
		ID provider.Text `json:"id"`
	}
	if err := provider.Decode(env.Payment, &pay); err != nil {
		return provider.Quarantined(r.Body, m.Type, provider.ReasonUnreadable+": payment: "+err.Error())
	}
	if pay.ID == "" || !pay.ID.Clean() {
		return provider.Quarantined(r.Body, m.Type, provider.ReasonUnreadable+": payment.id is missing or not a clean identifier")
	}
	m.PaymentRef = string(pay.ID)
	switch rule, known := rules[m.Type]; {
	case !known:
		return []provider.Message{settle(m, provider.ReasonUnknownType, env, r.Body)}
	case rule.stage == stageViewed:
		return []provider.Message{settle(m, provider.ReasonInformational, env, r.Body)}
	}
	m.DedupeKey = dedupeKey(env, m.PaymentRef, r.Body)
	return []provider.Message{m}
}

// settle marks a message as one to store and leave.
func settle(m provider.Message, reason string, env envelope, body []byte) provider.Message {
	m.Disposition, m.Reason = provider.Ignore, reason
	m.DedupeKey = dedupeKey(env, m.PaymentRef, body)
	return m
}

// dedupeKey is Asaas's event id. Bodies from before March 2024 have none:
// they are known by event, payment and time, and the few that lack even those
// by their bytes.
func dedupeKey(env envelope, paymentRef string, body []byte) string {
	switch {
	case env.ID != "":
		return event.Key("event", string(env.ID))
	case paymentRef != "" && env.DateCreated != "":
		return event.Key("fallback", string(env.Event), paymentRef, string(env.DateCreated))
	}
	return event.BodyKey(body)
}

// saoPaulo is the zone that Asaas's times are in: they carry none, and Brazil
// has had no summer time since 2019.
var saoPaulo = time.FixedZone("America/Sao_Paulo", -3*60*60)

// localTime reads "2026-01-15 09:30:02". What is not such a text is the zero
// time, which means that the gateway did not say.
func localTime(t provider.Text) time.Time {
	at, err := time.ParseInLocation(time.DateTime, string(t), saoPaulo)
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}
