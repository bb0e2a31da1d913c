package payment_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/umavez/umavez/pkg/payment"
)

var (
	trusted   = payment.Policy{TrustBody: true, Lag: 10 * time.Second}
	untrusted = payment.Policy{Lag: 10 * time.Second}
)

// asked is a lookup that began at second n.
func asked(n int, facts ...payment.Fact) *payment.Snapshot {
	c := claim(0, "lookup", facts...)
	c.At = time.Time{}
	return &payment.Snapshot{Claim: c, ObservedAt: at(n)}
}

func (s *story) resolve(t *testing.T, snap *payment.Snapshot, ev payment.Claim, pol payment.Policy) (dropped bool) {
	t.Helper()
	s.last, dropped = payment.Resolve(s.p, snap, ev, pol)
	s.record(t, s.last)
	return dropped
}

func TestASnapshotOlderThanWhatWasSeenIsDropped(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.resolve(t, asked(60, status(paid), refund("re", 10000, succeeded)), claim(1, "paid", status(paid)), untrusted)
	if dropped := s.resolve(t, asked(59, status(pending)), claim(2, "refund", refund("re", 10000, succeeded)), untrusted); !dropped {
		t.Error("the older snapshot was not dropped")
	}
	s.wantNeed(t, "")
	if !s.p.ObservedAt.Equal(at(60)) {
		t.Errorf("observed at %s", s.p.ObservedAt)
	}
	if dropped := s.resolve(t, asked(60, status(paid)), claim(3, "new", refund("r2", 1, succeeded)), untrusted); dropped {
		t.Error("a snapshot of the same moment serves the other events of the batch")
	}
	s.wantBooks(t, captured, "refund refund:re 10000")
}

func TestAnUnauthenticatedBodyMovesNothingAndLeavesNoTrace(t *testing.T) {
	t.Parallel()
	forged := claim(3600, "forged", status(paid), fee("f", 1), refund("x", 10000, succeeded))
	forged.Beneficiary, forged.Reference, forged.Expected, forged.Captured = "thief", "PED-9", payment.Of(1), payment.Of(1)
	s := tell(t)
	s.resolve(t, nil, forged, untrusted)
	s.wantNeed(t, payment.NeedAgreement)
	for _, facts := range [][]payment.Fact{{status(failed)}, {status(pending)}, nil} {
		c := forged
		c.Facts = facts
		s.resolve(t, asked(20, status(pending)), c, untrusted)
		if s.last.Need == "" && (s.p.Beneficiary != "" || s.p.Reference != "" || s.p.Expected.Known || s.p.StatusAt.After(at(20))) {
			t.Fatalf("a forged field was kept: %+v", s.p)
		}
	}
	s.resolve(t, asked(60, status(paid)), forged, payment.Policy{Lag: 10 * time.Second, Settle: true})
	s.wantBooks(t, captured)
	if s.p.Beneficiary != "" || !s.last.Stale {
		t.Errorf("owner %q, stale %t", s.p.Beneficiary, s.last.Stale)
	}
	held := s.p
	forged.Facts = []payment.Fact{status(paid)}
	s.resolve(t, nil, forged, untrusted)
	s.wantNeed(t, "")
	if diff := cmp.Diff(held, s.p); diff != "" {
		t.Errorf("without a lookup, a repeated fact of a forged body left a trace\n%s", diff)
	}
}

