package stripe

import (
	"errors"
	"strings"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// refunded adds the cumulative total, and the single refunds where an old API
// version lists them.
func (o *charge) refunded(r *reading) error {
	total, err := amount("charge.amount_refunded", o.AmountRefunded)
	if err != nil {
		return err
	}
	if !total.Known {
		return errors.New("charge.amount_refunded is missing")
	}
	if o.Refunds != nil {
		for i := range o.Refunds.Data {
			if err := o.Refunds.Data[i].fact(r); err != nil {
				return err
			}
		}
	}
	r.add(payment.Fact{Kind: payment.FactRefundTotal, Amount: total, ByID: true})
	return nil
}

func (o *refund) claim(r *reading) (err error) {
	if r.says.Currency, err = currency("refund.currency", o.Currency); err != nil {
		return err
	}
	r.owner("", "")
	return o.fact(r)
}

// fact adds the refund under its own id. One that waits has not moved money
// for us: it is booked when it has succeeded, and booked back if it fails
// after all.
func (o *refund) fact(r *reading) error {
	if o.ID == "" || !o.ID.Clean() {
		return errors.New("refund.id is missing or has characters that an id cannot have")
	}
	m, err := amount("refund.amount", o.Amount)
	if err != nil {
		return err
	}
	if m.Value == 0 {
		return errors.New("range: refund.amount is missing or zero")
	}
	f := payment.Fact{Kind: payment.FactRefund, ID: string(o.ID), Amount: m}
	switch o.Status {
	case "succeeded":
		f.Refund = payment.RefundSucceeded
	case "pending", "requires_action":
		f.Refund = payment.RefundPending
	case "failed", "canceled":
		f.Refund = payment.RefundFailed
	default:
		return errors.New("refund.status is not a known one")
	}
	r.add(f)
	return nil
}

func (o *dispute) claim(r *reading) (err error) {
	if r.says.Currency, err = currency("dispute.currency", o.Currency); err != nil {
		return err
	}
	r.owner("", "")
	if err := o.facts(r); err != nil {
		return err
	}
	r.nothing = len(r.says.Facts) == 0
	return nil
}

// facts adds the dispute by its status, whatever the event is called:
// funds_reinstated has been seen with a lost dispute. A status that is not
// known counts as open, since the money is gone in the meantime.
func (o *dispute) facts(r *reading) error {
	if o.ID == "" || !o.ID.Clean() {
		return errors.New("dispute.id is missing or has characters that an id cannot have")
	}
	m, err := amount("dispute.amount", o.Amount)
	if err != nil {
		return err
	}
	f := payment.Fact{Kind: payment.FactDispute, ID: string(o.ID), Amount: m}
	switch status := string(o.Status); {
	case status == "warning_closed", status == "prevented":
		return nil // nothing was withdrawn, and nothing will be
	case strings.HasPrefix(status, "warning_"):
		f.Dispute = payment.DisputeInquiry
	case status == "won":
		f.Dispute = payment.DisputeWon
	case status == "lost":
		f.Dispute = payment.DisputeLost
	default:
		f.Dispute = payment.DisputeOpen
	}
	r.add(f)
	for i := range o.BalanceTransactions {
		if err := o.BalanceTransactions[i].fact(r); err != nil {
			return err
		}
	}
	return nil
}

// fee adds the fee of a charge's balance transaction. A webhook only names it:
// then the fee is known to exist and its amount is not, which a lookup answers.
// Where lookups are off nobody could, and the fee is left out. One with nothing
// to book (none, given back, or in another currency than the payment) is said
// to be zero, so that its name is known and not asked about again.
func (r *reading) fee(ref reference) error {
	if ref.object == nil {
		if ref.id != "" && ref.id.Clean() && r.g.src.Lookup != provider.LookupNever {
			r.add(payment.Fact{Kind: payment.FactFee, ID: string(ref.id)})
		}
		return nil
	}
	var t balanceTransaction
	if err := provider.Decode(ref.object, &t); err != nil {
		return err
	}
	before := len(r.says.Facts)
	if err := t.fact(r); err != nil || len(r.says.Facts) > before || t.ID == "" || !t.ID.Clean() {
		return err
	}
	r.add(payment.Fact{Kind: payment.FactFee, ID: string(t.ID), Amount: payment.Of(0)})
	return nil
}

// fact adds the fee, if there is one in the payment's currency: fees are in
// the currency of the settlement. Stripe writes a fee that it gives back as a
// negative one; our ledger has no such booking.
func (t *balanceTransaction) fact(r *reading) error {
	if strings.HasPrefix(string(t.Fee), "-") {
		return nil
	}
	m, err := amount("balance_transaction.fee", t.Fee)
	if err != nil {
		return err
	}
	code, err := currency("balance_transaction.currency", t.Currency)
	if err != nil {
		return err
	}
	if m.Value == 0 || code == "" || code != r.says.Currency {
		return nil
	}
	if t.ID == "" || !t.ID.Clean() {
		return errors.New("balance_transaction.id is missing or has characters that an id cannot have")
	}
	r.add(payment.Fact{Kind: payment.FactFee, ID: string(t.ID), Amount: m})
	return nil
}
