package pagarme_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// history is what Pagar.me sends in its true order, what its API says at the
// end of each charge, and the end of each.
type history struct {
	name   string
	bodies []string
	api    map[string]string // charge -> the object
	ends   map[string]string
	// asks: the events alone do not say everything, so that LOOKUP=always is
	// needed. A chargeback whose body is silent about refunds takes all that is
	// left when it comes, and one that overtook a refund took too much.
	asks bool
}

const other = "ch_EXAMPLE000000002"

// object is a charge; more is JSON of further members.
func object(id, status, more string) string {
	return fmt.Sprintf(`{"id":%q,"code":"PED-1001","amount":10000,"currency":"BRL","status":%q%s}`, id, status, more)
}

// told is an event so many minutes after the first.
func told(minute int, typ, data string) string {
	return fmt.Sprintf(`{"id":"hook_%s_%d","account":{"id":%q},"type":%q,"created_at":"2026-01-15T12:%02d:00.5000000Z","data":%s}`, typ, minute, account, typ, minute, data)
}

func order(status string, charges ...string) string {
	return fmt.Sprintf(`{"id":"or_1","code":"PED-1001","amount":10000,"currency":"BRL","status":%q,"charges":[%s]}`, status, strings.Join(charges, ","))
}

func histories() []history {
	const was = `,"paid_amount":10000,"paid_at":"2026-01-15T12:02:00Z"`
	tx := func(word string) string { return `,"last_transaction":{"status":"` + word + `"}` }
	pending, paid := object(ref, "pending", ""), object(ref, "paid", was)
	part := func(cents string) string {
		return object(ref, "paid", was+`,"canceled_amount":`+cents+tx("partial_refunded"))
	}
	refunded := object(ref, "canceled", was+`,"canceled_amount":10000`+tx("refunded"))
	bare := object(ref, "canceled", `,"canceled_amount":10000`+tx("refunded")) // as in the public sample
	failed := object(ref, "failed", tx("not_authorized"))
	authorized := object(ref, "pending", tx("authorized_pending_capture"))
	voided := object(ref, "canceled", `,"canceled_amount":10000`+tx("voided"))
	back := object(ref, "chargedback", was+`,"canceled_amount":3000`)
	expired := object(ref, "canceled", "")
	one, two := object(ref, "paid", `,"paid_amount":6000`), object(other, "paid", `,"paid_amount":4000`)
	return []history{
		{"a Pix, told as charge and as order", []string{told(1, "charge.pending", pending), told(2, "charge.paid", paid), told(2, "order.paid", order("paid", paid)), told(3, "charge.updated", paid)},
			map[string]string{ref: paid}, map[string]string{ref: "paid 10000 0 0"}, false},
		{"refunds in parts, then whole", []string{told(2, "charge.paid", paid), told(3, "charge.partial_canceled", part("3000")), told(4, "charge.partial_canceled", part("3001")), told(5, "charge.refunded", refunded), told(5, "order.canceled", order("canceled", refunded))},
			map[string]string{ref: refunded}, map[string]string{ref: "refunded 10000 10000 0"}, false},
		{"a refund that does not repeat what was paid", []string{told(1, "charge.pending", pending), told(2, "order.paid", order("paid", paid)), told(3, "charge.partial_canceled", part("10")), told(5, "charge.refunded", bare), told(5, "order.canceled", order("canceled", bare))},
			map[string]string{ref: bare}, map[string]string{ref: "refunded 10000 10000 0"}, false},
		{"a failure, then a payment", []string{told(1, "charge.pending", pending), told(2, "charge.payment_failed", failed), told(2, "order.payment_failed", order("failed", failed)), told(3, "charge.paid", paid), told(3, "order.paid", order("paid", paid))},
			map[string]string{ref: paid}, map[string]string{ref: "paid 10000 0 0"}, false},
		{"an authorisation that was given up", []string{told(1, "charge.pending", pending), told(2, "charge.pending", authorized), told(3, "charge.refunded", voided), told(3, "order.canceled", order("canceled", voided))},
			map[string]string{ref: voided}, map[string]string{ref: "canceled 0 0 0"}, false},
		{"a chargeback under both names after a partial refund", []string{told(2, "charge.paid", paid), told(3, "charge.partial_canceled", part("3000")), told(4, "charge.chargedback", back), told(5, "charge.chargedback", back), told(5, "order.paid", order("paid", back))},
			map[string]string{ref: back}, map[string]string{ref: "charged_back 10000 3000 7000"}, false},
		{"a chargeback that says nothing of the refunds", []string{told(2, "charge.paid", paid), told(3, "charge.partial_canceled", part("3000")), told(4, "charge.chargedback", object(ref, "chargedback", was)), told(4, "chargeback.received", `{"id":"cbk_1","charge":{"id":"`+ref+`"}}`)},
			map[string]string{ref: back}, map[string]string{ref: "charged_back 10000 3000 7000"}, true},
		{"an expired Pix, told by its order alone", []string{told(1, "charge.pending", pending), told(9, "order.canceled", order("canceled", expired))},
			map[string]string{ref: expired}, map[string]string{ref: "canceled 0 0 0"}, true},
		{"a boleto that expired and was paid too much", []string{told(1, "charge.pending", pending), told(2, "order.canceled", order("canceled", expired)), told(3, "charge.overpaid", object(ref, "overpaid", `,"paid_amount":10250`)), told(3, "order.paid", order("paid", object(ref, "overpaid", `,"paid_amount":10250`)))},
			map[string]string{ref: object(ref, "overpaid", `,"paid_amount":10250`)}, map[string]string{ref: "paid 10250 0 0"}, false},
		{"two cards, one of them refunded", []string{told(2, "charge.paid", one), told(2, "order.paid", order("paid", one, two)), told(3, "charge.paid", two),
			told(4, "charge.refunded", object(other, "canceled", `,"canceled_amount":4000,"paid_amount":4000`+tx("refunded"))), told(4, "order.paid", order("paid", one, object(other, "canceled", `,"canceled_amount":4000,"paid_amount":4000`)))},
			map[string]string{ref: one, other: object(other, "canceled", `,"canceled_amount":4000,"paid_amount":4000`)}, map[string]string{ref: "paid 6000 0 0", other: "refunded 4000 4000 0"}, false},
		{"a failed charge and its successor", []string{told(1, "charge.payment_failed", failed), told(2, "charge.paid", object(other, "paid", `,"paid_amount":10000`)), told(2, "order.paid", order("paid", failed, object(other, "paid", `,"paid_amount":10000`)))},
			map[string]string{ref: failed, other: object(other, "paid", `,"paid_amount":10000`)}, map[string]string{ref: "failed 0 0 0", other: "paid 10000 0 0"}, false},
	}
}

