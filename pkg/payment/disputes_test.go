package payment_test

import (
	"testing"

	"github.com/umavez/umavez/pkg/payment"
)

const (
	withdrawn = "chargeback dispute:dp 10000"
	returned  = "chargeback_reversal dispute:dp 10000"
)

func TestADisputeEndsTheSameWhateverTheOrderOfItsEvents(t *testing.T) {
	t.Parallel()
	p := claim(1, "paid", status(paid))
	ask := claim(2, "dispute.created", dispute("dp", 10000, inquiry))
	open, withdraw := claim(3, "dispute.created", dispute("dp", 10000, opened)), claim(3, "dispute.funds_withdrawn", dispute("dp", 10000, opened))
	lose, appeal := claim(4, "dispute.closed", dispute("dp", 10000, lost)), claim(5, "dispute.updated", dispute("dp", 10000, opened))
	win, reinstate := claim(6, "dispute.closed", dispute("dp", 10000, won)), claim(6, "dispute.funds_reinstated", dispute("dp", 10000, won))
	for name, tc := range map[string]struct {
		claims []payment.Claim
		status payment.Status
		books  []string
	}{
		"an inquiry moves no money":       {[]payment.Claim{p, ask, ask}, paid, []string{captured}},
		"an inquiry becomes a dispute":    {[]payment.Claim{p, ask, open}, disputed, []string{captured, withdrawn}},
		"two events about one withdrawal": {[]payment.Claim{p, open, withdraw}, disputed, []string{captured, withdrawn}},
		"lost":                            {[]payment.Claim{p, open, lose}, lostStatus, []string{captured, withdrawn}},
		"born lost":                       {[]payment.Claim{p, lose, lose}, lostStatus, []string{captured, withdrawn}},
		"won":                             {[]payment.Claim{p, open, win, reinstate}, paid, []string{captured, withdrawn, returned}},
		"won, of which only the end came": {[]payment.Claim{p, win}, paid, []string{captured, withdrawn, returned}},
		"lost and appealed":               {[]payment.Claim{p, open, lose, appeal}, disputed, []string{captured, withdrawn}},
		"lost, appealed and won":          {[]payment.Claim{p, ask, open, lose, appeal, win}, paid, []string{captured, withdrawn, returned}},
		"lost, appealed and lost again": {[]payment.Claim{p, open, lose, appeal, claim(7, "dispute.closed", dispute("dp", 10000, lost))},
			lostStatus, []string{captured, withdrawn}},
		"lost within the second of its opening": {[]payment.Claim{p, open, claim(3, "dispute.closed", dispute("dp", 10000, lost))},
			lostStatus, []string{captured, withdrawn}},
		"won within the second of its opening": {[]payment.Claim{p, open, claim(3, "dispute.closed", dispute("dp", 10000, won))},
			paid, []string{captured, withdrawn, returned}},
		"refunded after it was won": {[]payment.Claim{p, open, win, claim(7, "refund", refund("re", 10000, succeeded))},
			refunded, []string{captured, withdrawn, returned, "refund refund:re 10000"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			permute(tc.claims, func(order []payment.Claim) {
				s := tell(t, order...)
				s.wantBooks(t, tc.books...)
				if s.p.Status != tc.status || len(s.parked) != 0 {
					t.Fatalf("%s by %v, parked %v", s.p.Status, s.moves, s.needs)
				}
			})
		})
	}
}

func TestAPartialRefundStaysVisibleAfterADisputeWasWon(t *testing.T) {
	t.Parallel()
	s := tell(t, claim(1, "paid", status(paid), refund("re", 4000, succeeded)), claim(2, "d", dispute("dp", 6000, opened)), claim(3, "d", dispute("dp", 6000, won)))
	s.wantPath(t, "paid partially_refunded disputed partially_refunded")
	s = tell(t, claim(1, "paid", status(paid), refund("re", 10000, succeeded)), claim(3, "d", dispute("dp", 10000, won)))
	s.wantPath(t, "paid refunded refunded") // no state shows 200.00 gone of 100.00
}

