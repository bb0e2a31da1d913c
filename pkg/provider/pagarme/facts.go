package pagarme

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

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

// bell is a claim without facts that keeps what is no money. What it leaves
// out, the amount asked for, would pass for news that need no lookup.
func bell(c payment.Claim) payment.Claim {
	return payment.Claim{GatewayID: c.GatewayID, Reference: c.Reference, Beneficiary: c.Beneficiary}
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
			c.Order = &inOrder{o.Code, o.Metadata}
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
		return bell(claim), nil
	}
	r := further(says, object)
	if r.stage == stageGone {
		switch paid := c.everPaid(sums); {
		case paid == yes, paid == unsaid && says.stage == stageGone:
			// The event speaks of a refund. Where the charge does not say what
			// had been paid, a capture that we hold does, or a lookup.
		case paid == no:
			// A card that was captured the same day is voided too, and the
			// charge may not repeat what was paid: our record has that.
			claim.Facts = goneOrCanceled()
			return claim, nil
		default:
			return bell(claim), nil // after a refund an order is canceled, too
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

// canceledBeforeCapture says whether what was canceled never came in: the last
// thing that happened to the charge was to void a part of it, or to capture
// what was left. After a refund the last transaction is the refund.
func (c *charge) canceledBeforeCapture() bool {
	switch c.transaction() {
	case "partial_void", "captured", "partial_capture":
		return true
	}
	return false
}

// goneOrCanceled is what a canceled charge says whose own evidence does not
// show a payment: given back if we hold a capture, else canceled.
func goneOrCanceled() []payment.Fact {
	return []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusRefunded, Otherwise: payment.StatusCanceled}}
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
		if sums.canceled > 0 && !c.canceledBeforeCapture() {
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
