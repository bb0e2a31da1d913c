package payment_test

import (
	"testing"

	"github.com/umavez/umavez/pkg/payment"
)

const failedRefund = payment.RefundFailed

func TestRefundsAreBookedByIDWhateverTheTotalsSay(t *testing.T) {
	t.Parallel()
	permute([]payment.Claim{
		claim(1, "paid", status(paid)),
		claim(2, "refund.created", refund("re_1", 3000, succeeded)),
		claim(2, "charge.refunded", total(3000, true)),
		claim(4, "refund.created", refund("re_2", 7000, succeeded)),
		claim(4, "charge.refunded", total(10000, true)),
	}, func(order []payment.Claim) {
		s := tell(t, order...)
		s.wantBooks(t, captured, "refund refund:re_1 3000", "refund refund:re_2 7000")
		if s.p.Status != refunded || len(s.parked) != 0 {
			t.Fatalf("%s, parked %v", s.p.Status, s.needs)
		}
	})
}

func TestARefundThatFailsAfterItSucceededIsBookedThereAndBackInBothOrders(t *testing.T) {
	t.Parallel()
	both := []string{captured, "refund refund:re 4000", "refund_reversal refund:re 4000"}
	p, ok, no := claim(1, "paid", status(paid)), claim(2, "refund.created", refund("re", 4000, succeeded)), claim(3, "refund.failed", refund("re", 4000, failedRefund))
	waiting := claim(2, "refund.created", refund("re", 4000, payment.RefundPending))
	permute([]payment.Claim{p, waiting, ok, no, no, ok}, func(order []payment.Claim) {
		s := tell(t, order...)
		s.wantBooks(t, both...)
		if s.p.Status != paid {
			t.Fatalf("ends %s", s.p.Status)
		}
	})
	s := tell(t, p, waiting, no, waiting)
	s.wantBooks(t, captured) // never succeeded: nothing was ever taken
	s = tell(t, p, ok, no)
	s.wantPath(t, "paid partially_refunded paid")
	s = tell(t, p, no, ok)
	s.wantPath(t, "paid paid") // true no more when we hear of it
}

func TestARefundThatFailsBesideAnotherOneLeavesTheOther(t *testing.T) {
	t.Parallel()
	s := tell(t, claim(1, "paid", status(paid)), claim(2, "r", refund("a", 4000, succeeded)), claim(3, "r", refund("b", 6000, succeeded)),
		claim(4, "r", refund("b", 6000, failedRefund)), claim(5, "r", refund("c", 6000, succeeded)), claim(6, "r", refund("a", 4000, failedRefund)))
	s.wantPath(t, "paid partially_refunded refunded partially_refunded refunded partially_refunded")
	s = tell(t, claim(1, "paid", status(paid)), claim(2, "r", refund("a", 10000, succeeded)), claim(3, "r", refund("a", 10000, failedRefund)))
	s.wantPath(t, "paid refunded paid")
	s.tell(t, claim(4, "r", refund("a", 9999, succeeded)))
	s.wantNeed(t, payment.NeedAmountMatch)
}

func TestAFailedRefundMakesRoomForTheNextInsideOneClaim(t *testing.T) {
	t.Parallel()
	s := tell(t, claim(1, "paid", status(paid)), claim(2, "r", refund("a", 10000, succeeded)),
		claim(5, "lookup", refund("b", 10000, succeeded), refund("a", 10000, failedRefund)))
	s.wantPath(t, "paid refunded paid refunded")
}

// Cumulative totals without ids are not confluent in what they book: a total
// that was overtaken by a larger one is never booked on its own. The sum is.
func TestTotalsWithoutIDsAgreeInSumButNotInBookings(t *testing.T) {
	t.Parallel()
	p, a, b := claim(1, "paid", status(paid)), claim(2, "r", total(3000, false)), claim(3, "r", total(5000, false))
	s := tell(t, p, a, b, a, b)
	s.wantBooks(t, captured, "refund refund:total:pay_1:3000 3000", "refund refund:total:pay_1:5000 2000")
	s = tell(t, b, a, p, b)
	s.wantBooks(t, captured, "refund refund:total:pay_1:5000 5000")
	permute([]payment.Claim{p, a, b, a, claim(4, "r", status(refunded))}, func(order []payment.Claim) {
		if s := tell(t, order...); s.p.Refunded != 10000 || s.p.Status != refunded {
			t.Fatalf("refunded %d, %s", s.p.Refunded, s.p.Status)
		}
	})
}

