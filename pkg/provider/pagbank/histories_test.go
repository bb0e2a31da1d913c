package pagbank_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
)

// moment is the gateway at one time: the charge of API v4, and the status of
// the old API with the time of its last event.
type moment struct {
	charge string
	number string
	at     time.Time
}

// telling is one webhook: a body of format A, or a code ("").
type telling struct {
	body string
	from int // the moment at which it is sent
}

// history is a payment at the gateway, in its true order, and where it ends.
type history struct {
	name    string
	moments []moment
	told    []telling
	status  payment.Status
	// What must have been booked at the end, however it came about.
	captured, refunded, chargedBack, fee int64
	codesNeeded                          bool // nothing else tells of the end
}

func day(n int) time.Time { return time.Date(2026, 1, 15+n, 13, 0, 0, 0, time.UTC) }

func histories() []history {
	waiting, paidNow := chargeBody("WAITING", 0, 0), paidCharge
	partly, canceled := chargeBody("PAID", 14990, 4990), chargeBody("CANCELED", 14990, 14990)
	order := func(charge string) string { return string(change(paidOrder, paidCharge, charge)) }
	return []history{
		{"refunded in two parts", []moment{{waiting, "1", day(0)}, {paidNow, "3", day(1)}, {partly, "3", day(2)}, {canceled, "6", day(3)}},
			[]telling{{waiting, 0}, {paidNow, 1}, {order(partly), 2}, {canceled, 3}, {"", 3}}, payment.StatusRefunded, 14990, 14990, 0, 0, false},
		{"a card that is declined, and accepted after all (CASES C7)", []moment{{chargeBody("DECLINED", 0, 0), "7", day(0)}, {paidNow, "3", day(1)}},
			[]telling{{chargeBody("IN_ANALYSIS", 0, 0), 0}, {chargeBody("DECLINED", 0, 0), 0}, {order(paidNow), 1}, {paidNow, 1}}, payment.StatusPaid, 14990, 0, 0, 0, false},
		{"never paid, and canceled", []moment{{waiting, "1", day(0)}, {chargeBody("CANCELED", 0, 0), "7", day(1)}},
			[]telling{{order(waiting), 0}, {chargeBody("AUTHORIZED", 0, 0), 0}, {chargeBody("CANCELED", 0, 0), 1}, {"", 1}}, payment.StatusCanceled, 0, 0, 0, 0, false},
		{"paid and made available: one capture, and a fee that the old API alone knows", []moment{{paidNow, "3", day(1)}, {paidNow, "4", day(20)}},
			[]telling{{order(paidNow), 0}, {paidNow, 0}, {"", 1}}, payment.StatusPaid, 14990, 0, 0, 638, true},
		{"a dispute that is open", []moment{{paidNow, "3", day(1)}, {paidNow, "5", day(2)}, {paidNow, "9", day(3)}},
			[]telling{{paidNow, 0}, {"", 1}, {order(paidNow), 0}, {"", 2}}, payment.StatusDisputed, 14990, 0, 14990, 0, true},
		{"a dispute that is lost", []moment{{paidNow, "3", day(1)}, {paidNow, "5", day(2)}, {paidNow, "8", day(3)}},
			[]telling{{paidNow, 0}, {"", 1}, {"", 2}, {paidNow, 0}}, payment.StatusChargedBack, 14990, 0, 14990, 0, true},
		{"a dispute that is won", []moment{{paidNow, "3", day(1)}, {paidNow, "5", day(2)}, {paidNow, "9", day(3)}, {paidNow, "4", day(4)}},
			[]telling{{order(paidNow), 0}, {"", 1}, {"", 2}, {"", 3}, {paidNow, 0}}, payment.StatusPaid, 14990, 0, 0, 638, true},
	}
}

// disputeOfTheRest is the history whose end depends on what is learnt first:
// the old API does not say how much is in dispute, so it is what is left.
func disputeOfTheRest() history {
	paidNow, partly := paidCharge, chargeBody("PAID", 14990, 4990)
	return history{"a dispute of the rest, after a part was refunded", []moment{{paidNow, "3", day(1)}, {partly, "3", day(2)}, {partly, "5", day(3)}, {partly, "8", day(4)}},
		[]telling{{paidNow, 0}, {partly, 1}, {"", 2}, {"", 3}}, payment.StatusChargedBack, 14990, 4990, 10000, 0, true}
}

