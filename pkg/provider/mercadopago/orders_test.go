package mercadopago_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// history is what becomes of one payment at the gateway: its states in their
// true order, one notification for each, and where it ends.
type history struct {
	name   string
	order  bool
	truth  []http.HandlerFunc
	status payment.Status
	money  []string // kind, reference and amount of each booking
}

func histories() []history {
	r := refundItem
	part := func(items ...string) string { return `"refunds":[` + strings.Join(items, ",") + `]` }
	const capture, feeOf = "capture payment:98765432101 25000", "fee fee:98765432101 1248"
	back, won := "chargeback dispute:98765432101 25000", "chargeback_reversal dispute:98765432101 25000"
	pending, approved := pay("pending", "pending_waiting_transfer", ""), pay("approved", "accredited", "")
	first, second := r("11", "100", "approved"), r("12", "150.00", "approved")
	mediation := func(more string) http.HandlerFunc { return pay("in_mediation", "pending", more) }
	disputed := func(detail string) http.HandlerFunc { return pay("charged_back", detail, "") }
	const sale = "capture payment:" + ordID + " 25000"
	transactions := func(text string) string { return `"transactions":{` + text + `}` }
	ref := func(id, amount string) string {
		return `{"id":"` + id + `","amount":"` + amount + `","status":"processed"}`
	}
	caseOf := func(status string) string {
		return transactions(`"chargebacks":[{"id":"CHB1","amount":"240.00","status":"` + status + `"}]`)
	}
	return []history{
		{"a Pix that is paid and told again", false, []http.HandlerFunc{pending, approved, approved, approved}, payment.StatusPaid, []string{capture, feeOf}},
		{"a card that is reviewed, refused and accepted after all", false, []http.HandlerFunc{
			pay("in_process", "pending_review_manual", ""), pay("rejected", "cc_rejected_high_risk", ""), approved}, payment.StatusPaid, []string{capture, feeOf}},
		{"a boleto that expires and is paid", false, []http.HandlerFunc{pending, pay("cancelled", "expired", ""), approved}, payment.StatusPaid, []string{capture, feeOf}},
		{"a boleto that expires", false, []http.HandlerFunc{pending, pending, pay("cancelled", "expired", "")}, payment.StatusExpired, nil},
		{"a payment that is canceled", false, []http.HandlerFunc{pay("authorized", "pending_capture", ""), pay("cancelled", "by_collector", "")}, payment.StatusCanceled, nil},
		{"a card that is captured later", false, []http.HandlerFunc{pay("authorized", "pending_capture", ""), approved, approved}, payment.StatusPaid, []string{capture, feeOf}},
		{"refunds in two parts, one of them on its way at first", false, []http.HandlerFunc{
			pending, approved, pay("approved", "accredited", part(r("11", "100", "in_process"))), pay("approved", "partially_refunded", `"transaction_amount_refunded":100,`+part(first)),
			pay("refunded", "refunded", `"transaction_amount_refunded":250`, second, first)}, payment.StatusRefunded,
			[]string{capture, feeOf, "refund refund:11 10000", "refund refund:12 15000"}},
		{"a refund that is denied", false, []http.HandlerFunc{
			pending, approved, pay("approved", "accredited", part(r("11", "100", "in_process"))), pay("approved", "accredited", part(r("11", "100", "rejected")))}, payment.StatusPaid, []string{capture, feeOf}},
		{"a refund without a name", false, []http.HandlerFunc{pending, approved, pay("refunded", "by_admin", "")}, payment.StatusRefunded,
			[]string{capture, feeOf, "refund refund:total:98765432101:25000 25000"}},
		{"a mediation that is closed for the seller", false, []http.HandlerFunc{pending, approved, mediation(""), approved}, payment.StatusPaid, []string{capture, feeOf}},
		{"a mediation that is open", false, []http.HandlerFunc{pending, approved, mediation("")}, payment.StatusDisputed, []string{capture, feeOf}},
		{"a mediation that is open after a refund", false, []http.HandlerFunc{pending, approved, mediation(part(first))}, payment.StatusDisputed, []string{capture, feeOf, "refund refund:11 10000"}},
		{"a mediation that ends in a refund", false, []http.HandlerFunc{
			approved, mediation(""), mediation(""), pay("refunded", "refunded", part(r("11", "250", "approved")))}, payment.StatusRefunded, []string{capture, feeOf, "refund refund:11 25000"}},
		{"a mediation beside a partial refund", false, []http.HandlerFunc{
			approved, pay("approved", "partially_refunded", part(first)), mediation(part(first)), pay("approved", "partially_refunded", part(first))}, payment.StatusPartiallyRefunded,
			[]string{capture, feeOf, "refund refund:11 10000"}},
		{"a mediation that ends in a chargeback that is won", false, []http.HandlerFunc{
			approved, mediation(""), disputed("in_process"), disputed("reimbursed")}, payment.StatusPaid, []string{capture, feeOf, back, won}},
		{"a chargeback that is open", false, []http.HandlerFunc{pending, approved, disputed("in_process"), disputed("in_process")}, payment.StatusDisputed, []string{capture, feeOf, back}},
		{"a chargeback that is lost", false, []http.HandlerFunc{pending, approved, mediation(""), disputed("in_process"), disputed("settled")}, payment.StatusChargedBack, []string{capture, feeOf, back}},
		{"a chargeback that is won", false, []http.HandlerFunc{pending, approved, disputed("in_process"), disputed("reimbursed"), disputed("reimbursed")}, payment.StatusPaid, []string{capture, feeOf, back, won}},
		{"a chargeback of what a refund has left, lost", false, []http.HandlerFunc{
			approved, pay("approved", "partially_refunded", part(first)), pay("charged_back", "in_process", part(first)), pay("charged_back", "settled", part(first))}, payment.StatusChargedBack,
			[]string{capture, feeOf, "refund refund:11 10000", "chargeback dispute:98765432101 15000"}},

		{"an order that is paid", true, []http.HandlerFunc{ord("action_required", "waiting_transfer", ""), ord("processing", "in_process", ""), ord("processed", "accredited", "")}, payment.StatusPaid, []string{sale}},
		{"an order that fails and is paid", true, []http.HandlerFunc{ord("created", "created", ""), ord("failed", "failed", ""), ord("processed", "accredited", "")}, payment.StatusPaid, []string{sale}},
		{"an order that is canceled in one spelling", true, []http.HandlerFunc{ord("created", "created", ""), ord("action_required", "waiting_capture", ""), ord("cancelled", "", "")}, payment.StatusCanceled, nil},
		{"an order that expires", true, []http.HandlerFunc{ord("created", "created", ""), ord("expired", "expired", "")}, payment.StatusExpired, nil},
		{"an order that is refunded in parts", true, []http.HandlerFunc{
			ord("processed", "accredited", ""), ord("processed", "partially_refunded", transactions(`"refunds":[`+ref("REF1", "100.00")+`]`)),
			ord("refunded", "refunded", transactions(`"refunds":[`+ref("REF2", "150")+`,`+ref("REF1", "100")+`]`))}, payment.StatusRefunded,
			[]string{sale, "refund refund:REF1 10000", "refund refund:REF2 15000"}},
		{"an order with a chargeback of a part that is won", true, []http.HandlerFunc{
			ord("processed", "accredited", ""), ord("charged_back", "in_process", caseOf("in_process")), ord("charged_back", "reimbursed", caseOf("reimbursed"))}, payment.StatusPaid,
			[]string{sale, "chargeback dispute:CHB1 24000", "chargeback_reversal dispute:CHB1 24000"}},
		{"an order with a chargeback of a part that is lost", true, []http.HandlerFunc{
			ord("processed", "accredited", ""), ord("charged_back", "in_process", caseOf("in_process")), ord("charged_back", "settled", caseOf("settled"))}, payment.StatusChargedBack,
			[]string{sale, "chargeback dispute:CHB1 24000"}},
	}
}

