package payment_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/umavez/umavez/pkg/payment"
)

const (
	pending    = payment.StatusPending
	authorized = payment.StatusAuthorized
	failed     = payment.StatusFailed
	canceled   = payment.StatusCanceled
	expired    = payment.StatusExpired
	paid       = payment.StatusPaid
	refunded   = payment.StatusRefunded
	disputed   = payment.StatusDisputed
	lostStatus = payment.StatusChargedBack

	succeeded = payment.RefundSucceeded
	opened    = payment.DisputeOpen
	lost      = payment.DisputeLost
	won       = payment.DisputeWon
	inquiry   = payment.DisputeInquiry
)

func TestEveryWayThroughTheStatusesBeforeCaptureIsLegal(t *testing.T) {
	t.Parallel()
	all := []payment.Status{pending, authorized, failed, canceled, expired}
	for _, from := range all {
		for _, to := range all {
			s := tell(t, claim(1, "a", status(from)), claim(2, "b", status(to)), claim(3, "c", status(paid)))
			want := string(from) + " " + string(to) + " paid"
			if from == to {
				want = string(from) + " paid"
			}
			s.wantPath(t, want)
			s.wantBooks(t, captured)
		}
	}
}

func TestCase_C7_FailedExpiredAndCanceledPaymentsAreCreditedOnceWhenPaidLate(t *testing.T) {
	t.Parallel()
	for _, first := range []payment.Status{failed, expired, canceled} {
		s := tell(t, claim(1, "a", status(first)), claim(180, "b", status(paid)), claim(1, "a", status(first)),
			claim(180, "b", status(paid)))
		s.wantPath(t, string(first)+" paid")
		s.wantBooks(t, captured)
		if !s.p.PaidAt.Equal(at(180)) {
			t.Errorf("paid at %s", s.p.PaidAt)
		}
	}
}

func TestCase_C1_WaitingPaymentAfterPaidIsStaleAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := tell(t, claim(2, "paid", status(paid)))
	before := s.p
	s.tell(t, claim(1, "waiting_payment", status(pending)))
	if !s.last.Stale || s.last.Doubt || s.last.Applied() {
		t.Errorf("stale %t, doubt %t, applied %t", s.last.Stale, s.last.Doubt, s.last.Applied())
	}
	s.wantPath(t, "paid")
	if s.p.Status != before.Status || s.p.Version != before.Version {
		t.Error("the late fact changed the payment")
	}
}

func TestCase_C3_TheSameSecondInEveryOrderEndsInTheSameStatus(t *testing.T) {
	t.Parallel()
	facts := []payment.Claim{claim(1, "created", status(pending)), claim(1, "authorized", status(authorized)), claim(1, "failed", status(failed))}
	permute(facts, func(order []payment.Claim) {
		s := tell(t, order...)
		if s.p.Status != failed || !s.p.StatusAt.Equal(at(1)) {
			t.Fatalf("ends %s", s.p.Status)
		}
	})
	s := tell(t, claim(1, "canceled", status(canceled)), claim(1, "restored", status(pending)))
	if !s.last.Stale || !s.last.Doubt {
		t.Error("a refusal at equal times must ask for a lookup: nothing proves it late")
	}
}

func TestCase_C5_ALaterEventWithFewerFieldsEmptiesNothing(t *testing.T) {
	t.Parallel()
	full := claim(1, "paid", status(paid), fee("fee_1", 300))
	full.Expected, full.Reference, full.Beneficiary = payment.Of(10000), "PED-1", "loja-1"
	s := tell(t, full, claim(2, "refunded", refund("re_1", 10000, succeeded)))
	held := s.p
	if held.Reference != "PED-1" || held.Beneficiary != "loja-1" || held.Expected != payment.Of(10000) || held.Currency != "BRL" {
		t.Errorf("after a refund that names nothing: %+v", held)
	}
	bare := payment.Claim{GatewayID: "pay_1", At: at(3), Reason: "paid", Facts: []payment.Fact{status(paid)}}
	s.tell(t, bare)
	s.tell(t, without(bare, func(c *payment.Claim) { c.Facts = nil }))
	s.tell(t, without(bare, func(c *payment.Claim) { c.Facts = []payment.Fact{status(pending)} }))
	got := s.p
	got.Details.PaidLast, held.Details.PaidLast = at(3), at(3)
	got.Details.PaidSeen, held.Details.PaidSeen = at(3), at(3)
	got.Details.Attempt, got.StatusAt = held.Details.Attempt, held.StatusAt
	if diff := cmp.Diff(held, got); diff != "" {
		t.Errorf("changed (-before +after)\n%s", diff)
	}
}

