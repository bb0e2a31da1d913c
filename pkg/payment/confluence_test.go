package payment_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/umavez/umavez/pkg/payment"
)

// history draws what a gateway tells of one payment, in the order in which it
// happened. Times are those of a webhook: whole seconds, with ties.
type history struct {
	t      *rapid.T
	now    int
	claims []payment.Claim
	left   int64 // captured and not gone
	ids    int
	undone bool
}

func (h *history) chance(name string) bool { return rapid.Bool().Draw(h.t, name) }

// say adds a claim, and sometimes its twin: another event about the same fact.
func (h *history) say(reason string, facts ...payment.Fact) {
	h.now += rapid.SampledFrom([]int{0, 1, 1, 1, 3}).Draw(h.t, "seconds later")
	c := claim(h.now, reason, facts...)
	h.claims = append(h.claims, c)
	if rapid.IntRange(0, 3).Draw(h.t, "twin") == 0 {
		twin := c
		twin.Reason = reason + " (twin)"
		twin.At = twin.At.Add(time.Duration(rapid.IntRange(0, 1).Draw(h.t, "twin later")) * time.Second)
		h.now = int(twin.At.Sub(at(0)) / time.Second) // what follows is not before it
		h.claims = append(h.claims, twin)
	}
}

func (h *history) id(prefix string) string {
	h.ids++
	return fmt.Sprint(prefix, "_", h.ids)
}

// drawHistory draws one payment's life of at most a number of claims.
func drawHistory(t *rapid.T, limit int) []payment.Claim {
	h := &history{t: t}
	for range rapid.IntRange(0, 3).Draw(t, "attempts") {
		s := rapid.SampledFrom([]payment.Status{pending, authorized, failed, expired, canceled}).Draw(t, "attempt")
		h.say(string(s), status(s))
	}
	if len(h.claims) > 0 && rapid.IntRange(0, 5).Draw(t, "never paid") == 0 {
		return cut(h.claims, limit)
	}
	h.left = 10000
	first := []payment.Fact{status(paid)}
	if h.chance("fee with the capture") {
		first = append(first, fee("fee_0", 300))
	}
	h.say("paid", first...)
	for range rapid.IntRange(0, 5).Draw(t, "acts") {
		if len(h.claims) >= limit {
			break
		}
		switch rapid.IntRange(0, 5).Draw(t, "act") {
		case 0:
			h.say("settled", status(paid))
		case 1:
			h.say("fee", fee(h.id("fee"), 7))
		case 2:
			h.refund()
		case 3:
			h.dispute()
		case 4:
			h.undo()
		case 5:
			h.mediate()
		}
	}
	return cut(h.claims, limit)
}

// cut keeps the beginning of a story: a story that is not over yet.
func cut(claims []payment.Claim, limit int) []payment.Claim {
	return claims[:min(len(claims), limit)]
}

func (h *history) refund() {
	if h.left == 0 {
		return
	}
	amount := h.left
	if h.chance("partial") {
		amount = rapid.Int64Range(1, h.left).Draw(h.t, "refund")
	}
	id := h.id("re")
	if h.chance("asynchronous") {
		h.say("refund.created", refund(id, amount, payment.RefundPending))
	}
	if h.chance("refused at once") {
		h.say("refund.failed", refund(id, amount, failedRefund))
		return
	}
	h.say("refund.succeeded", status(paid), refund(id, amount, succeeded))
	if rapid.IntRange(0, 2).Draw(h.t, "fails later") == 0 {
		h.say("refund.failed", refund(id, amount, failedRefund))
		return
	}
	h.left -= amount
}

func (h *history) dispute() {
	if h.left == 0 {
		return
	}
	amount := rapid.Int64Range(1, h.left).Draw(h.t, "disputed")
	id := h.id("dp")
	if h.chance("inquiry") {
		h.say("dispute.inquiry", dispute(id, amount, inquiry))
	}
	h.say("dispute.opened", dispute(id, amount, opened))
	h.left -= amount
	for range rapid.IntRange(0, 2).Draw(h.t, "lost and appealed") {
		h.now++ // a second verdict within the second of an appeal has no order
		h.say("dispute.lost", dispute(id, amount, lost))
		h.now++
		h.say("dispute.appealed", dispute(id, amount, opened))
	}
	switch rapid.IntRange(0, 2).Draw(h.t, "verdict") {
	case 0:
		h.say("dispute.lost", dispute(id, amount, lost))
	case 1:
		h.say("dispute.won", dispute(id, amount, won))
		h.left += amount
	}
}