// player is one payment, its notifications, and what we hold of it.
type player struct {
	t        *testing.T
	h        *history
	claims   []payment.Claim
	lookups  []payment.Claim
	held     payment.Payment
	bookings []payment.Booking
	clock    time.Time
	pace     time.Duration
	now      int // how much of the history is true
}

func play(t *testing.T, h *history, pace time.Duration) *player {
	t.Helper()
	p, ref, settings := build(t), payID, `{"id":%d,"type":"payment","action":"payment.updated","data":{"id":"`+payID+`"}}`
	if h.order {
		p, ref = build(t, "MONEY_SOURCE=order"), ordID
		settings = `{"id":%d,"type":"order","action":"order.updated","data":{"id":"` + ordID + `"}}`
	}
	pl := &player{t: t, h: h, pace: pace}
	for i, answer := range h.truth {
		r := sign(secret, fmt.Appendf(nil, settings, i+1), clock)
		m := p.Parse(r)[0]
		claims, err := p.Facts(&event.Event{Type: m.Type, PaymentRef: m.PaymentRef, OccurredAt: m.OccurredAt, Body: m.Body})
		if err != nil || m.Disposition != provider.Process || len(claims) != 1 {
			t.Fatalf("%s (%s): %d claims, %v", m.Disposition, m.Reason, len(claims), err)
		}
		snapshot, err := p.Lookup(context.Background(), clientOf(answer), ref)
		if err != nil {
			t.Fatal(err)
		}
		pl.claims, pl.lookups = append(pl.claims, claims[0]), append(pl.lookups, snapshot)
	}
	pl.reset()
	return pl
}

func (pl *player) reset() {
	pl.held, pl.bookings, pl.clock, pl.now = payment.Payment{Provider: "mercadopago", GatewayID: pl.lookups[0].GatewayID}, nil, clock, 0
}

