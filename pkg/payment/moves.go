package payment

// Move is one legal move between two statuses.
type Move struct {
	From, To Status
	Books    []Kind // what it may book; nothing else
	Why      string
}

var attempts = []Status{StatusPending, StatusAuthorized, StatusFailed, StatusExpired, StatusCanceled}

// Moves is the table of all legal moves, in the order of the documentation.
// It is the only place that says so: Apply refuses to leave it, the checker
// of a live database reads it, and the diagram is generated from it.
var Moves = buildMoves()

func buildMoves() []Move {
	var ms []Move
	add := func(from, to Status, why string, books ...Kind) {
		ms = append(ms, Move{From: from, To: to, Books: books, Why: why})
	}
	for _, to := range attempts {
		add(StatusNone, to, "first heard of")
	}
	add(StatusNone, StatusPaid, "first heard of when already paid", KindCapture, KindFee)
	for _, from := range attempts {
		for _, to := range attempts {
			if from != to {
				add(from, to, "a later attempt, or a restored or extended charge")
			}
		}
		add(from, StatusPaid, "captured; also late, after failed, expired or canceled", KindCapture, KindFee, KindRefundReversal)
		add(from, StatusPartiallyRefunded, "paid again after an undone receipt", KindRefundReversal)
		add(from, from, "money of an undone receipt", KindFee, KindAllocation, KindRefund, KindRefundReversal)
	}
	add(StatusPaid, StatusPending, "the receipt was undone; the charge is open again", KindRefund)
	add(StatusPartiallyRefunded, StatusPending, "the receipt was undone; the charge is open again", KindRefund)

	add(StatusPaid, StatusPaid, "only money moved", KindFee, KindRefund, KindRefundReversal, KindAllocation)
	for _, s := range []Status{StatusPartiallyRefunded, StatusRefunded, StatusDisputed, StatusChargedBack} {
		add(s, s, "only money moved", KindFee, KindRefund, KindRefundReversal, KindChargeback, KindChargebackReversal, KindAllocation)
	}
	add(StatusPaid, StatusPartiallyRefunded, "part was refunded", KindRefund)
	add(StatusPaid, StatusRefunded, "all was refunded", KindRefund)
	add(StatusPartiallyRefunded, StatusRefunded, "the rest was refunded", KindRefund)
	add(StatusPartiallyRefunded, StatusPaid, "a refund failed after it had succeeded", KindRefundReversal)
	add(StatusRefunded, StatusPartiallyRefunded, "a refund failed after it had succeeded", KindRefundReversal)
	add(StatusRefunded, StatusPaid, "a refund failed after it had succeeded", KindRefundReversal)

	for _, s := range []Status{StatusPaid, StatusPartiallyRefunded} {
		add(s, StatusDisputed, "the payer disputes it; the gateway withdraws the money, or says that a claim is open", KindChargeback)
		add(StatusDisputed, s, "the dispute was won; the money is back", KindChargebackReversal)
	}
	add(StatusDisputed, StatusRefunded, "a claim, of which no money had moved, ended with a refund of all")
	add(StatusRefunded, StatusDisputed, "a refund failed under a claim that is open", KindRefundReversal)
	add(StatusDisputed, StatusChargedBack, "the dispute was lost, or another one was won beside a lost one", KindChargebackReversal)
	add(StatusChargedBack, StatusDisputed, "a lost dispute is appealed, or another one is opened", KindChargeback)
	return ms
}

type pair struct{ from, to Status }

var legal = func() map[pair]Move {
	m := make(map[pair]Move, len(Moves))
	for _, mv := range Moves {
		k := pair{mv.From, mv.To}
		if _, twice := m[k]; twice {
			panic("payment: move listed twice: " + string(mv.From) + " to " + string(mv.To))
		}
		m[k] = mv
	}
	return m
}()

// Legal says whether a move is in the table.
func Legal(from, to Status) bool {
	_, ok := legal[pair{from, to}]
	return ok
}

// rank orders the statuses before capture for facts with equal times: the one
// that is further on wins.
func rank(s Status) int {
	switch s {
	case StatusPending:
		return 0
	case StatusAuthorized:
		return 1
	case StatusFailed:
		return 2
	case StatusExpired:
		return 3
	case StatusCanceled:
		return 4
	}
	return -1
}

func disputeRank(s DisputeState) int {
	switch s {
	case DisputeOpen:
		return 1
	case DisputeLost:
		return 2
	case DisputeWon:
		return 3
	}
	return 0
}

func refundRank(s RefundState) int {
	switch s {
	case RefundSucceeded:
		return 1
	case RefundFailed:
		return 2
	}
	return 0
}