func TestARefundThatComesByIDAfterItsTotalIsNotBookedAgain(t *testing.T) {
	t.Parallel()
	permute([]payment.Claim{
		claim(1, "paid", status(paid)), claim(2, "total", total(3000, false)), claim(2, "refund", refund("a", 3000, succeeded)),
		claim(4, "total", total(6000, false)), claim(4, "refund", refund("b", 3000, succeeded)),
	}, func(order []payment.Claim) {
		if s := tell(t, order...); s.p.Refunded != 6000 || len(s.parked) != 0 {
			t.Fatalf("refunded %d, parked %v", s.p.Refunded, s.needs)
		}
	})
	s := tell(t, claim(1, "paid", status(paid)), claim(2, "total", total(6000, false)), claim(2, "refund", refund("a", 3000, succeeded)),
		claim(2, "refund", refund("b", 3000, succeeded)), claim(3, "refund", refund("c", 3000, succeeded)))
	if s.p.Refunded != 9000 {
		t.Errorf("refunded %d", s.p.Refunded)
	}
	s = tell(t, claim(1, "paid", status(paid)), claim(2, "total", total(3000, false)), claim(3, "refund", refund("a", 3000, succeeded)),
		claim(4, "refund", refund("a", 3000, failedRefund)))
	if s.p.Refunded != 0 || s.p.Status != paid {
		t.Errorf("refunded %d, %s", s.p.Refunded, s.p.Status)
	}
}

func TestATotalThatCountsPendingAndFailedRefundsIsSatisfiedByTheirNames(t *testing.T) {
	t.Parallel()
	s := tell(t, claim(1, "paid", status(paid)), claim(2, "lookup", total(3000, true), refund("a", 3000, payment.RefundPending)))
	s.wantNeed(t, "")
	s.tell(t, claim(3, "refund", refund("a", 3000, succeeded)))
	s.tell(t, claim(4, "refund", refund("a", 3000, failedRefund), total(3000, true)))
	s.wantNeed(t, "")
	s.wantBooks(t, captured, "refund refund:a 3000", "refund_reversal refund:a 3000")
}

func TestRefundedAsAStatusTakesWhatTheNamedRefundsLeft(t *testing.T) {
	t.Parallel()
	s := tell(t, claim(1, "lookup", status(refunded), status(paid), refund("a", 4000, succeeded)))
	s.wantPath(t, "paid partially_refunded refunded")
	s.wantBooks(t, captured, "refund refund:a 4000", "refund refund:total:pay_1:10000 6000")
}

func TestRefundedAsAStatusWaitsForTheMoneyThatADisputeHolds(t *testing.T) {
	t.Parallel()
	permute([]payment.Claim{
		claim(1, "paid", status(paid)), claim(2, "dispute", dispute("dp", 10000, opened)),
		claim(3, "dispute", dispute("dp", 10000, won)), claim(4, "refunded", status(refunded)),
	}, func(order []payment.Claim) {
		s := tell(t, order...)
		s.wantBooks(t, captured, "chargeback dispute:dp 10000", "chargeback_reversal dispute:dp 10000", "refund refund:total:pay_1:10000 10000")
		if s.p.Status != refunded || len(s.parked) != 0 {
			t.Fatalf("%s, parked %v", s.p.Status, s.needs)
		}
	})
	s := tell(t, claim(1, "paid", status(paid)), claim(2, "dispute", dispute("dp", 10000, opened)), claim(4, "refunded", status(refunded)))
	s.wantPath(t, "paid disputed charged_back") // what a lost chargeback ends in
	s.wantBooks(t, captured, "chargeback dispute:dp 10000")
	s = tell(t, claim(1, "paid", status(paid)), claim(2, "dispute", dispute("dp", 4000, opened)), claim(4, "refunded", status(refunded)))
	s.wantPath(t, "paid disputed disputed charged_back")
	s.wantBooks(t, captured, "chargeback dispute:dp 4000", "refund refund:total:pay_1:6000 6000")
}

// "Refunded" without amounts beside a dispute is where order must matter: the
// dispute's money is in "all" or not, and nothing says which. What comes
// second then waits for a person; no order books more than was captured.
func TestRefundedAsAStatusBeforeAnOlderDisputeParksTheDispute(t *testing.T) {
	t.Parallel()
	s := tell(t, claim(1, "paid", status(paid)), claim(4, "refunded", status(refunded)), claim(2, "dispute", dispute("dp", 10000, opened)))
	s.wantNeed(t, payment.NeedWithinCaptured)
	s.wantBooks(t, captured, "refund refund:total:pay_1:10000 10000")
}

