package iugu_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// history is what Iugu holds of an invoice, step by step, and what it rings
// for on the way.
type history struct {
	name   string
	truth  []http.HandlerFunc // the invoice after each step
	bodies []string           // the triggers, of all steps
	status payment.Status
	money  []string // kind, reference and amount of each booking
	// walked says that the parts in which the money left depend on how often
	// the API was asked on the way; then only the sum is compared.
	walked bool
}

const (
	capture = "capture payment:" + inv + " 14990"
	feeLine = "fee fee:" + inv + " 497"
	whole   = "refund refund:total:" + inv + ":14990 14990"
	taken   = "chargeback dispute:" + inv + " 14990"
)

func back(cents string) string {
	return `,"total_paid_cents":14990,"taxes_paid_cents":497,"refunded_cents":` + cents
}

func histories() []history {
	changed := func(status string) string { return form("invoice.status_changed", status) }
	made, pending := form("invoice.created", "pending"), answer("pending", "")
	refund := form("invoice.refund", "paid")
	stands := answer("paid", received)
	return []history{
		{name: "paid, and told four times over", truth: []http.HandlerFunc{pending, stands},
			bodies: []string{made, changed("paid"), changed("paid"), form("invoice.paid_under_another_name", "paid")}, status: payment.StatusPaid, money: []string{capture, feeLine}},
		{name: "an invoice of a subscription: created when paid, pending after it (quirk 1)", truth: []http.HandlerFunc{pending, stands},
			bodies: []string{form("invoice.created", "paid"), changed("paid"), changed("pending")}, status: payment.StatusPaid, money: []string{capture, feeLine}},
		{name: "failed, failed again, held, paid", truth: []http.HandlerFunc{pending, answer("in_analysis", ""), stands},
			bodies: []string{made, form("invoice.payment_failed", "pending"), form("invoice.payment_failed", "pending"), changed("in_analysis"), changed("paid")}, status: payment.StatusPaid, money: []string{capture, feeLine}},
		{name: "three refunds, two of them with the same bytes", truth: []http.HandlerFunc{pending, stands, answer("paid", back("4990")), answer("paid", back("9990")), answer("refunded", back("14990"))},
			bodies: []string{made, changed("paid"), refund, refund, form("invoice.refund", "refunded"), changed("refunded")}, status: payment.StatusRefunded, walked: true},
		{name: "two refunds of parts", truth: []http.HandlerFunc{stands, answer("paid", back("1")), answer("paid", back("14989"))},
			bodies: []string{changed("paid"), refund, refund}, status: payment.StatusPartiallyRefunded, walked: true},
		{name: "refunded, without a figure", truth: []http.HandlerFunc{stands, answer("refunded", received)},
			bodies: []string{changed("paid"), form("invoice.refund", "refunded"), changed("refunded")}, status: payment.StatusRefunded, money: []string{capture, feeLine, whole}},
		{name: "a protest that is lost", truth: []http.HandlerFunc{pending, stands, answer("in_protest", received), answer("chargeback", received)},
			bodies: []string{made, changed("paid"), changed("in_protest"), changed("chargeback")}, status: payment.StatusChargedBack, money: []string{capture, feeLine, taken}},
		{name: "a protest that is open", truth: []http.HandlerFunc{stands, answer("in_protest", received)},
			bodies: []string{changed("paid"), changed("in_protest")}, status: payment.StatusDisputed, money: []string{capture, feeLine, taken}},
		{name: "a protest of the rest, after a refund", truth: []http.HandlerFunc{stands, answer("paid", back("4990")), answer("in_protest", back("4990")), answer("chargeback", back("4990"))},
			bodies: []string{changed("paid"), refund, changed("in_protest"), changed("chargeback")}, status: payment.StatusChargedBack,
			money: []string{capture, feeLine, "refund refund:total:" + inv + ":4990 4990", "chargeback dispute:" + inv + " 10000"}},
		{name: "a protest that is won, which is the receipt once more", truth: []http.HandlerFunc{stands, answer("in_protest", received), stands},
			bodies: []string{changed("paid"), changed("in_protest"), changed("paid")}, status: payment.StatusPaid, walked: true},
		{name: "paid in part", truth: []http.HandlerFunc{pending, answer("partially_paid", `,"total_paid_cents":5000,"taxes_paid_cents":100`)},
			bodies: []string{made, changed("partially_paid")}, status: payment.StatusPaid, money: []string{"capture payment:" + inv + " 5000", "fee fee:" + inv + " 100"}},
		{name: "paid elsewhere, with the figures of a receipt", truth: []http.HandlerFunc{pending, answer("externally_paid", received)},
			bodies: []string{made, changed("externally_paid"), changed("pending")}, status: payment.StatusCanceled},
		{name: "expired", truth: []http.HandlerFunc{answer("draft", ""), pending, answer("expired", "")},
			bodies: []string{made, changed("pending"), changed("expired")}, status: payment.StatusExpired},
		{name: "canceled", truth: []http.HandlerFunc{pending, answer("canceled", "")}, bodies: []string{made, changed("canceled")}, status: payment.StatusCanceled},
	}
}

