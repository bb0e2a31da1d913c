package pagarme

import (
	"strings"

	"github.com/umavez/umavez/pkg/payment"
)

// subject says what an event's data is, and so what is read of it.
type subject int

const (
	subjectNone       subject = iota // changes nothing here
	subjectCharge                    // a charge
	subjectChanged                   // a charge, of which only is said that something changed
	subjectOrder                     // an order with its charges
	subjectInvoice                   // an invoice, perhaps with its charge
	subjectChargeback                // of a shape that is not established
)

// stage is how far a charge has come, by the word of a status or an event.
// The later ones outrank the earlier: a body may have been written after
// what its event's name says.
type stage int

const (
	stageUnsaid      stage = iota
	stageAttempt           // before the capture, in reading.status
	stagePaid              // captured; a part may have been refunded
	stageGone              // given back if it was ever paid, else canceled
	stageChargedBack       // for good
)

// reading is what a status or an event's name says of a charge.
type reading struct {
	stage  stage
	status payment.Status // of stageAttempt
}

type rule struct {
	subject subject
	says    reading
}

func attempt(s payment.Status) reading { return reading{stageAttempt, s} }

// rules is the table of event types that concern money.
var rules = map[string]rule{
	"charge.created":            {subjectCharge, attempt(payment.StatusPending)},
	"charge.pending":            {subjectCharge, attempt(payment.StatusPending)},
	"charge.processing":         {subjectCharge, attempt(payment.StatusPending)},
	"charge.updated":            {subject: subjectChanged},
	"charge.paid":               {subjectCharge, reading{stage: stagePaid}},
	"charge.overpaid":           {subjectCharge, reading{stage: stagePaid}},
	"charge.underpaid":          {subjectCharge, reading{stage: stagePaid}},
	"charge.payment_failed":     {subjectCharge, attempt(payment.StatusFailed)},
	"charge.antifraud_reproved": {subjectCharge, attempt(payment.StatusFailed)},
	"charge.antifraud_approved": {},
	"charge.antifraud_manual":   {},
	"charge.antifraud_pending":  {},
	"charge.partial_canceled":   {subject: subjectCharge},
	"charge.refunded":           {subjectCharge, reading{stage: stageGone}},
	"charge.chargedback":        {subjectCharge, reading{stage: stageChargedBack}},
	"chargeback.received":       {subject: subjectChargeback},
	"order.created":             {},
	"order.updated":             {},
	"order.closed":              {},
	"order.paid":                {subject: subjectOrder},
	"order.payment_failed":      {subject: subjectOrder},
	"order.canceled":            {subject: subjectOrder},
	"invoice.created":           {},
	"invoice.updated":           {},
	"invoice.paid":              {subject: subjectInvoice},
	"invoice.payment_failed":    {subject: subjectInvoice},
	"invoice.canceled":          {subject: subjectInvoice},
}

// otherFamilies are the beginnings of event types that concern no money.
var otherFamilies = []string{
	"subscription.", "subscription_item.", "plan.", "plan_item.", "customer.", "card.", "address.", "discount.", "increment.", "usage.",
	"recipient.", "bank_account.", "order_item.", "checkout.", "transfer.",
}

// ruleOf finds the rule of an event type; known is false for one that is not
// in the contract.
func ruleOf(eventType string) (r rule, known bool) {
	if r, known = rules[eventType]; known {
		return r, true
	}
	for _, family := range otherFamilies {
		if strings.HasPrefix(eventType, family) {
			return rule{}, true
		}
	}
	return rule{}, false
}

// statuses is the table of a charge's status words.
var statuses = map[string]reading{
	"pending":     attempt(payment.StatusPending),
	"processing":  attempt(payment.StatusPending),
	"failed":      attempt(payment.StatusFailed),
	"paid":        {stage: stagePaid},
	"overpaid":    {stage: stagePaid},
	"underpaid":   {stage: stagePaid},
	"canceled":    {stage: stageGone},
	"chargedback": {stage: stageChargedBack},
}

// What the status of a charge's last transaction says beyond the charge's own.
var (
	// authorizedBy: the card is authorised and waits for its capture.
	authorizedBy = map[string]bool{"authorized_pending_capture": true, "waiting_capture": true}
	// refundedBy: money was given back, so there had been some.
	refundedBy = map[string]bool{"refunded": true, "partial_refunded": true}
	// voidedBy: an authorisation was taken back before its capture. A charge
	// that is known to have been paid outranks it.
	voidedBy = map[string]bool{"voided": true, "partial_void": true}
)
