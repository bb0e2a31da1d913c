package payment

import "time"

// Claim is what one source (an event, or a lookup answer) says of one payment.
type Claim struct {
	GatewayID string
	// Currency is ISO 4217, upper case; "" when the source does not say.
	Currency string
	// Expected is what was asked for; Captured is the gross amount that was
	// captured, where the source says so. Both in minor units.
	Expected, Captured Minor
	Reference          string    // the application's order id, if carried
	Beneficiary        string    // the owner, if carried
	At                 time.Time // gateway time of the source; zero when it has none
	Reason             string    // event type, or "lookup"
	Facts              []Fact

	// until is the late end of the time for which At is the early one, in
	// what only a snapshot says; see Resolve.
	until time.Time
}

// FactKind says which fields of a Fact count.
type FactKind string

// The kinds of fact.
const (
	// FactStatus: Status is one of pending, authorized, failed, canceled,
	// expired, paid. "refunded" and "charged_back" or "disputed" may be given
	// by gateways that name no refund or dispute: they stand for the whole
	// amount that is left; the last two for Amount where it is known, and
	// "refunded" for the capture of Amount where we hold none.
	FactStatus FactKind = "status"
	// FactRefund: one refund by its ID, with Amount and Refund state.
	FactRefund FactKind = "refund"
	// FactRefundTotal: Amount is all that was refunded so far. With ByID the
	// gateway also has ids for its refunds, and only those are booked.
	FactRefundTotal FactKind = "refund_total"
	// FactDispute: one dispute by its ID, with Amount and Dispute state.
	FactDispute FactKind = "dispute"
	// FactFee: one fee by its ID, with Amount, in the payment's currency. An
	// amount that is not known says that there is a fee and asks for a lookup;
	// one of zero, that there is nothing to book under this id.
	FactFee FactKind = "fee"
	// FactUndo: the payment itself was taken back; it is open again. ID names
	// the undo.
	FactUndo FactKind = "undo"
)

// Fact is one thing that a claim says.
type Fact struct {
	Kind    FactKind
	Status  Status
	ID      string
	Amount  Minor
	Refund  RefundState
	Dispute DisputeState
	ByID    bool
	// OneSum: the ID names a sum that went back, and the gateway may call it
	// a refund here and the loss of a dispute there. It is booked once.
	OneSum bool
	// Otherwise is what the status "refunded" says of a payment of which we
	// hold no capture: gateways have one word for "given back" and "never paid"
	// (a canceled charge), and where their own evidence is silent only our
	// record tells which it is. "" says that a capture preceded it.
	Otherwise Status
	At        time.Time // zero: the claim's At

	until   time.Time // as in Claim; At when zero
	unnamed bool      // a dispute known by a status only
}

// Need says why a claim cannot be applied now. It is "" when it can.
type Need string

// What a claim may need. The first ones may be answered by a lookup or by a
// later event; the others wait for a person.
const (
	NeedCapturedAmount Need = "captured_amount_unknown"
	NeedRefundIDs      Need = "refund_ids_unknown"
	NeedDisputeAmount  Need = "dispute_amount_unknown"
	NeedRefundAmount   Need = "refund_amount_unknown"
	NeedFeeAmount      Need = "fee_amount_unknown"
	NeedCurrency       Need = "currency_unknown"
	NeedPaidAgain      Need = "paid_again_unknown" // money left after an undone receipt

	NeedAmountMatch     Need = "amount_mismatch"   // differs from what was registered or captured
	NeedCurrencyMatch   Need = "currency_mismatch" // differs from what was registered or seen
	NeedWithinCaptured  Need = "exceeds_captured"  // refunds and chargebacks above the capture
	NeedDisputeReopened Need = "dispute_reopened"  // a won dispute is open or lost again
	NeedRange           Need = "range"             // amounts beyond 64 bits, or below zero
	NeedID              Need = "fact_without_id"   // a refund, dispute, fee or undo that has no id
	NeedSamePayment     Need = "another_payment"   // the claim is about another gateway id
)

// Result is what Apply decided.
type Result struct {
	Payment     Payment // the new state; the old one when Need is set
	Transitions []Transition
	Need        Need
	// Stale: some fact was refused as late. Doubt: it was refused although
	// its time does not prove it late, so a lookup should decide.
	Stale, Doubt bool
	// Disagrees: a fee is not the one that was booked under its id, or a lookup
	// calls a payment unpaid that we hold as captured, and nothing says that
	// the receipt was undone. No money moves on either alone; it is for the
	// reconciliation's list.
	Disagrees bool

	// withheld: a cancellation took nothing back, because what was seen of the
	// payment may be older or newer. Later snapshots tell.
	withheld bool
}

// Applied says whether the claim changed status or money.
func (r *Result) Applied() bool { return len(r.Transitions) > 0 }