// receiver is the rule by which the processor decides, without its database:
// all claims of an event or none, and what cannot be applied waits.
type receiver struct {
	t        *testing.T
	held     map[string]payment.Payment
	captures map[string]int
	snapshot func(string) *payment.Snapshot // nil: nobody is asked
}

var policy = payment.Policy{TrustBody: true, Lag: 2 * time.Second}

// take applies an event, or says why it waits.
func (r *receiver) take(claims []payment.Claim) payment.Need {
	after := maps.Clone(r.held)
	captures := maps.Clone(r.captures)
	for _, c := range claims {
		p, known := after[c.GatewayID]
		if !known {
			p = payment.Payment{Provider: "pagarme", GatewayID: c.GatewayID}
		}
		var snap *payment.Snapshot
		if r.snapshot != nil {
			snap = r.snapshot(c.GatewayID)
		}
		res, _ := payment.Resolve(p, snap, c, policy)
		if res.Need != "" {
			return res.Need
		}
		for _, t := range res.Transitions {
			for _, b := range t.Bookings {
				if b.Kind == payment.KindCapture {
					captures[c.GatewayID]++
				}
			}
		}
		after[c.GatewayID] = res.Payment
	}
	r.held, r.captures = after, captures
	return ""
}

// play delivers events in an order; parked ones are tried again when a payment
// has moved. It returns what still waits.
func (r *receiver) play(events [][]payment.Claim, order []int) map[payment.Need]int {
	var parked []int
	for _, i := range order {
		if r.take(events[i]) != "" {
			parked = append(parked, i)
		}
	}
	for range len(parked) + 1 {
		parked = slices.DeleteFunc(parked, func(i int) bool { return r.take(events[i]) == "" })
	}
	waiting := map[payment.Need]int{}
	for _, i := range parked {
		waiting[r.take(events[i])]++
	}
	return waiting
}

