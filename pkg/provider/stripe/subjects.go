package stripe

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/provider"
)

// subject is the object of an event that says something about a payment.
type subject interface {
	core() *base
	// kind is the object's own name. It is checked, because the names of
	// events mislead: charge.dispute.* carries a dispute, and
	// charge.refund.updated a refund.
	kind() string
	// payment is the id of the payment. When there is none, missing is
	// reasonNoPayment if that is as it should be, else what is wrong.
	payment(eventType string) (ref provider.Text, missing string)
	// claim adds to r what the object says.
	claim(r *reading) error
}

// newSubject returns an empty object for an event type that may carry facts.
func newSubject(eventType string) (subject, bool) {
	switch eventType {
	case "payment_intent.created", "payment_intent.requires_action", "payment_intent.processing",
		"payment_intent.partially_funded", "payment_intent.amount_capturable_updated",
		"payment_intent.succeeded", "payment_intent.payment_failed", "payment_intent.canceled":
		return new(intent), true
	case "charge.succeeded", "charge.captured", "charge.pending", "charge.failed",
		"charge.expired", "charge.updated", "charge.refunded":
		return new(charge), true
	case "refund.created", "refund.updated", "refund.failed", "charge.refund.updated":
		return new(refund), true
	case "charge.dispute.created", "charge.dispute.updated", "charge.dispute.closed",
		"charge.dispute.funds_withdrawn", "charge.dispute.funds_reinstated":
		return new(dispute), true
	case "checkout.session.completed", "checkout.session.expired",
		"checkout.session.async_payment_succeeded", "checkout.session.async_payment_failed":
		return new(session), true
	case "invoice_payment.paid":
		return new(invoicePayment), true
	}
	return nil, false
}

// readSubject decodes an object and makes sure that it is of the right kind.
func readSubject(s subject, object jsontext.Value) error {
	if err := provider.Decode(object, s); err != nil {
		return err
	}
	c := s.core()
	switch {
	case string(c.Object) != s.kind():
		return errors.New("data.object is not a " + s.kind())
	case c.ID == "" || !c.ID.Clean():
		return errors.New("the id of the " + s.kind() + " is missing or has characters that an id cannot have")
	}
	return nil
}

func (*intent) kind() string         { return "payment_intent" }
func (*charge) kind() string         { return "charge" }
func (*refund) kind() string         { return "refund" }
func (*dispute) kind() string        { return "dispute" }
func (*session) kind() string        { return "checkout.session" }
func (*invoicePayment) kind() string { return "invoice_payment" }

func (o *intent) payment(string) (provider.Text, string) { return o.ID, "" }

// payment of a charge: the charge itself in the old Charges API.
func (o *charge) payment(string) (provider.Text, string) {
	return firstOf(o.PaymentIntent.id, o.ID), ""
}

// payment of a refund: none when credit was returned without a charge.
func (o *refund) payment(string) (provider.Text, string) {
	return firstOf(o.PaymentIntent.id, o.Charge.id), reasonNoPayment
}

func (o *dispute) payment(string) (provider.Text, string) {
	return firstOf(o.PaymentIntent.id, o.Charge.id), "the dispute names neither payment_intent nor charge"
}

// payment of a checkout session. Only a session in payment mode has one, and
// not before somebody tried to pay; the money of a subscription comes with its
// invoice.
func (o *session) payment(eventType string) (provider.Text, string) {
	switch {
	case o.PaymentStatus == "no_payment_required":
		return "", reasonNoPayment
	case eventType == "checkout.session.completed" && o.Mode == "payment" && o.PaymentStatus == "paid":
		return o.PaymentIntent.id, "the paid session names no payment_intent"
	}
	return o.PaymentIntent.id, reasonNoPayment
}

// payment of an invoice payment: out-of-band records have none.
func (o *invoicePayment) payment(string) (provider.Text, string) {
	switch o.Payment.Type {
	case "payment_intent":
		return o.Payment.PaymentIntent.id, "payment.payment_intent is missing"
	case "charge":
		return o.Payment.Charge.id, "payment.charge is missing"
	}
	return "", reasonNoPayment
}
