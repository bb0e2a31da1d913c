package gatewaysim

import (
	"time"

	"github.com/umavez/umavez/pkg/payment"
)

type asaasScript struct{ *script }

func (asaas) write(sc *script) {
	s := asaasScript{sc}
	p := s.p
	p.id = "pay_" + randomText(s.Rand, 16, digits)
	p.method = []string{"PIX", "BOLETO", "CREDIT_CARD"}[s.IntN(3)]
	switch p.kind {
	case KindSettled, KindFailedThenPaid, KindDisputed, KindDisputeWon, KindDisputeLost:
		p.method = "CREDIT_CARD"
	case KindExpired, KindExpiredThenPaid:
		p.method = "BOLETO"
	}
	s.cur.word, s.cur.status = "PENDING", payment.StatusPending
	s.cur.fee = min(p.amount, []int64{199, 199, (p.amount*299+5000)/10000 + 49, 0}[s.IntN(4)])
	s.did(event("PAYMENT_CREATED"))
	if p.method == "BOLETO" && s.one(2) {
		s.wait(time.Hour)
		s.did(noise("PAYMENT_BANK_SLIP_VIEWED"))
	}
	s.wait(6 * time.Hour)
	switch p.kind {
	case KindCreated:
	case KindPaid:
		s.receive()
	case KindSettled:
		s.confirm()
		s.wait(12 * time.Hour)
		s.receive()
	case KindFailedThenPaid:
		s.did(event([]string{"PAYMENT_REPROVED_BY_RISK_ANALYSIS", "PAYMENT_CREDIT_CARD_CAPTURE_REFUSED"}[s.IntN(2)]))
		s.wait(6 * time.Hour)
		s.confirm()
	case KindExpired:
		s.overdue()
	case KindExpiredThenPaid:
		s.overdue()
		s.wait(12 * time.Hour)
		if s.one(2) {
			s.cur.interest = p.amount*2/100 + 1
		}
		s.receive()
	case KindCanceled:
		s.remove()
	case KindRestoredThenPaid:
		s.remove()
		s.wait(6 * time.Hour)
		s.cur.deleted, s.cur.status = false, payment.StatusPending
		s.did(event("PAYMENT_RESTORED"))
		s.wait(6 * time.Hour)
		s.receive()
	default:
		if p.method == "CREDIT_CARD" {
			s.confirm()
		} else {
			s.receive()
		}
		s.afterwards()
	}
}

func (s asaasScript) afterwards() {
	p := s.p
	s.wait(12 * time.Hour)
	switch p.kind {
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
		s.cur.word, s.cur.dispute.word, s.cur.status = "REFUNDED", "DISPUTE_LOST", payment.StatusChargedBack
		s.did(event("PAYMENT_REFUNDED"))
	case KindDisputeWon:
		s.dispute()
		s.cur.word, s.cur.dispute.word, s.cur.status = "AWAITING_CHARGEBACK_REVERSAL", "REVERSED", payment.StatusPaid
		s.cur.dispute.withdrawn = false
		s.did(event("PAYMENT_AWAITING_CHARGEBACK_REVERSAL")).mayLag = true
		s.wait(12 * time.Hour)
		if s.one(2) {
			s.cur.word = "CONFIRMED"
			s.did(event("PAYMENT_CONFIRMED"))
			s.wait(6 * time.Hour)
		}
		s.cur.word, s.cur.receivedAt = "RECEIVED", s.now
		s.did(event("PAYMENT_RECEIVED"))
	}
}

func (s asaasScript) captured() {
	s.cur.captured, s.cur.feeKnown, s.cur.status = s.p.amount+s.cur.interest, true, payment.StatusPaid
}

func (s asaasScript) confirm() {
	s.cur.word, s.cur.confirmedAt = "CONFIRMED", s.now
	s.captured()
	s.did(event("PAYMENT_CONFIRMED")).mayLag = true
}

func (s asaasScript) receive() {
	first := s.cur.captured == 0
	s.cur.word, s.cur.receivedAt = "RECEIVED", s.now
	s.captured()
	s.did(event("PAYMENT_RECEIVED")).mayLag = first
}

func (s asaasScript) overdue() {
	s.cur.word, s.cur.status = "OVERDUE", payment.StatusExpired
	s.did(event("PAYMENT_OVERDUE"))
}

func (s asaasScript) remove() {
	s.cur.deleted, s.cur.status = true, payment.StatusCanceled
	s.did(event("PAYMENT_DELETED"))
}

// giveBack refunds a part. The payment's status word shows only whole
// refunds.
func (s asaasScript) giveBack(part int64) {
	s.wait(6 * time.Hour)
	s.cur.refunds = append(s.cur.refunds, refund{amount: part, at: s.now, word: "PENDING"})
	r := &s.cur.refunds[len(s.cur.refunds)-1]
	whole := s.cur.refunded()+part == s.cur.captured
	before := s.cur.word
	if s.one(2) {
		if whole {
			s.cur.word = "REFUND_IN_PROGRESS"
		}
		s.did(noise("PAYMENT_REFUND_IN_PROGRESS"))
		s.wait(6 * time.Hour)
	}
	r.word, r.done = "DONE", true
	s.cur.word, s.cur.status = before, payment.StatusPartiallyRefunded
	typ := "PAYMENT_PARTIALLY_REFUNDED"
	if whole {
		s.cur.word, s.cur.status, typ = "REFUNDED", payment.StatusRefunded, "PAYMENT_REFUNDED"
	}
	s.did(event(typ)).mayLag = true
}

func (s asaasScript) dispute() {
	s.cur.word, s.cur.status = "CHARGEBACK_REQUESTED", payment.StatusDisputed
	s.cur.dispute = &dispute{
		word: "REQUESTED", reason: "ABSENT_CARD_FRAUD", amount: s.cur.captured, withdrawn: true, formal: true, at: s.now,
	}
	s.did(event("PAYMENT_CHARGEBACK_REQUESTED")).mayLag = true
	s.wait(12 * time.Hour)
	if s.one(2) {
		s.cur.word, s.cur.dispute.word = "CHARGEBACK_DISPUTE", "IN_DISPUTE"
		s.did(event("PAYMENT_CHARGEBACK_DISPUTE"))
		s.wait(12 * time.Hour)
	}
}
