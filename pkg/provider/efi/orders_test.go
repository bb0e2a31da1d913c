package efi_test

import (
	"context"
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

// history is the life of one Pix: the item as it was after each change, which
// is what the callbacks and, from then on, the API say.
type history struct {
	name   string
	states []string
	status payment.Status
	money  []string // kind, reference and amount of each booking
}

func histories() []history {
	const capture = "capture payment:" + pixID + " 14990"
	refund := func(id string, cents int) string { return fmt.Sprintf("refund refund:%s:%s %d", pixID, id, cents) }
	lost := func(id string, cents int) string { return fmt.Sprintf("chargeback dispute:%s:%s %d", pixID, id, cents) }
	list := func(all ...string) string { return with(devolucoes(all...)) }
	const doing, done, not = "EM_PROCESSAMENTO", "DEVOLVIDO", "NAO_REALIZADO"
	const fraud = `"natureza":"MED_FRAUDE"`
	return []history{
		{"paid, and told of again", []string{paidItem, paidItem, paidItem}, payment.StatusPaid, []string{capture}},
		{"paid, with a fee that is named later", []string{paidItem, with(`"gnExtras":{"tarifa":"1.79"}`)}, payment.StatusPaid,
			[]string{capture, "fee fee:" + pixID + " 179"}},
		{"refunded in two parts, one of them slowly", []string{
			paidItem, list(devolucao("a", "49.90", doing)), list(devolucao("a", "49.90", done)),
			list(devolucao("a", "49.90", done), devolucao("b", "100.00", doing)), list(devolucao("b", "100.00", done), devolucao("a", "49.90", done)),
		}, payment.StatusRefunded, []string{capture, refund("a", 4990), refund("b", 10000)}},
		{"two refunds of one amount, and one that does not come about", []string{
			paidItem, list(devolucao("a", "10.00", doing), devolucao("b", "10.00", doing)),
			list(devolucao("a", "10.00", not), devolucao("b", "10.00", doing)), list(devolucao("a", "10.00", not), devolucao("b", "10.00", done)),
			list(devolucao("c", "10.00", done), devolucao("a", "10.00", not), devolucao("b", "10.00", done)),
		}, payment.StatusPartiallyRefunded, []string{capture, refund("b", 1000), refund("c", 1000)}},
		{"a refund that does not come about", []string{paidItem, list(devolucao("a", "149.90", doing)), list(devolucao("a", "149.90", not))},
			payment.StatusPaid, []string{capture}},
		{"all taken back for fraud", []string{paidItem, list(devolucao("m", "149.90", doing, fraud)), list(devolucao("m", "149.90", done, fraud))},
			payment.StatusChargedBack, []string{capture, lost("m", 14990)}},
		{"not taken back after all", []string{paidItem, list(devolucao("m", "149.90", doing, fraud)), list(devolucao("m", "149.90", not, fraud))},
			payment.StatusPaid, []string{capture}},
		{"a part refunded, the rest taken back", []string{
			paidItem, list(devolucao("a", "49.90", done)), list(devolucao("a", "49.90", done), devolucao("m", "100.00", doing, fraud)),
			list(devolucao("m", "100.00", done, fraud), devolucao("a", "49.90", done)),
		}, payment.StatusChargedBack, []string{capture, refund("a", 4990), lost("m", 10000)}},
		{"a part taken back, then the rest refunded", []string{
			paidItem, list(devolucao("m", "49.90", done, fraud)), list(devolucao("m", "49.90", done, fraud), devolucao("a", "100.00", doing)),
			list(devolucao("m", "49.90", done, fraud), devolucao("a", "100.00", done)),
		}, payment.StatusChargedBack, []string{capture, lost("m", 4990), refund("a", 10000)}},
	}
}

// ledger is one payment, and all that was ever booked of it.
type ledger struct {
	p     payment.Payment
	money []string
}

func newLedger() *ledger { return &ledger{p: payment.Payment{Provider: "efi", GatewayID: pixID}} }

// take applies a result, unless it needs something.
func (l *ledger) take(r payment.Result) bool {
	if r.Need != "" {
		return false
	}
	l.p = r.Payment
	for _, t := range r.Transitions {
		for _, b := range t.Bookings {
			l.money = append(l.money, fmt.Sprintf("%s %s:%s %d", b.Kind, b.RefType, b.RefID, b.Amount))
		}
	}
	return true
}

func (l *ledger) compare(t *testing.T, h history, how string) {
	t.Helper()
	slices.Sort(l.money)
	slices.Sort(h.money)
	if l.p.Status != h.status || !slices.Equal(l.money, h.money) {
		t.Fatalf("%s ends as %s %q\nwant %s %q", how, l.p.Status, l.money, h.status, h.money)
	}
}

// claims reads the callbacks of a history, and what the API answers after each.
func (h history) claims(t *testing.T, p provider.Provider) (told, answered []payment.Claim) {
	t.Helper()
	for _, item := range h.states {
		r := sign(token, []byte(`{"pix":[`+item+`]}`), now)
		claims, err := p.Facts(providertest.EventOf(p, source(), r, p.Parse(r)[0]))
		if err != nil || len(claims) != 1 {
			t.Fatalf("%d claims, %v\n%s", len(claims), err, item)
		}
		client := &http.Client{Transport: providertest.HandlerTransport{Handler: withToken(answer(item))}}
		c, err := p.Lookup(context.Background(), client, pixID)
		if err != nil {
			t.Fatal(err)
		}
		told, answered = append(told, claims[0]), append(answered, c)
	}
	return told, answered
}

// The API moves on while the callbacks are handled, at every speed and in
// every order. What contradicts it waits, and is tried again.
func TestCallbacksInAnyOrderWithLookupsEndAlike(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for _, h := range histories() {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			told, answered := h.claims(t, p)
			rng := rand.New(rand.NewPCG(11, 13))
			providertest.Sequences(len(told), func(order []int) {
				l, truth, clock := newLedger(), 0, paidAt.Add(240*time.Hour)
				try := func(i int) bool {
					clock = clock.Add(time.Hour)
					r, _ := payment.Resolve(l.p, &payment.Snapshot{Claim: answered[truth], ObservedAt: clock}, told[i], payment.Policy{Lag: time.Minute})
					return l.take(r)
				}
				var waiting []int
				for n, i := range order {
					if rng.IntN(2) == 0 {
						truth = min(truth+1, len(answered)-1)
					}
					if n == len(order)-1 {
						truth = len(answered) - 1
					}
					waiting = slices.DeleteFunc(append(waiting, i), try)
				}
				if len(waiting) > 0 {
					t.Fatalf("order %v waits for %v", order, waiting)
				}
				l.compare(t, h, fmt.Sprintf("order %v", order))
			})
		})
	}
}

