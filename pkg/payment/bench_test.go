package payment_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/umavez/umavez/pkg/payment"
)

func BenchmarkApply(b *testing.B) {
	fresh := newPayment()
	fresh.Status = pending
	held := payment.Apply(fresh, claim(2, "paid", status(paid), fee("f", 300))).Payment
	refundOne := claim(3, "refund", refund("re", 4000, succeeded))
	for _, bm := range []struct {
		name  string
		p     payment.Payment
		c     payment.Claim
		moves int
	}{
		{"paid", fresh, claim(2, "paid", status(paid)), 1},
		{"paid with its fee", fresh, claim(2, "paid", status(paid), fee("f", 300)), 1},
		{"refund", held, refundOne, 1},
		{"repeated", held, claim(2, "paid", status(paid)), 0},
		{"stale", held, claim(1, "created", status(pending)), 0},
		{"paid, refunded and lost at once", fresh, claim(2, "lookup", status(paid), refund("re", 4000, succeeded), dispute("dp", 6000, lost)), 4},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			var r payment.Result
			for b.Loop() {
				r = payment.Apply(bm.p, bm.c)
			}
			if r.Need != "" || len(r.Transitions) != bm.moves {
				b.Fatalf("need %q, %d moves", r.Need, len(r.Transitions))
			}
		})
	}
}

func BenchmarkResolve(b *testing.B) {
	b.ReportAllocs()
	snap := asked(60, status(paid), fee("f", 300))
	var r payment.Result
	for b.Loop() {
		r, _ = payment.Resolve(newPayment(), snap, claim(2, "paid", status(paid)), trusted)
	}
	if !cmp.Equal(r.Payment.Status, paid) {
		b.Fatal(r.Payment.Status)
	}
}
