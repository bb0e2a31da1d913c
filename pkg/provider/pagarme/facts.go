package pagarme

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// charge is the object of events, of orders and of lookup answers.
type charge struct {
	ID             provider.Text   `json:"id"`
	Code           provider.Text   `json:"code"`
	Amount         provider.Number `json:"amount"`
	PaidAmount     provider.Number `json:"paid_amount"`
	CanceledAmount provider.Number `json:"canceled_amount"`
	Status         provider.Text   `json:"status"`
	Currency       provider.Text   `json:"currency"`
	PaidAt         provider.Text   `json:"paid_at"`
	Metadata       jsontext.Value  `json:"metadata"`
	Order          *struct {
		Code     provider.Text  `json:"code"`
		Metadata jsontext.Value `json:"metadata"`
	} `json:"order"`
	LastTransaction *struct {
		Status provider.Text `json:"status"`
	} `json:"last_transaction"`
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

// Facts implements provider.Provider.
func (p *Provider) Facts(e *event.Event) ([]payment.Claim, error) {
	var env envelope
	if err := provider.Decode(e.Body, &env); err != nil {
		return nil, err
	}
	if fault := p.faultOf(&env); fault != "" {
		return nil, errors.New(fault)
	}
	rule, _ := ruleOf(string(env.Type))
	if rule.subject == subjectNone || provider.Empty(env.Data) {
		return nil, nil
	}
	claims, err := p.claims(rule, &env)
	if err != nil {
		return nil, err
	}
	for i := range claims {
		claims[i].At, claims[i].Reason = timeOf(env.CreatedAt), string(env.Type)
	}
	return claims, nil
}

func (p *Provider) claims(r rule, env *envelope) ([]payment.Claim, error) {
	var res resource
	if err := provider.Decode(env.Data, &res); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	names, fault := namesOf(string(env.Type), r, &res, env.Data)
	if fault != "" {
		return nil, errors.New(fault)
	}
	switch r.subject {
	case subjectChanged, subjectInvoice:
		return bells(names), nil
	case subjectChargeback:
		return p.chargeback(names)
	case subjectOrder:
		return p.order(env.Data)
	}
	var c charge
	if err := provider.Decode(env.Data, &c); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	claim, err := p.told(&c, r.says, "data.")
	if err != nil {
		return nil, err
	}
	return []payment.Claim{claim}, nil
}

// bells say of charges that something changed, and leave it to a lookup what.
func bells(names []string) []payment.Claim {
	claims := make([]payment.Claim, len(names))
	for i, name := range names {
		claims[i].GatewayID = name
	}
	return claims
}

// chargeback reads the successor of charge.chargedback, whose body is not
// established: the charge that it names is looked up. Where every event is,
// the fact is claimed as well, so that an answer which lags is asked again.
func (p *Provider) chargeback(names []string) ([]payment.Claim, error) {
	claims := bells(names)
	switch p.src.Lookup {
	case provider.LookupAlways:
		if len(names) == 1 {
			claims[0].Facts = []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusChargedBack}}
		}
	case provider.LookupInDoubt:
	default:
		return nil, fmt.Errorf("what the body of a chargeback says is not established; it needs a lookup, and %s is never", p.src.Variable("LOOKUP"))
	}
	return claims, nil
}

// order reads each charge of an order as if an event had brought it.
func (p *Provider) order(data jsontext.Value) ([]payment.Claim, error) {
	var o struct {
		Code     provider.Text  `json:"code"`
		Currency provider.Text  `json:"currency"`
		Metadata jsontext.Value `json:"metadata"`
		Charges  []charge       `json:"charges"`
	}
	if err := provider.Decode(data, &o); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	var claims []payment.Claim
	for i := range o.Charges {
		c := &o.Charges[i]
		if c.Order == nil { // it is inside of it
			c.Order = &struct {
				Code     provider.Text  `json:"code"`
				Metadata jsontext.Value `json:"metadata"`
			}{o.Code, o.Metadata}
		}
		if c.Currency == "" {
			c.Currency = o.Currency
		}
		claim, err := p.told(c, reading{}, fmt.Sprintf("data.charges[%d].", i))
		if err != nil {
			return nil, err
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

// told reads a charge that an event brought. What its evidence leaves open is
// left to a lookup, or to what we hold.
func (p *Provider) told(c *charge, says reading, where string) (payment.Claim, error) {
	claim, sums, err := p.claim(c, where)
	if err != nil {
		return claim, err
	}
	object, known := statuses[string(c.Status)]
	if !known && says.stage == stageUnsaid {
		if p.src.Lookup == provider.LookupNever {
			return claim, errors.New(where + "status is not in the table of the contract, and nobody can be asked")
		}
		return claim, nil
	}
	r := further(says, object)
	if r.stage == stageGone {
		switch paid := c.everPaid(sums); {
		case paid == yes, paid == unsaid && says.stage == stageGone:
			// The event speaks of a refund. Where the charge does not say what
			// had been paid, a capture that we hold does, or a lookup.
		case paid == no:
			r = attempt(payment.StatusCanceled)
		default:
			return claim, nil // after a refund an order is canceled, too: ask
		}
	}
	if err := fill(&claim, c, sums, r, where); err != nil {
		return claim, err
	}
	if p.payables && p.src.Lookup == provider.LookupInDoubt && r.stage >= stagePaid {
		claim.Facts = append(claim.Facts, payment.Fact{Kind: payment.FactFee, ID: claim.GatewayID}) // asks for it
	}
	return claim, nil
}

// further is the later of what an event's name and its body say. Of two
// readings before the capture the name's stands, but for an authorisation.
func further(says, object reading) reading {
	if object.stage > says.stage {
		return object
	}
	return says
}

// fill adds to a claim the facts of one reading.
func fill(claim *payment.Claim, c *charge, sums amounts, r reading, where string) error {
	status := func(s payment.Status) {
		claim.Facts = append(claim.Facts, payment.Fact{Kind: payment.FactStatus, Status: s})
	}
	total := func() {
		claim.Facts = append(claim.Facts, payment.Fact{Kind: payment.FactRefundTotal, Amount: payment.Of(sums.canceled)})
	}
	if r.stage == stageAttempt {
		if r.status == payment.StatusPending && authorizedBy[c.transaction()] {
			r.status = payment.StatusAuthorized
		}
		status(r.status)
		return nil
	}
	if c.PaidAmount != "" && !sums.paid.Known && r.stage == stagePaid {
		return errors.New(where + "paid_amount of a paid charge is zero")
	}
	claim.Captured = sums.paid
	switch r.stage {
	case stagePaid:
		status(payment.StatusPaid)
		if sums.canceled > 0 && c.transaction() != "partial_void" {
			total()
		}
	case stageGone:
		status(payment.StatusRefunded)
	case stageChargedBack:
		// Whether canceled_amount then counts the chargeback is not
		// established; all of it would be more than refunds can have been.
		if sums.canceled > 0 && sums.paid.Known && sums.canceled < sums.paid.Value {
			total()
		}
		status(payment.StatusChargedBack)
	}
	return nil
}

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
	var inOrder jsontext.Value
	code := provider.Text("")
	if c.Order != nil {
		code, inOrder = c.Order.Code, c.Order.Metadata
	}
	switch p.reference[0] {
	case "code":
		if found = c.Code; found == "" {
			found = code
		}
	case "order":
		found = code
	case "metadata":
		if found = member(c.Metadata, p.reference[1]); found == "" {
			found = member(inOrder, p.reference[1])
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
