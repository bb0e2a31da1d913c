package gatewaysim

import (
	"time"

	"github.com/umavez/umavez/pkg/payment"
)

type iuguScript struct{ *script }

func (iugu) write(sc *script) {
	s := iuguScript{sc}
	p := s.p
	p.id = randomText(s.Rand, 32, iuguLetter)
	p.method = []string{"iugu_pix", "iugu_bank_slip", "iugu_credit_card"}[s.IntN(3)]
	s.cur.word, s.cur.status = "pending", payment.StatusPending
	if p.kind == KindSubscription {
		// The customer's card is charged as the invoice is made: "created" is
		// told when it is paid already, and "pending" beside it.
		s.did(event("invoice.status_changed"))
		s.wait(time.Minute)
		s.pay(s.p.amount, "paid", event("invoice.created"), event("invoice.status_changed"))
		return
	}
	s.did(event("invoice.created"))
	s.wait(6 * time.Hour)
	s.beforeReceipt()
}

// beforeReceipt are the ways to a receipt, or past it.
func (s iuguScript) beforeReceipt() {
	switch s.p.kind {
	case KindCreated:
		s.did(noise("invoice.due"))
	case KindAuthorized:
		s.move("in_analysis", payment.StatusAuthorized)
	case KindCaptured:
		s.move("in_analysis", payment.StatusAuthorized)
		s.wait(6 * time.Hour)
		s.receive()
	case KindFailed:
		s.fail()
	case KindFailedThenPaid:
		s.fail()
		s.wait(6 * time.Hour)
		s.receive()
	case KindExpired:
		s.did(noise("invoice.due"), noise("invoice.dunning_action"))
		s.wait(6 * time.Hour)
		s.move("expired", payment.StatusExpired)
	case KindCanceled:
		s.move("canceled", payment.StatusCanceled)
	case KindPaidElsewhere:
		s.move("externally_paid", payment.StatusCanceled)
	case KindUnderpaid:
		s.pay(s.parts(s.p.amount, 2)[0], "partially_paid", event("invoice.status_changed"))
	case KindPaidRepeatedly:
		s.receive()
		for range 1 + s.IntN(3) {
			s.wait(10 * time.Minute)
			s.did(event("invoice.status_changed"))
		}
	default:
		s.receive()
		s.afterwards()
	}
}

func (s iuguScript) afterwards() {
	s.wait(12 * time.Hour)
	switch s.p.kind {
	case KindPaid:
		s.did(noise("invoice.released"))
	case KindPartRefunded:
		n := 1 + s.IntN(3)
		for _, part := range s.parts(s.cur.captured, n+1)[:n] {
			s.giveBack(part)
		}
	case KindRefunded:
		for _, part := range s.parts(s.cur.captured, 1+s.IntN(3)) {
			s.giveBack(part)
		}
	case KindDisputed:
		s.protest()
	case KindDisputeWon:
		s.protest()
		s.wait(12 * time.Hour)
		s.cur.dispute.withdrawn, s.cur.dispute.backAt = false, s.now
		s.move("paid", payment.StatusPaid)
	case KindDisputeLost:
		if s.one(3) {
			s.giveBack(s.parts(s.cur.captured, 2)[0])
		}
		s.protest()
		s.wait(12 * time.Hour)
		s.move("chargeback", payment.StatusChargedBack)
	}
}

func (s iuguScript) move(word string, to payment.Status) {
	s.cur.word, s.cur.status = word, to
	s.did(event("invoice.status_changed"))
}

// fail: an attempt that failed leaves the invoice as it was, and the API says
// pending; what a trigger says without it is nobody's word.
func (s iuguScript) fail() {
	for range 1 + s.IntN(2) {
		s.did(event("invoice.payment_failed"))
		s.wait(time.Hour)
	}
}

func (s iuguScript) receive() {
	events := []happening{event("invoice.status_changed")}
	if s.p.method == "iugu_bank_slip" {
		events = append(events, noise("invoice.bank_slip_status"))
	}
	s.pay(s.p.amount, "paid", events...)
}

func (s iuguScript) pay(amount int64, word string, events ...happening) {
	s.cur.word, s.cur.status = word, payment.StatusPaid
	s.cur.captured, s.cur.feeKnown, s.cur.receivedAt = amount, true, s.now
	s.cur.fee = (amount*251 + 5000) / 10000
	s.did(events...).mayLag = true
}

// giveBack refunds a part. Until it was the last one the invoice stays paid,
// so that these triggers are equal to the last byte.
func (s iuguScript) giveBack(part int64) {
	s.wait(6 * time.Hour)
	first := len(s.cur.refunds) == 0
	s.cur.refunds = append(s.cur.refunds, refund{amount: part, done: true, at: s.now})
	events := []happening{event("invoice.refund")}
	s.cur.status = payment.StatusPartiallyRefunded
	if s.cur.refunded() == s.cur.captured {
		s.cur.word, s.cur.status = "refunded", payment.StatusRefunded
		events = append(events, event("invoice.status_changed"))
	}
	// A receiver knows that an answer without any refund is too old; one that
	// lacks the second refund looks right.
	s.did(events...).mayLag = first
}

func (s iuguScript) protest() {
	s.wait(12 * time.Hour)
	s.cur.dispute = &dispute{amount: s.cur.captured - s.cur.refunded(), withdrawn: true, at: s.now}
	s.move("in_protest", payment.StatusDisputed)
}
