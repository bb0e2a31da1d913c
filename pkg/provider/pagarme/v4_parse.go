package pagarme

import (
	"strings"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
)

// transactionChanged is the one event of API v1 to v4 that concerns money.
const transactionChanged = "transaction_status_changed"

// v4Families are the beginnings of the postbacks' other events.
var v4Families = []string{"subscription_", "recipient_", "order_"}

// Parse implements provider.Provider. A postback is one event.
func (p *Legacy) Parse(r provider.Request) []provider.Message {
	form, err := provider.DecodeForm(r.Body)
	if err != nil {
		return provider.Quarantined(r.Body, "", unreadable+err.Error())
	}
	typ := form["event"]
	if typ == "" || !typ.Clean() {
		return provider.Quarantined(r.Body, "", unreadable+"event is missing or not a clean word")
	}
	m := provider.Message{
		Type: string(typ), OccurredAt: timeOf(form["transaction[date_updated]"]), Body: r.Body, Disposition: provider.Process,
		DedupeKey: v4Key(form, r.Body),
	}
	settle := func(reason string) []provider.Message {
		m.Disposition, m.Reason = provider.Ignore, reason
		return []provider.Message{m}
	}
	if m.Type != transactionChanged {
		for _, family := range v4Families {
			if strings.HasPrefix(m.Type, family) {
				return settle(provider.ReasonInformational)
			}
		}
		return settle(provider.ReasonUnknownType)
	}
	if fault := v4Fault(form); fault != "" {
		return provider.Quarantined(r.Body, m.Type, unreadable+fault)
	}
	m.PaymentRef = string(form["id"])
	if form["current_status"] == "pending_refund" {
		return settle(provider.ReasonInformational)
	}
	return []provider.Message{m}
}

// v4Fault says what is wrong with the postback of a transaction.
func v4Fault(f provider.Form) string {
	inner, named := f["transaction[id]"]
	switch {
	case f["id"] == "" || !f["id"].Clean():
		return "id is missing or not a clean identifier"
	case named && inner != f["id"]:
		return "id and transaction[id] differ"
	case f["object"] != "" && f["object"] != "transaction":
		return "object is not a transaction"
	case f["current_status"] == "":
		return "current_status is missing"
	}
	return ""
}

// v4Key is made of what a postback says, since it has no id of its own. Two
// partial refunds differ in nothing but the time of the change; without it a
// postback is known by its bytes.
func v4Key(f provider.Form, body []byte) string {
	updated := f["transaction[date_updated]"]
	if f["id"] == "" || updated == "" {
		return event.BodyKey(body)
	}
	return event.Key("postback", string(f["id"]), string(f["event"]), string(f["old_status"]), string(f["current_status"]), string(updated))
}
