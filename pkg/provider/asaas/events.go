package asaas

import "github.com/umavez/umavez/pkg/payment"

// stage says what an event type means, in the table of the contract.
type stage int

const (
	stageViewed   stage = iota // changes nothing here
	stageUpdated               // only attributes may have changed
	stageAttempt               // status before capture, in rule.status
	stageCaptured              // the money was captured
	stageRefunds               // the list of refunds may have changed, nothing else
	stagePartly                // a part was refunded
	stageRefunded              // all was given back, by refund or by a lost chargeback
	stageUndone                // a receipt in cash was taken back
	stageDisputed              // a chargeback, in rule.dispute
)

type rule struct {
	stage   stage
	status  payment.Status
	dispute payment.DisputeState
}

// rules is the table of event types. Names of payments that are not in it are
// new ones of Asaas: stored, counted, and without effect.
var rules = map[string]rule{
	"PAYMENT_CREATED":                      {stage: stageAttempt, status: payment.StatusPending},
	"PAYMENT_UPDATED":                      {stage: stageUpdated},
	"PAYMENT_AWAITING_RISK_ANALYSIS":       {stage: stageAttempt, status: payment.StatusPending},
	"PAYMENT_APPROVED_BY_RISK_ANALYSIS":    {stage: stageViewed},
	"PAYMENT_REPROVED_BY_RISK_ANALYSIS":    {stage: stageAttempt, status: payment.StatusFailed},
	"PAYMENT_AUTHORIZED":                   {stage: stageAttempt, status: payment.StatusAuthorized},
	"PAYMENT_CREDIT_CARD_CAPTURE_REFUSED":  {stage: stageAttempt, status: payment.StatusFailed},
	"PAYMENT_CONFIRMED":                    {stage: stageCaptured},
	"PAYMENT_RECEIVED":                     {stage: stageCaptured},
	"PAYMENT_DUNNING_RECEIVED":             {stage: stageCaptured},
	"PAYMENT_ANTICIPATED":                  {stage: stageViewed},
	"PAYMENT_OVERDUE":                      {stage: stageAttempt, status: payment.StatusExpired},
	"PAYMENT_BANK_SLIP_CANCELLED":          {stage: stageViewed},
	"PAYMENT_DELETED":                      {stage: stageAttempt, status: payment.StatusCanceled},
	"PAYMENT_RESTORED":                     {stage: stageAttempt, status: payment.StatusPending},
	"PAYMENT_REFUND_IN_PROGRESS":           {stage: stageRefunds},
	"PAYMENT_REFUND_DENIED":                {stage: stageRefunds},
	"PAYMENT_PARTIALLY_REFUNDED":           {stage: stagePartly},
	"PAYMENT_REFUNDED":                     {stage: stageRefunded},
	"PAYMENT_RECEIVED_IN_CASH_UNDONE":      {stage: stageUndone},
	"PAYMENT_CHARGEBACK_REQUESTED":         {stage: stageDisputed, dispute: payment.DisputeOpen},
	"PAYMENT_CHARGEBACK_DISPUTE":           {stage: stageDisputed, dispute: payment.DisputeOpen},
	"PAYMENT_AWAITING_CHARGEBACK_REVERSAL": {stage: stageDisputed, dispute: payment.DisputeWon},

	"PAYMENT_DUNNING_REQUESTED":               {stage: stageViewed},
	"PAYMENT_BANK_SLIP_VIEWED":                {stage: stageViewed},
	"PAYMENT_CHECKOUT_VIEWED":                 {stage: stageViewed},
	"PAYMENT_SPLIT_CANCELLED":                 {stage: stageViewed},
	"PAYMENT_SPLIT_DIVERGENCE_BLOCK":          {stage: stageViewed},
	"PAYMENT_SPLIT_DIVERGENCE_BLOCK_FINISHED": {stage: stageViewed},
	"PAYMENT_SPLIT_DONE":                      {stage: stageViewed},
	"PAYMENT_SPLIT_REFUSED":                   {stage: stageViewed},
}