func TestTheOwnerThatTheApplicationRegisteredNeedsNoLookupAndWins(t *testing.T) {
	t.Parallel()
	pol := untrusted
	pol.Owner = "loja-1"
	snap := asked(60, status(paid))
	snap.Claim.Beneficiary = "from-reference"
	s := tell(t)
	s.resolve(t, snap, claim(1, "paid", status(paid)), pol)
	if s.p.Beneficiary != "loja-1" || s.steps[0].Beneficiary != "loja-1" {
		t.Errorf("owner %q", s.p.Beneficiary)
	}
	s = tell(t)
	s.resolve(t, asked(60, status(paid)), claim(1, "paid", status(paid)), untrusted)
	s.resolve(t, nil, payment.Claim{GatewayID: "pay_1", Reason: "registered"}, pol)
	s.wantBooks(t, captured, "allocation payment:pay_1 10000")
	s = tell(t)
	s.resolve(t, nil, claim(1, "paid", status(paid)), pol)
	s.wantNeed(t, payment.NeedAgreement)
	if s.last.Applied() || s.last.Payment.Beneficiary != "" {
		t.Error("a claim that needs something changed the owner")
	}
}

func TestAContradictionWaitsAndIsSettledForTheGatewayAtTheLimit(t *testing.T) {
	t.Parallel()
	settle := trusted
	settle.Settle = true
	for name, ev := range map[string]payment.Claim{
		"paid, but the API says pending":        claim(1, "paid", status(paid)),
		"paid without amount":                   without(claim(1, "paid", status(paid)), func(c *payment.Claim) { c.Captured = payment.Minor{} }),
		"a refund that the API does not show":   claim(1, "refund", refund("re", 500, succeeded)),
		"a total whose refunds are not shown":   claim(1, "refund", total(500, true)),
		"a dispute that the API does not show":  claim(1, "dispute", dispute("dp", 500, opened)),
		"failed now, but the API says pending":  claim(300, "failed", status(failed)),
		"refunded as a status, API says unpaid": claim(1, "refunded", status(refunded)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tell(t)
			s.resolve(t, asked(60, status(pending)), ev, trusted)
			s.wantNeed(t, payment.NeedAgreement)
			s.resolve(t, asked(90, status(pending)), ev, settle)
			s.wantNeed(t, "")
			s.wantPath(t, "pending")
			if !s.last.Stale {
				t.Error("the event must be reported as not applied")
			}
			s.resolve(t, asked(400, status(paid), refund("re", 500, succeeded)), claim(390, "refund", refund("re", 500, succeeded)), trusted)
			s.wantBooks(t, captured, "refund refund:re 500")
		})
	}
}

func TestTheLimitDoesNotDropWhatContradictsNothing(t *testing.T) {
	t.Parallel()
	settle := trusted
	settle.Settle = true
	s := tell(t)
	s.resolve(t, asked(60, status(paid)), claim(1, "charge.updated", fee("txn", 300)), settle)
	s.wantBooks(t, captured, "fee fee:txn 300")
	s = tell(t)
	s.resolve(t, asked(60, status(paid), refund("re", 500, failedRefund)), claim(1, "refund", refund("re", 500, succeeded)), settle)
	s.wantBooks(t, captured, "refund refund:re 500", "refund_reversal refund:re 500")
	p := newPayment()
	p.Registered, p.Currency, p.Expected = true, "BRL", payment.Of(9999)
	s = tellFrom(t, p)
	s.resolve(t, asked(60, status(paid)), claim(1, "paid", status(paid)), settle)
	s.wantNeed(t, payment.NeedAmountMatch) // a person, not the limit, decides this
	s = tell(t, claim(1, "paid", status(paid)))
	s.resolve(t, asked(60, status(paid)), claim(2, "refund", refund("re", 10001, succeeded)), settle)
	s.wantNeed(t, payment.NeedWithinCaptured)
}

func TestCase_C3_TheLookupDecidesWhatTimesCannot(t *testing.T) {
	t.Parallel()
	s := tell(t, claim(1, "canceled", status(canceled)))
	s.resolve(t, asked(60, status(pending)), claim(1, "restored", status(pending)), trusted)
	s.wantPath(t, "canceled pending")
	s = tell(t, claim(1, "created", status(pending)))
	s.resolve(t, asked(60, status(pending)), claim(2, "failed", status(failed)), trusted)
	s.wantPath(t, "pending") // the API is newer: the attempt has failed and gone
	if !s.last.Stale {
		t.Error("not stale")
	}
}

