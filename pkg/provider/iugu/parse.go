package iugu

import (
	"errors"
	"strings"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
)

// trigger is what a body says, as far as anything depends on it.
type trigger struct {
	event, id, status provider.Text
	empty             bool // it has no data at all
}

func (t *trigger) aboutInvoice() bool { return strings.HasPrefix(string(t.event), invoices) }

// read reads a body. The names are taken as they stand in the form, brackets
// and all. Its errors name fields and hold nothing of the body.
func read(body []byte) (t trigger, err error) {
	form, err := provider.DecodeForm(body)
	if err != nil {
		return t, err
	}
	t = trigger{event: form["event"], id: form["data[id]"], status: form["data[status]"], empty: true}
	for name, value := range form {
		if value != "" && (name == "data" || strings.HasPrefix(name, "data[")) {
			t.empty = false
			break
		}
	}
	switch {
	case t.event == "":
		return t, errors.New("event is missing")
	case !t.event.Clean():
		t.event = ""
		return t, errors.New("event is not a clean word")
	case t.empty || !t.aboutInvoice():
		return t, nil
	case t.id == "" || !t.id.Clean():
		return t, errors.New("data[id] is missing or not a clean identifier")
	case !t.status.Clean():
		return t, errors.New("data[status] is not a clean word")
	}
	return t, nil
}

// Parse gives the one message of a request. It has neither an event id nor a
// time, because Iugu sends none.
func (p *Provider) Parse(r provider.Request) []provider.Message {
	t, err := read(r.Body)
	if err != nil {
		return provider.Quarantined(r.Body, string(t.event), provider.ReasonUnreadable+": "+err.Error())
	}
	m := provider.Message{Type: string(t.event), Body: r.Body, Disposition: provider.Ignore, DedupeKey: event.BodyKey(provider.SkipBOM(r.Body))}
	switch {
	case t.empty:
		m.Reason = provider.ReasonEmptyData
	case aboutSomethingElse(t.event):
		m.Reason = provider.ReasonInformational
	case !t.aboutInvoice():
		m.Reason = provider.ReasonUnknownType
	default:
		m.PaymentRef = string(t.id)
		// It collapses repeats of a status, and a second refund or receipt with
		// them: those are why a repeat is processed again.
		m.DedupeKey = event.Key("invoice", m.Type, m.PaymentRef, string(t.status))
		if invoiceEvents[t.event] == ringNothing {
			m.Reason = provider.ReasonInformational
			break
		}
		m.Disposition, m.Reopen = provider.Process, true
	}
	return []provider.Message{m}
}
