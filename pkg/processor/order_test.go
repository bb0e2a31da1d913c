package processor

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// history is one kind of payment: its claims in the order in which they
// happened, one gateway second or more apart.
type history struct {
	name   string
	claims func(ref string) []payment.Claim
}

func at(c payment.Claim, minute int) payment.Claim {
	c.At = start.Add(time.Duration(minute) * time.Minute)
	return c
}

func attempt(ref string, s payment.Status, minute int) payment.Claim {
	return at(payment.Claim{GatewayID: ref, Currency: "BRL", Facts: []payment.Fact{{Kind: payment.FactStatus, Status: s}}}, minute)
}

func refundState(ref, id string, amount int64, s payment.RefundState, minute int) payment.Claim {
	return at(payment.Claim{GatewayID: ref, Currency: "BRL",
		Facts: []payment.Fact{{Kind: payment.FactRefund, ID: id, Amount: payment.Of(amount), Refund: s}}}, minute)
}

var histories = []history{
	{"failed, then paid", func(r string) []payment.Claim {
		return []payment.Claim{pending(r), attempt(r, payment.StatusFailed, 1), at(paid(r), 2)}
	}},
	{"expired, then paid twice over", func(r string) []payment.Claim {
		return []payment.Claim{pending(r), attempt(r, payment.StatusExpired, 1), at(paid(r), 2), at(paid(r), 3)}
	}},
	{"canceled and restored", func(r string) []payment.Claim {
		return []payment.Claim{pending(r), attempt(r, payment.StatusCanceled, 1), attempt(r, payment.StatusPending, 2)}
	}},
	{"authorized, captured, refunded in two parts", func(r string) []payment.Claim {
		return []payment.Claim{attempt(r, payment.StatusAuthorized, 0), at(paid(r), 1),
			refundState(r, "re_1"+r, 400, payment.RefundSucceeded, 2), refundState(r, "re_2"+r, 600, payment.RefundSucceeded, 3)}
	}},
	{"a refund that failed after it had succeeded", func(r string) []payment.Claim {
		return []payment.Claim{at(paid(r), 1), refundState(r, "re_1"+r, 1000, payment.RefundSucceeded, 2),
			refundState(r, "re_1"+r, 1000, payment.RefundFailed, 3), refundState(r, "re_2"+r, 250, payment.RefundSucceeded, 4)}
	}},
	{"disputed and won", func(r string) []payment.Claim {
		return []payment.Claim{pending(r), at(paid(r), 1), disputed(r, payment.DisputeOpen, start.Add(5*time.Minute)), disputed(r, payment.DisputeWon, start.Add(9*time.Minute))}
	}},
	{"disputed, lost, appealed, won", func(r string) []payment.Claim {
		return []payment.Claim{at(paid(r), 1), disputed(r, payment.DisputeOpen, start.Add(5*time.Minute)), disputed(r, payment.DisputeLost, start.Add(6*time.Minute)),
			disputed(r, payment.DisputeOpen, start.Add(7*time.Minute)), disputed(r, payment.DisputeWon, start.Add(8*time.Minute))}
	}},
}

// summary is what must not depend on order: status, sums, and the ledger's
// keys with their amounts.
func (w *world) summary(ref string) string {
	w.t.Helper()
	var s string
	err := w.db.Pool.QueryRow(w.t.Context(), `
SELECT concat_ws(' ', p.status, p.captured, p.refunded, p.charged_back, p.fee, p.net, p.beneficiary,
  (SELECT string_agg(replace(concat_ws(':', l.reference_type, l.reference_id, l.kind, l.amount, l.debit_account, l.credit_account), p.gateway_id, 'REF'),
                     ' ' ORDER BY l.kind, l.reference_id) FROM ledger_entries l WHERE l.payment_id = p.id))
FROM payments p WHERE p.gateway_id = $1`, ref).Scan(&s)
	if err != nil {
		w.t.Fatalf("payment %s: %v", ref, err)
	}
	return s
}

// play feeds many orders of one history at once, each to a payment of its own:
// the n-th claims of all of them are one batch.
func (w *world) play(h history, orders [][]int) {
	w.t.Helper()
	want := h.name + "-in-order"
	for _, c := range h.claims(want) {
		w.process(w.receive(c))
	}
	w.due()
	longest := 0
	for _, o := range orders {
		longest = max(longest, len(o))
	}
	for n := range longest {
		var ids []int64
		for i, o := range orders {
			if n < len(o) {
				ids = append(ids, w.receive(h.claims(fmt.Sprintf("%s-%d", h.name, i))[o[n]]))
			}
		}
		w.process(ids...)
	}
	w.due()
	for i, o := range orders {
		ref := fmt.Sprintf("%s-%d", h.name, i)
		if got := w.summary(ref); got != w.summary(want) {
			w.t.Errorf("%s in order %v ends as\n%s\nand in the order it happened as\n%s", h.name, o, got, w.summary(want))
		}
	}
}

func TestEveryOrderOfAShortHistoryEndsTheSameInTheDatabase(t *testing.T) {
	t.Parallel()
	for _, h := range histories {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, provider.LookupNever)
			w.play(h, permutations(len(h.claims("x"))))
			w.verify()
		})
	}
}

func TestRandomOrdersWithRepetitionsEndTheSameInTheDatabase(t *testing.T) {
	t.Parallel()
	const orders = 300 // of each kind of history
	for i, h := range histories {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, provider.LookupNever)
			r := rand.New(rand.NewPCG(42, uint64(i)))
			n := len(h.claims("x"))
			var all [][]int
			for range orders {
				o := r.Perm(n)
				for range 2 + r.IntN(6) {
					o = append(o, r.IntN(n))
				}
				r.Shuffle(len(o), func(a, b int) { o[a], o[b] = o[b], o[a] })
				all = append(all, o)
			}
			w.play(h, all)
			w.verify()
		})
	}
}

func permutations(n int) (out [][]int) {
	var walk func(done []int)
	walk = func(done []int) {
		if len(done) == n {
			out = append(out, slices.Clone(done))
			return
		}
		for i := range n {
			if !slices.Contains(done, i) {
				walk(append(done, i))
			}
		}
	}
	walk(nil)
	return out
}