func TestCase_C7_FailedInTheAPIThenPaidIsCreditedOnce(t *testing.T) {
	t.Parallel()
	for _, pol := range []payment.Policy{trusted, untrusted} {
		s := tell(t)
		s.resolve(t, asked(2, status(failed)), claim(1, "failed", status(failed)), pol)
		s.resolve(t, asked(200, status(paid)), claim(180, "paid", status(paid)), pol)
		s.resolve(t, asked(201, status(paid)), claim(180, "paid", status(paid)), pol)
		if len(s.books) != 1 || s.p.Status != paid {
			t.Errorf("%s, %v", s.p.Status, s.books)
		}
	}
}

func TestCase_B23_TheAPIStillSaysPaidAfterARefund(t *testing.T) {
	t.Parallel()
	for _, pol := range []payment.Policy{trusted, untrusted} {
		s := tell(t)
		s.resolve(t, asked(60, status(paid), total(10000, false)), claim(1, "order.paid", status(paid)), pol)
		s.resolve(t, asked(61, status(paid), total(10000, false)), claim(50, "order.paid", status(paid)), pol)
		s.wantPath(t, "paid refunded")
	}
}

func TestAnAppealWaitsOutTheLagOfASnapshotThatStillSaysLost(t *testing.T) {
	t.Parallel()
	s := tell(t, claim(1, "paid", status(paid)), claim(2, "d", dispute("dp", 10000, lost)))
	appeal := claim(100, "appeal", dispute("dp", 10000, opened))
	s.resolve(t, asked(102, status(paid), dispute("dp", 10000, lost)), appeal, trusted)
	s.wantNeed(t, payment.NeedAgreement)
	s.resolve(t, asked(120, status(paid), dispute("dp", 10000, opened)), appeal, trusted)
	s.wantPath(t, "paid disputed charged_back disputed")
	s.resolve(t, asked(140, status(paid), dispute("dp", 10000, lost)), claim(130, "lost", dispute("dp", 10000, lost)), trusted)
	s.resolve(t, asked(150, status(paid), dispute("dp", 10000, lost)), appeal, trusted)
	s.wantNeed(t, "")
	s.wantPath(t, "paid disputed charged_back disputed charged_back")
}

func TestALaggingPaidDoesNotWinADisputeThatIsOnlyAStatus(t *testing.T) {
	t.Parallel()
	bell := payment.Claim{GatewayID: "pay_1", At: at(50), Reason: "status_changed"}
	s := tell(t)
	s.resolve(t, asked(50, status(paid)), bell, untrusted)
	s.resolve(t, asked(60, status(disputed)), bell, untrusted)
	s.resolve(t, asked(61, status(paid)), bell, untrusted) // a replica that is behind
	s.wantPath(t, "paid disputed")
	s.resolve(t, asked(90, status(paid)), bell, untrusted)
	s.wantPath(t, "paid disputed paid")
	s.wantBooks(t, captured, "chargeback dispute:pay_1 10000", "chargeback_reversal dispute:pay_1 10000")
}

func TestALaggingPaidDoesNotTakeBackAnUndoneReceipt(t *testing.T) {
	t.Parallel()
	s := tell(t, claim(1, "paid", status(paid)), claim(50, "undone", undo("un")))
	behind := asked(60, status(paid))
	behind.ObservedAt = at(60).Add(900 * time.Millisecond) // 50 may have been 50.95
	s.resolve(t, behind, claim(1, "paid", status(paid)), trusted)
	s.wantPath(t, "paid pending")
	s.resolve(t, asked(62, status(paid)), claim(1, "paid", status(paid)), trusted)
	s.wantPath(t, "paid pending paid")
}

