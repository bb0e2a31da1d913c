package efi

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
)

// The types of our messages. Efí names none in its callbacks; these are the
// four names by which its API for resending them calls them.
const (
	typeReceived   = "PIX_RECEBIDO"
	typeRefunded   = "DEVOLUCAO_ENVIADA" // a received Pix with refunds
	typeSent       = "PIX_ENVIADO"
	typeSentBack   = "DEVOLUCAO_RECEBIDA" // a Pix of ours that came back, in part at least
	typeProbe      = "teste_webhook"
	typeRecurrence = "rec"  // Pix Automático: an agreement
	typeRecurring  = "cobr" // Pix Automático: a charge
)

// ReasonOwnPayout is why the outcome of a Pix that we sent is set aside.
const ReasonOwnPayout = "own_payout: a Pix that we sent (tipo or gnExtras.idEnvio says so), not one that was paid to us"

// envelope is what a callback has round its items.
type envelope struct {
	Evento provider.Text  `json:"evento"`
	Pix    jsontext.Value `json:"pix"`
	Rec    jsontext.Value `json:"rec"`
	Cobr   jsontext.Value `json:"cobr"`
}

// Parse gives one message for each item of a callback, each with the item's
// own bytes, so that one that cannot be read does not hold up the others.
func (p *Provider) Parse(r provider.Request) []provider.Message {
	if len(bytes.TrimSpace(provider.SkipBOM(r.Body))) == 0 {
		return probe(r)
	}
	var env envelope
	if err := provider.Decode(r.Body, &env); err != nil {
		return provider.Quarantined(r.Body, "", provider.ReasonUnreadable+": "+err.Error())
	}
	suffix := suffixOf(r)
	switch {
	case !provider.Empty(env.Pix):
		return p.items(r.Body, env.Pix)
	case env.Evento == typeProbe:
		return probe(r)
	case len(env.Rec) > 0 || suffix == typeRecurrence:
		return aside(r.Body, typeRecurrence, provider.ReasonInformational)
	case len(env.Cobr) > 0 || suffix == typeRecurring:
		return aside(r.Body, typeRecurring, provider.ReasonInformational)
	case env.Evento != "" && env.Evento.Clean():
		return aside(r.Body, string(env.Evento), provider.ReasonUnknownType)
	case len(env.Pix) > 0 || provider.Empty(bytes.TrimSpace(provider.SkipBOM(r.Body))):
		return aside(r.Body, "", provider.ReasonEmptyData)
	}
	return provider.Quarantined(r.Body, "", provider.ReasonUnreadable+": pix, the list of what the callback tells, is missing")
}

// aside is the one message of a request that concerns no payment.
func aside(body []byte, typ, reason string) []provider.Message {
	return []provider.Message{{
		DedupeKey: event.BodyKey(body), Type: typ, Body: body, Disposition: provider.Ignore, Reason: reason,
	}}
}

// probe is the test call that Efí makes while a webhook is registered.
func probe(r provider.Request) []provider.Message {
	m := aside(r.Body, typeProbe, provider.ReasonTestEvent)
	m[0].Test = true
	return m
}

func (p *Provider) items(body []byte, list jsontext.Value) []provider.Message {
	var items []jsontext.Value
	if err := provider.Decode(list, &items); err != nil {
		return provider.Quarantined(body, "", provider.ReasonUnreadable+": pix is not a list")
	}
	messages := make([]provider.Message, len(items))
	for i, it := range items {
		messages[i] = p.message(it)
	}
	return messages
}

// message reads one item.
func (p *Provider) message(body []byte) provider.Message {
	it, x, err := decode(body)
	if err != nil {
		return unreadable(body, "", err)
	}
	if it.outgoing(x) {
		m := aside(body, typeSent, ReasonOwnPayout)[0]
		if len(it.Devolucoes) > 0 {
			m.Type = typeSentBack
		}
		m.OccurredAt = moment(it.Horario)
		return m
	}
	m := provider.Message{Type: typeReceived, Body: body, Disposition: provider.Process}
	if len(it.Devolucoes) > 0 {
		// A repeat is processed again: the API may have known less of a refund
		// when it was asked about the first, and a payment that is paid
		// is not asked about by itself.
		m.Type, m.Reopen = typeRefunded, true
	}
	r, err := p.received(it, x)
	if err != nil {
		return unreadable(body, m.Type, err)
	}
	m.DedupeKey, m.PaymentRef, m.OccurredAt = r.key(), r.id, r.latest()
	return m
}

func unreadable(body []byte, typ string, err error) provider.Message {
	return provider.Quarantined(body, typ, provider.ReasonUnreadable+": "+err.Error())[0]
}

// decode reads an item as far as every item goes.
func decode(body []byte) (*item, extras, error) {
	if provider.Empty(body) {
		return nil, extras{}, fmt.Errorf("the item is empty")
	}
	var it item
	if err := provider.Decode(body, &it); err != nil {
		return nil, extras{}, err
	}
	x, err := it.extras()
	return &it, x, err
}