// Any of the callbacks may be lost. As long as one arrives, the lookup for it,
// or the reconciliation, ends in the truth.
func TestLostCallbacksAndALookupEndAlike(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for _, h := range histories() {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			told, answered := h.claims(t, p)
			for arrive := 1; arrive < 1<<len(told); arrive++ {
				l, clock := newLedger(), paidAt.Add(240*time.Hour)
				for i := range told {
					if arrive&(1<<i) == 0 {
						continue
					}
					clock = clock.Add(time.Hour)
					r, _ := payment.Resolve(l.p, &payment.Snapshot{Claim: answered[i], ObservedAt: clock}, told[i], payment.Policy{Lag: time.Minute})
					if !l.take(r) {
						t.Fatalf("callback %d of %b: %s", i, arrive, r.Need)
					}
				}
				last := payment.Snapshot{Claim: answered[len(answered)-1], ObservedAt: clock.Add(time.Hour)}
				r, _ := payment.Resolve(l.p, &last, payment.Claim{GatewayID: pixID}, payment.Policy{TrustBody: true, Lag: time.Minute})
				if !l.take(r) {
					t.Fatalf("reconciliation of %b: %s", arrive, r.Need)
				}
				l.compare(t, h, fmt.Sprintf("the callbacks %b", arrive))
			}
		})
	}
}

// The same without lookups, for operators who trust the bodies.
func TestTrustedCallbacksInAnyOrderEndAlike(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for _, h := range histories() {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			told, _ := h.claims(t, p)
			providertest.Sequences(len(told), func(order []int) {
				l := newLedger()
				for _, i := range order {
					if r := payment.Apply(l.p, told[i]); !l.take(r) {
						t.Fatalf("order %v: %s", order, r.Need)
					}
				}
				l.compare(t, h, fmt.Sprintf("order %v", order))
			})
		})
	}
}

// Without a lookup no callback moves anything, whatever it says.
func TestACallbackAloneMovesNoMoney(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for _, h := range histories() {
		told, _ := h.claims(t, p)
		for i, c := range told {
			r, _ := payment.Resolve(payment.Payment{GatewayID: pixID}, nil, c, payment.Policy{TrustBody: p.Traits().BodyAuthenticated})
			if r.Applied() || r.Need == "" || r.Payment.Captured.Known {
				t.Errorf("%s, callback %d: %+v", h.name, i, r)
			}
		}
	}
}

// A forged body about a true Pix is no more than a reason to ask.
func TestAForgedBodyIsAnsweredByTheLookup(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	_, answered := histories()[0].claims(t, p)
	for name, item := range map[string]string{
		"a larger amount":          strings.Replace(paidItem, "149.90", "999999.90", 1),
		"another charge and owner": strings.Replace(paidItem, "exampletxid", "forgedtxidx", 1),
		"a fee":                    with(`"gnExtras":{"tarifa":"100.00"}`),
	} {
		r := sign(token, []byte(`{"pix":[`+item+`]}`), now)
		claims, err := p.Facts(providertest.EventOf(p, source(), r, p.Parse(r)[0]))
		if err != nil {
			t.Fatal(err)
		}
		res, _ := payment.Resolve(newLedger().p, &payment.Snapshot{Claim: answered[0], ObservedAt: paidAt.Add(time.Hour)}, claims[0], payment.Policy{Lag: time.Minute})
		if got := res.Payment; res.Need != "" || got.Captured.Value != 14990 || got.Fee != 0 || got.Reference != "exampletxid00000000000000001" {
			t.Errorf("%s: %+v needs %q", name, got, res.Need)
		}
	}
}
