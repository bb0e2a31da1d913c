// Package payment is the state machine of a payment, as pure functions: from
// the state we hold and a claim (what one event, or one lookup answer, says)
// to the transitions that follow. It knows no gateway, database or clock.
//
// What it promises: applying the claims of a payment in any order, with any
// repetition, ends in the same status and books the same money under the same
// references. It gets there because the state is a join of what is known:
//
//   - the status before capture is a register where the later gateway time
//     wins, and at equal times the status that is further on;
//   - money is known by reference: one capture a payment, each refund,
//     dispute and fee by the gateway's id, each with a rank that only grows
//     (a refund may fail after it succeeded, never the other way round);
//   - the status after capture is computed from that money, see status().
//
// A claim is applied whole or not at all. When something on the way is
// missing (an amount, a refund's id) or contradicts what we hold, Apply
// changes nothing and says what it needs; the caller asks the gateway, or
// parks the event and tries again when the payment has moved.
//
// # Where order must matter
//
// No state machine can make these independent of the order of arrival, because
// the gateway's words lack what would be needed. In each of them no order books
// more than was captured, and what cannot be applied waits with its reason:
//
//   - Cumulative totals without refund ids: a total that a larger one overtook
//     is never booked by itself. The sum is the same, its parts are not.
//   - One word for "refunded" and "canceled" (Fact.Otherwise) between two
//     "paid": in the one order it gives back what the first had brought in.
//   - "Refunded" as a mere status beside a dispute: whether the disputed money
//     is part of "all" is not said. The one that comes second is parked when
//     the two exceed the capture.
//   - A dispute without amount takes what is left when we learn of it, so a
//     refund that is learnt later may exceed the capture, and is parked.
//   - A dispute that is open again after it was won: one id cannot name two
//     withdrawals. Whichever is learnt second is parked for a person.
//   - An undone receipt beside partial refunds takes the rest at that time.
//   - Two claims that contradict each other (another amount under one id): the
//     first is booked, the second is parked.
//   - Money of an owner that is learnt later is allocated by what there is at
//     that time. The owner's balance ends the same.
package payment

import (
	"slices"
	"time"
)

// Status is the canonical state of a payment.
type Status string

// The statuses. None of them is final for ever: boletos are paid after they
// expired, failed attempts are followed by good ones, lost disputes appealed.
const (
	StatusNone              Status = "" // before the first transition
	StatusPending           Status = "pending"
	StatusAuthorized        Status = "authorized"
	StatusPaid              Status = "paid"
	StatusPartiallyRefunded Status = "partially_refunded"
	StatusRefunded          Status = "refunded"
	StatusFailed            Status = "failed"
	StatusCanceled          Status = "canceled"
	StatusExpired           Status = "expired"
	StatusDisputed          Status = "disputed"
	StatusChargedBack       Status = "charged_back"
)

// Minor is an amount in minor units that may be unknown, which is not zero.
type Minor struct {
	Value int64
	Known bool
}

// Of returns a known amount.
func Of(v int64) Minor { return Minor{Value: v, Known: true} }

// Payment is what we hold of one payment: its row, under the lock.
type Payment struct {
	ID        int64
	Provider  string
	Account   string
	GatewayID string

	Status   Status
	StatusAt time.Time // gateway time of the fact that holds a status before capture
	PaidAt   time.Time // gateway time of the first capture fact

	Currency    string // "" while unknown
	Expected    Minor  // what was asked for
	Captured    Minor
	Refunded    int64 // succeeded and not reversed
	ChargedBack int64 // withdrawn and not reinstated
	Fee         int64

	// Registered says that the application told us amount and currency
	// beforehand; then a capture must match them.
	Registered  bool
	Beneficiary string // whose money it is; "" books to unallocated
	Reference   string // the application's order id

	Version    int64     // seq of the last transition
	ObservedAt time.Time // database clock of the newest lookup applied
	Details    Details
}

