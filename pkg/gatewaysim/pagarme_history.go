package gatewaysim

import (
	"time"

	"github.com/umavez/umavez/pkg/payment"
)

// pagarmeScript writes histories of charges, and of transactions where the
// account plays the older API; the words differ, what happens does not.
type pagarmeScript struct {
	*script
	legacy bool
}

func (pagarme) write(sc *script) {
	s := pagarmeScript{sc, sc.p.legacy()}
	p := s.p
	p.id, p.method = "ch_"+randomText(s.Rand, 16, base62), []string{"pix", "boleto", "credit_card"}[s.IntN(3)]
	if s.legacy {
		p.id = "9" + randomText(s.Rand, 8, digits)
	}
	switch p.kind {
	case KindAuthorized, KindCaptured, KindFailed, KindFailedThenPaid, KindCanceled, KindDisputeLost:
		p.method = "credit_card"
	case KindExpired:
		p.method = "pix"
	case KindExpiredThenPaid:
		p.method = "boleto"
	}
	s.cur.fee = []int64{0, 119, p.amount * 99 / 10000, p.amount*389/10000 + 50}[s.IntN(4)]
	s.begin()
	s.wait(6 * time.Hour)
	switch p.kind {
	case KindCreated:
	case KindAuthorized:
		s.authorize()
	case KindCanceled:
		s.authorize()
		s.wait(6 * time.Hour)
		s.void()
	case KindFailed:
		s.fail()
	case KindFailedThenPaid:
		s.fail()
		s.wait(6 * time.Hour)
		s.pay()
	case KindExpired:
		s.expire()
	case KindExpiredThenPaid:
		s.expire()
		s.wait(12 * time.Hour)
		s.pay()
	case KindCaptured:
		s.authorize()
		s.wait(6 * time.Hour)
		s.pay()
	default:
		s.pay()
		s.afterwards()
	}
}

// told adds a step. Of the older API it is one postback with both words.
func (s pagarmeScript) told(word string, status payment.Status, events ...happening) *step {
	was := s.cur.word
	s.cur.word, s.cur.status = word, status
	if s.legacy {
		events = []happening{{typ: "transaction_status_changed", refund: -1, was: was}}
	}
	return s.did(events...)
}

func (s pagarmeScript) begin() {
	if s.legacy {
		s.cur.word = "processing"
		s.told("waiting_payment", payment.StatusPending)
		return
	}
	events := []happening{event("charge.pending"), noise("order.created")}
	if s.one(2) {
		events = append(events, event("charge.created"))
	}
	s.told("pending", payment.StatusPending, events...)
}

func (s pagarmeScript) authorize() {
	s.cur.chargeWord = "authorized_pending_capture"
	word := "pending"
	if s.legacy {
		word = "authorized"
	}
	s.told(word, payment.StatusAuthorized, event("charge.pending"), noise("charge.antifraud_approved"))
}

// pay captures: the amount, or, for a boleto, at times more or less than it.
func (s pagarmeScript) pay() {
	p := s.p
	s.cur.captured, s.cur.feeKnown, s.cur.failed, s.cur.chargeWord = p.amount, true, false, "captured"
	s.cur.receivedAt, s.cur.canceledAt = s.now, time.Time{}
	word, typ := "paid", "charge.paid"
	if s.legacy {
		s.cur.fee = 0 // no postback tells it
	} else if p.method == "boleto" {
		switch s.IntN(3) {
		case 0:
			s.cur.captured, word, typ = p.amount*102/100+1, "overpaid", "charge.overpaid"
		case 1:
			s.cur.captured, word, typ = p.amount-1-p.amount/10, "underpaid", "charge.underpaid"
		}
	}
	s.cur.fee = min(s.cur.fee, s.cur.captured)
	events := []happening{event(typ), event("order.paid"), noise("order.closed")}
	if p.kind == KindPaidRepeatedly { // two webhooks are configured
		events = append(events, event(typ), event("order.paid"))
	}
	s.told(word, payment.StatusPaid, events...).mayLag = true
}

func (s pagarmeScript) fail() {
	s.cur.chargeWord, s.cur.failed = "not_authorized", true
	word := "failed"
	if s.legacy {
		word = "refused"
	}
	typ := []string{"charge.payment_failed", "charge.antifraud_reproved"}[s.IntN(2)]
	s.told(word, payment.StatusFailed, event(typ), event("order.payment_failed"))
}

// expire: no event tells of it but that of the order, which does not say
// whether there was money.
func (s pagarmeScript) expire() {
	if s.legacy {
		s.told("refused", payment.StatusFailed)
		return
	}
	s.cur.canceledAt = s.now
	s.told("canceled", payment.StatusCanceled, event("order.canceled"))
}

func (s pagarmeScript) void() {
	s.cur.chargeWord, s.cur.canceledAt = "voided", s.now
	word := "canceled"
	if s.legacy {
		word = "refunded" // with nothing paid
	}
	s.told(word, payment.StatusCanceled, event("charge.refunded"), event("order.canceled"))
}

func (s pagarmeScript) afterwards() {
	s.wait(12 * time.Hour)
	switch s.p.kind {
	case KindPartRefunded:
		n := 1 + s.IntN(3)
		for _, part := range s.parts(s.cur.captured, n+1)[:n] {
			s.giveBack(part)
		}
	case KindRefunded:
		for _, part := range s.parts(s.cur.captured, 1+s.IntN(2)) {
			s.giveBack(part)
		}
	case KindDisputeLost:
		if s.one(2) {
			s.giveBack(s.parts(s.cur.captured, 2)[0])
			s.wait(12 * time.Hour)
		}
		s.chargeBack()
	}
}

func (s pagarmeScript) giveBack(part int64) {
	s.wait(6 * time.Hour)
	s.cur.refunds = append(s.cur.refunds, refund{amount: part, at: s.now, done: true})
	if s.cur.refunded() < s.cur.captured {
		s.cur.chargeWord = "partial_refunded"
		s.told(s.cur.word, payment.StatusPartiallyRefunded, event("charge.partial_canceled"), noise("order.updated")).mayLag = true
		return
	}
	s.cur.chargeWord, s.cur.canceledAt = "refunded", s.now
	word := "canceled"
	if s.legacy {
		word = "refunded"
	}
	s.told(word, payment.StatusRefunded, event("charge.refunded"), event("order.canceled")).mayLag = true
}

// chargeBack is for good; the old name of the event and the new one are sent
// by some accounts both.
func (s pagarmeScript) chargeBack() {
	s.cur.dispute = &dispute{amount: s.cur.captured - s.cur.refunded(), withdrawn: true, formal: true, at: s.now}
	s.cur.chargeWord = "chargedback"
	events := []happening{event("charge.chargedback"), event("chargeback.received")}
	if s.one(2) {
		events = events[s.IntN(2):][:1]
	}
	s.told("chargedback", payment.StatusChargedBack, events...).mayLag = true
}
