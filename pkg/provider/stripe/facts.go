package stripe

import (
	"errors"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// basil is the date of the API version that changed what cancelling means.
const basil = "2025-03-31"

// reading is one event being read: what is known around its object, and the
// claim that its object fills.
type reading struct {
	g          *gateway
	eventType  string
	apiVersion string
	says       payment.Claim
	nothing    bool // the object turned out to be purely informational
}

func (r *reading) add(f payment.Fact) { r.says.Facts = append(r.says.Facts, f) }

func (r *reading) status(s payment.Status) {
	r.add(payment.Fact{Kind: payment.FactStatus, Status: s})
}

// owner fills reference and beneficiary; a metadata key that was configured
// for the owner wins over the source's own rule.
func (r *reading) owner(reference, beneficiary string) {
	r.says.Reference = reference
	r.says.Beneficiary = beneficiary
	if beneficiary == "" {
		r.says.Beneficiary = r.g.src.Owner(reference)
	}
}

// Facts implements provider.Provider. An event that a change of ENVIRONMENT
// left behind in the other mode is refused here too.
func (g *gateway) Facts(e *event.Event) ([]payment.Claim, error) {
	o := g.open(e.Body)
	m := &o.message
	switch {
	case m.Disposition == provider.Quarantine:
		return nil, errors.New(m.Reason)
	case m.Reason == provider.ReasonTestEvent, m.Reason == reasonLivemode:
		return nil, errors.New("livemode is not that of this source")
	case m.Disposition != provider.Process:
		return nil, nil
	}
	r := &reading{g: g, eventType: m.Type, apiVersion: string(o.envelope.APIVersion)}
	r.says = payment.Claim{GatewayID: m.PaymentRef, At: m.OccurredAt, Reason: m.Type}
	if err := o.subject.claim(r); err != nil {
		return nil, err
	}
	if r.nothing {
		return nil, nil
	}
	return []payment.Claim{r.says}, nil
}

// money fills currency and the amount asked for.
func (r *reading) money(kind string, code provider.Text, asked provider.Number) (err error) {
	if r.says.Currency, err = currency(kind+".currency", code); err != nil {
		return err
	}
	r.says.Expected, err = amount(kind+".amount", asked)
	return err
}

// captured fills the gross amount. Zero is "not captured", which Stripe also
// writes where nothing was.
func (r *reading) captured(field string, n provider.Number) error {
	m, err := amount(field, n)
	if m.Value > 0 {
		r.says.Captured = m
	}
	return err
}

func (o *intent) claim(r *reading) error {
	if err := r.money("payment_intent", o.Currency, o.Amount); err != nil {
		return err
	}
	r.owner(metadata(o.Metadata, r.g.reference), metadata(o.Metadata, r.g.owner))
	switch r.eventType {
	case "payment_intent.succeeded":
		if o.Status != "succeeded" {
			return errors.New("payment_intent.status contradicts the event's type")
		}
		r.status(payment.StatusPaid)
		return r.captured("payment_intent.amount_received", o.AmountReceived)
	case "payment_intent.payment_failed":
		// An attempt failed. The payment has failed only if it waits for
		// another attempt; a late message about an earlier one changes nothing.
		r.nothing = o.Status != "requires_payment_method"
		r.status(payment.StatusFailed)
	case "payment_intent.amount_capturable_updated":
		r.nothing = o.Status != "requires_capture"
		r.status(payment.StatusAuthorized)
	case "payment_intent.canceled":
		r.status(o.canceled(r.apiVersion))
	default:
		r.status(payment.StatusPending)
	}
	return nil
}

// canceled tells a payment that ran out of time from one that was called off.
// Before basil an automatic cancellation was the name of an expiry.
func (o *intent) canceled(apiVersion string) payment.Status {
	switch {
	case o.CancellationReason == "expired",
		o.CancellationReason == "automatic" && apiVersion != "" && apiVersion < basil:
		return payment.StatusExpired
	}
	return payment.StatusCanceled
}

func (o *charge) claim(r *reading) error {
	if err := r.money("charge", o.Currency, o.Amount); err != nil {
		return err
	}
	r.owner(metadata(o.Metadata, r.g.reference), metadata(o.Metadata, r.g.owner))
	switch r.eventType {
	case "charge.pending":
		r.status(payment.StatusPending)
		return nil
	case "charge.failed":
		r.status(payment.StatusFailed)
		return nil
	case "charge.expired":
		r.status(payment.StatusExpired)
		return nil
	}
	if o.Captured == nil {
		return errors.New("charge.captured is missing")
	}
	if *o.Captured {
		if err := r.captured("charge.amount_captured", o.AmountCaptured); err != nil {
			return err
		}
	}
	switch r.eventType {
	case "charge.succeeded":
		if *o.Captured {
			r.status(payment.StatusPaid)
		} else {
			r.status(payment.StatusAuthorized)
		}
	case "charge.captured":
		r.status(payment.StatusPaid)
	case "charge.refunded":
		if !*o.Captured { // an authorisation was released; before basil only
			r.status(payment.StatusCanceled)
			return nil
		}
		return o.refunded(r)
	case "charge.updated":
		// The one update that matters is the arrival of the balance
		// transaction, and with it the fee.
		r.nothing = !*o.Captured || o.BalanceTransaction.id == ""
		return r.fee(o.BalanceTransaction)
	}
	return nil
}

// claim of a session states no amount and no currency: a shopper may have
// paid in his own. The PaymentIntent says both.
func (o *session) claim(r *reading) error {
	reference := clean(o.ClientReferenceID)
	if reference == "" {
		reference = metadata(o.Metadata, r.g.reference)
	}
	r.owner(reference, metadata(o.Metadata, r.g.owner))
	switch {
	case r.eventType == "checkout.session.async_payment_succeeded":
		r.status(payment.StatusPaid)
	case r.eventType == "checkout.session.async_payment_failed":
		r.status(payment.StatusFailed)
	case r.eventType == "checkout.session.expired":
		r.status(payment.StatusExpired)
	case o.PaymentStatus == "paid":
		r.status(payment.StatusPaid)
	case o.PaymentStatus == "unpaid":
		r.status(payment.StatusPending)
	default:
		return errors.New("checkout.session.payment_status is not a known one")
	}
	return nil
}

// claim of an invoice payment: the amounts are the invoice's, so that they
// are left to the PaymentIntent.
func (o *invoicePayment) claim(r *reading) (err error) {
	if o.Status != "paid" {
		return errors.New("invoice_payment.status contradicts the event's type")
	}
	if r.says.Currency, err = currency("invoice_payment.currency", o.Currency); err != nil {
		return err
	}
	r.owner("", "")
	r.status(payment.StatusPaid)
	return nil
}