// mediate opens a claim of which no money moves. It ends with "paid", with a
// withdrawal under its own id, or not at all.
// No gateway has both claims of this kind and receipts that can be undone.
func (h *history) mediate() {
	if h.left == 0 || h.undone {
		return
	}
	id := h.id("cl")
	h.now++ // "paid" within the second of a claim has no order to it
	h.say("in_mediation", dispute(id, 0, payment.DisputeClaim))
	h.now++
	switch {
	case h.chance("closed for the seller"):
		h.say("paid", status(paid))
	case h.left > 0 && h.chance("withdrawn"):
		h.say("dispute.opened", dispute(id, h.left, opened))
		h.left = 0
	}
}

// undo takes a manual receipt back, which only makes sense while all of it is
// there and nothing else was ever done with it.
func (h *history) undo() {
	if h.left != 10000 || h.ids > 0 {
		return
	}
	h.undone = true
	for range rapid.IntRange(1, 3).Draw(h.t, "undone") {
		h.now++
		h.say("undone", undo(h.id("un")))
		h.now++
		if h.chance("overdue") {
			h.say("overdue", status(expired))
		}
		h.say("received again", status(paid))
	}
	if h.chance("undone for good") {
		h.now++
		h.say("undone", undo(h.id("un")))
		h.left = 0
	}
}

// ending is what must not depend on the order.
type ending struct {
	Status                     payment.Status
	Captured                   payment.Minor
	Refunded, ChargedBack, Fee int64
	PaidAt, StatusAt, PaidLast time.Time
	Attempt                    payment.Status
	Books                      []string
	Parked                     []payment.Need
}

func (s *story) ending() ending {
	p := s.p
	if len(s.needs) == 0 {
		s.needs = nil
	}
	return ending{
		Status: p.Status, Captured: p.Captured, Refunded: p.Refunded, ChargedBack: p.ChargedBack, Fee: p.Fee,
		PaidAt: p.PaidAt, StatusAt: p.StatusAt, PaidLast: p.Details.PaidLast, Attempt: p.Details.Attempt,
		Books: slices.Sorted(slices.Values(s.books)), Parked: s.needs,
	}
}

// sameEnding applies an order and compares its ending with the expected one.
func sameEnding(t rapid.TB, claims, order []payment.Claim, want ending) {
	t.Helper()
	s := tell(t, order...)
	if diff := cmp.Diff(want, s.ending()); diff != "" {
		t.Fatalf("history\n%sorder\n%spath %v\nending (-in order +in this order)\n%s", describe(claims), describe(order), s.moves, diff)
	}
}

func TestEveryOrderOfAShortHistoryEndsTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		claims := drawHistory(t, 5)
		want := tell(t, claims...).ending()
		if len(want.Parked) > 0 {
			t.Fatalf("in order, %v is parked\n%s", want.Parked, describe(claims))
		}
		permute(claims, func(order []payment.Claim) { sameEnding(t, claims, order, want) })
	})
}

func TestEveryOrderOfSixClaimsEndsTheSame(t *testing.T) {
	t.Parallel()
	for seed := range 12 {
		claims := rapid.Custom(func(t *rapid.T) []payment.Claim { return drawHistory(t, 6) }).
			Filter(func(c []payment.Claim) bool { return len(c) == 6 }).Example(seed)
		want := tell(t, claims...).ending()
		permute(claims, func(order []payment.Claim) { sameEnding(t, claims, order, want) })
	}
}

func TestRandomOrdersWithRepetitionsOfLongHistoriesEndTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		claims := drawHistory(t, 30)
		want := tell(t, claims...).ending()
		if len(want.Parked) > 0 {
			t.Fatalf("in order, %v is parked\n%s", want.Parked, describe(claims))
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		for range 40 {
			order := slices.Clone(claims)
			for range rng.IntN(len(claims) + 1) {
				order = append(order, claims[rng.IntN(len(claims))])
			}
			rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			sameEnding(t, claims, order, want)
		}
	})
}

