package gatewaysim

import (
	"strconv"
	"time"

	"github.com/umavez/umavez/pkg/payment"
)

type mercadopagoScript struct{ *script }

func (mercadopago) write(sc *script) {
	s := mercadopagoScript{sc}
	p := s.p
	p.method = []string{"pix", "bolbradesco", "master"}[s.IntN(3)]
	p.id = strconv.FormatInt(10_000_000_000+s.Int64N(89_999_999_999), 10)
	if s.one(4) { // numbers beyond what a float holds exactly
		p.id = strconv.FormatInt(9_007_199_254_740_993+s.Int64N(1<<52), 10)
	}
	if p.isOrder() {
		p.id = "ORD01" + randomText(s.Rand, 24, base36)
	}
	if !p.isOrder() {
		s.cur.fee = (p.amount*499 + 5000) / 10000
	}
	switch p.kind {
	case KindPaid, KindPaidRepeatedly:
		if s.one(3) { // a card that is accepted at once: no other notification follows
			s.pay("created")
			s.repeat()
			return
		}
	case KindAuthorized, KindCaptured:
		s.become("authorized/pending_capture", "action_required/waiting_capture", payment.StatusAuthorized, "created")
		if p.kind == KindCaptured {
			s.wait(6 * time.Hour)
			s.capture()
		}
		return
	}
	waiting := []string{"pending/pending_waiting_transfer", "pending/pending_waiting_payment", "in_process/pending_review_manual"}[s.IntN(3)]
	s.become(waiting, []string{"action_required/waiting_transfer", "created/created", "processing/in_process"}[s.IntN(3)], payment.StatusPending, "created")
	s.wait(6 * time.Hour)
	s.further()
}

func (s mercadopagoScript) further() {
	switch s.p.kind {
	case KindCreated:
	case KindFailed:
		s.fail()
	case KindFailedThenPaid:
		s.fail()
		s.wait(6 * time.Hour)
		s.pay("updated")
	case KindExpired:
		s.expire()
	case KindExpiredThenPaid:
		s.expire()
		s.wait(6 * time.Hour)
		s.pay("updated")
	case KindCanceled:
		s.become([]string{"cancelled/by_collector", "cancelled/by_payer"}[s.IntN(2)], []string{"canceled/canceled", "cancelled/cancelled"}[s.IntN(2)], payment.StatusCanceled, "updated")
	default:
		s.pay("updated")
		s.repeat()
		s.afterwards()
	}
}

