package ingest

import (
	"crypto/sha256"
	"net/netip"
	"unicode"
	"unicode/utf8"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
)

// The reasons of events that this room settles by itself.
const (
	reasonTooManyEvents = "too_many_events_in_one_request"
	reasonParserFailed  = "parser_failed"
	reasonUnusableRef   = "payment_reference_unusable"
	reasonRefusedByDB   = "refused_by_database"
)

// source is one configured account of a gateway, for the time of a request.
type source struct {
	provider.Provider
	name, account string
	allowed       []netip.Prefix // addresses that may send; none: any
}

// arrivalsOf splits a verified request into what is to be stored: at least
// one arrival, each of which the database can hold. failed is what Parse
// panicked with, nil normally: the request is authentic, so it is kept for a
// person to look at, where an error might make the gateway stop its queue.
func arrivalsOf(src source, r provider.Request, secret string, atMost int) (arrivals []event.Arrival, failed any) {
	messages, failed := parse(src, r)
	switch {
	case failed != nil:
		messages = []provider.Message{whole(r, provider.Quarantine, reasonParserFailed)}
	case len(messages) == 0:
		messages = []provider.Message{whole(r, provider.Ignore, provider.ReasonEmptyData)}
	case len(messages) > atMost:
		messages = []provider.Message{whole(r, provider.Quarantine, reasonTooManyEvents)}
	}
	headers := provider.KeptHeaders(r, src.Traits().SignedHeaders)
	arrivals = make([]event.Arrival, len(messages))
	for i := range messages {
		arrivals[i] = arrivalOf(src, &messages[i], r.Body, secret, headers)
	}
	return arrivals, failed
}

func parse(src source, r provider.Request) (messages []provider.Message, failed any) {
	defer func() {
		if failed = recover(); failed != nil {
			messages = nil
		}
	}()
	return src.Parse(r), nil
}

// whole is the request as one message, keyed by the hash of its bytes.
func whole(r provider.Request, d provider.Disposition, reason string) provider.Message {
	return provider.Message{DedupeKey: event.BodyKey(r.Body), Body: r.Body, Disposition: d, Reason: reason}
}

func arrivalOf(src source, m *provider.Message, request []byte, secret string, headers []event.Header) event.Arrival {
	body := m.Body
	if body == nil {
		body = request
	}
	a := event.Arrival{
		Event: event.Event{
			Provider: src.name, Account: src.account,
			DedupeKey: storableKey(m.DedupeKey, body), ProviderEventID: m.ProviderEventID, Type: m.Type,
			PaymentRef: m.PaymentRef, OccurredAt: m.OccurredAt, Test: m.Test,
			BodySHA256: sha256.Sum256(body), Secret: secret, Body: body, Headers: headers,
		},
		Reason: m.Reason, Reopen: m.Reopen,
	}
	switch m.Disposition {
	case provider.Process, "":
	case provider.Ignore:
		a.Settle = event.StatusIgnored
	default:
		a.Settle = event.StatusQuarantined
	}
	if !usableRef(m.PaymentRef) {
		// Cut or cleaned it would be the name of another payment.
		a.PaymentRef, a.Settle, a.Reason = "", event.StatusQuarantined, reasonUnusableRef
	}
	if a.Settle == "" {
		a.Reason = ""
	} else if a.Reason == "" {
		a.Reason = string(a.Settle)
	}
	return a
}

// storableKey passes what event.Key makes and hashes anything else, so that
// no key is empty, unprintable or too long for its index.
func storableKey(k string, body []byte) string {
	if k == "" {
		return event.BodyKey(body)
	}
	if len(k) > 255 {
		return event.Key("key", k)
	}
	for i := range len(k) {
		if k[i] < 0x20 || k[i] > 0x7e {
			return event.Key("key", k)
		}
	}
	return k
}

func usableRef(ref string) bool {
	if len(ref) > 255 || !utf8.ValidString(ref) {
		return false
	}
	for _, r := range ref {
		if unicode.IsControl(r) {
			return false
		}
	}
	return true
}

// bare is the least that can be kept of an arrival which the database refuses:
// its bytes under its key, for a person to look at.
func bare(a *event.Arrival) event.Arrival {
	return event.Arrival{
		Event: event.Event{
			Provider: a.Provider, Account: a.Account, DedupeKey: a.DedupeKey,
			BodySHA256: a.BodySHA256, Secret: a.Secret, Body: a.Body,
		},
		Settle: event.StatusQuarantined, Reason: reasonRefusedByDB,
	}
}
