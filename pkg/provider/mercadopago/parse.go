package mercadopago

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
)

// The reasons of messages that only Mercado Pago has.
const (
	// ReasonAlert: not delivering is up to people, so the alert goes where
	// people look. It comes once, and is not repeated when it is missed.
	ReasonAlert = "stop_delivery: Mercado Pago suspects fraud; do not deliver what this payment is for"
	// ReasonOtherUser: the notification is for another seller's account.
	ReasonOtherUser = "other_account: user_id is not the one in USER_ID"
)

// envelope is what every notification has round its data. None of it is
// signed.
type envelope struct {
	ID          provider.Text  `json:"id"`
	Type        provider.Text  `json:"type"`
	Action      provider.Text  `json:"action"`
	UserID      provider.Text  `json:"user_id"`
	DateCreated provider.Text  `json:"date_created"`
	Date        provider.Text  `json:"date"` // of subscriptions
	Data        jsontext.Value `json:"data"`
}

// content is what counts of a notification's data.
type content struct {
	ID        provider.Text `json:"id"`
	PaymentID provider.Text `json:"payment_id"` // of chargebacks and alerts
	Version   provider.Text `json:"version"`    // of orders
	Status    provider.Text `json:"status"`     // of orders
	Detail    provider.Text `json:"status_detail"`
	// Transactions are those that the notification is about.
	Transactions struct {
		Refunds     []refundItem     `json:"refunds"`
		Chargebacks []chargebackItem `json:"chargebacks"`
	} `json:"transactions"`
}

// content reads data; what has another shape says nothing.
func (e *envelope) content() (c content) {
	if provider.Empty(e.Data) || provider.Decode(e.Data, &c) != nil {
		return content{}
	}
	return c
}

// name is the event's type as one word: "payment.updated", and for topics
// whose action is a mere verb, the topic.
func (e *envelope) name() string {
	if strings.Contains(string(e.Action), ".") {
		return string(e.Action)
	}
	return string(e.Type)
}

// at is the time of the event; the zero time when the body has none, or has
// the zero date in its place.
func (e *envelope) at() time.Time {
	text := e.DateCreated
	if text == "" {
		text = e.Date
	}
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil || at.Year() < 2000 || at.Year() > 9999 {
		return time.Time{}
	}
	return at.UTC()
}

// fault says why an envelope cannot be used, "" when it can.
func (e *envelope) fault() string {
	switch {
	case e.Type == "":
		return "type is missing"
	case !e.Type.Clean():
		return "type is not a clean word"
	case !e.Action.Clean():
		return "action is not a clean word"
	case !e.ID.Clean():
		return "id is not a clean identifier"
	case !e.UserID.Clean():
		return "user_id is not a clean identifier"
	}
	return ""
}

// Parse gives the one message of a request. Which payment it is about is read
// from the address, which is signed. A body that names another one, or none,
// changes nothing of that; the address is kept beside it (SignedHeaders).
func (p *Provider) Parse(r provider.Request) []provider.Message {
	var env envelope
	if err := provider.Decode(r.Body, &env); err != nil {
		return quarantined(r, "", err.Error())
	}
	id := signedID(r.Query)
	fault := env.fault()
	if fault == "" && (id == "" && topics[env.Type] != topicAlert || !provider.Text(id).Clean()) {
		fault = "data.id of the address is missing or not a clean identifier"
	}
	if fault != "" {
		return quarantined(r, "", fault)
	}
	c := env.content()
	m := provider.Message{
		ProviderEventID: string(env.ID), Type: env.name(), OccurredAt: env.at(), Body: r.Body, Disposition: provider.Process,
	}
	kind := topics[env.Type]
	if m.PaymentRef, fault = reference(kind, id, &c); fault != "" {
		return quarantined(r, m.Type, fault)
	}
	m.DedupeKey = dedupeKey(r, &env, &c, id)
	m.Test = strings.HasPrefix(m.PaymentRef, testOrderPrefix)
	switch {
	case m.Test && p.src.Production:
		m.Reason = provider.ReasonTestEvent
	case p.user != "" && env.UserID != "" && string(env.UserID) != p.user:
		m.Reason = ReasonOtherUser
	case kind == topicAlert:
		m.Disposition, m.Reason = provider.Quarantine, ReasonAlert
		return []provider.Message{m}
	case kind == topicUnknown:
		m.Reason = provider.ReasonUnknownType
	case !p.decides(kind):
		m.Reason = provider.ReasonInformational
	}
	if m.Reason != "" {
		m.Disposition = provider.Ignore
	}
	return []provider.Message{m}
}

// decides says whether a topic makes us ask for a payment's state.
func (p *Provider) decides(t topic) bool {
	if p.orders {
		return t == topicOrder
	}
	return t == topicPayment || t == topicChargeback
}

// reference is the payment that a notification is about; "" for a chargeback
// that does not name its payment, and for topics that concern none.
func reference(t topic, id string, c *content) (ref, fault string) {
	switch t {
	case topicPayment:
		if !isPaymentID(id) {
			return "", "data.id of the address is not a payment's number"
		}
		return id, ""
	case topicOrder:
		if ref = orderID(id); ref == "" {
			return "", "data.id of the address is not an order's id"
		}
		return ref, ""
	case topicChargeback, topicAlert:
		if isPaymentID(string(c.PaymentID)) {
			return string(c.PaymentID), ""
		}
	}
	return "", ""
}

// dedupeKey is the notification's id, by seller and topic. The body is not
// signed, so the signed data.id goes with it: a body that borrows the id of
// another notification must not take that one's place (CASES A25). Order
// notifications that lack an id are known by the order's version, and what
// names nothing by its bytes.
func dedupeKey(r provider.Request, env *envelope, c *content, id string) string {
	if ref := orderID(id); ref != "" {
		id = ref
	}
	switch {
	case env.ID != "" && env.ID != "0":
		return event.Key("notification", string(env.UserID), string(env.Type), string(env.ID), id)
	case topics[env.Type] == topicOrder && env.Action != "" && c.Version != "":
		return event.Key("order", string(env.UserID), id, string(env.Action), string(c.Version))
	}
	return requestKey(r)
}

// requestKey is the key of what has no name of its own: the hash of address
// and body.
func requestKey(r provider.Request) string {
	h := sha256.New()
	h.Write([]byte(r.Query + "\n"))
	h.Write(r.Body)
	return event.Key("request", hex.EncodeToString(h.Sum(nil)))
}

func quarantined(r provider.Request, eventType, fault string) []provider.Message {
	return []provider.Message{{
		DedupeKey: requestKey(r), Type: eventType, Body: r.Body,
		Disposition: provider.Quarantine, Reason: provider.ReasonUnreadable + ": " + fault,
	}}
}