// lag is how far the gateway's read side may be behind.
const lag = 10 * time.Second

// take decides one claim as the processor does: by what the gateway says now.
func (pl *player) take(c payment.Claim) bool {
	pl.clock = pl.clock.Add(pl.pace)
	snap := &payment.Snapshot{Claim: pl.lookups[pl.now], ObservedAt: pl.clock}
	r, _ := payment.Resolve(pl.held, snap, c, payment.Policy{Lag: lag})
	if r.Need != "" {
		return false
	}
	pl.held = r.Payment
	for _, tr := range r.Transitions {
		pl.bookings = append(pl.bookings, tr.Bookings...)
	}
	return true
}

func (pl *player) end() string {
	var money []string
	for _, b := range pl.bookings {
		money = append(money, fmt.Sprintf("%s %s:%s %d", b.Kind, b.RefType, b.RefID, b.Amount))
	}
	slices.Sort(money)
	return string(pl.held.Status) + "\n" + strings.Join(money, "\n")
}

func (pl *player) want() string {
	money := slices.Clone(pl.h.money)
	slices.Sort(money)
	return string(pl.h.status) + "\n" + strings.Join(money, "\n")
}

// Any order, any repetition, any loss that is followed by a lookup ends in the
// truth, while the payment moves on at the gateway at every speed. Lookups
// follow each other within the lag that is allowed for, and long after it.
func TestEventsInAnyOrderEndInTheTruth(t *testing.T) {
	t.Parallel()
	for _, h := range histories() {
		for _, pace := range []time.Duration{time.Hour, 1500 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s, a lookup each %s", h.name, pace), func(t *testing.T) {
				t.Parallel()
				pl := play(t, &h, pace)
				last := len(h.truth) - 1
				rng := rand.New(rand.NewPCG(11, 13))
				providertest.Sequences(len(h.truth), func(order []int) {
					pl.reset()
					lost := rng.IntN(3) == 0
					var waiting []int
					for n, i := range order {
						// A notification is sent when its state is true, not before.
						pl.now = min(max(pl.now, i)+rng.IntN(2), last)
						if lost && rng.IntN(2) == 0 {
							continue
						}
						if n == len(order)-1 {
							pl.now = last
						}
						waiting = slices.DeleteFunc(append(waiting, i), func(i int) bool { return pl.take(pl.claims[i]) })
					}
					pl.now = last
					// What waits is asked about again, until the lag is over.
					for asked := time.Duration(0); len(waiting) > 0 && asked <= lag; asked += pace {
						waiting = slices.DeleteFunc(waiting, func(i int) bool { return pl.take(pl.claims[i]) })
					}
					for asked := time.Duration(0); lost && !pl.take(payment.Claim{GatewayID: pl.held.GatewayID, Reason: event.TypeReconcile}); asked += pace {
						if asked > lag {
							t.Fatalf("order %v: the reconciliation waits", order)
						}
					}
					if got := pl.end(); len(waiting) > 0 || got != pl.want() {
						t.Fatalf("order %v, lost %v: waits for %v and ends as %s\nwant %s", order, lost, waiting, got, pl.want())
					}
				})
			})
		}
	}
}

// Nothing leads back: whatever an older notification is looked up with, the
// newest answer stands.
func TestCase_C3_MercadoPagoALateNotificationTakesNothingBack(t *testing.T) {
	t.Parallel()
	for _, h := range histories() {
		pl := play(t, &h, time.Hour)
		pl.now = len(h.truth) - 1
		for i := len(pl.claims) - 1; i >= 0; i-- {
			if !pl.take(pl.claims[i]) {
				t.Errorf("%s: notification %d waits", h.name, i)
			}
			if got := string(pl.held.Status); got != string(h.status) {
				t.Errorf("%s: %s after notification %d, want %s", h.name, got, i, h.status)
			}
		}
	}
}

// An order's "processed" that comes before the API knows of it is no reason
// to believe the API: it is asked again. It credits nothing by itself.
func TestAnOrderThatTheAPIDoesNotKnowAsPaidYetIsAskedForAgain(t *testing.T) {
	t.Parallel()
	h := history{order: true, truth: []http.HandlerFunc{ord("action_required", "waiting_transfer", ""), ord("processed", "accredited", "")}}
	pl := play(t, &h, time.Second)
	p := build(t, "MONEY_SOURCE=order")
	claims, err := p.Facts(&event.Event{PaymentRef: ordID, Body: body(t, "orders/order_processed")})
	if err != nil {
		t.Fatal(err)
	}
	if pl.take(claims[0]) {
		t.Errorf("settled with a lookup that came too early: %s", pl.end())
	}
	if len(pl.bookings) > 0 {
		t.Errorf("booked on the word of a body: %s", pl.end())
	}
	pl.now = 1
	if !pl.take(claims[0]) || pl.held.Captured != payment.Of(25000) {
		t.Errorf("%s", pl.end())
	}
}
