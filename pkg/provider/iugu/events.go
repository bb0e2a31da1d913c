package iugu

import (
	"strings"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// ring says what a trigger about an invoice is for.
type ring int

const (
	ringUnknown ring = iota // a name that is not in the table: the API is asked
	ringStatus              // the invoice has the status that it names
	ringFailed              // an attempt to charge it failed
	ringRefund              // something was given back
	ringNothing             // told for information, changes nothing here
)

// invoiceEvents is the table of triggers about invoices. Most names are read
// off the titles of Iugu's pages, so one that is not listed is not ignored:
// the invoice is looked up, and the figures say what it was.
var invoiceEvents = map[provider.Text]ring{
	"invoice.created":        ringStatus,
	"invoice.status_changed": ringStatus,
	"invoice.payment_failed": ringFailed,
	"invoice.refund":         ringRefund,

	"invoice.due":                  ringNothing,
	"invoice.released":             ringNothing, // to the balance: the same money as paid
	"invoice.dunning_action":       ringNothing,
	"invoice.installment_released": ringNothing,
	"invoice.bank_slip_status":     ringNothing,
}

// invoices begins the names of all triggers about invoices.
const invoices = "invoice."

// others begin the names of triggers that are about no invoice. The invoice's
// own trigger carries the money of an automatic Pix.
var others = []string{"automatic_pix.", "deposit.", "subscription.", "withdraw_request.", "transfer", "referrals."}

func aboutSomethingElse(name provider.Text) bool {
	for _, prefix := range others {
		if strings.HasPrefix(string(name), prefix) {
			return true
		}
	}
	return false
}

// stage says where the money of an invoice is.
type stage int

const (
	stageAttempt  stage = iota // not captured, in standing.status
	stagePaid                  // received
	stagePartPaid              // part of the boleto was received
	stageRefunded              // given back
	stageProtest               // a card payment is disputed
	stageLost                  // the dispute was lost
)

type standing struct {
	stage  stage
	status payment.Status
}

// statuses is the table of an invoice's status words. An invoice that was paid
// elsewhere is closed without money through Iugu, which is what canceled means
// here: nothing is credited, and nothing more is expected.
var statuses = map[provider.Text]standing{
	"draft":           {stageAttempt, payment.StatusPending},
	"pending":         {stageAttempt, payment.StatusPending},
	"in_analysis":     {stageAttempt, payment.StatusAuthorized},
	"canceled":        {stageAttempt, payment.StatusCanceled},
	"expired":         {stageAttempt, payment.StatusExpired},
	"externally_paid": {stageAttempt, payment.StatusCanceled},
	"paid":            {stagePaid, payment.StatusPaid},
	"partially_paid":  {stagePartPaid, payment.StatusPaid},
	"refunded":        {stageRefunded, payment.StatusRefunded},
	"in_protest":      {stageProtest, payment.StatusDisputed},
	"chargeback":      {stageLost, payment.StatusChargedBack},
}
