package zoop

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// currency of all of Zoop.
const currency = "BRL"

// transaction is the object of events and of lookup answers. What no money
// depends on may have any shape.
type transaction struct {
	ID          provider.Text  `json:"id"`
	Resource    provider.Text  `json:"resource"`
	Status      provider.Text  `json:"status"`
	Amount      reais          `json:"amount"`          // what is left of the sale
	Original    reais          `json:"original_amount"` // the sale
	Fees        reais          `json:"fees"`
	Currency    provider.Text  `json:"currency"`
	PaymentType provider.Text  `json:"payment_type"`
	Captured    jsontext.Value `json:"captured"`
	History     *[]operation   `json:"history"`
	ReferenceID jsontext.Value `json:"reference_id"`
	Metadata    jsontext.Value `json:"metadata"`
	Seller      jsontext.Value `json:"on_behalf_of"`
}

// operation is one element of a transaction's history.
type operation struct {
	Type   provider.Text `json:"operation_type"`
	Status provider.Text `json:"status"`
	Amount reais         `json:"amount"`
}

// amounts are those of a transaction, in cents.
type amounts struct {
	original, left, fee payment.Minor
}

// refunded is what amount lacks of original_amount: all refunds so far.
func (a amounts) refunded() int64 { return a.original.Value - a.left.Value }

// amounts reads what the transaction says of money, and refuses what does not
// add up.
func (t *transaction) amounts() (a amounts, err error) {
	if t.Currency != "" && t.Currency != currency {
		return a, errors.New("currency is not BRL")
	}
	for _, f := range []struct {
		name string
		from reais
		to   *payment.Minor
	}{{"original_amount", t.Original, &a.original}, {"amount", t.Amount, &a.left}, {"fees", t.Fees, &a.fee}} {
		if *f.to, err = f.from.cents(f.name); err != nil {
			return amounts{}, wrongUnit{err}
		}
	}
	if a.original.Known && a.left.Known && a.left.Value > a.original.Value {
		return amounts{}, errors.New("amount is above original_amount, which Zoop's contract does not explain")
	}
	return a, nil
}

// errUnit marks amounts that may be of the other unit, or beyond what we keep.
// A person looks at those whoever sent them.
var errUnit = errors.New("an amount is not one of reais")

type wrongUnit struct{ error }

func (wrongUnit) Is(target error) bool { return target == errUnit }

func (w wrongUnit) Unwrap() error { return w.error }

// captured checks the amounts of a sale whose money came in.
func (t *transaction) captured(a amounts) error {
	if !a.original.Known || a.original.Value == 0 {
		return errors.New("original_amount is missing or zero")
	}
	for _, op := range t.done("capture") {
		cents, err := op.Amount.cents("history.amount")
		if err != nil {
			return err
		}
		if cents.Known && cents.Value != a.original.Value {
			return errors.New("history has a capture of another amount than original_amount; what a capture in part leaves in the amounts is not known of Zoop")
		}
	}
	return nil
}

// standing checks the amounts of a sale of which a part may have gone back:
// where the history lists the parts, they must add up to what is lacking.
func (t *transaction) standing(a amounts) error {
	if err := t.captured(a); err != nil {
		return err
	}
	if !a.left.Known {
		return errors.New("amount is missing")
	}
	var listed int64
	for _, op := range t.done("void_partial") {
		cents, err := op.Amount.cents("history.amount")
		if err != nil {
			return err
		}
		if listed, err = money.Add(listed, cents.Value); err != nil {
			return fmt.Errorf("%w (sum of history.amount)", err)
		}
	}
	if listed > 0 && listed != a.refunded() {
		return errors.New("the partial voids in history do not add up to original_amount less amount")
	}
	return nil
}

// done are the operations of one type that succeeded.
func (t *transaction) done(operationType provider.Text) (list []operation) {
	if t.History == nil {
		return nil
	}
	for _, op := range *t.History {
		if op.Type == operationType && op.Status == "succeeded" {
			list = append(list, op)
		}
	}
	return list
}

// everPaid says whether the history shows that money came in; known is false
// without a history. The creation of a captured sale is its payment, but for
// a boleto or a Pix.
func (t *transaction) everPaid() (paid, known bool) {
	if t.History == nil {
		return false, false
	}
	if len(t.done("paid")) > 0 || len(t.done("capture")) > 0 {
		return true, true
	}
	return string(t.Captured) == "true" && !t.paidLater() && len(t.done("created")) > 0, true
}

// paidLater says whether the sale is of a kind that is created first and paid
// later, perhaps even after it was canceled.
func (t *transaction) paidLater() bool { return t.PaymentType == "boleto" || t.PaymentType == "pix" }

// wasPaid decides what "canceled" means by the object's own evidence; known is
// false where it shows neither. Without a history the amounts are a witness,
// and whether it was captured, but of a boleto or a Pix they are none: one that
// is taken for refunded would not be credited when it is paid after all.
func (t *transaction) wasPaid(a amounts) (paid, known bool) {
	if paid, known = t.everPaid(); known || t.paidLater() {
		return paid, known
	}
	switch string(t.Captured) {
	case "true":
		return a.original.Known, true
	case "false": // an authorisation that was given up
		return false, true
	}
	if a.original.Known && a.left.Known && a.refunded() > 0 {
		return true, true
	}
	return false, false
}

// text reads an attribute that is a text, "" for everything else.
func text(v jsontext.Value) string {
	var t provider.Text
	if len(v) == 0 || provider.Decode(v, &t) != nil || !t.Clean() {
		return ""
	}
	return string(t)
}

// member reads a text in an object, "" for everything else.
func member(object jsontext.Value, name string) string {
	if object.Kind() != '{' {
		return ""
	}
	var members map[string]jsontext.Value
	if provider.Decode(object, &members) != nil {
		return ""
	}
	return text(members[name])
}

// reais is an amount as Zoop's answers write it: a text with a decimal point.
// Requests have cents, so that a number without a point could be either; one
// hundred times too much must not be booked, so such a number is refused.
type reais struct {
	text    string
	present bool
	quoted  bool
}

// UnmarshalJSON implements json.Unmarshaler. It takes anything: what is wrong
// with an amount is said by cents, which knows its name.
func (r *reais) UnmarshalJSON(b []byte) error {
	switch jsontext.Value(b).Kind() {
	case 'n':
		*r = reais{}
	case '"':
		s, err := jsontext.AppendUnquote(nil, b)
		*r = reais{text: string(s), present: true, quoted: err == nil}
	default:
		*r = reais{present: true}
	}
	return nil
}

var decimal = regexp.MustCompile(`^-?[0-9]{1,40}\.[0-9]{1,40}$`)

// cents reads the amount, zero or more; unknown when there is none.
func (r reais) cents(field string) (payment.Minor, error) {
	switch {
	case !r.present:
		return payment.Minor{}, nil
	case !r.quoted || !decimal.MatchString(r.text):
		return payment.Minor{}, fmt.Errorf(`%s is not a text with a decimal point like "149.90"; anything else may be cents or reais, which differ by a hundred`, field)
	}
	minor, err := money.ParseDecimal(r.text, currency)
	switch {
	case err != nil:
		return payment.Minor{}, fmt.Errorf("%w (%s)", err, field)
	case minor < 0:
		return payment.Minor{}, fmt.Errorf("%s is below zero", field)
	}
	return payment.Of(minor), nil
}
