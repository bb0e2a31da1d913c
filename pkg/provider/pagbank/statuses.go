package pagbank

import (
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// stage says what a charge's status means, in the table of the contract.
type stage int

const (
	stageAttempt  stage = iota // status before capture, in rule.status
	stagePaid                  // captured; part of it, or all, may have been refunded
	stageCanceled              // refunded if it was ever paid, else canceled
)

type rule struct {
	stage  stage
	status payment.Status
}

// statuses is the table of charge.status.
var statuses = map[provider.Text]rule{
	"WAITING":     {stage: stageAttempt, status: payment.StatusPending},
	"IN_ANALYSIS": {stage: stageAttempt, status: payment.StatusPending},
	"AUTHORIZED":  {stage: stageAttempt, status: payment.StatusAuthorized},
	"PAID":        {stage: stagePaid},
	"DECLINED":    {stage: stageAttempt, status: payment.StatusFailed},
	"CANCELED":    {stage: stageCanceled},
}

// transactionStatuses is the table of the old API's numbers: the fact that
// each states, at the time of the transaction's last event. Those without one
// say nothing that the charge itself does not say better, with its amounts
// (was a canceled one ever paid?), so the charge is asked.
//
// # Disputes
//
// The old API names no dispute: a transaction is in dispute (5, 9), was lost
// (8), or is paid (3) or available (4) again, which means won if there was a
// dispute, and nothing at all if there was none. That is what the facts
// "disputed", "charged back" and "paid" without an id say, and payment.Apply
// knows it: a payment that is paid at a later time than it was disputed has
// won. A FactDispute of state won, with the transaction's code for an id,
// could not say it: of a dispute that we never heard of it would book a
// withdrawal and its return.
//
// All depends on the times. "Paid" of a charge of API v4, which does not show
// disputes, always has the time of the payment (paid_at), whenever it is said
// or asked: a dispute is later, so no snapshot of the charge can end one. See
// paidFact, and Lookup for a charge without that time.
var transactionStatuses = map[provider.Text]payment.Status{
	"1": "",
	"2": "",
	"3": payment.StatusPaid,
	"4": payment.StatusPaid,
	"5": payment.StatusDisputed,
	"6": payment.StatusRefunded,
	"7": "",
	"8": payment.StatusChargedBack,
	"9": payment.StatusDisputed,
}