func TestCase_C12_ARefundKnownBeforePaidWalksThroughPaid(t *testing.T) {
	t.Parallel()
	s := tell(t, claim(1, "created", status(pending)), claim(9, "lookup", status(paid), refund("re_1", 10000, succeeded)))
	s.wantPath(t, "pending paid refunded")
	s.wantBooks(t, captured, "refund refund:re_1 10000")
	if s.p.Net() != 0 {
		t.Errorf("net %d", s.p.Net())
	}
	s = tell(t, claim(1, "created", status(pending)), claim(9, "refunded", status(refunded)))
	s.wantPath(t, "pending paid refunded")
	s = tell(t, claim(9, "refund", refund("re_1", 4000, succeeded)), claim(3, "paid", status(paid)), claim(1, "created", status(pending)))
	s.wantPath(t, "paid partially_refunded")
	s = tell(t, without(claim(9, "refund", refund("re_1", 4000, succeeded)), func(c *payment.Claim) { c.Captured = payment.Minor{} }))
	s.wantNeed(t, payment.NeedCapturedAmount)
	s.tell(t, claim(3, "paid", status(paid)))
	s.wantPath(t, "paid partially_refunded")
	if len(s.parked) != 0 {
		t.Errorf("still parked: %v", s.needs)
	}
}

func TestCase_C12_EveryStepBeyondPaidIsWalked(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		facts []payment.Fact
		path  string
	}{
		"a chargeback that was lost":        {[]payment.Fact{dispute("dp", 10000, lost)}, "pending paid disputed charged_back"},
		"a chargeback that was won":         {[]payment.Fact{dispute("dp", 10000, won)}, "pending paid disputed paid"},
		"charged back, as a status":         {[]payment.Fact{status(lostStatus)}, "pending paid disputed charged_back"},
		"a partial refund and a dispute":    {[]payment.Fact{dispute("dp", 6000, opened), refund("re", 4000, succeeded)}, "pending paid partially_refunded disputed"},
		"the receipt was undone":            {[]payment.Fact{undo("un")}, "pending paid pending"},
		"a fee alone":                       {[]payment.Fact{fee("f", 10)}, "pending paid"},
		"a total, of a gateway without ids": {[]payment.Fact{total(2500, false)}, "pending paid partially_refunded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tell(t, claim(1, "created", status(pending)), claim(5, "lookup", tc.facts...)).wantPath(t, tc.path)
		})
	}
}

func TestCase_B7_PaidRefundAndChargebackThreeTimesEachAreBookedOnce(t *testing.T) {
	t.Parallel()
	p, r, d := claim(1, "paid", status(paid)), claim(2, "refund", refund("re", 4000, succeeded)), claim(3, "chargeback", dispute("dp", 6000, opened))
	permute([]payment.Claim{p, r, d, p, r, d}, func(order []payment.Claim) {
		s := tell(t, append(order, p, r, d)...)
		s.wantBooks(t, captured, "refund refund:re 4000", "chargeback dispute:dp 6000")
		if s.p.Status != disputed || s.p.Net() != 0 {
			t.Fatalf("ends %s with net %d", s.p.Status, s.p.Net())
		}
	})
}

func TestCase_B23_PaidWithEverythingRefundedIsRefundedAndStaysSo(t *testing.T) {
	t.Parallel()
	lookup := claim(5, "lookup", status(paid), total(10000, false))
	s := tell(t, claim(1, "paid", status(paid)), lookup, lookup, claim(6, "lookup", status(paid), total(10000, false)), claim(7, "paid", status(paid)))
	s.wantPath(t, "paid refunded")
	s.wantBooks(t, captured, "refund refund:total:pay_1:10000 10000")
}

func TestCase_D13_ThreeEventsOfOneTriggerCreditOnce(t *testing.T) {
	t.Parallel()
	permute([]payment.Claim{
		claim(1, "payment_intent.succeeded", status(paid)),
		claim(1, "charge.succeeded", status(paid)),
		claim(1, "checkout.session.completed", status(paid)),
	}, func(order []payment.Claim) {
		s := tell(t, order...)
		s.wantPath(t, "paid")
		s.wantBooks(t, captured)
	})
}

