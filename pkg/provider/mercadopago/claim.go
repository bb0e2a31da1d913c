package mercadopago

import (
	"errors"
	"fmt"
	"math"

	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// object is what a payment and an order have in common.
type object struct {
	ref       string
	state     state
	currency  string
	expected  payment.Minor
	captured  payment.Minor // if it was captured
	refunded  payment.Minor // the total that the answer names
	refunds   []payment.Fact
	disputes  []payment.Fact
	fee       int64
	reference provider.Text
}

// approved sums up the refunds whose money has moved.
func (o *object) approved() int64 {
	var sum int64
	for _, f := range o.refunds {
		if f.Refund == payment.RefundSucceeded {
			var err error
			if sum, err = money.Add(sum, f.Amount.Value); err != nil {
				return math.MaxInt64
			}
		}
	}
	return sum
}

// refundsMissing says whether the status speaks of more refunds than are
// listed.
func (o *object) refundsMissing() bool {
	listed := o.approved()
	switch o.state.stage {
	case stagePaid, stageMediation, stageDisputed:
		// What a chargeback takes is what the refunds have left, so they have
		// to be known with it.
		return o.refunded.Value > listed
	case stagePartly:
		return o.refunded.Value > listed || listed == 0
	case stageRefunded:
		return listed < o.captured.Value
	}
	return false
}

// claim gives what a lookup says of a payment.
func (p *Provider) claim(o object) (payment.Claim, error) {
	c := payment.Claim{GatewayID: o.ref, Currency: o.currency, Expected: o.expected, Reason: "lookup"}
	if o.reference.Clean() {
		c.Reference = string(o.reference)
	}
	c.Beneficiary = p.src.Owner(c.Reference)
	if o.state.stage == stageAttempt {
		c.Facts = []payment.Fact{{Kind: payment.FactStatus, Status: o.state.status}}
		return c, nil
	}
	if o.captured.Value == 0 {
		return payment.Claim{}, unreadable(errors.New("the amount of a captured payment is missing or zero"))
	}
	c.Captured = o.captured
	c.Facts = o.facts()
	if o.fee > 0 { // one of nothing may be told before it is known
		c.Facts = append(c.Facts, payment.Fact{Kind: payment.FactFee, ID: o.ref, Amount: payment.Of(o.fee)})
	}
	return c, nil
}

// facts says where the money of a captured payment is. "Paid" is said of all
// but those that are charged back: payment.Apply takes it, after "disputed",
// for a dispute that was won.
func (o *object) facts() []payment.Fact {
	paid := payment.Fact{Kind: payment.FactStatus, Status: payment.StatusPaid}
	switch o.state.stage {
	case stageRefunded:
		facts := append([]payment.Fact{paid}, o.refunds...)
		if o.approved() < o.captured.Value {
			// The rest went without a refund of its own (by the gateway's
			// staff). A refund's id that is listed later is part of it.
			facts = append(facts, payment.Fact{Kind: payment.FactStatus, Status: payment.StatusRefunded})
		}
		return facts
	case stageDisputed:
		return append(o.chargedBack(paid), o.refunds...)
	case stageMediation:
		// A claim is open and the money stands, as in an inquiry. It has the
		// id under which a chargeback would follow.
		return append([]payment.Fact{{Kind: payment.FactDispute, ID: o.ref, Dispute: payment.DisputeClaim}}, o.refunds...)
	}
	facts := append([]payment.Fact{paid}, o.refunds...)
	if o.refundsMissing() {
		// The lists lag behind the sum: it asks for the refunds' ids again.
		total := o.refunded
		if total.Value <= o.approved() {
			total = payment.Of(math.MaxInt64)
		}
		facts = append(facts, payment.Fact{Kind: payment.FactRefundTotal, Amount: total, ByID: true})
	}
	return facts
}

// chargedBack reads a chargeback. The Payments API names none in a payment, so
// there it takes what the refunds have left, under the payment's own id; the
// Orders API lists them with id and amount.
func (o *object) chargedBack(paid payment.Fact) []payment.Fact {
	switch {
	case len(o.disputes) > 0:
		return append([]payment.Fact{paid}, o.disputes...)
	case o.state.dispute == payment.DisputeWon:
		return []payment.Fact{paid, {Kind: payment.FactDispute, ID: o.ref, Dispute: payment.DisputeWon}}
	case o.state.dispute == payment.DisputeLost:
		return []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusChargedBack}}
	}
	return []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusDisputed}}
}

func readRefunds(items []refundItem, currency string) (facts []payment.Fact, err error) {
	for i, it := range items {
		state := refundState(it.Status)
		if state == "" {
			continue
		}
		cents, err := positive(it.Amount, currency, fmt.Sprintf("refunds[%d].amount", i))
		switch {
		case err != nil:
			return nil, err
		case it.ID == "" || !it.ID.Clean():
			return nil, fmt.Errorf("refunds[%d].id is missing or not a clean identifier", i)
		}
		facts = append(facts, payment.Fact{Kind: payment.FactRefund, ID: string(it.ID), Amount: payment.Of(cents), Refund: state})
	}
	return facts, nil
}

func readChargebacks(items []chargebackItem, currency string) (facts []payment.Fact, err error) {
	for i, it := range items {
		state, known := chargebackState(it.Status)
		if !known {
			return nil, fmt.Errorf("chargebacks[%d].status %s is not in the table of Mercado Pago's contract", i, word(it.Status))
		}
		cents, err := positive(it.Amount, currency, fmt.Sprintf("chargebacks[%d].amount", i))
		switch {
		case err != nil:
			return nil, err
		case it.ID == "" || !it.ID.Clean():
			return nil, fmt.Errorf("chargebacks[%d].id is missing or not a clean identifier", i)
		}
		facts = append(facts, payment.Fact{Kind: payment.FactDispute, ID: string(it.ID), Amount: payment.Of(cents), Dispute: state})
	}
	return facts, nil
}

// optional reads an amount of zero or more that may be absent.
func optional(n provider.Number, currency, field string) (payment.Minor, error) {
	if n == "" {
		return payment.Minor{}, nil
	}
	cents, err := money.ParseDecimal(string(n), currency)
	switch {
	case err != nil:
		return payment.Minor{}, fmt.Errorf("%w (%s)", err, field)
	case cents < 0:
		return payment.Minor{}, fmt.Errorf("%s is below zero", field)
	}
	return payment.Of(cents), nil
}

func positive(n provider.Number, currency, field string) (int64, error) {
	m, err := optional(n, currency, field)
	if err == nil && m.Value == 0 {
		err = fmt.Errorf("%s is missing or zero", field)
	}
	return m.Value, err
}
