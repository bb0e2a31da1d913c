package providertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/umavez/umavez/pkg/payment"
)

// exhaustive is up to how many things every order is tried.
const exhaustive = 7

// Sequences calls visit with every order of n things and, for each, one with
// repetitions strewn in. Of more than seven things it gives 2,000 orders at
// random, the same ones each time.
func Sequences(n int, visit func([]int)) {
	rng := rand.New(rand.NewPCG(7, uint64(n)))
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	both := func() {
		visit(slices.Clone(order))
		strewn := slices.Clone(order)
		for range n + rng.IntN(2*n) {
			strewn = slices.Insert(strewn, rng.IntN(len(strewn)+1), order[rng.IntN(n)])
		}
		visit(strewn)
	}
	if n > exhaustive {
		for range 2000 {
			rng.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
			both()
		}
		return
	}
	var permute func(k int)
	permute = func(k int) {
		if k == n {
			both()
			return
		}
		for i := k; i < n; i++ {
			order[k], order[i] = order[i], order[k]
			permute(k + 1)
			order[k], order[i] = order[i], order[k]
		}
	}
	permute(0)
}

// Ending is what of a payment must not depend on the order of its events: its
// status, its sums, and every booking by its reference.
func Ending(p payment.Payment, bookings []payment.Booking) string {
	var money []string
	for _, b := range bookings {
		money = append(money, fmt.Sprintf("%s %s:%s %d", b.Kind, b.RefType, b.RefID, b.Amount))
	}
	slices.Sort(money)
	return fmt.Sprintf("%s captured %d refunded %d charged back %d fee %d\n  %s",
		p.Status, p.Captured.Value, p.Refunded, p.ChargedBack, p.Fee, strings.Join(money, "\n  "))
}
