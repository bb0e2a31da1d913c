package gatewaysim

import (
	"time"

	"github.com/umavez/umavez/pkg/payment"
)

type pagbankScript struct{ *script }

func (pagbank) write(sc *script) {
	s := pagbankScript{sc}
	p := s.p
	p.id = "CHAR_" + pagbankUUID(s.Rand)
	p.method = []string{"PIX", "BOLETO", "CREDIT_CARD"}[s.IntN(3)]
	switch p.kind {
	case KindAuthorized, KindCaptured, KindFailed, KindFailedThenPaid, KindDisputed, KindDisputeWon, KindDisputeLost:
		p.method = "CREDIT_CARD"
	case KindCreated, KindCanceled:
		p.method = "BOLETO"
	}
	s.cur.status = payment.StatusPending
	if s.one(2) { // the order before an attempt to pay
		s.did(noise("order.created")).events[0].id = ""
		s.wait(time.Hour)
	}
	switch p.method {
	case "BOLETO":
		s.attempt("WAITING", payment.StatusPending)
	case "CREDIT_CARD":
		if s.one(3) {
			s.attempt("IN_ANALYSIS", payment.StatusPending)
		}
	}
	switch p.kind {
	case KindCreated:
		if s.one(2) {
			s.wait(24 * time.Hour)
			s.did(noise("checkout.EXPIRED")).events[0].id = ""
		}
	case KindAuthorized:
		s.attempt("AUTHORIZED", payment.StatusAuthorized)
	case KindCaptured:
		s.attempt("AUTHORIZED", payment.StatusAuthorized)
		part := p.amount
		if s.one(2) {
			part = s.parts(p.amount, 2)[0]
		}
		s.pay(part)
	case KindFailed:
		s.attempt("DECLINED", payment.StatusFailed)
	case KindFailedThenPaid:
		s.attempt("DECLINED", payment.StatusFailed)
		s.pay(p.amount)
	case KindCanceled:
		s.attempt("CANCELED", payment.StatusCanceled, s.code("7"))
	default:
		s.pay(p.amount)
		s.wait(12 * time.Hour)
		s.afterwards()
	}
}

func (s pagbankScript) afterwards() {
	p := s.p
	switch p.kind {
	case KindSettled:
		s.release()
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
		s.cur.dispute.word, s.cur.status = "8", payment.StatusChargedBack
		s.tell("8")
	case KindDisputeWon:
		s.dispute()
		s.cur.dispute.withdrawn, s.cur.status = false, payment.StatusPaid
		s.release()
	}
}

// tell is a step of which nothing but a code tells, which is sent three times.
func (s pagbankScript) tell(number string) {
	s.coded(s.did(s.code(number), s.code(number), s.code(number)))
}

// code tells nothing by itself, and nobody can know a payment by it.
func (pagbankScript) code(number string) happening { return noise("transaction." + number) }

// coded gives the codes of a step one id, and takes away the ids that format A
// does not have.
func (pagbankScript) coded(st *step) *step {
	code := ""
	for i := range st.events {
		switch h := &st.events[i]; {
		case !pagbank{}.isCode(h):
			h.id = ""
		case code == "":
			code = h.id
		default:
			h.id = code
		}
	}
	return st
}

// state is a step that the charge shows: told by the order's body, by the
// charge's, or by both.
func (s pagbankScript) state(more ...happening) *step {
	word := s.cur.word
	told := [][]happening{{event("order." + word)}, {event("charge." + word)}, {event("order." + word), event("charge." + word)}}[s.IntN(3)]
	return s.coded(s.did(append(told, more...)...))
}

func (s pagbankScript) attempt(word string, to payment.Status, more ...happening) {
	s.wait(6 * time.Hour)
	s.cur.word, s.cur.status = word, to
	s.state(more...)
}

func (s pagbankScript) pay(captured int64) {
	s.wait(6 * time.Hour)
	s.cur.word, s.cur.status, s.cur.captured, s.cur.confirmedAt = "PAID", payment.StatusPaid, captured, s.now
	s.state().mayLag = true
}

// release makes the money available. The old API alone says so, and what was
// kept of it.
func (s pagbankScript) release() {
	s.wait(12 * time.Hour)
	s.cur.receivedAt, s.cur.feeKnown = s.now, true
	s.cur.fee = (s.cur.captured*399+5000)/10000 + 1
	s.tell("4")
}

// giveBack refunds a part; the last one cancels the charge.
func (s pagbankScript) giveBack(part int64) {
	s.wait(6 * time.Hour)
	s.cur.refunds = append(s.cur.refunds, refund{amount: part, at: s.now, done: true})
	s.cur.status = payment.StatusPartiallyRefunded
	if s.cur.refunded() < s.cur.captured {
		s.state().mayLag = true
		return
	}
	s.cur.word, s.cur.status = "CANCELED", payment.StatusRefunded
	s.state(s.code("6")).mayLag = true
}

// dispute opens one: 5 by the payer, 9 by the card's bank or a court.
func (s pagbankScript) dispute() {
	s.cur.status = payment.StatusDisputed
	s.cur.dispute = &dispute{word: []string{"5", "9"}[s.IntN(2)], amount: s.cur.captured, withdrawn: true, formal: true, at: s.now}
	s.tell(s.cur.dispute.word)
	s.wait(12 * time.Hour)
	if s.cur.dispute.word == "5" && s.one(2) {
		s.cur.dispute.word = "9"
		s.tell("9")
		s.wait(12 * time.Hour)
	}
}
