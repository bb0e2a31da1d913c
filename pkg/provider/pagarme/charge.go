package pagarme

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// charge is the object of events, of orders and of lookup answers.
type charge struct {
	ID              provider.Text   `json:"id"`
	Code            provider.Text   `json:"code"`
	Amount          provider.Number `json:"amount"`
	PaidAmount      provider.Number `json:"paid_amount"`
	CanceledAmount  provider.Number `json:"canceled_amount"`
	Status          provider.Text   `json:"status"`
	Currency        provider.Text   `json:"currency"`
	PaidAt          provider.Text   `json:"paid_at"`
	Metadata        jsontext.Value  `json:"metadata"`
	Order           *inOrder        `json:"order"`
	LastTransaction *struct {
		Status provider.Text `json:"status"`
	} `json:"last_transaction"`
}

// inOrder is what a charge says of its order.
type inOrder struct {
	Code     provider.Text  `json:"code"`
	Metadata jsontext.Value `json:"metadata"`
}

// transaction is the status of the charge's last transaction, or "".
func (c *charge) transaction() string {
	if c.LastTransaction == nil {
		return ""
	}
	return string(c.LastTransaction.Status)
}

// amounts are a charge's, in cents. Paid is not known for zero, which is how
// an unpaid charge says "nothing yet".
type amounts struct {
	asked, paid payment.Minor
	canceled    int64
}

// answer is that to a question which the gateway may leave open.
type answer int

const (
	unsaid answer = iota
	yes
	no
)

// everPaid reads a canceled charge's own evidence.
func (c *charge) everPaid(sums amounts) answer {
	switch {
	case sums.paid.Known, c.PaidAt != "", refundedBy[c.transaction()]:
		return yes
	case voidedBy[c.transaction()]:
		return no
	}
	return unsaid
}

// claim reads what every charge has, whatever it says.
func (p *Provider) claim(c *charge, where string) (payment.Claim, amounts, error) {
	claim := payment.Claim{GatewayID: string(c.ID)}
	var sums amounts
	if c.ID == "" || !c.ID.Clean() {
		return claim, sums, errors.New(where + "id is missing or not a clean identifier")
	}
	if c.Currency != "" {
		code, err := money.Currency(strings.ToUpper(string(c.Currency)))
		if err != nil {
			return claim, sums, errors.New(where + "currency is not a currency code")
		}
		claim.Currency = code
	}
	var canceled payment.Minor
	for _, a := range []struct {
		name string
		text provider.Number
		into *payment.Minor
	}{{"amount", c.Amount, &sums.asked}, {"paid_amount", c.PaidAmount, &sums.paid}, {"canceled_amount", c.CanceledAmount, &canceled}} {
		v, err := cents(a.text)
		if err != nil {
			return claim, sums, fmt.Errorf("%w (%s%s)", err, where, a.name)
		}
		*a.into = v
	}
	if sums.paid.Value == 0 {
		sums.paid = payment.Minor{}
	}
	sums.canceled, claim.Expected = canceled.Value, sums.asked
	claim.Reference = p.referenceOf(c)
	claim.Beneficiary = p.src.Owner(claim.Reference)
	return claim, sums, nil
}

// errNegative is beside the errors of package money.
var errNegative = errors.New("an amount is below zero")

// cents reads an integer of cents; "" is not known.
func cents(n provider.Number) (payment.Minor, error) {
	if n == "" {
		return payment.Minor{}, nil
	}
	v, err := money.ParseMinor(string(n))
	switch {
	case err != nil:
		return payment.Minor{}, err
	case v < 0:
		return payment.Minor{}, errNegative
	}
	return payment.Of(v), nil
}

// referenceOf finds the application's order id. The charge's code and its
// order's are the same thing, so the one stands in for the other.
func (p *Provider) referenceOf(c *charge) string {
	var found provider.Text
	var order inOrder
	if c.Order != nil {
		order = *c.Order
	}
	switch p.reference[0] {
	case "code":
		if found = c.Code; found == "" {
			found = order.Code
		}
	case "order":
		found = order.Code
	case "metadata":
		if found = member(c.Metadata, p.reference[1]); found == "" {
			found = member(order.Metadata, p.reference[1])
		}
	}
	if !found.Clean() {
		return ""
	}
	return string(found)
}

// member reads a text from an object of any shape; "" when it has none.
func member(object jsontext.Value, name string) provider.Text {
	var members map[string]jsontext.Value
	var text provider.Text
	if provider.Empty(object) || provider.Decode(object, &members) != nil || provider.Decode(members[name], &text) != nil {
		return ""
	}
	return text
}
