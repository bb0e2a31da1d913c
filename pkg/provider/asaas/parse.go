package asaas

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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
		return quarantine(r.Body, "", provider.ReasonUnreadable+": "+err.Error())
	}
	switch {
	case env.Event == "":
		return quarantine(r.Body, "", provider.ReasonUnreadable+": event is missing")
	case !env.Event.Clean():
		return quarantine(r.Body, "", provider.ReasonUnreadable+": event is not a clean word")
	case !env.ID.Clean():
		return quarantine(r.Body, string(env.Event), provider.ReasonUnreadable+": id is not a clean identifier")
	}
	m := provider.Message{
		ProviderEventID: string(env.ID), Type: string(env.Event), OccurredAt: localTime(env.DateCreated),
		Body: r.Body, Disposition: provider.Process,
	}
	if !strings.HasPrefix(m.Type, "PAYMENT_") {
		return []provider.Message{settle(m, provider.ReasonInformational, env, r.Body)}
	}
	if isEmpty(env.Payment) {
		return []provider.Message{settle(m, provider.ReasonEmptyData, env, r.Body)}
	}
	var pay struct {
		ID provider.Text `json:"id"`
	}
	if err := provider.Decode(env.Payment, &pay); err != nil {
		return quarantine(r.Body, m.Type, provider.ReasonUnreadable+": payment: "+err.Error())
	}
	if pay.ID == "" || !pay.ID.Clean() {
		return quarantine(r.Body, m.Type, provider.ReasonUnreadable+": payment.id is missing or not a clean identifier")
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
	return bodyKey(body)
}

func bodyKey(body []byte) string {
	sum := sha256.Sum256(body)
	return event.Key("body", hex.EncodeToString(sum[:]))
}

func quarantine(body []byte, eventType, reason string) []provider.Message {
	return []provider.Message{{
		DedupeKey: bodyKey(body), Type: eventType, Body: body,
		Disposition: provider.Quarantine, Reason: reason,
	}}
}

// isEmpty says whether a resource is absent, null, {} or [].
func isEmpty(v jsontext.Value) bool {
	t := bytes.TrimSpace(v)
	if len(t) == 0 || string(t) == "null" {
		return true
	}
	first, last := t[0], t[len(t)-1]
	return (first == '{' && last == '}' || first == '[' && last == ']') && len(bytes.TrimSpace(t[1:len(t)-1])) == 0
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
