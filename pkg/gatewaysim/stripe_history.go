package gatewaysim

import (
	"strconv"
	"time"

	"github.com/umavez/umavez/pkg/payment"
)

type stripeScript struct{ *script }

// write writes a history in the words of PaymentIntents. A canceled one is
// never paid: Stripe has no way back from there.
func (stripe) write(sc *script) {
	s := stripeScript{sc}
	p := s.p
	p.id = "pi_3S" + randomText(s.Rand, 22, base62)
	p.method = []string{"card", "card", "pix", "boleto"}[s.IntN(4)]
	if s.IntN(20) == 0 {
		p.currency, p.method = []string{"USD", "JPY"}[s.IntN(2)], "card"
	}
	s.cur.word, s.cur.status = "requires_payment_method", payment.StatusPending
	s.did(event("payment_intent.created"))
	if p.method != "card" && p.kind != KindCaptured && p.kind != KindAuthorized {
		s.wait(time.Minute)
		s.cur.word = "requires_action"
		s.did(event("payment_intent.requires_action"))
	}
	s.wait(6 * time.Hour)
	switch p.kind {
	case KindCreated:
	case KindAuthorized:
		s.authorize()
	case KindCaptured:
		s.authorize()
		s.wait(12 * time.Hour)
		part := p.amount
		if s.one(4) {
			part = 1 + s.Int64N(p.amount)
		}
		s.capture(part, "charge.captured")
	case KindFailed:
		s.fail()
	case KindFailedThenPaid:
		for range 1 + s.IntN(2) {
			s.fail()
			s.wait(6 * time.Hour)
		}
		s.pay()
	case KindCanceled:
		if s.one(2) {
			s.authorize()
			s.wait(6 * time.Hour)
		}
		s.cancel([]string{"requested_by_customer", "duplicate", "abandoned", "fraudulent"}[s.IntN(4)], payment.StatusCanceled)
	case KindExpired:
		s.authorize()
		s.wait(12 * time.Hour)
		s.cancel("expired", payment.StatusExpired)
	default:
		s.pay()
		s.afterwards()
	}
}

// afterwards is what happens to a captured payment.
func (s stripeScript) afterwards() {
	p := s.p
	s.wait(12 * time.Hour)
	switch p.kind {
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
		if rest := s.cur.captured; s.one(3) {
			s.giveBack(s.parts(rest, 2)[0]) // tried again, to another account
		}
	case KindInquiry:
		s.dispute("warning_needs_response", false, event("charge.dispute.created"))
		if s.one(2) {
			s.wait(12 * time.Hour)
			s.cur.dispute.word = "warning_closed"
			s.did(event("charge.dispute.closed"))
		}
	case KindDisputed:
		s.dispute("needs_response", true, event("charge.dispute.created"), event("charge.dispute.funds_withdrawn"))
		if s.one(2) {
			s.review()
		}
	case KindDisputeWon:
		s.dispute("needs_response", true, event("charge.dispute.created"), event("charge.dispute.funds_withdrawn"))
		s.review()
		s.win()
	case KindDisputeLost:
		if s.one(5) { // methods without a defence
			s.dispute("lost", true, event("charge.dispute.created"), event("charge.dispute.funds_withdrawn"))
			s.cur.status = payment.StatusChargedBack
			s.p.steps[len(s.p.steps)-1].status = payment.StatusChargedBack
			return
		}
		s.dispute("needs_response", true, event("charge.dispute.created"), event("charge.dispute.funds_withdrawn"))
		s.review()
		s.cur.dispute.word, s.cur.status = "lost", payment.StatusChargedBack
		s.did(event("charge.dispute.closed"))
	}
}

func (s stripeScript) attemptCharge(word string) {
	s.cur.charge, s.cur.chargeWord = "ch_3S"+randomText(s.Rand, 22, base62), word
	s.cur.chargeAt = s.now
}

func (s stripeScript) authorize() {
	s.attemptCharge("succeeded")
	s.cur.word, s.cur.status, s.cur.failed = "requires_capture", payment.StatusAuthorized, false
	s.did(event("payment_intent.amount_capturable_updated"), event("charge.succeeded"))
}

func (s stripeScript) pay() {
	s.attemptCharge("succeeded")
	s.capture(s.p.amount, "charge.succeeded")
}

