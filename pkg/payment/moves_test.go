package payment_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/umavez/umavez/pkg/payment"
)

var update = flag.Bool("update", false, "write docs/states.md anew")

// statesPage is the documentation of the state machine, made from the table.
func statesPage() string {
	return `# Statuses of a payment

<!-- Generated from payment.Moves. To write it anew: go test ./pkg/payment -run StatesPage -update -->

No status is final: a boleto is paid after it expired, a refused card attempt is
followed by a good one, a refund fails at the payer's bank, a lost dispute is
appealed. What is certain is the money, because each movement has a reference of
its own and is booked once; the status after capture follows from it.

` + "```mermaid\n" + payment.Diagram() + "```" + `

The arrows carry what a move may book. Left out of the picture, and part of the
table: moves among the statuses before capture, and moves from a status to
itself, where only money moves.

` + payment.MovesTable() + `
How facts become moves, what happens when they come late, twice or in another
order, and where order must matter, is said in the package comment of
` + "`pkg/payment`" + `.
`
}

func TestTheStatesPageIsWhatTheTableSays(t *testing.T) {
	const path = "../../docs/states.md"
	if *update {
		if err := os.WriteFile(path, []byte(statesPage()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(statesPage(), string(got)); diff != "" {
		t.Errorf("%s is not current; run this test with -update (-table +page)\n%s", path, diff)
	}
}

func TestDiagramAndTableNameEveryStatusAndKind(t *testing.T) {
	t.Parallel()
	diagram, table := payment.Diagram(), payment.MovesTable()
	for _, m := range payment.Moves {
		if !strings.Contains(diagram, string(m.To)) || !strings.Contains(table, string(m.To)) {
			t.Errorf("%s is missing", m.To)
		}
		for _, k := range m.Books {
			if !strings.Contains(table, string(k)) {
				t.Errorf("%s is missing", k)
			}
		}
	}
	for _, line := range []string{"paid --> disputed : chargeback\n", "disputed --> paid : chargeback_reversal\n",
		"attempts --> paid : capture, fee, refund_reversal\n", "paid --> pending : refund\n", "[*] --> paid : capture, fee\n"} {
		if !strings.Contains(diagram, line) {
			t.Errorf("the diagram has no %q\n%s", line, diagram)
		}
	}
}

func TestTheTableOfMovesKeepsItsPromises(t *testing.T) {
	t.Parallel()
	captures := 0
	for _, m := range payment.Moves {
		if !payment.Legal(m.From, m.To) || m.Why == "" || m.To == payment.StatusNone {
			t.Errorf("odd move %+v", m)
		}
		if slices.Contains(m.Books, payment.KindCapture) {
			captures++
			if m.To != paid {
				t.Errorf("%s -> %s books a capture", m.From, m.To)
			}
		}
	}
	if captures != 6 {
		t.Errorf("%d moves book a capture", captures)
	}
	for _, no := range [][2]payment.Status{{payment.StatusNone, refunded}, {pending, disputed}, {refunded, pending}, {lostStatus, paid}, {paid, paid + "x"}} {
		if payment.Legal(no[0], no[1]) {
			t.Errorf("%s -> %s is legal", no[0], no[1])
		}
	}
}

// Every row of the table, and every kind that a row may book, is used by some
// history: a row that nothing uses would be a promise that nobody checks.
func TestEveryMoveAndBookingOfTheTableIsUsed(t *testing.T) {
	t.Parallel()
	type use struct {
		from, to payment.Status
		kind     payment.Kind
	}
	unused := map[use]bool{}
	for _, m := range payment.Moves {
		unused[use{m.From, m.To, ""}] = true
		for _, k := range m.Books {
			unused[use{m.From, m.To, k}] = true
		}
	}
	for seed := uint64(0); seed < 60000 && len(unused) > 0; seed++ {
		rng := rand.New(rand.NewPCG(seed, 3))
		p := newPayment()
		for range 12 {
			r := payment.Apply(p, randomClaim(rng))
			p = r.Payment
			for _, tr := range r.Transitions {
				delete(unused, use{tr.From, tr.To, ""})
				for _, b := range tr.Bookings {
					delete(unused, use{tr.From, tr.To, b.Kind})
				}
			}
		}
	}
	for u := range unused {
		t.Errorf("nothing uses %s -> %s %s", u.from, u.to, u.kind)
	}
}

func randomClaim(rng *rand.Rand) payment.Claim {
	pick := func(ss ...string) string { return ss[rng.IntN(len(ss))] }
	n := rng.IntN(30)
	c := claim(n, "random")
	if rng.IntN(8) == 0 {
		c.Beneficiary = "loja-1"
	}
	id := pick("a", "b", "c")
	amount := map[string]int64{"a": 10000, "b": 4000, "c": 1000}[id]
	switch rng.IntN(8) {
	case 0:
		c.Facts = append(c.Facts, fee(id, amount))
	case 1, 2:
		c.Facts = append(c.Facts, refund("r"+id, amount, payment.RefundState(pick("pending", "succeeded", "succeeded", "failed"))))
	case 3:
		c.Facts = append(c.Facts, dispute("d"+id, amount, payment.DisputeState(pick("open", "open", "lost", "won", "claim"))))
	case 4:
		c.Facts = append(c.Facts, undo("u"+id))
	case 5:
		c.Facts = append(c.Facts, status(payment.Status(pick("refunded", "paid", "paid"))))
	default:
		c.Facts = append(c.Facts, status(payment.Status(pick("pending", "authorized", "failed", "expired", "canceled", "paid"))))
	}
	return c
}