// books is a payment with its bookings, and the rule by which the processor
// decides.
type books struct {
	state    payment.Payment
	bookings []payment.Booking
	clock    time.Time
}

func (b *books) decide(t *testing.T, claim, answered payment.Claim, policy payment.Policy) bool {
	t.Helper()
	b.clock = b.clock.Add(time.Hour)
	r, dropped := payment.Resolve(b.state, &payment.Snapshot{Claim: answered, ObservedAt: b.clock}, claim, policy)
	if dropped {
		t.Fatal("an answer was dropped as old")
	}
	if r.Need == payment.NeedAgreement {
		return false
	}
	if r.Need != "" {
		t.Fatalf("needs %s", r.Need)
	}
	b.state = r.Payment
	for _, tr := range r.Transitions {
		b.bookings = append(b.bookings, tr.Bookings...)
	}
	return true
}

func (b *books) money() (lines []string) {
	for _, k := range b.bookings {
		lines = append(lines, fmt.Sprintf("%s %s:%s %d", k.Kind, k.RefType, k.RefID, k.Amount))
	}
	slices.Sort(lines)
	return lines
}

// net is what the bookings leave, and whether any of them occurs twice.
func (b *books) net() (net int64, twice bool) {
	lines := b.money()
	for _, k := range b.bookings {
		switch k.Kind {
		case payment.KindCapture, payment.KindChargebackReversal, payment.KindRefundReversal:
			net += k.Amount
		default:
			net -= k.Amount
		}
	}
	return net, len(slices.Compact(slices.Clone(lines))) != len(lines)
}

// TestTriggersInAnyOrderEndAlike plays each history while its triggers arrive
// in every order, repeated, or in part only. The invoice moves on at every
// speed, an answer may be a step behind, and a trigger that an answer
// contradicts waits and is tried again. A last look stands for the sweeper's.
func TestTriggersInAnyOrderEndAlike(t *testing.T) {
	t.Parallel()
	for _, h := range histories() {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			p := build(t, source("header"))
			policy := payment.Policy{Lag: time.Minute}
			claims := make([]payment.Claim, len(h.bodies))
			for i, b := range h.bodies {
				claims[i] = claimOf(t, p, b)
			}
			answers := make([]payment.Claim, len(h.truth))
			for i, a := range h.truth {
				answers[i] = look(t, p, a)
			}
			last := books{state: payment.Payment{Provider: "iugu", GatewayID: inv}, clock: now}
			last.decide(t, payment.Claim{GatewayID: inv}, answers[len(answers)-1], policy)
			want, _ := last.net()
			slices.Sort(h.money)
			rng := rand.New(rand.NewPCG(11, 13))
			providertest.Sequences(len(claims), func(order []int) {
				b := books{state: payment.Payment{Provider: "iugu", GatewayID: inv}, clock: now}
				at := 0
				var waiting []int
				try := func(i int) bool { return b.decide(t, claims[i], answers[at], policy) }
				for _, i := range order {
					if at < len(answers)-1 {
						at += rng.IntN(2)
					}
					waiting = slices.DeleteFunc(append(waiting, i), try)
				}
				at = len(answers) - 1
				waiting = slices.DeleteFunc(waiting, try)
				b.decide(t, payment.Claim{GatewayID: inv}, answers[at], policy)
				net, twice := b.net()
				if len(waiting) > 0 || b.state.Status != h.status || net != want || twice || !h.walked && !slices.Equal(b.money(), h.money) {
					t.Fatalf("order %v: waits for %v, %s, net %d\n%q\nwant %s, net %d\n%q", order, waiting, b.state.Status, net, b.money(), h.status, want, h.money)
				}
			})
		})
	}
}

// claimOf reads a body as ingest and the processor would.
func claimOf(t testing.TB, p provider.Provider, body string) payment.Claim {
	t.Helper()
	r := inHeader(token, []byte(body), now)
	m := p.Parse(r)[0]
	if m.Disposition != provider.Process || !m.Reopen {
		t.Fatalf("%s (%s), reopen %v\n%s", m.Disposition, m.Reason, m.Reopen, body)
	}
	claims, err := p.Facts(providertest.EventOf(p, source("header"), r, m))
	if err != nil || len(claims) != 1 {
		t.Fatalf("%d claims, %v\n%s", len(claims), err, body)
	}
	return claims[0]
}

func look(t testing.TB, p provider.Provider, answer http.HandlerFunc) payment.Claim {
	t.Helper()
	c, err := p.Lookup(context.Background(), &http.Client{Transport: providertest.HandlerTransport{Handler: answer}}, inv)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