func (r *receiver) compare(how string, h history) {
	r.t.Helper()
	for id, want := range h.ends {
		p := r.held[id]
		if got := fmt.Sprintf("%s %d %d %d", p.Status, p.Captured.Value, p.Refunded, p.ChargedBack); got != want {
			r.t.Fatalf("%s: %s ends as %q, want %q", how, id, got, want)
		}
		if n := r.captures[id]; n > 1 || (n == 1) != p.Captured.Known {
			r.t.Fatalf("%s: %s was captured %d times", how, id, n)
		}
	}
}

func claimsOf(t *testing.T, p provider.Provider, h history) (events [][]payment.Claim) {
	t.Helper()
	for _, body := range h.bodies {
		r := sign(login, []byte(body), now)
		m := p.Parse(r)[0]
		if m.Disposition != provider.Process {
			t.Fatalf("%s: %s\n%s", m.Disposition, m.Reason, body)
		}
		claims, err := p.Facts(providertest.EventOf(p, source(), r, m))
		if err != nil || len(claims) == 0 {
			t.Fatalf("%d claims, %v\n%s", len(claims), err, body)
		}
		events = append(events, claims)
	}
	return events
}

// snapshots looks every charge of a history up at its end.
func snapshots(t *testing.T, p provider.Provider, h history) map[string]*payment.Snapshot {
	t.Helper()
	all := map[string]*payment.Snapshot{}
	for id, object := range h.api {
		client := &http.Client{Transport: providertest.HandlerTransport{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, object) })}}
		claim, err := p.Lookup(context.Background(), client, id)
		if err != nil {
			t.Fatal(err)
		}
		all[id] = &payment.Snapshot{Claim: claim, ObservedAt: time.Date(2026, 1, 15, 13, 0, 0, 0, time.UTC)}
	}
	return all
}

func TestAnyOrderAndAnyRepetitionEndsInTheTruth(t *testing.T) {
	t.Parallel()
	for _, h := range histories() {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			p := build(t, source())
			events, snaps := claimsOf(t, p, h), snapshots(t, p, h)
			providertest.Sequences(len(events), func(order []int) {
				r := &receiver{t: t, held: map[string]payment.Payment{}, captures: map[string]int{}}
				if waiting := r.play(events, order); !h.asks {
					if len(waiting) > 0 {
						t.Fatalf("%v: waits for ever: %v", order, waiting)
					}
					r.compare(fmt.Sprintf("%v, nobody asked", order), h)
				}
				r = &receiver{t: t, held: map[string]payment.Payment{}, captures: map[string]int{}, snapshot: func(id string) *payment.Snapshot { return snaps[id] }}
				if waiting := r.play(events, order); len(waiting) > 0 {
					t.Fatalf("%v, each looked up: waits for ever: %v", order, waiting)
				}
				r.compare(fmt.Sprintf("%v, each looked up", order), h)
			})
		})
	}
}

