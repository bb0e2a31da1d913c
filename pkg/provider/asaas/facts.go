package asaas

import (
	"errors"
	"fmt"
	"math"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// currency of all of Asaas; its bodies do not say.
const currency = "BRL"

// charge is the payment object of events and of lookup answers.
type charge struct {
	ID                provider.Text   `json:"id"`
	Status            provider.Text   `json:"status"`
	Deleted           bool            `json:"deleted"`
	Value             provider.Number `json:"value"`
	NetValue          provider.Number `json:"netValue"`
	OriginalValue     provider.Number `json:"originalValue"`
	ExternalReference provider.Text   `json:"externalReference"`
	Refunds           *[]refundItem   `json:"refunds"`
	Chargeback        *chargeback     `json:"chargeback"`
}

type chargeback struct {
	Status provider.Text   `json:"status"`
	Value  provider.Number `json:"value"`
}

// Facts implements provider.Provider.
func (p *Provider) Facts(e *event.Event) ([]payment.Claim, error) {
	var env envelope
	if err := provider.Decode(e.Body, &env); err != nil {
		return nil, err
	}
	r, known := rules[string(env.Event)]
	if !known || r.stage == stageViewed || provider.Empty(env.Payment) {
		return nil, nil
	}
	var c charge
	if err := provider.Decode(env.Payment, &c); err != nil {
		return nil, fmt.Errorf("payment: %w", err)
	}
	if c.ID == "" || !c.ID.Clean() {
		return nil, errors.New("payment.id is missing or not a clean identifier")
	}
	claim, err := p.claim(&c)
	if err != nil {
		return nil, err
	}
	claim.At, claim.Reason = localTime(env.DateCreated), string(env.Event)
	if claim.Facts, err = p.facts(claim, &c, r, env.DateCreated); err != nil {
		return nil, err
	}
	switch r.stage {
	case stageUpdated, stageAttempt:
		claim.Captured = payment.Minor{}
	case stageRefunds: // says nothing of the payment itself
		claim.Expected, claim.Captured = payment.Minor{}, payment.Minor{}
	}
	return []payment.Claim{claim}, nil
}

// claim reads what every stage has in common. Captured is payment.value,
// whether or not it was captured.
func (p *Provider) claim(c *charge) (payment.Claim, error) {
	claim := payment.Claim{GatewayID: string(c.ID), Currency: currency}
	if c.ExternalReference.Clean() {
		claim.Reference = string(c.ExternalReference)
	}
	claim.Beneficiary = p.src.Owner(claim.Reference)
	if c.Value == "" {
		return claim, nil
	}
	value, err := amount(c.Value, "payment.value")
	if err != nil {
		return claim, err
	}
	claim.Captured, claim.Expected = payment.Of(value), payment.Of(value)
	if c.OriginalValue != "" { // paid with interest, a fine or a discount
		original, err := amount(c.OriginalValue, "payment.originalValue")
		if err != nil {
			return claim, err
		}
		claim.Expected = payment.Of(original)
	}
	return claim, nil
}

// facts gives what an event of one stage says. From the capture on, every
// event carries the gross amount, the fee and the refunds so far, so that any
// of them may be the first one to arrive.
func (p *Provider) facts(claim payment.Claim, c *charge, r rule, date provider.Text) ([]payment.Fact, error) {
	switch r.stage {
	case stageUpdated:
		return nil, nil
	case stageAttempt:
		return []payment.Fact{{Kind: payment.FactStatus, Status: r.status}}, nil
	case stageRefunds:
		facts, _, err := refundFacts(claim.GatewayID, c.refunds())
		return facts, err
	}
	if !claim.Captured.Known || claim.Captured.Value == 0 {
		return nil, errors.New("payment.value is missing or zero")
	}
	facts, done, err := refundFacts(claim.GatewayID, c.refunds())
	if err != nil {
		return nil, err
	}
	var last payment.Fact
	switch r.stage {
	case stageCaptured:
		last = payment.Fact{Kind: payment.FactStatus, Status: payment.StatusPaid}
	case stagePartly:
		if c.Refunds == nil {
			last = p.unnamedRefund(claim.Captured)
		}
	case stageRefunded:
		last, err = returned(claim, c, done)
	case stageUndone:
		if date == "" || !date.Clean() {
			return nil, errors.New("dateCreated, which names the undone receipt, is missing or not a clean text")
		}
		last = payment.Fact{Kind: payment.FactUndo, ID: "cash_undo:" + claim.GatewayID + ":" + string(date)}
	case stageDisputed:
		last, err = dispute(claim.GatewayID, c, r.dispute)
	}
	if err != nil {
		return nil, err
	}
	if last.Kind != "" {
		facts = append(facts, last)
	}
	if r.stage == stageUndone {
		return facts, nil // the net amount is a forecast again, not a fact
	}
	return addFee(facts, claim, c)
}

// unnamedRefund stands for "a part was refunded" without the list that would
// say how much: payment.Apply answers that it needs the refunds' ids. Where
// every event is looked up anyway, the answer brings the whole list, and it is
// enough that it names one refund. Elsewhere a second such event must not pass
// for a repetition of the first: the claim then stays open, and the event is
// parked for a person, unless all of the payment is known to be refunded.
func (p *Provider) unnamedRefund(value payment.Minor) payment.Fact {
	if p.src.Lookup == provider.LookupAlways {
		value = payment.Of(1)
	}
	return payment.Fact{Kind: payment.FactRefundTotal, Amount: value, ByID: true}
}

// returned reads "refunded", in which both a refund of all that was left and
// a lost chargeback end. The list of refunds is the stronger witness: where
// it accounts for the whole amount, it says all. Otherwise the rest went by
// the chargeback, if there is one that was not won, or by a refund that is not
// listed.
func returned(claim payment.Claim, c *charge, done int64) (payment.Fact, error) {
	switch {
	case done >= claim.Captured.Value:
		return payment.Fact{}, nil
	case c.Chargeback != nil && c.Chargeback.Status != "REVERSED":
		return dispute(claim.GatewayID, c, payment.DisputeLost)
	}
	return payment.Fact{Kind: payment.FactStatus, Status: payment.StatusRefunded}, nil
}

// dispute reads a chargeback. It has no id of its own in the payment, so a
// payment has one at most, by the payment's id. Without an amount it is about
// all that is left.
func dispute(paymentRef string, c *charge, state payment.DisputeState) (payment.Fact, error) {
	f := payment.Fact{Kind: payment.FactDispute, ID: paymentRef, Dispute: state}
	if c.Chargeback == nil || c.Chargeback.Value == "" {
		return f, nil
	}
	cents, err := amount(c.Chargeback.Value, "payment.chargeback.value")
	if err != nil {
		return f, err
	}
	if cents > 0 {
		f.Amount = payment.Of(cents)
	}
	return f, nil
}

// addFee adds what Asaas kept: the gross amount less the net one. Where that is
// nothing (a receipt in cash), or less than nothing, no fee is claimed: the
// charge may yet be paid in a way that costs one.
func addFee(facts []payment.Fact, claim payment.Claim, c *charge) ([]payment.Fact, error) {
	if c.NetValue == "" {
		return facts, nil
	}
	net, err := money.ParseDecimal(string(c.NetValue), currency)
	if err != nil {
		return nil, fmt.Errorf("%w (payment.netValue)", err)
	}
	if net >= claim.Captured.Value {
		return facts, nil
	}
	if net == math.MinInt64 {
		return nil, fmt.Errorf("%w (payment.netValue)", money.ErrRange)
	}
	fee, err := money.Add(claim.Captured.Value, -net)
	if err != nil {
		return nil, fmt.Errorf("%w (payment.netValue)", err)
	}
	return append(facts, payment.Fact{Kind: payment.FactFee, ID: claim.GatewayID, Amount: payment.Of(fee)}), nil
}

// amount reads decimal reais into cents, zero or more.
func amount(n provider.Number, field string) (int64, error) {
	cents, err := money.ParseDecimal(string(n), currency)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w (%s)", err, field)
	case cents < 0:
		return 0, fmt.Errorf("%s is below zero", field)
	}
	return cents, nil
}

func (c *charge) refunds() []refundItem {
	if c.Refunds == nil {
		return nil
	}
	return *c.Refunds
}