// Gateways do not repeat the amount in each event. What then waits for it is
// parked, and comes to the same end once it is known.
func TestClaimsWithoutAmountsWaitForTheOneThatHasThem(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		claims := drawHistory(t, 12)
		sawPaid := false
		for i := range claims {
			if claims[i].Reason == "paid" && !sawPaid {
				sawPaid = true
				continue
			}
			claims[i].Captured, claims[i].Currency = payment.Minor{}, ""
		}
		want := tell(t, claims...).ending()
		order := rapid.Permutation(claims).Draw(t, "order")
		s := tell(t, order...)
		got := s.ending()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("history\n%sorder\n%sending (-in order +in this order)\n%s", describe(claims), describe(order), diff)
		}
	})
}

// Any facts at all, however contradictory, leave the invariants whole: record
// checks them after each claim.
func TestNonsenseNeverBreaksAnInvariant(t *testing.T) {
	t.Parallel()
	amounts := rapid.SampledFrom([]int64{-1, 0, 1, 3000, 7000, 10000, 10001, 1 << 62, 1<<63 - 1})
	kinds := []payment.FactKind{payment.FactStatus, payment.FactRefund, payment.FactRefundTotal, payment.FactDispute, payment.FactFee, payment.FactUndo}
	all := []payment.Status{pending, authorized, failed, canceled, expired, paid, refunded, disputed, lostStatus, payment.StatusPartiallyRefunded}
	rapid.Check(t, func(t *rapid.T) {
		s := &story{p: newPayment()}
		for range rapid.IntRange(1, 25).Draw(t, "claims") {
			c := claim(rapid.IntRange(0, 9).Draw(t, "at"), "nonsense")
			if rapid.IntRange(0, 4).Draw(t, "no time") == 0 {
				c.At = time.Time{}
			}
			if rapid.IntRange(0, 9).Draw(t, "owner") == 0 {
				c.Beneficiary = "loja-1"
			}
			for range rapid.IntRange(0, 4).Draw(t, "facts") {
				f := payment.Fact{
					Kind:    rapid.SampledFrom(kinds).Draw(t, "kind"),
					Status:  rapid.SampledFrom(all).Draw(t, "status"),
					ID:      rapid.SampledFrom([]string{"", "a", "b", "c", "pay_1"}).Draw(t, "id"),
					Refund:  rapid.SampledFrom([]payment.RefundState{payment.RefundPending, succeeded, failedRefund}).Draw(t, "refund"),
					Dispute: rapid.SampledFrom([]payment.DisputeState{inquiry, opened, lost, won}).Draw(t, "dispute"),
					ByID:    rapid.Bool().Draw(t, "by id"),
				}
				if rapid.IntRange(0, 5).Draw(t, "unknown amount") > 0 {
					f.Amount = payment.Of(amounts.Draw(t, "amount"))
				}
				c.Facts = append(c.Facts, f)
			}
			s.apply(t, c)
			if s.last.Need == payment.NeedLegalMove && !explained(s, c) {
				t.Fatalf("an illegal move without a cause: %s %v", s.p.Status, c.Facts)
			}
			if s.last.Need == "" && undos(c) < 2 { // two undos at once have no order
				version := s.p.Version
				s.apply(t, c)
				if s.p.Version != version {
					t.Fatalf("applied twice, the last claim changed something twice\n%s%v", describe(s.told), s.moves)
				}
			}
		}
	})
}

// explained: the only illegal moves are those of facts that no gateway states.
func explained(s *story, c payment.Claim) bool {
	for _, f := range c.Facts {
		if f.Kind == payment.FactUndo || f.Kind == payment.FactStatus && f.Status == payment.StatusPartiallyRefunded {
			return true
		}
	}
	for _, r := range s.p.Details.Refunds {
		if r.Undo {
			return true
		}
	}
	return false
}

func undos(c payment.Claim) (n int) {
	for _, f := range c.Facts {
		if f.Kind == payment.FactUndo {
			n++
		}
	}
	return n
}
