package standardwebhooks

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// history is what a sender tells of one payment, in its true order, where it
// ends, and what its API answers then.
type history struct {
	name   string
	bodies []string
	status payment.Status
	money  []string // kind, reference and amount of each booking
	answer http.HandlerFunc
}

func told(eventType, at, more string) string {
	return `{"type":"payment.` + eventType + `","timestamp":"` + at + `","data":{"payment_id":"pay_0001","currency":"BRL"` + more + `}}`
}

const (
	t0, t1, t2 = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z", "2026-01-02T00:00:00Z"
	t3, t4, t5 = "2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z", "2026-01-05T00:00:00Z"
)

func histories() []history {
	asked, paid := `,"amount":25000`, `,"amount":25000,"fee":1000,"net":24000`
	refund := func(id, cents, total string) string {
		return `,"refund_id":"` + id + `","amount":` + cents + `,"amount_refunded":` + total
	}
	item := func(id, cents, status string) string {
		return `{"refund_id":"` + id + `","amount":` + cents + `,"status":"` + status + `"}`
	}
	dispute := func(cents string) string { return `,"dispute_id":"dp_1","amount":` + cents }
	disputed := func(status string) string {
		return `,"disputes":[{"dispute_id":"dp_1","amount":25000,"status":"` + status + `"}]`
	}
	capture, fee := "capture payment:pay_0001 25000", "fee fee:pay_0001 1000"
	return []history{
		{"refunded in three parts", []string{
			told("created", t0, asked), told("paid", t1, paid), told("partially_refunded", t2, refund("rf_1", "10000", "10000")),
			told("partially_refunded", t3, refund("rf_2", "10000", "20000")), told("refunded", t4, refund("rf_3", "5000", "25000")),
		}, payment.StatusRefunded, []string{capture, fee, "refund refund:rf_1 10000", "refund refund:rf_2 10000", "refund refund:rf_3 5000"},
			answered("refunded", `,"amount_refunded":25000,"refunds":[`+item("rf_3", "5000", "succeeded")+`,`+item("rf_1", "10000", "succeeded")+`,`+item("rf_2", "10000", "succeeded")+`]`)},
		{"a refund that bounced, and another one", []string{
			told("paid", t1, paid), told("refunded", t2, refund("rf_1", "25000", "25000")), told("refund_failed", t3, `,"refund_id":"rf_1","amount":25000`),
			told("partially_refunded", t4, refund("rf_2", "7000", "7000")),
		}, payment.StatusPartiallyRefunded, []string{capture, fee, "refund refund:rf_1 25000", "refund_reversal refund:rf_1 25000", "refund refund:rf_2 7000"},
			answered("partially_refunded", `,"amount_refunded":7000,"refunds":[`+item("rf_1", "25000", "failed")+`,`+item("rf_2", "7000", "succeeded")+`]`)},
		{"failed, expired, canceled, and paid after all (CASES C7)", []string{
			told("created", t0, asked), told("failed", t1, asked), told("expired", t2, asked), told("canceled", t3, asked), told("paid", t4, paid),
		}, payment.StatusPaid, []string{capture, fee}, answered("paid", "")},
		{"two states of one second, told apart by the sequence (CASES C3)", []string{
			told("authorized", t0, asked+`,"sequence":1`), told("failed", t0, asked+`,"sequence":2`), told("authorized", t0, asked+`,"sequence":3`), told("pending", t0, asked+`,"sequence":4`),
		}, payment.StatusPending, nil, answered("pending", "")},
		{"a chargeback that is won", []string{
			told("authorized", t0, asked), told("paid", t1, paid), told("chargeback.opened", t3, dispute("25000")), told("chargeback.won", t4, dispute("25000")),
		}, payment.StatusPaid, []string{capture, fee, "chargeback dispute:dp_1 25000", "chargeback_reversal dispute:dp_1 25000"}, answered("paid", disputed("won"))},
		{"a chargeback that is lost", []string{
			told("pending", t0, asked), told("paid", t1, paid), told("chargeback.opened", t3, dispute("25000")), told("chargeback.lost", t4, dispute("25000")),
		}, payment.StatusChargedBack, []string{capture, fee, "chargeback dispute:dp_1 25000"}, answered("charged_back", disputed("lost"))},
		{"a chargeback without a name that is won", []string{
			told("paid", t1, paid), told("chargeback.opened", t3, ""), told("chargeback.won", t4, ""),
		}, payment.StatusPaid, []string{capture, fee, "chargeback dispute:pay_0001 25000", "chargeback_reversal dispute:pay_0001 25000"}, nil},
		{"a chargeback of the rest, after a refund", []string{
			told("paid", t1, paid), told("partially_refunded", t2, refund("rf_1", "10000", "10000")), told("chargeback.opened", t3, dispute("15000")), told("chargeback.lost", t5, dispute("15000")),
		}, payment.StatusChargedBack, []string{capture, fee, "refund refund:rf_1 10000", "chargeback dispute:dp_1 15000"},
			answered("charged_back", `,"amount_refunded":10000,"refunds":[`+item("rf_1", "10000", "succeeded")+`],"disputes":[{"dispute_id":"dp_1","amount":15000,"status":"lost"}]`)},
		{"never paid", []string{told("created", t0, asked), told("pending", t1, asked), told("expired", t2, asked)}, payment.StatusExpired, nil, answered("expired", "")},
	}
}