func TestConfirmedAndReceivedAMonthLaterCreditOnceAndKeepTheFirstTime(t *testing.T) {
	t.Parallel()
	permute([]payment.Claim{claim(1, "PAYMENT_CONFIRMED", status(paid), fee("pay_1", 497)), claim(30, "PAYMENT_RECEIVED", status(paid), fee("pay_1", 497))},
		func(order []payment.Claim) {
			s := tell(t, order...)
			s.wantBooks(t, captured, "fee fee:pay_1 497")
			if !s.p.PaidAt.Equal(at(1)) {
				t.Errorf("paid at %s", s.p.PaidAt)
			}
		})
}

func TestAFeeIsBookedWithItsCaptureOrWhenItIsKnown(t *testing.T) {
	t.Parallel()
	s := tell(t, claim(1, "paid", status(paid), fee("txn", 300)))
	if len(s.steps) != 1 || len(s.steps[0].Bookings) != 2 {
		t.Fatalf("transitions: %+v", s.steps)
	}
	s = tell(t, claim(1, "paid", status(paid)), claim(2, "charge.updated", fee("txn", 300)), claim(2, "charge.updated", fee("txn", 300)))
	s.wantPath(t, "paid paid")
	s.wantBooks(t, captured, "fee fee:txn 300")
	s = tell(t, claim(1, "paid", status(paid), refund("re", 10000, succeeded)), claim(2, "charge.updated", fee("txn", 300), fee("txn_2", 5)))
	if s.p.Net() != -305 || s.p.Status != refunded {
		t.Errorf("net %d, %s", s.p.Net(), s.p.Status)
	}
	s.tell(t, claim(3, "charge.updated", fee("txn", 301)))
	s.wantNeed(t, "") // a fee that changes holds up nothing; the first stands, and a person is told
	if !s.last.Disagrees || s.p.Fee != 305 {
		t.Errorf("disagrees %t, fee %d", s.last.Disagrees, s.p.Fee)
	}
	s.tell(t, claim(3, "charge.updated", fee("zero", 0)))
	s.wantNeed(t, "")
}