func TestAnyLossFollowedByALookupEndsInTheTruth(t *testing.T) {
	t.Parallel()
	for _, h := range histories() {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			p := build(t, source())
			events, snaps := claimsOf(t, p, h), snapshots(t, p, h)
			for lost := range 1 << len(events) {
				providertest.Sequences(len(events), func(order []int) {
					order = slices.DeleteFunc(order, func(i int) bool { return lost&(1<<i) != 0 })
					r := &receiver{t: t, held: map[string]payment.Payment{}, captures: map[string]int{}}
					if !h.asks {
						r.play(events, order)
					}
					r.snapshot = func(id string) *payment.Snapshot { return snaps[id] }
					for id := range h.api {
						if need := r.take([]payment.Claim{{GatewayID: id, Reason: "reconcile"}}); need != "" {
							t.Fatalf("%v: the last lookup of %s needs %s", order, id, need)
						}
					}
					if waiting := r.play(events, order); len(waiting) > 0 {
						t.Fatalf("%v: waits after the lookup: %v", order, waiting)
					}
					r.compare(fmt.Sprintf("%v, then looked up", order), h)
				})
			}
		})
	}
}

// The postbacks of the older API decide alone.
func TestPostbacksInAnyOrderEndInTheTruth(t *testing.T) {
	t.Parallel()
	p := build(t, legacySource())
	form := func(minute int, was, word, amounts string) []payment.Claim {
		body := fmt.Sprintf("id=9&event=transaction_status_changed&old_status=%s&current_status=%s&object=transaction&transaction%%5Bdate_updated%%5D=2026-01-15T12%%3A%02d%%3A00.000Z&transaction%%5Bamount%%5D=10000%s",
			was, word, minute, strings.NewReplacer("[", "%5B", "]", "%5D").Replace(amounts))
		r := hubSign(hubKey, []byte(body), now)
		claims, err := p.Facts(providertest.EventOf(p, legacySource(), r, p.Parse(r)[0]))
		if err != nil || len(claims) != 1 {
			t.Fatalf("%v\n%s", err, body)
		}
		return claims
	}
	const was = "&transaction[paid_amount]=10000"
	for _, c := range []struct {
		name   string
		end    string
		events [][]payment.Claim
	}{
		{"refused, paid, refunded in parts", "refunded 10000 10000 0", [][]payment.Claim{
			form(1, "processing", "refused", "&transaction[paid_amount]=0"), form(2, "refused", "paid", was), form(3, "paid", "paid", was+"&transaction[refunded_amount]=3000"), form(4, "paid", "refunded", was+"&transaction[refunded_amount]=10000")}},
		{"authorised and given up", "canceled 0 0 0", [][]payment.Claim{
			form(1, "processing", "authorized", "&transaction[paid_amount]=0"), form(2, "authorized", "refunded", "&transaction[paid_amount]=0&transaction[refunded_amount]=10000")}},
		{"paid, refunded in part, charged back", "charged_back 10000 3000 7000", [][]payment.Claim{
			form(1, "none", "waiting_payment", ""), form(2, "waiting_payment", "paid", was), form(3, "paid", "paid", was+"&transaction[refunded_amount]=3000"), form(4, "paid", "chargedback", was+"&transaction[refunded_amount]=3000")}},
		{"refunded without amounts", "refunded 10000 10000 0", [][]payment.Claim{
			form(1, "none", "processing", ""), form(2, "processing", "paid", was), form(3, "paid", "refunded", "")}},
	} {
		providertest.Sequences(len(c.events), func(order []int) {
			r := &receiver{t: t, held: map[string]payment.Payment{}, captures: map[string]int{}}
			if waiting := r.play(c.events, order); len(waiting) > 0 {
				t.Fatalf("%s %v: waits for ever: %v", c.name, order, waiting)
			}
			r.compare(fmt.Sprintf("%s %v", c.name, order), history{ends: map[string]string{"9": c.end}})
		})
	}
}
