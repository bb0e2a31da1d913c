package stripe

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// reference is a field that names another object: its id, or the object
// itself where it was expanded.
type reference struct {
	id     provider.Text
	object jsontext.Value // nil when not expanded
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *reference) UnmarshalJSON(b []byte) error {
	*r = reference{}
	if jsontext.Value(b).Kind() != '{' {
		return r.id.UnmarshalJSON(b)
	}
	var o struct {
		ID provider.Text `json:"id"`
	}
	if err := provider.Decode(b, &o); err != nil {
		return err
	}
	r.id, r.object = o.ID, jsontext.Value(b).Clone()
	return nil
}

func firstOf(texts ...provider.Text) provider.Text {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// base is what all objects have.
type base struct {
	ID     provider.Text `json:"id"`
	Object provider.Text `json:"object"`
}

func (b *base) core() *base { return b }

type intent struct {
	base
	Amount             provider.Number `json:"amount"`
	AmountReceived     provider.Number `json:"amount_received"`
	Currency           provider.Text   `json:"currency"`
	Status             provider.Text   `json:"status"`
	CancellationReason provider.Text   `json:"cancellation_reason"`
	LastPaymentError   jsontext.Value  `json:"last_payment_error"`
	LatestCharge       reference       `json:"latest_charge"`
	Metadata           jsontext.Value  `json:"metadata"`
	Livemode           *bool           `json:"livemode"`
}

type charge struct {
	base
	Amount             provider.Number `json:"amount"`
	AmountCaptured     provider.Number `json:"amount_captured"`
	AmountRefunded     provider.Number `json:"amount_refunded"`
	Currency           provider.Text   `json:"currency"`
	Status             provider.Text   `json:"status"`
	Captured           *bool           `json:"captured"`
	Disputed           bool            `json:"disputed"`
	Refunded           bool            `json:"refunded"`
	PaymentIntent      reference       `json:"payment_intent"`
	BalanceTransaction reference       `json:"balance_transaction"`
	Refunds            *list[refund]   `json:"refunds"`
	Metadata           jsontext.Value  `json:"metadata"`
	Livemode           *bool           `json:"livemode"`
}

type refund struct {
	base
	Amount        provider.Number `json:"amount"`
	Currency      provider.Text   `json:"currency"`
	Status        provider.Text   `json:"status"`
	PaymentIntent reference       `json:"payment_intent"`
	Charge        reference       `json:"charge"`
}

type dispute struct {
	base
	Amount              provider.Number      `json:"amount"`
	Currency            provider.Text        `json:"currency"`
	Status              provider.Text        `json:"status"`
	PaymentIntent       reference            `json:"payment_intent"`
	Charge              reference            `json:"charge"`
	BalanceTransactions []balanceTransaction `json:"balance_transactions"`
}

type balanceTransaction struct {
	base
	Currency provider.Text   `json:"currency"`
	Fee      provider.Number `json:"fee"`
}

type session struct {
	base
	Mode              provider.Text  `json:"mode"`
	PaymentStatus     provider.Text  `json:"payment_status"`
	PaymentIntent     reference      `json:"payment_intent"`
	ClientReferenceID provider.Text  `json:"client_reference_id"`
	Metadata          jsontext.Value `json:"metadata"`
}

type invoicePayment struct {
	base
	Currency provider.Text `json:"currency"`
	Status   provider.Text `json:"status"`
	Payment  struct {
		Type          provider.Text `json:"type"`
		PaymentIntent reference     `json:"payment_intent"`
		Charge        reference     `json:"charge"`
	} `json:"payment"`
}

// list is a page of objects.
type list[T any] struct {
	Data    []T  `json:"data"`
	HasMore bool `json:"has_more"`
}

// amount reads minor units. An absent amount is unknown, which is not zero.
func amount(field string, n provider.Number) (payment.Minor, error) {
	if n == "" {
		return payment.Minor{}, nil
	}
	v, err := money.ParseMinor(string(n))
	switch {
	case errors.Is(err, money.ErrRange):
		return payment.Minor{}, fmt.Errorf("range: %s does not fit into 64 bits", field)
	case err != nil:
		return payment.Minor{}, fmt.Errorf("amount: %s is not a whole number of minor units", field)
	case v < 0:
		return payment.Minor{}, fmt.Errorf("range: %s is below zero", field)
	}
	return payment.Of(v), nil
}

// currency reads an ISO 4217 code; absence is "".
func currency(field string, code provider.Text) (string, error) {
	if code == "" {
		return "", nil
	}
	c, err := money.Currency(string(code))
	if err != nil { // its text quotes the value
		return "", fmt.Errorf("currency: %s is not an ISO 4217 code", field)
	}
	return c, nil
}

// metadata reads one key of a metadata object, or "" when it is not there or
// cannot name anything: a strange note must not hold up money.
func metadata(object jsontext.Value, key string) string {
	if key == "" || len(object) == 0 || object.Kind() != '{' {
		return ""
	}
	var all map[string]jsontext.Value
	if provider.Decode(object, &all) != nil {
		return ""
	}
	var t provider.Text
	if v, ok := all[key]; !ok || t.UnmarshalJSON(v) != nil {
		return ""
	}
	return clean(t)
}

func clean(t provider.Text) string {
	if !t.Clean() {
		return ""
	}
	return string(t)
}