// Details are the parts of a payment that have an id of their own, kept
// beside it so that one locked row holds all that a decision needs.
type Details struct {
	Refunds      []Refund  `json:"refunds,omitempty"`
	Disputes     []Dispute `json:"disputes,omitempty"`
	Fees         []Fee     `json:"fees,omitempty"`
	AttributesAt time.Time `json:"attributes_at,omitzero"` // gateway time of Expected
	// Attempt is the status before capture, at StatusAt, of a payment that is
	// captured: an undone receipt falls back to it.
	Attempt  Status    `json:"attempt,omitempty"`
	PaidLast time.Time `json:"paid_last,omitzero"` // gateway time of the newest "paid"
	PaidSeen time.Time `json:"paid_seen,omitzero"` // the late end of that time
	// GoneAt is the newest time at which the gateway called the payment by one
	// word for refunded and canceled while we held no capture.
	GoneAt   time.Time `json:"gone_at,omitzero"`
	GoneSeen time.Time `json:"gone_seen,omitzero"` // the late end of that time
	// RefundedAll: the gateway called the payment refunded without amounts.
	RefundedAll   bool      `json:"refunded_all,omitempty"`
	RefundedAllAt time.Time `json:"refunded_all_at,omitzero"`
}

// RefundState ranks a refund; it only grows.
type RefundState string

// The states of a refund. A refund that failed after it had succeeded has
// been booked twice, there and back.
const (
	RefundPending   RefundState = "pending"
	RefundSucceeded RefundState = "succeeded"
	RefundFailed    RefundState = "failed"
)

// Refund is one refund of a payment.
type Refund struct {
	ID     string      `json:"id"`
	Amount int64       `json:"amount"`
	State  RefundState `json:"state"`
	Booked bool        `json:"booked,omitempty"`
	// Covered: its money was booked as part of a total before its id came.
	Covered bool `json:"covered,omitempty"`
	// Undo marks the taking back of the payment itself (a manual receipt that
	// was undone): the payment is open again, and a later capture reverses it.
	Undo bool      `json:"undo,omitempty"`
	At   time.Time `json:"at,omitzero"`
}

// DisputeState is what is known of a dispute.
type DisputeState string

// The states of a dispute. An inquiry moves no money, and neither does a
// claim, of which the gateway says so in the payment's status; a later "paid"
// ends it.
const (
	DisputeInquiry DisputeState = "inquiry"
	DisputeClaim   DisputeState = "claim"
	DisputeOpen    DisputeState = "open"
	DisputeLost    DisputeState = "lost"
	DisputeWon     DisputeState = "won"
)

// Dispute is one dispute of a payment.
type Dispute struct {
	ID       string       `json:"id"`
	Amount   int64        `json:"amount"`
	State    DisputeState `json:"state"`
	Booked   bool         `json:"booked,omitempty"`
	Reversed bool         `json:"reversed,omitempty"`
	Unnamed  bool         `json:"unnamed,omitempty"` // known by a status only
	At       time.Time    `json:"at,omitzero"`
}

// Fee is one fee that the gateway kept.
type Fee struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
}

// Kind is the kind of a ledger booking.
type Kind string

// The kinds of booking.
const (
	KindCapture            Kind = "capture"
	KindFee                Kind = "fee"
	KindRefund             Kind = "refund"
	KindRefundReversal     Kind = "refund_reversal"
	KindChargeback         Kind = "chargeback"
	KindChargebackReversal Kind = "chargeback_reversal"
	KindAllocation         Kind = "allocation"
)

// Booking is the money of a transition: what moved, under which reference.
// Together with its provider and account, (RefType, RefID, Kind) happens once.
type Booking struct {
	Kind    Kind
	RefType string // "payment", "refund", "dispute", "fee"
	RefID   string // the gateway's id
	Amount  int64  // minor units, above zero; below zero only for an allocation
}

// Transition is one accepted move. From and To are equal when only money
// moved (a fee, one more partial refund).
type Transition struct {
	Seq      int64
	From, To Status
	Reason   string // what caused it: the event's type, or "lookup"
	Bookings []Booking
	// Beneficiary is the owner at the time of this transition: whose account
	// the bookings touch.
	Beneficiary string
	Currency    string
	State       Payment // the payment after this transition, for the outbox
}

// Net is what remains for the owner.
func (p *Payment) Net() int64 {
	return p.Captured.Value - p.Fee - p.Refunded - p.ChargedBack
}

// lastPaid is the newest time at which the payment is known to have been paid.
func (p *Payment) lastPaid() time.Time { return latest(p.PaidAt, p.Details.PaidLast) }

// clone copies a payment so that a claim that turns out not to be applicable
// leaves no trace, and so that a transition's state is not changed by the next.
func (p *Payment) clone() Payment {
	c := *p
	c.Details.Refunds = slices.Clone(p.Details.Refunds)
	c.Details.Disputes = slices.Clone(p.Details.Disputes)
	c.Details.Fees = slices.Clone(p.Details.Fees)
	return c
}