func TestAClaimThatCannotBeAppliedSaysWhatItNeeds(t *testing.T) {
	t.Parallel()
	registered := newPayment()
	registered.Registered, registered.Currency, registered.Expected = true, "BRL", payment.Of(10000)
	held := tell(t, claim(1, "paid", status(paid))).p
	amount := func(v int64) func(*payment.Claim) {
		return func(c *payment.Claim) { c.Captured = payment.Of(v) }
	}
	currency := func(code string) func(*payment.Claim) { return func(c *payment.Claim) { c.Currency = code } }
	for name, tc := range map[string]struct {
		p    payment.Payment
		c    payment.Claim
		need payment.Need
	}{
		"paid another amount than registered":   {registered, without(claim(1, "paid", status(paid)), amount(9999)), payment.NeedAmountMatch},
		"paid another currency than registered": {registered, without(claim(1, "paid", status(paid)), currency("USD")), payment.NeedCurrencyMatch},
		"captured another amount than before":   {held, without(claim(2, "paid", status(paid)), amount(9000)), payment.NeedAmountMatch},
		"another currency than before":          {held, without(claim(2, "paid", status(paid)), currency("USD")), payment.NeedCurrencyMatch},
		"captured amount unknown":               {newPayment(), without(claim(1, "paid", status(paid)), func(c *payment.Claim) { c.Captured = payment.Minor{} }), payment.NeedCapturedAmount},
		"captured nothing, yet paid":            {newPayment(), without(claim(1, "paid", status(paid)), amount(0)), payment.NeedCapturedAmount},
		"captured nothing, and pending":         {newPayment(), without(claim(1, "created", status(pending)), amount(0)), ""},
		"currency unknown":                      {newPayment(), without(claim(1, "paid", status(paid)), currency("")), payment.NeedCurrency},
		"captured below zero":                   {newPayment(), without(claim(1, "paid", status(paid)), amount(-1)), payment.NeedRange},
		"expected below zero":                   {newPayment(), without(claim(1, "created", status(pending)), func(c *payment.Claim) { c.Expected = payment.Of(-1) }), payment.NeedRange},
		"another payment":                       {held, without(claim(1, "paid", status(paid)), func(c *payment.Claim) { c.GatewayID = "pay_2" }), payment.NeedSamePayment},
		"refund above the capture":              {held, claim(2, "refund", refund("re", 10001, succeeded)), payment.NeedWithinCaptured},
		"refund of nothing":                     {held, claim(2, "refund", refund("re", 0, succeeded)), payment.NeedRange},
		"refund below zero":                     {held, claim(2, "refund", refund("re", -5, succeeded)), payment.NeedRange},
		"refund near the end of 64 bits":        {held, claim(2, "refund", refund("a", math.MaxInt64, succeeded), refund("b", math.MaxInt64, succeeded)), payment.NeedWithinCaptured},
		"refund and dispute whose sum wraps":    {held, claim(2, "both", refund("a", math.MaxInt64, succeeded), dispute("b", math.MaxInt64, opened)), payment.NeedWithinCaptured},
		"refund without id":                     {held, claim(2, "refund", refund("", 5, succeeded)), payment.NeedID},
		"refund without amount":                 {held, claim(2, "refund", payment.Fact{Kind: payment.FactRefund, ID: "re", Refund: succeeded}), payment.NeedRefundAmount},
		"total without amount":                  {held, claim(2, "refund", payment.Fact{Kind: payment.FactRefundTotal}), payment.NeedRefundAmount},
		"total below zero":                      {held, claim(2, "refund", total(-1, false)), payment.NeedRange},
		"total above the capture":               {held, claim(2, "refund", total(10001, false)), payment.NeedWithinCaptured},
		"total whose refunds have no name yet":  {held, claim(2, "refund", total(5, true)), payment.NeedRefundIDs},
		"fee without id":                        {held, claim(2, "fee", fee("", 5)), payment.NeedID},
		"fee without amount":                    {held, claim(2, "fee", payment.Fact{Kind: payment.FactFee, ID: "f"}), payment.NeedFeeAmount},
		"fee below zero":                        {held, claim(2, "fee", fee("f", -5)), payment.NeedRange},
		"fees that leave 64 bits":               {held, claim(2, "fee", fee("f", math.MaxInt64), fee("g", 1)), payment.NeedRange},
		"dispute without id":                    {held, claim(2, "dispute", dispute("", 5, opened)), payment.NeedID},
		"dispute below zero":                    {held, claim(2, "dispute", dispute("d", -5, opened)), payment.NeedRange},
		"dispute above the capture":             {held, claim(2, "dispute", dispute("d", 10001, opened)), payment.NeedWithinCaptured},
		"undo by the id of a refund":            {tell(t, claim(1, "paid", status(paid), refund("re", 5, succeeded))).p, claim(2, "undo", undo("re")), payment.NeedAmountMatch},
		"refund by the id of an undo":           {tell(t, claim(1, "paid", status(paid), undo("un"))).p, claim(2, "refund", refund("un", 10000, failedRefund)), payment.NeedAmountMatch},
		"undo without id":                       {held, claim(2, "undo", undo("")), payment.NeedID},
		"status that is no fact":                {held, claim(2, "odd", status(payment.StatusPartiallyRefunded)), payment.NeedLegalMove},
		"fact of no kind":                       {held, claim(2, "odd", payment.Fact{}), payment.NeedLegalMove},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tellFrom(t, tc.p)
			s.apply2(tc.c)
			s.wantNeed(t, tc.need)
			if tc.need != "" && !cmp.Equal(s.last.Payment, tc.p) {
				t.Error("the payment changed")
			}
		})
	}
}

// apply2 applies without the bookkeeping of a whole story.
func (s *story) apply2(c payment.Claim) { s.last = payment.Apply(s.p, c) }

func TestTheLargestAmountsAreBookedExactly(t *testing.T) {
	t.Parallel()
	big := func(c *payment.Claim) { c.Captured = payment.Of(math.MaxInt64) }
	s := tell(t, without(claim(1, "paid", status(paid), fee("f", math.MaxInt64)), big),
		without(claim(2, "refund", refund("re", math.MaxInt64-1, succeeded)), big),
		without(claim(3, "dispute", dispute("dp", 1, lost)), big))
	if len(s.parked) != 0 || s.p.Net() != -math.MaxInt64 || s.p.Status != lostStatus {
		t.Errorf("parked %v, net %d, %s", s.needs, s.p.Net(), s.p.Status)
	}
	s.tell(t, without(claim(4, "refund", refund("re2", 1, succeeded)), big))
	s.wantNeed(t, payment.NeedWithinCaptured)
}