func (s mercadopagoScript) afterwards() {
	s.wait(12 * time.Hour)
	switch s.p.kind {
	case KindPaid:
		if s.one(8) { // asked for, and denied
			s.ask(s.parts(s.cur.captured, 2)[0])
			s.cur.refunds[len(s.cur.refunds)-1].word = "rejected"
			s.tell("updated")
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
	case KindInquiry:
		s.mediate()
	case KindDisputed:
		s.chargeBack()
	case KindDisputeLost:
		s.chargeBack()
		s.rule("settled", payment.StatusChargedBack)
	case KindDisputeWon:
		s.chargeBack()
		s.cur.dispute.withdrawn = false
		s.rule("reimbursed", payment.StatusPaid)
	}
}

// become moves to a status of the Payments API, or to that of the Orders API.
func (s mercadopagoScript) become(word, order string, to payment.Status, action string) *step {
	if s.p.isOrder() {
		word = order
	}
	s.cur.word, s.cur.status = word, to
	return s.tell(action)
}

// tell adds a step with its notification, and now and then others beside it
// that tell of the same money, or of none.
func (s mercadopagoScript) tell(action string) *step {
	events := []happening{event("payment." + action)}
	twin := "order.processed"
	if s.p.isOrder() {
		events[0] = event("order." + s.orderAction())
		twin = "payment." + action
	}
	if s.one(8) {
		events = append(events, noise([]string{twin, "merchant_order", "subscription_authorized_payment", "claim"}[s.IntN(4)]))
	}
	if s.one(25) {
		events = append(events, noise("stop_delivery_op_wh"))
	}
	return s.did(events...)
}

// orderAction is the word of an order's notification.
func (s mercadopagoScript) orderAction() string {
	status, detail := mercadopagoWord(&s.cur)
	if detail == "partially_refunded" {
		return "refunded"
	}
	if status == "cancelled" {
		return "canceled"
	}
	return status
}

func (s mercadopagoScript) pay(action string) {
	s.cur.captured, s.cur.feeKnown = s.p.amount, s.cur.fee > 0
	s.become("approved/accredited", "processed/accredited", payment.StatusPaid, action).mayLag = s.p.isOrder()
}

// repeat tells of the same state again, days later.
func (s mercadopagoScript) repeat() {
	if s.p.kind != KindPaidRepeatedly {
		return
	}
	for range 1 + s.IntN(3) {
		s.wait(2 * time.Hour)
		s.tell("updated")
	}
}

// capture takes all or a part of what was authorized.
func (s mercadopagoScript) capture() {
	s.cur.captured, s.cur.feeKnown = s.p.amount, s.cur.fee > 0
	if s.one(2) {
		s.cur.captured = s.parts(s.p.amount, 2)[0]
		s.cur.fee = min(s.cur.fee, s.cur.captured/10)
		s.cur.feeKnown = s.cur.fee > 0
	}
	s.become("approved/accredited", "processed/accredited", payment.StatusPaid, "updated").mayLag = s.p.isOrder()
}

func (s mercadopagoScript) fail() {
	s.become("rejected/cc_rejected_high_risk", "failed/failed", payment.StatusFailed, "updated")
}

func (s mercadopagoScript) expire() {
	s.become("cancelled/expired", "expired/expired", payment.StatusExpired, "updated")
}

func (s mercadopagoScript) refundID() string {
	if s.p.isOrder() {
		return "REF01" + randomText(s.Rand, 24, base36)
	}
	return randomText(s.Rand, 1, "123456789") + randomText(s.Rand, 9, digits)
}

func (s mercadopagoScript) ask(part int64) {
	s.wait(6 * time.Hour)
	s.cur.refunds = append(s.cur.refunds, refund{id: s.refundID(), amount: part, at: s.now, word: "in_process"})
	s.tell("updated")
	s.wait(6 * time.Hour)
}

func (s mercadopagoScript) giveBack(part int64) {
	if s.one(3) { // Pix refunds may take their time
		s.ask(part)
	} else {
		s.wait(6 * time.Hour)
		s.cur.refunds = append(s.cur.refunds, refund{id: s.refundID(), amount: part, at: s.now})
	}
	r := &s.cur.refunds[len(s.cur.refunds)-1]
	r.word, r.done = "approved", true
	if s.p.isOrder() {
		r.word = "processed"
	}
	if s.cur.refunded() < s.cur.captured {
		s.become("approved/partially_refunded", "processed/partially_refunded", payment.StatusPartiallyRefunded, "updated")
		return
	}
	s.become("refunded/refunded", []string{"refunded/refunded", "processed/refunded"}[s.IntN(2)], payment.StatusRefunded, "updated")
}

// mediate opens a claim, which moves no money, and may end it in one of the
// ways that are possible. The Orders API does not tell of it.
func (s mercadopagoScript) mediate() {
	if s.p.isOrder() {
		return
	}
	if s.one(3) {
		s.giveBack(s.parts(s.cur.captured, 2)[0])
		s.wait(6 * time.Hour)
	}
	before, status := s.cur.word, s.cur.status
	s.become("in_mediation/pending", "", payment.StatusDisputed, "updated")
	s.wait(12 * time.Hour)
	switch s.IntN(4) { // the fourth way is to stay open
	case 0:
		s.become(before, "", status, "updated")
	case 1:
		s.giveBack(s.cur.captured - s.cur.refunded())
	case 2:
		s.chargeBack()
		s.rule("settled", payment.StatusChargedBack)
	}
}

// chargeBack withdraws what is left, or at the Orders API a part of it.
func (s mercadopagoScript) chargeBack() {
	amount := s.cur.captured - s.cur.refunded()
	if s.p.isOrder() && s.one(3) {
		amount = s.parts(amount, 2)[0]
	}
	s.cur.dispute = &dispute{
		id: "31" + randomText(s.Rand, 16, digits), word: "in_process", reason: "general", amount: amount, withdrawn: true, formal: true, at: s.now,
	}
	s.cur.word, s.cur.status = "charged_back/in_process", payment.StatusDisputed
	s.aboutCase()
}

// rule ends a case.
func (s mercadopagoScript) rule(word string, to payment.Status) {
	s.wait(12 * time.Hour)
	s.cur.dispute.word, s.cur.word, s.cur.status = word, "charged_back/"+word, to
	s.aboutCase()
}

// aboutCase tells of a case: as a change of the payment, as a case, or both.
func (s mercadopagoScript) aboutCase() {
	switch {
	case s.p.isOrder():
		s.did(event("order.charged_back"), noise("topic_chargebacks_wh"))
	case s.one(3):
		s.did(event("topic_chargebacks_wh"))
	case s.one(2):
		s.did(event("payment.updated"))
	default:
		s.did(event("payment.updated"), event("topic_chargebacks_wh"))
	}
}
