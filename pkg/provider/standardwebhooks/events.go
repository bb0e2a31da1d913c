package standardwebhooks

import (
	"slices"

	"github.com/umavez/umavez/pkg/payment"
)

// meaning is what an event type says of a payment.
type meaning string

// The meanings. Those of the attempt and of the capture are spelt as the
// statuses of package payment.
const (
	meansPending       meaning = "pending"
	meansAuthorized    meaning = "authorized"
	meansPaid          meaning = "paid"
	meansFailed        meaning = "failed"
	meansCanceled      meaning = "canceled"
	meansExpired       meaning = "expired"
	meansRefund        meaning = "refund"             // a refund was made, of a part or of all
	meansPartly        meaning = "partially_refunded" // a refund was made, and something is left
	meansRefunded      meaning = "refunded"           // a refund was made, and nothing is left
	meansRefundPending meaning = "refund_pending"
	meansRefundFailed  meaning = "refund_failed" // it was taken back, or never made
	meansDisputed      meaning = "disputed"      // a chargeback was opened
	meansDisputeWon    meaning = "dispute_won"
	meansChargedBack   meaning = "charged_back" // a chargeback was lost
	meansByStatus      meaning = "by_status"    // the status in the body decides
	meansLookup        meaning = "lookup"       // the sender is to be asked
	meansNone          meaning = "none"
)

var meanings = []meaning{
	meansPending, meansAuthorized, meansPaid, meansFailed, meansCanceled, meansExpired,
	meansRefund, meansPartly, meansRefunded, meansRefundPending, meansRefundFailed,
	meansDisputed, meansDisputeWon, meansChargedBack, meansByStatus, meansLookup, meansNone,
}

// movesMoney lists the meanings of which a table has one type at most. Two
// types for one fact (invoice.paid beside payment.paid) tend to differ in
// amounts and ids, so one of them is set to none.
var movesMoney = []meaning{
	meansPaid, meansRefund, meansPartly, meansRefunded, meansRefundFailed, meansDisputed, meansDisputeWon, meansChargedBack,
}

// statuses are what the words of a status map may mean.
var statuses = []payment.Status{
	payment.StatusPending, payment.StatusAuthorized, payment.StatusPaid, payment.StatusPartiallyRefunded, payment.StatusRefunded,
	payment.StatusFailed, payment.StatusCanceled, payment.StatusExpired, payment.StatusDisputed, payment.StatusChargedBack,
}

var (
	refundStates  = []payment.RefundState{payment.RefundPending, payment.RefundSucceeded, payment.RefundFailed}
	disputeStates = []payment.DisputeState{payment.DisputeInquiry, payment.DisputeOpen, payment.DisputeWon, payment.DisputeLost}
)

// genericProfile is the shape of the profile "generic", in the words of the
// settings. The answer of its API is the payment itself, with the lists of its
// refunds and disputes.
var genericProfile = map[string]string{
	"TYPE_PATH": "type", "TIMESTAMP_PATH": "timestamp", "SEQUENCE_PATH": "data.sequence", "LIVEMODE_PATH": "data.livemode",
	"PAYMENT_ID_PATH": "data.payment_id", "REFERENCE_PATH": "data.reference",
	"AMOUNT_PATH": "data.amount", "AMOUNT_UNIT": unitMinor, "CURRENCY_PATH": "data.currency", "FEE_PATH": "data.fee", "NET_PATH": "data.net",
	"REFUND_ID_PATH": "data.refund_id", "REFUND_AMOUNT_PATH": "data.amount", "REFUND_TOTAL_PATH": "data.amount_refunded",
	"DISPUTE_ID_PATH": "data.dispute_id", "DISPUTE_AMOUNT_PATH": "data.amount",
	"EVENTS": "payment.created=pending,payment.pending=pending,payment.authorized=authorized,payment.paid=paid," +
		"payment.partially_refunded=partially_refunded,payment.refunded=refunded,payment.refund_failed=refund_failed," +
		"payment.failed=failed,payment.canceled=canceled,payment.expired=expired," +
		"payment.chargeback.opened=disputed,payment.chargeback.won=dispute_won,payment.chargeback.lost=charged_back," +
		"subscription.*=none,invoice.*=none",

	"API_AUTH": "Authorization: Bearer {key}", "LOOKUP_URL": "/payments/{id}",
	"LOOKUP_ID_PATH": "payment_id", "LOOKUP_STATUS_PATH": "status",
	"LOOKUP_STATUS_MAP": "pending=pending,authorized=authorized,paid=paid,partially_refunded=partially_refunded,refunded=refunded," +
		"failed=failed,canceled=canceled,expired=expired,disputed=disputed,charged_back=charged_back",
	"LOOKUP_AMOUNT_PATH": "amount", "LOOKUP_CURRENCY_PATH": "currency", "LOOKUP_FEE_PATH": "fee", "LOOKUP_NET_PATH": "net",
	"LOOKUP_REFERENCE_PATH": "reference", "LOOKUP_REFUND_TOTAL_PATH": "amount_refunded",
	"LOOKUP_REFUNDS_PATH": "refunds", "LOOKUP_REFUND_ID_PATH": "refund_id", "LOOKUP_REFUND_AMOUNT_PATH": "amount",
	"LOOKUP_REFUND_STATUS_PATH": "status", "LOOKUP_REFUND_STATUS_MAP": "pending=pending,succeeded=succeeded,failed=failed",
	"LOOKUP_DISPUTES_PATH": "disputes", "LOOKUP_DISPUTE_ID_PATH": "dispute_id", "LOOKUP_DISPUTE_AMOUNT_PATH": "amount",
	"LOOKUP_DISPUTE_STATUS_PATH": "status", "LOOKUP_DISPUTE_STATUS_MAP": "inquiry=inquiry,open=open,won=won,lost=lost",
}

// events reads the table of event types, and refuses one in which two types
// state the same fact about money.
func (r *reader) events() (t byType[meaning]) {
	const setting = "EVENTS"
	taken := map[meaning]bool{}
	for i, p := range r.pairs(setting) {
		m := meaning(p.meaning)
		switch {
		case !slices.Contains(meanings, m):
			r.fault(setting, "has an entry, number %d, whose meaning is none of %s", i+1, join(meanings))
		case slices.Contains(movesMoney, m) && taken[m]:
			r.fault(setting, "has two types that mean %s, of which the second is entry number %d; two types for one fact are not told apart: keep one, and set the other to %s", m, i+1, meansNone)
		case !t.add(p.word, m):
			r.fault(setting, "has an entry, number %d, with a star that is not at its end", i+1)
		}
		taken[m] = true
	}
	if taken[meansRefund] && (taken[meansPartly] || taken[meansRefunded]) {
		r.fault(setting, "has types that mean %s beside some that mean %s or %s; use the first for all, or the other two", meansRefund, meansPartly, meansRefunded)
	}
	return t
}

// has says whether some type has one of the meanings.
func has(t *byType[meaning], wanted ...meaning) bool {
	for _, m := range t.exact {
		if slices.Contains(wanted, m) {
			return true
		}
	}
	for _, p := range t.prefixes {
		if slices.Contains(wanted, p.v) {
			return true
		}
	}
	return false
}

// ofStatus is the meaning of an event by the status in its body.
func ofStatus(s payment.Status) meaning {
	switch s {
	case payment.StatusPartiallyRefunded:
		return meansPartly
	case payment.StatusRefunded:
		return meansRefunded
	case payment.StatusDisputed:
		return meansDisputed
	case payment.StatusChargedBack:
		return meansChargedBack
	}
	return meaning(s) // spelt alike
}