func TestAnOwnerThatIsKnownLaterGetsWhatIsLeftOnce(t *testing.T) {
	t.Parallel()
	owned := without(claim(5, "metadata"), func(c *payment.Claim) { c.Beneficiary = "loja-1" })
	s := tell(t, claim(1, "paid", status(paid), fee("f", 300)), claim(2, "refund", refund("re", 2000, succeeded)), owned, owned,
		claim(6, "refund", refund("re2", 1000, succeeded)))
	s.wantBooks(t, captured, "fee fee:f 300", "refund refund:re 2000", "allocation payment:pay_1 7700", "refund refund:re2 1000")
	if s.steps[0].Beneficiary != "" || s.steps[2].Beneficiary != "loja-1" {
		t.Errorf("owners %q, %q", s.steps[0].Beneficiary, s.steps[2].Beneficiary)
	}
	s = tell(t, claim(1, "paid", status(paid), fee("f", 300), refund("re", 10000, succeeded)), owned)
	s.wantBooks(t, captured, "fee fee:f 300", "refund refund:re 10000", "allocation payment:pay_1 -300")
	s = tell(t, owned, claim(1, "paid", status(paid)))
	s.wantBooks(t, captured)
	s = tell(t, claim(1, "paid", status(paid), refund("re", 10000, succeeded)), owned)
	s.wantBooks(t, captured, "refund refund:re 10000")
	for _, late := range []payment.Status{failed, canceled, expired, authorized} {
		s = tell(t, claim(1, "paid", status(paid), fee("f", 1)), claim(2, "undone", undo("u")), claim(3, "x", status(late)), owned)
		s.wantBooks(t, captured, "fee fee:f 1", "refund refund:u 10000", "allocation payment:pay_1 -1")
	}
}

func TestWhatWasAskedForFollowsTheLatestWordUnlessItWasRegistered(t *testing.T) {
	t.Parallel()
	ask := func(n int, v int64) payment.Claim {
		return without(claim(n, "updated", status(pending)), func(c *payment.Claim) { c.Expected = payment.Of(v) })
	}
	permute([]payment.Claim{ask(1, 100), ask(2, 300), ask(2, 200), claim(3, "paid", status(paid))}, func(order []payment.Claim) {
		if s := tell(t, order...); s.p.Expected != payment.Of(300) {
			t.Errorf("expected %v", s.p.Expected)
		}
	})
	p := newPayment()
	p.Registered, p.Expected, p.Currency = true, payment.Of(10000), "BRL"
	if s := tellFrom(t, p, ask(9, 1)); s.p.Expected != payment.Of(10000) {
		t.Errorf("expected %v", s.p.Expected)
	}
}

func TestCase_C11_EachTransitionCarriesTheStateRightAfterIt(t *testing.T) {
	t.Parallel()
	s := tell(t, claim(1, "lookup", status(paid), fee("f", 100), refund("re", 4000, succeeded), dispute("dp", 6000, lost)))
	s.wantPath(t, "paid partially_refunded disputed charged_back")
	want := []struct{ refunds, disputes int }{{0, 0}, {1, 0}, {1, 1}, {1, 1}}
	for i, tr := range s.steps {
		if len(tr.State.Details.Refunds) != want[i].refunds || len(tr.State.Details.Disputes) != want[i].disputes {
			t.Errorf("step %d holds %+v", i, tr.State.Details)
		}
	}
	if got := s.steps[2].State.Details.Disputes[0].State; got != opened {
		t.Errorf("the state of an earlier transition was changed to %s by the next", got)
	}
}

func TestApplyDoesNotTouchThePaymentItIsGiven(t *testing.T) {
	t.Parallel()
	p := tell(t, claim(1, "paid", status(paid), refund("re", 4000, succeeded), dispute("dp", 1000, opened), fee("f", 1))).p
	held := tell(t, claim(1, "paid", status(paid), refund("re", 4000, succeeded), dispute("dp", 1000, opened), fee("f", 1))).p
	payment.Apply(p, claim(2, "more", refund("re", 4000, payment.RefundFailed), dispute("dp", 1000, won), fee("g", 2)))
	if diff := cmp.Diff(held, p); diff != "" {
		t.Error(diff)
	}
}

// permute calls f with every order of claims.
func permute(claims []payment.Claim, f func([]payment.Claim)) {
	order := append([]payment.Claim(nil), claims...)
	var rec func(int)
	rec = func(k int) {
		if k == len(order) {
			f(append([]payment.Claim(nil), order...))
			return
		}
		for i := k; i < len(order); i++ {
			order[k], order[i] = order[i], order[k]
			rec(k + 1)
			order[k], order[i] = order[i], order[k]
		}
	}
	rec(0)
}