func TestTwoDisputesOfOnePaymentAreTwoWithdrawals(t *testing.T) {
	t.Parallel()
	permute([]payment.Claim{
		claim(1, "paid", status(paid)), claim(2, "d", dispute("d1", 4000, opened)), claim(3, "d", dispute("d1", 4000, lost)),
		claim(4, "d", dispute("d2", 6000, opened)), claim(5, "d", dispute("d2", 6000, won)),
	}, func(order []payment.Claim) {
		s := tell(t, order...)
		s.wantBooks(t, captured, "chargeback dispute:d1 4000", "chargeback dispute:d2 6000", "chargeback_reversal dispute:d2 6000")
		if s.p.Status != lostStatus {
			t.Fatalf("ends %s", s.p.Status)
		}
	})
}

func TestAWonDisputeThatIsOpenAgainWaitsForAPersonInBothOrders(t *testing.T) {
	t.Parallel()
	p, win, reopen := claim(1, "paid", status(paid)), claim(4, "d", dispute("dp", 10000, won)), claim(5, "d", dispute("dp", 10000, opened))
	s := tell(t, p, win, reopen)
	s.wantNeed(t, payment.NeedDisputeReopened)
	s = tell(t, p, reopen, win)
	s.wantNeed(t, payment.NeedDisputeReopened)
	s = tell(t, p, claim(6, "d", dispute("dp", 10000, lost)), win)
	s.wantNeed(t, payment.NeedDisputeReopened)
}

func TestADisputeNeverTakesMoreThanIsLeft(t *testing.T) {
	t.Parallel()
	s := tell(t, claim(1, "paid", status(paid), refund("re", 5000, succeeded)), claim(2, "d", dispute("dp", 10000, opened)))
	s.wantNeed(t, payment.NeedWithinCaptured)
	s.wantBooks(t, captured, "refund refund:re 5000")
	s = tell(t, claim(1, "paid", status(paid), refund("re", 10000, succeeded)), claim(2, "d", dispute("dp", 0, opened)))
	s.wantNeed(t, payment.NeedDisputeAmount)
	s = tell(t, claim(1, "paid", status(paid)), claim(2, "d", dispute("dp", 5000, opened)), claim(3, "d", dispute("dp", 4000, won)))
	s.wantNeed(t, payment.NeedAmountMatch)
}

func TestADisputeKnownByAStatusOnlyTakesWhatIsLeft(t *testing.T) {
	t.Parallel()
	unnamed, back := "chargeback dispute:pay_1 10000", "chargeback_reversal dispute:pay_1 10000"
	for name, tc := range map[string]struct {
		claims []payment.Claim
		status payment.Status
		books  []string
	}{
		"in protest": {[]payment.Claim{claim(1, "paid", status(paid)), claim(2, "in_protest", status(disputed)), claim(2, "in_protest", status(disputed))},
			disputed, []string{captured, unnamed}},
		"charged back": {[]payment.Claim{claim(1, "paid", status(paid)), claim(2, "in_protest", status(disputed)), claim(3, "chargeback", status(lostStatus))},
			lostStatus, []string{captured, unnamed}},
		"in protest, and paid again": {[]payment.Claim{claim(1, "paid", status(paid)), claim(2, "in_protest", status(disputed)), claim(3, "paid", status(paid)), claim(3, "paid", status(paid))},
			paid, []string{captured, unnamed, back}},
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
	s := tell(t, claim(1, "paid", status(paid)), claim(2, "lookup", status(disputed), dispute("dp", 3000, opened)))
	s.wantBooks(t, captured, "chargeback dispute:dp 3000") // named after all
}

// A named dispute is not won by a mere "paid": Stripe's payments stay
// succeeded, and Asaas settles a card payment a month after it was confirmed.
func TestPaidDoesNotWinANamedDispute(t *testing.T) {
	t.Parallel()
	s := tell(t, claim(1, "paid", status(paid)), claim(2, "d", dispute("dp", 10000, opened)), claim(3, "paid", status(paid)))
	s.wantPath(t, "paid disputed")
}