// world is what we hold while the webhooks of one payment come in.
type world struct {
	t       *testing.T
	claims  map[string]payment.Claim // by body
	shown   []payment.Claim          // of the charge, by moment
	answers []payment.Claim          // to a code, by moment
	held    payment.Payment
	books   []payment.Booking
	trust   bool
	clock   time.Time
	// heard: the payment is known, so that a code can be joined with it.
	heard bool
}

// apply takes a result over.
func (w *world) apply(r payment.Result) bool {
	if r.Need != "" {
		return false
	}
	w.held = r.Payment
	for _, tr := range r.Transitions {
		w.books = append(w.books, tr.Bookings...)
	}
	return true
}

// take does with a webhook what the processor does, at a moment of the
// gateway: codes are asked about, and charges looked up.
func (w *world) take(told telling, now int, lookup bool) bool {
	const lag = time.Minute
	w.clock = w.clock.Add(time.Hour)
	policy := payment.Policy{TrustBody: w.trust, Lag: lag}
	snapshot := func() *payment.Snapshot {
		return &payment.Snapshot{Claim: w.shown[now], ObservedAt: w.clock}
	}
	if told.body != "" {
		var snap *payment.Snapshot
		if lookup || !w.trust {
			snap = snapshot()
		}
		r, _ := payment.Resolve(w.held, snap, w.claims[told.body], policy)
		w.heard = w.heard || r.Need == ""
		return w.apply(r)
	}
	if !w.heard {
		return false // nobody to join it with
	}
	answered := joined(w.answers[now])
	if len(answered.Facts) == 0 { // the charge says it better
		r, _ := payment.Resolve(w.held, snapshot(), answered, policy)
		return w.apply(r)
	}
	policy.TrustBody = true // it was answered, not received
	r, _ := payment.Resolve(w.held, nil, answered, policy)
	return w.apply(r)
}

func (h *history) world(t *testing.T, trust bool) func() *world {
	t.Helper()
	p := build(t, source())
	claims := map[string]payment.Claim{}
	for _, told := range h.told {
		if told.body != "" {
			claims[told.body] = claimOf(t, p, told.body)
		}
	}
	var shown, answers []payment.Claim
	for _, m := range h.moments {
		c, err := p.Lookup(context.Background(), over(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, m.charge) }), chargeID)
		if err != nil {
			t.Fatal(err)
		}
		a, err := resolve(t, p, latin1(t, transactionXML(m.number, lastEvent, m.at.Format(time.RFC3339))))
		if err != nil {
			t.Fatal(err)
		}
		shown, answers = append(shown, c), append(answers, a[0])
	}
	return func() *world {
		return &world{t: t, claims: claims, shown: shown, answers: answers, trust: trust,
			held: payment.Payment{Provider: "pagbank", GatewayID: chargeID}, clock: day(100)}
	}
}

// end compares the books with the truth. Bookings must come to the same sums
// that the payment holds.
func (w *world) end(h *history, how string) {
	w.t.Helper()
	sums := map[payment.Kind]int64{}
	seen := map[string]bool{}
	for _, b := range w.books {
		sums[b.Kind] += b.Amount
		key := fmt.Sprint(b.Kind, b.RefType, b.RefID)
		if seen[key] {
			w.t.Fatalf("%s: %s is booked twice", how, key)
		}
		seen[key] = true
	}
	got := [4]int64{sums[payment.KindCapture], sums[payment.KindRefund] - sums[payment.KindRefundReversal],
		sums[payment.KindChargeback] - sums[payment.KindChargebackReversal], sums[payment.KindFee]}
	want := [4]int64{h.captured, h.refunded, h.chargedBack, h.fee}
	if w.held.Status != h.status || got != want || w.held.Refunded != h.refunded || w.held.ChargedBack != h.chargedBack || w.held.Fee != h.fee {
		w.t.Fatalf("%s ends as %s with captured, refunded, charged back, fee %v; want %s with %v\n%+v", how, w.held.Status, got, h.status, want, w.held.Details)
	}
}