func TestAnUndoneReceiptIsBookedAndTakenBackByTheNextInEveryOrder(t *testing.T) {
	t.Parallel()
	cash, undone, again := claim(1, "RECEIVED", status(paid)), claim(2, "UNDONE", undo("u1")), claim(3, "RECEIVED", status(paid))
	undone2, third := claim(4, "UNDONE", undo("u2")), claim(5, "RECEIVED", status(paid))
	there, back := "refund refund:u1 10000", "refund_reversal refund:u1 10000"
	there2, back2 := "refund refund:u2 10000", "refund_reversal refund:u2 10000"
	for name, tc := range map[string]struct {
		claims []payment.Claim
		status payment.Status
		books  []string
	}{
		"undone":          {[]payment.Claim{cash, undone, undone}, pending, []string{captured, there}},
		"received again":  {[]payment.Claim{cash, undone, again, undone}, paid, []string{captured, there, back}},
		"undone twice":    {[]payment.Claim{cash, undone, again, undone2}, pending, []string{captured, there, back, there2}},
		"received thrice": {[]payment.Claim{cash, undone, again, undone2, third}, paid, []string{captured, there, back, there2, back2}},
		"overdue after it": {[]payment.Claim{claim(0, "CREATED", status(pending)), cash, undone, claim(3, "OVERDUE", status(expired))},
			expired, []string{captured, there}},
		"overdue before it":     {[]payment.Claim{claim(0, "OVERDUE", status(expired)), cash, undone}, pending, []string{captured, there}},
		"overdue in its second": {[]payment.Claim{cash, undone, claim(2, "OVERDUE", status(expired))}, pending, []string{captured, there}},
		"told twice, the later time crossing the receipt": {[]payment.Claim{cash, undone, claim(3, "UNDONE", undo("u1")), again},
			paid, []string{captured, there, back}},
		"refunded by total after it": {[]payment.Claim{cash, undone, again, claim(9, "REFUNDED", total(3000, false))},
			payment.StatusPartiallyRefunded, []string{captured, there, back, "refund refund:total:pay_1:3000 3000"}},
		"overdue between": {[]payment.Claim{cash, undone, claim(3, "OVERDUE", status(expired)), third},
			paid, []string{captured, there, back}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			permute(tc.claims, func(order []payment.Claim) {
				s := tell(t, order...)
				s.wantBooks(t, tc.books...)
				if s.p.Status != tc.status || len(s.parked) != 0 {
					t.Fatalf("%s, parked %v", s.p.Status, s.needs)
				}
			})
		})
	}
}

func TestAnUndoOfWhatWasRefundedOrIsDisputedMovesNothing(t *testing.T) {
	t.Parallel()
	s := tell(t, claim(1, "paid", status(paid), refund("a", 10000, succeeded)), claim(2, "UNDONE", undo("u")))
	s.wantNeed(t, payment.NeedPaidAgain)
	s = tell(t, claim(1, "paid", status(paid), refund("a", 4000, succeeded)), claim(2, "UNDONE", undo("u")), claim(3, "RECEIVED", status(paid)))
	s.wantPath(t, "paid partially_refunded pending partially_refunded")
	s = tell(t, claim(1, "paid", status(paid), dispute("dp", 4000, opened)), claim(2, "UNDONE", undo("u")))
	s.wantNeed(t, payment.NeedLegalMove)
	s = tell(t, claim(1, "paid", status(paid), undo("u")), claim(2, "dispute", dispute("dp", 4000, opened)))
	s.wantNeed(t, payment.NeedPaidAgain)
	s = tell(t, claim(1, "paid", status(paid)), claim(4, "r", refund("a", 4000, succeeded)), claim(2, "UNDONE", undo("u")))
	s.wantNeed(t, payment.NeedPaidAgain)
	s = tell(t, claim(1, "paid", status(paid)), claim(4, "r", refund("a", 10000, succeeded)), claim(2, "UNDONE", undo("u")))
	s.wantNeed(t, payment.NeedPaidAgain)
	s.tell(t, claim(3, "RECEIVED", status(paid)))
	s.wantBooks(t, captured, "refund refund:a 10000", "refund refund:u 10000", "refund_reversal refund:u 10000")
}

func TestAStatusInTheSecondOfAnUndoAsksForALookup(t *testing.T) {
	t.Parallel()
	s := tell(t, claim(1, "paid", status(paid)), claim(5, "UNDONE", undo("u")), claim(5, "OVERDUE", status(expired)))
	if !s.last.Stale || !s.last.Doubt {
		t.Errorf("stale %t, doubt %t", s.last.Stale, s.last.Doubt)
	}
	s = tell(t, claim(1, "paid", status(paid)), claim(5, "UNDONE", undo("u")), claim(4, "OVERDUE", status(expired)))
	if !s.last.Stale || s.last.Doubt {
		t.Errorf("stale %t, doubt %t", s.last.Stale, s.last.Doubt)
	}
}
