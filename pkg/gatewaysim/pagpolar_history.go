package gatewaysim

import (
	"strconv"
	"time"

	"github.com/umavez/umavez/pkg/payment"
)

type pagpolarScript struct{ *script }

func (pagpolar) write(sc *script) {
	s := pagpolarScript{sc}
	p := s.p
	p.id = "sale-" + randomText(s.Rand, 12, digits)
	if s.one(4) { // ids beyond what a float holds exactly
		p.numericID = true
		p.id = strconv.FormatInt(9007199254740993+s.Int64N(1<<52), 10)
	}
	s.cur.word, s.cur.status = "PENDING", payment.StatusPending
	s.did(event("TRANSACTION_CREATED"))
	s.wait(6 * time.Hour)
	switch p.kind {
	case KindCreated:
	case KindFailed:
		s.move("REFUSED", payment.StatusFailed, "TRANSACTION_REFUSED")
	case KindFailedThenPaid:
		s.move("REFUSED", payment.StatusFailed, "TRANSACTION_REFUSED")
		s.wait(6 * time.Hour)
		s.pay()
	case KindExpired:
		s.move("EXPIRED", payment.StatusExpired, "TRANSACTION_EXPIRED")
	case KindExpiredThenPaid:
		s.move("EXPIRED", payment.StatusExpired, "TRANSACTION_EXPIRED")
		s.wait(6 * time.Hour)
		s.pay()
	case KindCanceled:
		s.move("CANCELED", payment.StatusCanceled, "TRANSACTION_CANCELED")
	case KindPaidRepeatedly:
		s.pay()
		for range 1 + s.IntN(3) {
			s.wait(10 * time.Minute)
			s.did(event("TRANSACTION_PAID"))
		}
	default:
		s.pay()
		s.afterwards()
	}
}

func (s pagpolarScript) afterwards() {
	s.wait(12 * time.Hour)
	switch s.p.kind {
	case KindPaid:
		if s.one(10) { // asked for, and denied
			s.ask(s.parts(s.cur.captured, 2)[0])
			s.cur.refunds[len(s.cur.refunds)-1].word = "DENIED"
			s.did(s.aboutRefund("TRANSACTION_REFUND_DENIED", ""))
		}
	case KindPartRefunded:
		n := 1 + s.IntN(3)
		for _, part := range s.parts(s.cur.captured, n+1)[:n] {
			s.giveBack(part)
		}
	case KindRefunded:
		for _, part := range s.parts(s.cur.captured, 1+s.IntN(2)) {
			s.giveBack(part)
		}
	case KindDisputed:
		s.dispute()
	case KindDisputeLost:
		s.dispute()
		s.wait(12 * time.Hour)
		s.move("CHARGEBACK_LOST", payment.StatusChargedBack, "TRANSACTION_CHARGEBACK_LOST")
	}
}

func (s pagpolarScript) move(word string, to payment.Status, typ string) {
	s.cur.word, s.cur.status = word, to
	s.did(event(typ))
}

func (s pagpolarScript) pay() {
	s.cur.word, s.cur.status = "PAID", payment.StatusPaid
	s.cur.captured, s.cur.feeKnown = s.p.amount, true
	s.cur.fee = (s.p.amount*499 + 5000) / 10000
	s.did(event("TRANSACTION_PAID")).mayLag = true
}

func (s pagpolarScript) ask(part int64) {
	s.wait(6 * time.Hour)
	s.cur.refunds = append(s.cur.refunds, refund{
		id: "ref-" + randomText(s.Rand, 10, digits), amount: part, at: s.now, word: "REQUESTED",
	})
	s.did(event("TRANSACTION_ASK_REFUNDING"))
	s.wait(6 * time.Hour)
}

func (s pagpolarScript) giveBack(part int64) {
	s.ask(part)
	r := &s.cur.refunds[len(s.cur.refunds)-1]
	r.word, r.done = "DONE", true
	typ := "TRANSACTION_PARTIALLY_REFUNDED"
	s.cur.word, s.cur.status = "PARTIALLY_REFUNDED", payment.StatusPartiallyRefunded
	if s.cur.refunded() == s.cur.captured {
		typ = "TRANSACTION_REFUNDED"
		s.cur.word, s.cur.status = "REFUNDED", payment.StatusRefunded
	}
	s.did(s.aboutRefund(typ, ""))
}

func (s pagpolarScript) dispute() {
	s.cur.dispute = &dispute{amount: s.cur.captured, withdrawn: true, formal: true, at: s.now}
	s.move("CHARGEBACK", payment.StatusDisputed, "TRANSACTION_CHARGEBACK")
}