func claimOf(t *testing.T, p provider.Provider, src provider.Source, body string) payment.Claim {
	t.Helper()
	r := sign(secretNow, []byte(body), clock)
	m := p.Parse(r)[0]
	claims, err := p.Facts(providertest.EventOf(p, src, r, m))
	if m.Disposition != provider.Process || err != nil || len(claims) != 1 {
		t.Fatalf("%s %s, %d claims, %v\n%s", m.Disposition, m.Reason, len(claims), err, body)
	}
	return claims[0]
}

// books is one payment while its events come in.
type books struct {
	state    payment.Payment
	bookings []payment.Booking
}

func (b *books) take(r payment.Result) bool {
	if r.Need != "" {
		return false
	}
	b.state = r.Payment
	for _, tr := range r.Transitions {
		b.bookings = append(b.bookings, tr.Bookings...)
	}
	return true
}

func (b *books) money() []string {
	var all []string
	for _, x := range b.bookings {
		all = append(all, fmt.Sprintf("%s %s:%s %d", x.Kind, x.RefType, x.RefID, x.Amount))
	}
	slices.Sort(all)
	return all
}

// The bodies are signed, so they alone suffice: every order of typical
// histories, with repetitions, ends in the same status and the same entries.
// What needs another event first waits, as the sweeper would have it.
func TestEventsInAnyOrderEndAlikeWithoutLookups(t *testing.T) {
	t.Parallel()
	src := source()
	src.APIBase, src.APIKey, src.Lookup = "", "", provider.LookupNever
	p := build(t, src)
	for _, h := range histories() {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			claims := make([]payment.Claim, len(h.bodies))
			for i, body := range h.bodies {
				claims[i] = claimOf(t, p, src, body)
			}
			slices.Sort(h.money)
			providertest.Sequences(len(claims), func(order []int) {
				b := books{state: payment.Payment{Provider: "standardwebhooks", GatewayID: "pay_0001"}}
				var waiting []int
				try := func(i int) bool { return b.take(payment.Apply(b.state, claims[i])) }
				for _, i := range order {
					waiting = slices.DeleteFunc(append(waiting, i), try)
				}
				for range waiting {
					waiting = slices.DeleteFunc(waiting, try)
				}
				if got := b.money(); len(waiting) > 0 || b.state.Status != h.status || !slices.Equal(got, h.money) {
					t.Fatalf("order %v waits for %v and ends as %s\n%q\nwant %s\n%q", order, waiting, b.state.Status, got, h.status, h.money)
				}
			})
		})
	}
}

// Whichever events are lost, what comes last is looked up, and the balance is
// that of the truth. A refund that bounced while its events were lost is the
// one thing that leaves no entries: there and back again are not told.
func TestAnyLossFollowedByALookupEndsInTheTruth(t *testing.T) {
	t.Parallel()
	src := source()
	p := build(t, src)
	for _, h := range histories() {
		if h.answer == nil {
			continue // the API names every dispute
		}
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			claims := make([]payment.Claim, len(h.bodies))
			for i, body := range h.bodies {
				claims[i] = claimOf(t, p, src, body)
			}
			client := &http.Client{Transport: providertest.HandlerTransport{Handler: h.answer}}
			last, err := p.Lookup(t.Context(), client, "pay_0001")
			if err != nil {
				t.Fatal(err)
			}
			want := balance(h.money)
			rng := rand.New(rand.NewPCG(3, 5))
			providertest.Sequences(len(claims), func(order []int) {
				kept := slices.DeleteFunc(slices.Clone(order), func(int) bool { return rng.IntN(2) == 0 })
				b := books{state: payment.Payment{Provider: "standardwebhooks", GatewayID: "pay_0001"}}
				for _, i := range kept {
					b.take(payment.Apply(b.state, claims[i])) // some may have to wait
				}
				snap := payment.Snapshot{Claim: last, ObservedAt: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)}
				policy := payment.Policy{TrustBody: true, Lag: time.Minute}
				for _, i := range append([]int{-1}, kept...) { // reconciliation, then what waited
					c := payment.Claim{GatewayID: "pay_0001"}
					if i >= 0 {
						c = claims[i]
					}
					if r, _ := payment.Resolve(b.state, &snap, c, policy); !b.take(r) {
						t.Fatalf("kept %v: needs %s", kept, r.Need)
					}
				}
				if got := balance(b.money()); b.state.Status != h.status || got != want {
					t.Fatalf("kept %v ends as %s with %d, want %s with %d\n%q", kept, b.state.Status, got, h.status, want, b.money())
				}
			})
		})
	}
}

// balance is what the owner of the payment is owed by these entries.
func balance(money []string) (sum int64) {
	for _, line := range money {
		var kind, ref string
		var amount int64
		if _, err := fmt.Sscan(line, &kind, &ref, &amount); err != nil {
			panic(err)
		}
		switch {
		case kind == string(payment.KindCapture), strings.HasSuffix(kind, "_reversal"):
			sum += amount
		default:
			sum -= amount
		}
	}
	return sum
}
