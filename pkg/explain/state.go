package explain

import (
	"slices"

	"github.com/umavez/umavez/pkg/payment"
)

// States are the words that a State may have, in the order of a payment's
// life. "" is a payment that nobody has heard of.
var States = []payment.Status{
	payment.StatusPending, payment.StatusAuthorized, payment.StatusFailed, payment.StatusCanceled, payment.StatusExpired,
	payment.StatusPaid, payment.StatusPartiallyRefunded, payment.StatusRefunded, payment.StatusDisputed, payment.StatusChargedBack,
}

// standIn names what brought an invented payment into its state.
const standIn = "earlier"

// payment builds a payment in the state by applying what would have led to
// it, without times, so that no claim looks late against it.
func (s State) payment(c payment.Claim) payment.Payment {
	p := payment.Payment{GatewayID: c.GatewayID}
	if s.Status == payment.StatusNone || !slices.Contains(States, s.Status) {
		return p
	}
	before := payment.Claim{GatewayID: c.GatewayID, Currency: c.Currency, Reason: standIn}
	if before.Currency == "" {
		before.Currency = "BRL"
	}
	captured := s.Captured
	for _, m := range []payment.Minor{c.Captured, c.Expected, payment.Of(10000)} {
		if !captured.Known {
			captured = m
		}
	}
	paid := payment.Fact{Kind: payment.FactStatus, Status: payment.StatusPaid}
	switch s.Status {
	case payment.StatusPaid:
		before.Facts = []payment.Fact{paid}
	case payment.StatusPartiallyRefunded:
		before.Facts = []payment.Fact{paid, {Kind: payment.FactRefund, ID: standIn, Amount: payment.Of(1), Refund: payment.RefundSucceeded}}
	case payment.StatusRefunded:
		before.Facts = []payment.Fact{paid, {Kind: payment.FactRefund, ID: standIn, Amount: captured, Refund: payment.RefundSucceeded}}
	case payment.StatusDisputed:
		before.Facts = []payment.Fact{paid, {Kind: payment.FactDispute, ID: standIn, Amount: captured, Dispute: payment.DisputeOpen}}
	case payment.StatusChargedBack:
		before.Facts = []payment.Fact{paid, {Kind: payment.FactDispute, ID: standIn, Amount: captured, Dispute: payment.DisputeLost}}
	default:
		before.Facts = []payment.Fact{{Kind: payment.FactStatus, Status: s.Status}}
		return payment.Apply(p, before).Payment
	}
	before.Captured = captured
	return payment.Apply(p, before).Payment
}