// capture books gross now and, for most, the fee later, as the
// balance transaction is made asynchronously.
func (s stripeScript) capture(amount int64, chargeEvent string) {
	s.cur.word, s.cur.status, s.cur.failed = "succeeded", payment.StatusPaid, false
	s.cur.captured = amount
	s.cur.feeTxn = "txn_3S" + randomText(s.Rand, 22, base62)
	s.cur.fee = (amount*399+5000)/10000 + 39
	s.cur.fee = min(s.cur.fee, amount)
	s.cur.feeKnown = s.one(5)
	s.did(event("payment_intent.succeeded"), event(chargeEvent)).mayLag = true
	if !s.cur.feeKnown {
		s.wait(5 * time.Minute)
		s.cur.feeKnown = true
		s.did(event("charge.updated"))
	}
}

func (s stripeScript) fail() {
	s.attemptCharge("failed")
	s.cur.word, s.cur.status, s.cur.failed = "requires_payment_method", payment.StatusFailed, true
	s.did(event("payment_intent.payment_failed"), event("charge.failed"))
}

func (s stripeScript) cancel(reason string, to payment.Status) {
	s.cur.word, s.cur.status = "canceled", to
	s.cur.cancelReason, s.cur.canceledAt = reason, s.now
	events := []happening{event("payment_intent.canceled")}
	if reason == "expired" {
		events = append(events, event("charge.expired"))
	}
	s.did(events...)
}

// giveBack refunds a part: at once, or pending first.
func (s stripeScript) giveBack(part int64) {
	s.wait(6 * time.Hour)
	s.cur.refunds = append(s.cur.refunds, refund{
		id: "re_3S" + randomText(s.Rand, 22, base62), txn: "txn_3S" + randomText(s.Rand, 22, base62),
		amount: part, at: s.now, word: "pending",
	})
	r := &s.cur.refunds[len(s.cur.refunds)-1]
	made, was := "refund.created", ""
	if s.one(3) {
		s.did(s.aboutRefund("refund.created", ""))
		s.wait(6 * time.Hour)
		made, was = "refund.updated", "pending"
	}
	shown := s.cur.refundShown
	r.word, r.done = "succeeded", true
	s.cur.refundShown += part
	s.cur.status = payment.StatusPartiallyRefunded
	if s.cur.refunded() == s.cur.captured {
		s.cur.status = payment.StatusRefunded
	}
	total := event("charge.refunded")
	total.was = strconv.FormatInt(shown, 10)
	events := []happening{s.aboutRefund(made, was), total}
	if was != "" && s.one(2) {
		events = append(events, s.aboutRefund("charge.refund.updated", was))
	}
	s.did(events...).mayLag = true
}

// failRefund undoes the last refund: the payer's bank refused it days later.
// Whether the charge's cumulative total goes down again is not established,
// so both are played; the refund objects are right either way.
func (s stripeScript) failRefund() {
	s.wait(12 * time.Hour)
	r := &s.cur.refunds[len(s.cur.refunds)-1]
	r.word, r.done = "failed", false
	if s.p.kind == KindRefundFailed && (s.one(2) || r.amount < s.cur.captured) {
		s.cur.refundShown -= r.amount
	}
	s.cur.status = payment.StatusPaid
	s.did(s.aboutRefund("refund.updated", "succeeded"), s.aboutRefund("refund.failed", ""))
}

func (s stripeScript) dispute(word string, formal bool, events ...happening) {
	s.cur.dispute = &dispute{
		id: "du_1S" + randomText(s.Rand, 22, base62), word: word, reason: "fraudulent",
		amount: s.cur.captured, formal: formal, withdrawn: formal, at: s.now,
	}
	if formal {
		d := s.cur.dispute
		d.out = "txn_1S" + randomText(s.Rand, 22, base62)
		if s.one(2) {
			d.fee = 5500
		}
		s.cur.status = payment.StatusDisputed
	}
	s.did(events...).mayLag = formal
	s.wait(12 * time.Hour)
}

func (s stripeScript) review() {
	s.cur.dispute.word = "under_review"
	s.did(event("charge.dispute.updated"))
	s.wait(12 * time.Hour)
}

func (s stripeScript) win() {
	d := s.cur.dispute
	d.word, d.withdrawn = "won", false
	d.back, d.backAt = "txn_1S"+randomText(s.Rand, 22, base62), s.now
	s.cur.status = payment.StatusPaid
	events := []happening{event("charge.dispute.funds_reinstated"), event("charge.dispute.closed")}
	s.did(events...).mayLag = true
}
