package processor

import (
	"encoding/json"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
)

// DomainEvent is the payload that applications receive, one a transition, in
// the order of (payment_id, seq). Amounts are minor units of the currency and
// are the payment's totals after the transition; bookings are what it moved.
type DomainEvent struct {
	PaymentID   int64           `json:"payment_id"`
	Seq         int64           `json:"seq"`
	Provider    string          `json:"provider"`
	Account     string          `json:"account"`
	GatewayID   string          `json:"gateway_id"`
	From        payment.Status  `json:"from,omitempty"`
	To          payment.Status  `json:"to"`
	Reason      string          `json:"reason"`
	EventID     int64           `json:"event_id"`
	Currency    string          `json:"currency,omitempty"`
	Expected    *int64          `json:"expected,omitempty"`
	Captured    *int64          `json:"captured,omitempty"`
	Refunded    int64           `json:"refunded"`
	ChargedBack int64           `json:"charged_back"`
	Fee         int64           `json:"fee"`
	Net         int64           `json:"net"`
	Beneficiary string          `json:"beneficiary,omitempty"`
	Reference   string          `json:"reference,omitempty"`
	Bookings    []DomainBooking `json:"bookings"`
}

// DomainBooking is one thing that was booked.
type DomainBooking struct {
	Kind   payment.Kind `json:"kind"`
	Amount int64        `json:"amount"`
	ID     string       `json:"id"` // the gateway's id of the refund, dispute, fee or payment
}

func domainEvent(eventID int64, t payment.Transition) ([]byte, error) {
	p := &t.State
	d := DomainEvent{
		PaymentID: p.ID, Seq: t.Seq, Provider: p.Provider, Account: p.Account, GatewayID: p.GatewayID,
		From: t.From, To: t.To, Reason: t.Reason, EventID: eventID, Currency: p.Currency,
		Expected: known(p.Expected), Captured: known(p.Captured), Refunded: p.Refunded, ChargedBack: p.ChargedBack,
		Fee: p.Fee, Net: p.Net(), Beneficiary: p.Beneficiary, Reference: p.Reference, Bookings: []DomainBooking{},
	}
	for _, b := range t.Bookings {
		d.Bookings = append(d.Bookings, DomainBooking{Kind: b.Kind, Amount: b.Amount, ID: b.RefID})
	}
	return json.Marshal(d)
}

func known(m payment.Minor) *int64 {
	if !m.Known {
		return nil
	}
	return &m.Value
}

// subject is "payments.<status>.<provider>.<payment token>".
func subject(p *payment.Payment, t payment.Transition) string {
	return "payments." + string(t.To) + "." + p.Provider + "." + event.PaymentToken(p.GatewayID)
}
