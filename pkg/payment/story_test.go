package payment_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/umavez/umavez/pkg/payment"
)

// at is a gateway time, n seconds into the story. at(0) is a time, not "none".
func at(n int) time.Time { return time.Date(2026, 1, 15, 12, 0, n, 0, time.UTC) }

// claim is what a gateway says at second n: BRL, captured gross of 100.00 at
// hand, as most gateways send it with every event.
func claim(n int, reason string, facts ...payment.Fact) payment.Claim {
	return payment.Claim{
		GatewayID: "pay_1", Currency: "BRL", Captured: payment.Of(10000),
		At: at(n), Reason: reason, Facts: facts,
	}
}

func without(c payment.Claim, strip func(*payment.Claim)) payment.Claim {
	strip(&c)
	return c
}

func status(s payment.Status) payment.Fact {
	return payment.Fact{Kind: payment.FactStatus, Status: s}
}

func refund(id string, amount int64, s payment.RefundState) payment.Fact {
	return payment.Fact{Kind: payment.FactRefund, ID: id, Amount: payment.Of(amount), Refund: s}
}

func total(amount int64, byID bool) payment.Fact {
	return payment.Fact{Kind: payment.FactRefundTotal, Amount: payment.Of(amount), ByID: byID}
}

func dispute(id string, amount int64, s payment.DisputeState) payment.Fact {
	f := payment.Fact{Kind: payment.FactDispute, ID: id, Dispute: s}
	if amount != 0 {
		f.Amount = payment.Of(amount)
	}
	return f
}

func fee(id string, amount int64) payment.Fact {
	return payment.Fact{Kind: payment.FactFee, ID: id, Amount: payment.Of(amount)}
}

func undo(id string) payment.Fact { return payment.Fact{Kind: payment.FactUndo, ID: id} }

// story applies claims one after the other, as the processor does with a
// payment's events: a claim that needs something is parked and tried again
// after each one that changed what we hold.
type story struct {
	p      payment.Payment
	moves  []string
	books  []string
	steps  []payment.Transition
	parked []payment.Claim
	needs  []payment.Need
	last   payment.Result
	told   []payment.Claim // those that were applied
}

func newPayment() payment.Payment {
	return payment.Payment{Provider: "asaas", Account: "default", GatewayID: "pay_1"}
}

func tell(t rapid.TB, claims ...payment.Claim) *story {
	t.Helper()
	return tellFrom(t, newPayment(), claims...)
}

func tellFrom(t rapid.TB, p payment.Payment, claims ...payment.Claim) *story {
	t.Helper()
	s := &story{p: p}
	for _, c := range claims {
		s.tell(t, c)
	}
	return s
}

func (s *story) tell(t rapid.TB, c payment.Claim) {
	t.Helper()
	if s.apply(t, c); s.last.Need != "" {
		s.parked, s.needs = append(s.parked, c), append(s.needs, s.last.Need)
		return
	}
	told := s.last
	for again := true; again; {
		again = false
		for i, c := range s.parked {
			if s.apply(t, c); s.last.Need == "" {
				s.parked, s.needs = slices.Delete(s.parked, i, i+1), slices.Delete(s.needs, i, i+1)
				again = true
				break
			}
			s.needs[i] = s.last.Need
		}
	}
	s.last = told
}

func (s *story) apply(t rapid.TB, c payment.Claim) {
	t.Helper()
	s.last = payment.Apply(s.p, c)
	if s.last.Need == "" {
		s.told = append(s.told, c)
	}
	s.record(t, s.last)
}