func TestAnUnpaidAnswerForACapturedPaymentIsReportedAndMovesNoMoney(t *testing.T) {
	t.Parallel()
	s := tell(t, claim(1, "paid", status(paid)))
	s.resolve(t, asked(60, status(pending)), payment.Claim{GatewayID: "pay_1", Reason: "reconcile"}, trusted)
	s.wantPath(t, "paid")
	if !s.last.Disagrees {
		t.Error("the disagreement is not reported")
	}
	s.resolve(t, asked(70, status(pending)), claim(40, "undone", undo("un")), trusted)
	s.wantPath(t, "paid pending")
	if s.last.Disagrees {
		t.Error("the undo explains it")
	}
	s = tell(t, claim(1, "paid", status(paid)))
	s.resolve(t, asked(3, status(pending)), payment.Claim{GatewayID: "pay_1", Reason: "reconcile"}, trusted)
	if s.last.Disagrees {
		t.Error("within its lag an answer proves nothing")
	}
}

func TestASnapshotThatNeedsSomethingChangesNothing(t *testing.T) {
	t.Parallel()
	s := tell(t)
	other := asked(60, status(paid))
	other.Claim.GatewayID = "pay_2"
	s.resolve(t, other, claim(1, "paid", status(paid)), trusted)
	s.wantNeed(t, payment.NeedSamePayment)
	s.resolve(t, asked(60, status(paid), total(5, true)), claim(1, "paid", status(paid)), trusted)
	s.wantNeed(t, payment.NeedRefundIDs)
	if !s.p.ObservedAt.IsZero() {
		t.Error("the payment counts as observed")
	}
}

func TestAnUnauthenticatedBodyThatMakesNoSenseIsSettledForTheGateway(t *testing.T) {
	t.Parallel()
	settle := untrusted
	settle.Settle = true
	for name, f := range map[string]payment.Fact{
		"more refunded than captured": refund("re", 10001, succeeded),
		"a refund of another amount":  refund("held", 2, succeeded),
		"a receipt that was undone":   undo("un"),
		"a dispute":                   dispute("dp", 10000, opened),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, answer := range []payment.Status{paid, pending} {
				s := tell(t, claim(1, "lookup", status(paid), refund("held", 1, succeeded)))
				s.resolve(t, asked(60, status(answer)), claim(50, "forged", f), untrusted)
				s.wantNeed(t, payment.NeedAgreement)
				s.resolve(t, asked(60, status(answer)), claim(50, "forged", f), settle)
				s.wantNeed(t, "")
				s.wantBooks(t, captured, "refund refund:held 1")
			}
		})
	}
}

func TestTheOpeningOfADisputeThatIsOverByNowIsAnswered(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		now  payment.DisputeState
		want payment.Status
	}{{lost, lostStatus}, {won, paid}} {
		s := tell(t)
		s.resolve(t, asked(60, status(paid), dispute("dp", 10000, tc.now)), claim(55, "opened", dispute("dp", 10000, opened)), trusted)
		s.wantNeed(t, "")
		if s.p.Status != tc.want {
			t.Errorf("%s: ends %s", tc.now, s.p.Status)
		}
	}
}

func TestALaggingOpenDoesNotReopenADisputeThatASnapshotShowedWon(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.resolve(t, asked(60, status(paid), dispute("dp", 10000, won)), claim(55, "won", dispute("dp", 10000, won)), untrusted)
	s.resolve(t, asked(61, status(paid), dispute("dp", 10000, opened)), claim(55, "won", dispute("dp", 10000, won)), payment.Policy{Lag: 10 * time.Second, Settle: true})
	s.wantNeed(t, "")
	s.wantPath(t, "paid disputed paid")
}

func TestAnAnswerThatSaysNothingOfTheStatusContradictsNone(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.resolve(t, asked(60), claim(55, "failed", status(failed)), trusted)
	s.wantPath(t, "failed")
}

func TestAFeeThatOnlyAnUnauthenticatedBodyStatesIsLeftOut(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.resolve(t, asked(60, status(paid)), claim(50, "paid", status(paid), fee("f", 9999)), untrusted)
	s.wantNeed(t, "")
	s.wantBooks(t, captured)
}
