package pagpolar

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
)

// TestHeader marks events of PagPolar's playground, as "test" in the body does.
const TestHeader = "X-Pagpolar-Test"

const (
	transactions  = "TRANSACTION_"
	subscriptions = "SUBSCRIPTION_"
)

// envelope is what every webhook of PagPolar has round its data. Its id and
// its creation_date belong to the attempt, not to the event.
type envelope struct {
	Event provider.Text  `json:"event"`
	ID    provider.Text  `json:"id"`
	Test  jsontext.Value `json:"test"`
	Data  jsontext.Value `json:"data"`
}

// Parse gives the one message of a request. It has no OccurredAt: PagPolar
// does not send the time of the event.
func (p *Provider) Parse(r provider.Request) []provider.Message {
	var env envelope
	if err := provider.Decode(r.Body, &env); err != nil {
		return provider.Quarantined(r.Body, "", provider.ReasonUnreadable+": "+err.Error())
	}
	if env.Event == "" || !env.Event.Clean() {
		return provider.Quarantined(r.Body, "", provider.ReasonUnreadable+": event is missing or not a clean word")
	}
	m := provider.Message{
		Type: string(env.Event), Body: r.Body, Disposition: provider.Process,
		Test: isTrue(env.Test) || hasTestHeader(r), Reopen: env.Event == "TRANSACTION_ASK_REFUNDING",
	}
	if env.ID.Clean() {
		m.ProviderEventID = string(env.ID)
	}
	isSale := strings.HasPrefix(m.Type, transactions)
	sale, err := p.saleID.Text(env.Data)
	if err != nil || !sale.Clean() {
		if isSale {
			return provider.Quarantined(r.Body, m.Type, provider.ReasonUnreadable+": the sale's id is not a clean identifier")
		}
		sale = ""
	}
	subscription, err := path{"subscription", "id"}.Text(env.Data)
	if err != nil || !subscription.Clean() {
		subscription = "" // no money depends on it
	}
	m.DedupeKey = p.dedupeKey(m, env.Data, sale, subscription, r.Now)
	switch {
	case m.Test && p.src.Production:
		m.Reason = provider.ReasonTestEvent
	case sale == "" && subscription == "" && isEmptyData(env.Data):
		m.Reason = provider.ReasonEmptyData
	case strings.HasPrefix(m.Type, subscriptions), isSale && sale == "" && subscription != "":
		m.Reason = provider.ReasonInformational
	case !isSale:
		m.Reason = provider.ReasonUnknownType
	case sale == "":
		return provider.Quarantined(r.Body, m.Type, provider.ReasonUnreadable+": the sale's id is missing")
	}
	if isSale {
		m.PaymentRef = string(sale)
	}
	if m.Reason != "" {
		m.Disposition, m.Reopen = provider.Ignore, false
	}
	return []provider.Message{m}
}

// dedupeKey has two levels. Three types happen once for their ids, whatever
// else the body says. All others may happen again for the same id, so the
// state that they carry is part of the key: exact repeats collapse, a changed
// state passes. A playground event never takes the key of a real one.
func (p *Provider) dedupeKey(m provider.Message, data jsontext.Value, sale, subscription provider.Text, now time.Time) string {
	prefix := ""
	if m.Test {
		prefix = "test_"
	}
	switch {
	case sale != "" && (m.Type == "TRANSACTION_PAID" || m.Type == "TRANSACTION_CREATED"):
		return event.Key(prefix+"transaction", m.Type, string(sale))
	case subscription != "" && m.Type == "SUBSCRIPTION_RENEWED":
		if next, err := (path{"subscription", "next_billing_at"}).Text(data); err == nil && next != "" {
			return event.Key(prefix+"subscription", m.Type, string(subscription), utcSeconds(string(next)))
		}
	}
	id := sale
	if strings.HasPrefix(m.Type, subscriptions) && subscription != "" || id == "" {
		id = subscription
	}
	parts := []string{m.Type, string(id), fingerprint(data)}
	if p.daily && m.Type == "SUBSCRIPTION_DELAYED" {
		parts = append(parts, now.In(saoPaulo).Format(time.DateOnly))
	}
	return event.Key(prefix+"state", parts...)
}

// saoPaulo is where PagPolar's days begin; Brazil has had no summer time
// since 2019.
var saoPaulo = time.FixedZone("America/Sao_Paulo", -3*60*60)

// utcSeconds gives one spelling to a time that has several (zone, fraction).
// What is not such a time stays as it is.
func utcSeconds(text string) string {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return at.UTC().Format(time.RFC3339)
}

func isTrue(v jsontext.Value) bool {
	return strings.EqualFold(strings.Trim(string(v), "\" \t\r\n"), "true")
}

func hasTestHeader(r provider.Request) bool {
	for _, v := range r.Header[TestHeader] {
		if strings.EqualFold(strings.TrimSpace(v), "true") {
			return true
		}
	}
	return false
}

// isEmptyData says whether data holds neither a transaction nor a
// subscription: it is absent, null, {} or [], or both of them are.
func isEmptyData(data jsontext.Value) bool {
	if provider.Empty(data) {
		return true
	}
	var members map[string]jsontext.Value
	if provider.Decode(data, &members) != nil {
		return false
	}
	for _, v := range members {
		if !provider.Empty(v) {
			return false
		}
	}
	return true
}
