package gatewaysim

import (
	"time"

	"github.com/umavez/umavez/pkg/payment"
)

type zoopScript struct{ *script }

// either is one of two names that Zoop, or its clients, have for one thing.
func (s zoopScript) either(a, b string) string {
	if s.one(2) {
		return a
	}
	return b
}

func (zoop) write(sc *script) {
	s := zoopScript{sc}
	p := s.p
	p.id = randomText(s.Rand, 32, hexes)
	p.method = []string{zoopCredit, zoopDebit, zoopBoleto, zoopPix}[s.IntN(4)]
	switch p.kind {
	case KindSettled, KindAuthorized, KindCaptured, KindPartRefunded, KindDisputed, KindDisputeWon, KindDisputeLost:
		p.method = zoopCredit
	case KindExpired, KindExpiredThenPaid, KindRestoredThenPaid:
		p.method = zoopBoleto
	case KindCanceled:
		p.method = s.either(zoopBoleto, zoopPix)
	}
	if p.kind != KindReversed { // what is undone costs nothing
		s.cur.fee = min(p.amount, []int64{199, (p.amount*332 + 5000) / 10000, 0}[s.IntN(3)])
	}
	s.cur.word, s.cur.status = []string{"new", "pending", "created"}[s.IntN(3)], payment.StatusPending
	if p.kind == KindAuthorized || p.kind == KindCaptured {
		s.cur.word = "new"
	}
	s.did(event("transaction.created"))
	s.wait(6 * time.Hour)
	switch p.kind {
	case KindCreated:
	case KindAuthorized:
		s.authorize()
		if s.one(2) {
			s.wait(time.Hour)
			s.did(event("transaction.capture.failed"))
		}
	case KindCaptured:
		s.authorize()
		s.wait(6 * time.Hour)
		s.pay("transaction.succeeded", "transaction.capture.succeeded")
	case KindFailed:
		s.fail()
	case KindFailedThenPaid:
		s.fail()
		s.wait(6 * time.Hour)
		s.pay("transaction.succeeded")
	case KindExpired, KindCanceled:
		s.cancel()
	case KindExpiredThenPaid, KindRestoredThenPaid:
		s.cancel()
		s.wait(6 * time.Hour)
		s.cur.canceledAt = time.Time{}
		s.pay("transaction.succeeded")
	case KindReversed:
		if s.one(2) {
			s.pay("transaction.succeeded")
			s.wait(time.Hour)
		}
		s.reverse()
	default:
		s.pay("transaction.succeeded")
		s.afterwards()
	}
}

func (s zoopScript) afterwards() {
	p := s.p
	s.wait(12 * time.Hour)
	switch p.kind {
	case KindPaid:
		switch s.IntN(4) {
		case 0:
			s.did(event("transaction.updated"))
		case 1:
			s.did(noise("transaction.commission.succeeded"))
		case 2: // refused: the sale is settled already
			s.did(event("transaction.void.failed"))
		}
	case KindSettled:
		s.did(event("transaction.capture.succeeded"))
	case KindPartRefunded:
		n := 1 + s.IntN(3)
		for _, part := range s.parts(s.cur.captured, n+1)[:n] {
			s.giveBack(part)
		}
	case KindRefunded:
		n := 1
		if p.method == zoopCredit { // only of a captured credit sale is there a part
			n += s.IntN(3)
		}
		for _, part := range s.parts(s.cur.captured, n) {
			s.giveBack(part)
		}
	case KindDisputed:
		s.dispute()
	case KindDisputeLost:
		s.dispute()
		s.cur.word, s.cur.status = "charged_back", payment.StatusChargedBack
		s.did(event(s.either("transaction.charged_back", "transaction.charge_back")))
	case KindDisputeWon:
		s.dispute()
		s.cur.word, s.cur.status = "succeeded", payment.StatusPaid
		s.cur.dispute.withdrawn = false
		s.did(event("transaction.dispute.succeeded"))
	}
}

func (s zoopScript) authorize() {
	s.cur.word, s.cur.status, s.cur.chargeAt = "pre_authorized", payment.StatusAuthorized, s.now
	s.did(event(s.either("transaction.pre_authorized", "transaction.pre_authorization.succeeded")))
}

// pay captures the money; two events may tell of one capture.
func (s zoopScript) pay(types ...string) {
	before := s.cur.status
	s.cur.word, s.cur.status, s.cur.failed = "succeeded", payment.StatusPaid, false
	s.cur.captured, s.cur.feeKnown, s.cur.confirmedAt = s.p.amount, true, s.now
	var events []happening
	for _, typ := range types {
		events = append(events, event(typ))
	}
	// Umavez runs without allowance for lag here (see settings), and then a
	// replica that still shows "canceled" is a cancellation of what was paid.
	s.did(events...).mayLag = before != payment.StatusCanceled
}

func (s zoopScript) fail() {
	s.cur.word, s.cur.status, s.cur.failed, s.cur.chargeAt = "failed", payment.StatusFailed, true, s.now
	s.did(event("transaction.failed"))
}

// cancel ends a sale that was not paid. There is no status of its own for one
// that has run out; a name for the event is only in code that nobody could
// verify.
func (s zoopScript) cancel() {
	s.cur.word, s.cur.status, s.cur.canceledAt = "canceled", payment.StatusCanceled, s.now
	typ := "transaction.canceled"
	if s.p.kind == KindExpired || s.p.kind == KindExpiredThenPaid {
		typ = "transaction.expired"
	}
	s.did(event(typ))
}

// giveBack refunds a part, or the rest: one event type for both, and a second
// name that may come beside it.
func (s zoopScript) giveBack(part int64) {
	s.wait(6 * time.Hour)
	s.cur.refunds = append(s.cur.refunds, refund{amount: part, at: s.now, done: true})
	s.cur.status = payment.StatusPartiallyRefunded
	s.cur.word = s.either("succeeded", "partial_refunded")
	if s.cur.refunded() == s.cur.captured {
		s.cur.status = payment.StatusRefunded
		s.cur.word = s.either("canceled", "refunded")
	}
	events := []happening{event("transaction.canceled")}
	if s.one(3) {
		events = append(events, event("transaction.void.succeeded"))
	}
	s.did(events...).mayLag = true
}

// reverse undoes the transaction, with the credit if there was one.
func (s zoopScript) reverse() {
	s.cur.word, s.cur.status = "reversed", payment.StatusCanceled
	if s.cur.captured > 0 {
		s.cur.refunds = []refund{{amount: s.cur.captured, at: s.now, done: true}}
	}
	s.did(event("transaction.reversed"))
}

func (s zoopScript) dispute() {
	s.cur.word, s.cur.status = s.either("dispute", "disputed"), payment.StatusDisputed
	s.cur.dispute = &dispute{amount: s.cur.captured, withdrawn: true, formal: true, at: s.now}
	s.did(event("transaction.disputed"))
	s.wait(12 * time.Hour)
}
