package pagarme

import (
	"regexp"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
)

// envelope is what every webhook of the core API has round its resource.
type envelope struct {
	ID      provider.Text `json:"id"`
	Account struct {
		ID provider.Text `json:"id"`
	} `json:"account"`
	Type      provider.Text  `json:"type"`
	CreatedAt provider.Text  `json:"created_at"`
	Data      jsontext.Value `json:"data"`
}

// resource is what of a resource says which payments an event is about.
type resource struct {
	ID        provider.Text  `json:"id"`
	UpdatedAt provider.Text  `json:"updated_at"`
	Charges   jsontext.Value `json:"charges"`
	Charge    jsontext.Value `json:"charge"`
}

type chargeName struct {
	ID provider.Text `json:"id"`
}

const unreadable = provider.ReasonUnreadable + ": "

// Parse implements provider.Provider. A request is one event.
func (p *Provider) Parse(r provider.Request) []provider.Message {
	var env envelope
	if err := provider.Decode(r.Body, &env); err != nil {
		return provider.Quarantined(r.Body, "", unreadable+err.Error())
	}
	if fault := p.faultOf(&env); fault != "" {
		eventType := ""
		if env.Type.Clean() {
			eventType = string(env.Type)
		}
		return provider.Quarantined(r.Body, eventType, unreadable+fault)
	}
	m := provider.Message{
		ProviderEventID: string(env.ID), Type: string(env.Type), OccurredAt: timeOf(env.CreatedAt),
		Body: r.Body, Disposition: provider.Process,
	}
	rule, known := ruleOf(m.Type)
	var res resource
	if !provider.Empty(env.Data) {
		if err := provider.Decode(env.Data, &res); err != nil && (rule.subject != subjectNone || isCharge.MatchString(m.Type)) {
			return provider.Quarantined(r.Body, m.Type, unreadable+"data: "+err.Error())
		}
	}
	m.DedupeKey = dedupeKey(&env, &res, r.Body)
	settle := func(reason string) []provider.Message {
		m.Disposition, m.Reason = provider.Ignore, reason
		return []provider.Message{m}
	}
	if provider.Empty(env.Data) {
		return settle(provider.ReasonEmptyData)
	}
	names, fault := namesOf(m.Type, rule, &res, env.Data)
	if fault != "" {
		return provider.Quarantined(r.Body, m.Type, unreadable+fault)
	}
	if len(names) > 0 {
		m.PaymentRef = names[0]
	}
	switch {
	case !known:
		return settle(provider.ReasonUnknownType)
	case rule.subject == subjectNone || len(names) == 0:
		return settle(provider.ReasonInformational)
	}
	return []provider.Message{m}
}

// faultOf says what is wrong with an envelope, "" when nothing is.
func (p *Provider) faultOf(env *envelope) string {
	switch {
	case env.Type == "":
		return "type is missing"
	case !env.Type.Clean():
		return "type is not a clean word"
	case !env.ID.Clean():
		return "id is not a clean identifier"
	case !env.Account.ID.Clean():
		return "account.id is not a clean identifier"
	case p.account != "" && string(env.Account.ID) != p.account:
		return "account.id is not the one of " + p.src.Variable("ACCOUNT_ID")
	}
	return ""
}

var isCharge, isOrder = regexp.MustCompile(`^charge\.`), regexp.MustCompile(`^order\.`)

// namesOf lists the charges that an event is about, in the order of the body.
// Only an order or an invoice may have none.
func namesOf(eventType string, r rule, res *resource, data jsontext.Value) (names []string, fault string) {
	var found []chargeName
	switch {
	case r.subject == subjectChargeback:
		if names = chargeIDs(data); len(names) == 0 {
			return nil, "the chargeback names no charge (ch_...)"
		}
		return names, ""
	case isCharge.MatchString(eventType):
		found = []chargeName{{res.ID}}
	case r.subject == subjectInvoice && !provider.Empty(res.Charge):
		found = make([]chargeName, 1)
		if err := provider.Decode(res.Charge, &found[0]); err != nil {
			return nil, "data.charge: " + err.Error()
		}
	case isOrder.MatchString(eventType) && !provider.Empty(res.Charges):
		if err := provider.Decode(res.Charges, &found); err != nil {
			return nil, "data.charges: " + err.Error()
		}
	}
	if eventType == "order.paid" && len(found) == 0 {
		return nil, "a paid order names none of its charges"
	}
	for _, c := range found {
		if c.ID == "" || !c.ID.Clean() {
			return nil, "the id of a charge is missing or not a clean identifier"
		}
		if slices.Contains(names, string(c.ID)) {
			return nil, "a charge occurs twice in one order"
		}
		names = append(names, string(c.ID))
	}
	return names, ""
}

// chargeID is a text, all of which is the id of a charge.
var chargeID = regexp.MustCompile(`"(ch_[0-9A-Za-z]{4,60})"`)

// chargeIDs finds every charge that a resource of unknown shape names.
func chargeIDs(data jsontext.Value) (ids []string) {
	for _, m := range chargeID.FindAllSubmatch(data, -1) {
		if id := string(m[1]); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// dedupeKey is the id of the delivery within the account. The few bodies that
// lack one are known by type, resource and its last change, and failing those
// by their bytes.
func dedupeKey(env *envelope, res *resource, body []byte) string {
	switch {
	case env.ID != "":
		return event.Key("event", string(env.Account.ID), string(env.ID))
	case res.ID != "" && res.UpdatedAt != "":
		return event.Key("fallback", string(env.Account.ID), string(env.Type), string(res.ID), string(res.UpdatedAt))
	}
	return event.BodyKey(body)
}

// timeOf reads a time with its zone, or one without, which is UTC. What is
// neither is the zero time: the gateway did not say.
func timeOf(t provider.Text) time.Time {
	if at, err := time.Parse(time.RFC3339, string(t)); err == nil {
		return at.UTC()
	}
	at, err := time.Parse("2006-01-02T15:04:05", string(t))
	if err != nil {
		return time.Time{}
	}
	return at
}