// record checks what must hold of every result, and remembers it.
func (s *story) record(t rapid.TB, r payment.Result) {
	t.Helper()
	if r.Need != "" {
		if len(r.Transitions) > 0 || !cmp.Equal(r.Payment, s.p) {
			t.Fatalf("a claim that needs %s changed something", r.Need)
		}
		return
	}
	from, version := s.p.Status, s.p.Version
	for _, tr := range r.Transitions {
		version++
		if tr.Seq != version || tr.From != from || !payment.Legal(tr.From, tr.To) {
			t.Fatalf("transition %d %s -> %s does not follow %d %s", tr.Seq, tr.From, tr.To, version-1, from)
		}
		if tr.State.Status != tr.To || tr.State.Version != tr.Seq {
			t.Fatalf("transition %d carries state %s of version %d", tr.Seq, tr.State.Status, tr.State.Version)
		}
		if out := tr.State.Refunded + tr.State.ChargedBack; out > tr.State.Captured.Value || out < 0 {
			t.Fatalf("transition %d: %d went out of %d captured\n%s%v", tr.Seq, out, tr.State.Captured.Value, describe(s.told), r.Transitions)
		}
		from = tr.To
		s.moves = append(s.moves, string(tr.To))
		for _, b := range tr.Bookings {
			s.books = append(s.books, fmt.Sprintf("%s %s:%s %d", b.Kind, b.RefType, b.RefID, b.Amount))
		}
	}
	if r.Payment.Status != from || r.Payment.Version != version {
		t.Fatalf("the payment is %s of version %d after a move to %s, %d", r.Payment.Status, r.Payment.Version, from, version)
	}
	s.steps = append(s.steps, r.Transitions...)
	s.p = r.Payment
	s.once(t)
}

// once checks that no reference was booked twice and that the amounts of the
// payment are the sums of what was booked.
func (s *story) once(t rapid.TB) {
	t.Helper()
	seen, sums := map[string]bool{}, map[payment.Kind]int64{}
	for _, tr := range s.steps {
		for _, b := range tr.Bookings {
			key := fmt.Sprint(b.RefType, "|", b.RefID, "|", b.Kind)
			if seen[key] {
				t.Fatalf("%s is booked twice", key)
			}
			seen[key] = true
			if b.Amount <= 0 && b.Kind != payment.KindAllocation {
				t.Fatalf("%s books %d", key, b.Amount)
			}
			sums[b.Kind] += b.Amount
		}
	}
	p := s.p
	if sums[payment.KindCapture] != p.Captured.Value || sums[payment.KindFee] != p.Fee ||
		sums[payment.KindRefund]-sums[payment.KindRefundReversal] != p.Refunded ||
		sums[payment.KindChargeback]-sums[payment.KindChargebackReversal] != p.ChargedBack {
		t.Fatalf("booked %v, but the payment says captured %d, fee %d, refunded %d, charged back %d",
			sums, p.Captured.Value, p.Fee, p.Refunded, p.ChargedBack)
	}
}

// wantPath compares the statuses after each transition, in order.
func (s *story) wantPath(t rapid.TB, path string) {
	t.Helper()
	if got := strings.Join(s.moves, " "); got != path {
		t.Errorf("path\n got %s\nwant %s", got, path)
	}
}

// wantBooks compares the bookings, in any order.
func (s *story) wantBooks(t rapid.TB, want ...string) {
	t.Helper()
	got := slices.Sorted(slices.Values(s.books))
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
		t.Errorf("bookings (-want +got)\n%s", diff)
	}
}

func (s *story) wantNeed(t rapid.TB, n payment.Need) {
	t.Helper()
	if s.last.Need != n {
		t.Errorf("needs %q, want %q", s.last.Need, n)
	}
}

const captured = "capture payment:pay_1 10000"

// say writes a fact in a few words, for failures.
func say(f payment.Fact) string {
	amount := "?"
	if f.Amount.Known {
		amount = fmt.Sprint(f.Amount.Value)
	}
	switch f.Kind {
	case payment.FactStatus:
		return string(f.Status)
	case payment.FactRefund:
		return fmt.Sprintf("refund %s %s %s", f.ID, amount, f.Refund)
	case payment.FactRefundTotal:
		return fmt.Sprintf("total %s by id %t", amount, f.ByID)
	case payment.FactDispute:
		return fmt.Sprintf("dispute %s %s %s", f.ID, amount, f.Dispute)
	}
	return fmt.Sprintf("%s %s %s", f.Kind, f.ID, amount)
}

func describe(claims []payment.Claim) string {
	text := ""
	for _, c := range claims {
		when := "?"
		if !c.At.IsZero() {
			when = fmt.Sprint(c.At.Sub(at(0)))
		}
		text += fmt.Sprintf("  %s %s:", when, c.Reason)
		for _, f := range c.Facts {
			text += " [" + say(f) + "]"
		}
		text += "\n"
	}
	return text
}
