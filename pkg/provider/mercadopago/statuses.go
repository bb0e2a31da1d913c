package mercadopago

import (
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// stage says what a status means, in the tables of the contract.
type stage int

const (
	stageAttempt   stage = iota // not captured: state.status
	stagePaid                   // the money stands
	stagePartly                 // a part was refunded
	stageRefunded               // all was given back
	stageMediation              // a claim is open, the money stands
	stageDisputed               // charged back: state.dispute
)

type state struct {
	stage   stage
	status  payment.Status
	dispute payment.DisputeState
}

func attempt(s payment.Status) (state, bool) { return state{stage: stageAttempt, status: s}, true }

// paymentState is the table of the Payments API. Lists of details that are
// open in the documentation are open here; a captured payment whose detail is
// not known is not understood, since the detail says where its money is.
func paymentState(status, detail provider.Text) (state, bool) {
	switch status {
	case "pending", "in_process":
		return attempt(payment.StatusPending)
	case "authorized":
		return attempt(payment.StatusAuthorized)
	case "rejected":
		return attempt(payment.StatusFailed)
	case "cancelled":
		if detail == "expired" {
			return attempt(payment.StatusExpired)
		}
		return attempt(payment.StatusCanceled)
	case "approved":
		switch detail {
		case "accredited", "":
			return state{stage: stagePaid}, true
		case "partially_refunded":
			return state{stage: stagePartly}, true
		}
	case "refunded":
		return state{stage: stageRefunded}, true
	case "in_mediation":
		return state{stage: stageMediation}, true
	case "charged_back":
		d, known := chargebackState(detail)
		return state{stage: stageDisputed, dispute: d}, known
	}
	return state{}, false
}

// orderState is the table of the Orders API.
func orderState(status, detail provider.Text) (state, bool) {
	switch status {
	case "created", "processing", "at_terminal":
		return attempt(payment.StatusPending)
	case "action_required":
		if detail == "waiting_capture" {
			return attempt(payment.StatusAuthorized)
		}
		return attempt(payment.StatusPending)
	case "processed":
		switch detail {
		case "accredited", "":
			return state{stage: stagePaid}, true
		case "partially_refunded":
			return state{stage: stagePartly}, true
		case "refunded":
			return state{stage: stageRefunded}, true
		}
	case "refunded":
		return state{stage: stageRefunded}, true
	case "failed":
		return attempt(payment.StatusFailed)
	case "canceled", "cancelled":
		return attempt(payment.StatusCanceled)
	case "expired":
		return attempt(payment.StatusExpired)
	case "charged_back":
		d, known := chargebackState(detail)
		return state{stage: stageDisputed, dispute: d}, known
	}
	return state{}, false
}

func chargebackState(detail provider.Text) (payment.DisputeState, bool) {
	switch detail {
	case "in_process":
		return payment.DisputeOpen, true
	case "settled":
		return payment.DisputeLost, true
	case "reimbursed":
		return payment.DisputeWon, true
	}
	return "", false
}

// refundState is the vocabulary of refunds; "processed" and "canceled" are
// those of orders. Of a refund in another state nothing is said.
func refundState(status provider.Text) payment.RefundState {
	switch status {
	case "approved", "processed":
		return payment.RefundSucceeded
	case "in_process", "authorized":
		return payment.RefundPending
	case "rejected", "cancelled", "canceled":
		return payment.RefundFailed
	}
	return ""
}

// currencies are those of the countries that Mercado Pago is in, by the codes
// that orders carry; they name no currency.
var currencies = map[provider.Text]string{
	"BR": "BRL", "BRA": "BRL", "AR": "ARS", "ARG": "ARS", "MX": "MXN", "MEX": "MXN", "CL": "CLP", "CHL": "CLP",
	"CO": "COP", "COL": "COP", "PE": "PEN", "PER": "PEN", "UY": "UYU", "URY": "UYU",
}
