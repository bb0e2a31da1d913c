package gatewaysim

import (
	"time"

	"github.com/umavez/umavez/pkg/payment"
)

type swScript struct{ *script }

// write writes a history in the words of the profile; the mapped shape has
// words of its own for the same things.
func (standardWebhooks) write(sc *script) {
	s := swScript{sc}
	p := s.p
	p.id = "pay_" + randomText(s.Rand, 20, base62)
	if p.acct.name == swMapped {
		p.id = "CH/" + randomText(s.Rand, 10, digits) + "." + randomText(s.Rand, 4, hexes)
	}
	if s.IntN(20) == 0 {
		p.currency = []string{"USD", "JPY"}[s.IntN(2)]
	}
	s.cur.status = payment.StatusPending
	s.did(event("payment.created"))
	if s.one(3) {
		s.wait(time.Minute)
		s.did(event("payment.pending"))
	}
	s.wait(6 * time.Hour)
	switch p.kind {
	case KindCreated:
	case KindAuthorized:
		s.attempt("payment.authorized", payment.StatusAuthorized)
	case KindCaptured:
		s.attempt("payment.authorized", payment.StatusAuthorized)
		s.wait(12 * time.Hour)
		part := p.amount
		if s.one(4) {
			part = 1 + s.Int64N(p.amount)
		}
		s.capture(part)
	case KindFailed:
		s.attempt("payment.failed", payment.StatusFailed)
	case KindFailedThenPaid:
		for range 1 + s.IntN(2) {
			s.attempt("payment.failed", payment.StatusFailed)
			s.wait(6 * time.Hour)
		}
		s.capture(p.amount)
	case KindExpired:
		s.attempt("payment.expired", payment.StatusExpired)
	case KindExpiredThenPaid:
		s.attempt("payment.expired", payment.StatusExpired)
		s.wait(12 * time.Hour)
		s.capture(p.amount)
	case KindCanceled:
		s.attempt("payment.canceled", payment.StatusCanceled)
	default:
		s.capture(p.amount)
		s.afterwards()
	}
}

func (s swScript) attempt(typ string, to payment.Status) {
	s.cur.status = to
	s.did(event(typ))
}

// capture tells of the money together with the fee, for most. The same is
// told as an invoice, which is the twin that receivers leave aside.
func (s swScript) capture(amount int64) {
	s.cur.status, s.cur.captured = payment.StatusPaid, amount
	s.cur.fee = min((amount*299+5000)/10000+25, amount)
	s.cur.feeKnown = true
	events := []happening{event("payment.paid")}
	if s.one(4) {
		events = append(events, noise("invoice.paid"))
	}
	s.did(events...).mayLag = true
}

// afterwards is what happens to a captured payment.
func (s swScript) afterwards() {
	s.wait(12 * time.Hour)
	switch s.p.kind {
	case KindPartRefunded:
		n := 1 + s.IntN(3)
		for _, part := range s.parts(s.cur.captured, n+1)[:n] {
			s.giveBack(part)
		}
	case KindRefunded:
		for _, part := range s.parts(s.cur.captured, 1+s.IntN(3)) {
			s.giveBack(part)
		}
	case KindRefundFailed:
		part := s.cur.captured
		if s.one(2) {
			part = s.parts(part, 2)[0]
		}
		s.giveBack(part)
		s.failRefund()
		if s.one(3) {
			s.giveBack(s.parts(s.cur.captured, 2)[0])
		}
	case KindDisputed:
		s.dispute()
	case KindDisputeWon:
		s.dispute()
		s.wait(12 * time.Hour)
		s.cur.status = payment.StatusPaid
		s.cur.dispute.word, s.cur.dispute.withdrawn = "won", false
		s.did(event("payment.chargeback.won")).mayLag = true
	case KindDisputeLost:
		s.dispute()
		s.wait(12 * time.Hour)
		s.cur.status, s.cur.dispute.word = payment.StatusChargedBack, "lost"
		s.did(event("payment.chargeback.lost"))
	}
}

func (s swScript) giveBack(part int64) {
	s.wait(6 * time.Hour)
	s.cur.refunds = append(s.cur.refunds, refund{
		id: "rf_" + randomText(s.Rand, 20, base62), amount: part, at: s.now, word: "succeeded", done: true,
	})
	s.cur.refundShown += part
	typ := "payment.partially_refunded"
	s.cur.status = payment.StatusPartiallyRefunded
	if s.cur.refunded() == s.cur.captured {
		typ, s.cur.status = "payment.refunded", payment.StatusRefunded
	}
	s.did(s.aboutRefund(typ, "")).mayLag = true
}

// failRefund undoes the last refund; the cumulative total goes down again.
func (s swScript) failRefund() {
	s.wait(12 * time.Hour)
	r := &s.cur.refunds[len(s.cur.refunds)-1]
	r.word, r.done = "failed", false
	s.cur.refundShown -= r.amount
	s.cur.status = payment.StatusPaid
	s.did(s.aboutRefund("payment.refund_failed", ""))
}

func (s swScript) dispute() {
	s.cur.status = payment.StatusDisputed
	s.cur.dispute = &dispute{
		id: "dp_" + randomText(s.Rand, 20, base62), word: "open", amount: s.cur.captured, withdrawn: true, formal: true, at: s.now,
	}
	s.did(event("payment.chargeback.opened")).mayLag = true
}
