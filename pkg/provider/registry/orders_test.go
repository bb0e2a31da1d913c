package registry

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// history is what one gateway sends about one payment, in its true order,
// and where it ends.
type history struct {
	name   string
	bodies []string
	status payment.Status
	money  []string // kind, reference and amount of each booking
}

// eventOf reads a body as ingest and the processor would.
func eventOf(t *testing.T, p provider.Provider, gateway, body string) payment.Claim {
	t.Helper()
	m := p.Parse(provider.Request{Header: http.Header{}, Body: []byte(body), Now: time.Unix(1768480000, 0)})[0]
	if m.Disposition != provider.Process {
		t.Fatalf("%s: %s\n%s", m.Disposition, m.Reason, body)
	}
	claims, err := p.Facts(&event.Event{Provider: gateway, Type: m.Type, PaymentRef: m.PaymentRef, Body: m.Body})
	if err != nil || len(claims) != 1 {
		t.Fatalf("%d claims, %v\n%s", len(claims), err, body)
	}
	return claims[0]
}

const asaasPayment = `"id":"pay_1","value":%s,"netValue":%s,"externalReference":"PED-1"`

func asaasBody(eventName, at, value, net, more string) string {
	return fmt.Sprintf(`{"id":"evt_%s_%s","event":"PAYMENT_%s","dateCreated":"%s","payment":{`+asaasPayment+`%s}}`, eventName, at, eventName, at, value, net, more)
}

func asaasHistories() []history {
	body := func(e, at string, more ...string) string {
		return asaasBody(e, at, "149.90", "144.93", strings.Join(more, ""))
	}
	item := func(at, status, value string) string {
		return `{"dateCreated":"` + at + `","status":"` + status + `","value":` + value + `}`
	}
	list := func(items ...string) string { return `,"refunds":[` + strings.Join(items, ",") + `]` }
	const r1, r2, r3 = "2026-01-25 10:00:00", "2026-01-26 10:00:00", "2026-01-27 10:00:00"
	capture, fee := "capture payment:pay_1 14990", "fee fee:pay_1 497"
	return []history{
		{"a card payment that is refunded in three parts, two of them twins", []string{
			body("CREATED", "2026-01-15 09:00:00"), body("CONFIRMED", "2026-01-15 09:30:02"), body("RECEIVED", "2026-02-16 06:10:41", list(item(r1, "DONE", "49.90"), item(r2, "DONE", "50"), item(r2, "DONE", "50.00"))),
			body("PARTIALLY_REFUNDED", r1, list(item(r1, "DONE", "49.90"))),
			body("PARTIALLY_REFUNDED", r2, list(item(r1, "DONE", "49.9"), item(r2, "DONE", "50"), item(r2, "PENDING", "50"))),
			body("REFUNDED", r3, list(item(r2, "DONE", "50.0"), item(r2, "DONE", "50"), item(r1, "DONE", "49.90"))),
		}, payment.StatusRefunded, []string{capture, fee, "refund refund:pay_1:" + r1 + ":4990:0 4990", "refund refund:pay_1:" + r2 + ":5000:0 5000", "refund refund:pay_1:" + r2 + ":5000:1 5000"}},
		{"a refund that is denied, and one that is done", []string{
			body("RECEIVED", "2026-01-15 09:30:02"), body("REFUND_IN_PROGRESS", r1, list(item(r1, "PENDING", "10"))), body("REFUND_DENIED", r2, list(item(r1, "CANCELLED", "10"))),
			body("REFUND_IN_PROGRESS", r3, list(item(r1, "CANCELLED", "10"), item(r3, "PENDING", "149.90"))), body("REFUNDED", "2026-01-28 10:00:00", list(item(r1, "CANCELLED", "10"), item(r3, "DONE", "149.90"))),
		}, payment.StatusRefunded, []string{capture, fee, "refund refund:pay_1:" + r3 + ":14990:0 14990"}},
		{"a boleto that is paid late, with interest", []string{
			asaasBody("CREATED", "2026-01-01 09:00:00", "100", "98.01", ""), asaasBody("UPDATED", "2026-01-02 09:00:00", "100.00", "98.01", ""), asaasBody("OVERDUE", "2026-01-11 00:00:00", "100.0", "98.01", ""),
			asaasBody("DELETED", "2026-01-12 00:00:00", "100.0", "98.01", ""), asaasBody("RESTORED", "2026-01-13 00:00:00", "100.0", "98.01", ""), asaasBody("RECEIVED", "2026-01-20 10:00:00", "105.50", "103.51", `,"originalValue":100`),
		}, payment.StatusPaid, []string{"capture payment:pay_1 10550", "fee fee:pay_1 199"}},
		{"a removed charge that is restored and never paid", []string{
			body("CREATED", "2026-01-01 09:00:00"), body("DELETED", "2026-01-02 09:00:00"), body("RESTORED", "2026-01-03 09:00:00"), body("OVERDUE", "2026-01-04 09:00:00"), body("DELETED", "2026-01-05 09:00:00"),
		}, payment.StatusCanceled, nil},
		{"a card that is refused before it is accepted", []string{
			body("CREATED", "2026-01-01 09:00:00"), body("AWAITING_RISK_ANALYSIS", "2026-01-01 09:00:01"), body("REPROVED_BY_RISK_ANALYSIS", "2026-01-01 09:00:02"),
			body("AUTHORIZED", "2026-01-01 10:00:00"), body("CREDIT_CARD_CAPTURE_REFUSED", "2026-01-01 10:00:01"), body("CONFIRMED", "2026-01-01 11:00:00"),
		}, payment.StatusPaid, []string{capture, fee}},
		{"a chargeback that is won, after which the receipt is told again", []string{
			body("CONFIRMED", "2026-01-15 09:30:02"), body("CHARGEBACK_REQUESTED", "2026-03-02 08:00:00", `,"chargeback":{"status":"REQUESTED"}`), body("CHARGEBACK_DISPUTE", "2026-03-03 08:00:00", `,"chargeback":{"status":"IN_DISPUTE"}`),
			body("AWAITING_CHARGEBACK_REVERSAL", "2026-04-03 08:00:00", `,"chargeback":{"status":"REVERSED"}`), body("RECEIVED", "2026-04-10 08:00:00", `,"chargeback":{"status":"REVERSED"}`),
		}, payment.StatusPaid, []string{capture, fee, "chargeback dispute:pay_1 14990", "chargeback_reversal dispute:pay_1 14990"}},
		{"a chargeback that is lost", []string{
			body("CREATED", "2026-01-15 09:00:00"), body("CONFIRMED", "2026-01-15 09:30:02"), body("CHARGEBACK_REQUESTED", "2026-03-02 08:00:00", `,"chargeback":{"status":"REQUESTED"}`),
			body("CHARGEBACK_DISPUTE", "2026-03-03 08:00:00", `,"chargeback":{"status":"IN_DISPUTE"}`), body("REFUNDED", "2026-04-03 08:00:00", `,"chargeback":{"status":"DONE"}`),
		}, payment.StatusChargedBack, []string{capture, fee, "chargeback dispute:pay_1 14990"}},
		{"a chargeback of the rest, after a partial refund", []string{
			body("CONFIRMED", "2026-01-15 09:30:02"), body("PARTIALLY_REFUNDED", r1, list(item(r1, "DONE", "49.90"))),
			body("CHARGEBACK_REQUESTED", "2026-03-02 08:00:00", list(item(r1, "DONE", "49.90")), `,"chargeback":{"status":"REQUESTED"}`),
			body("REFUNDED", "2026-04-03 08:00:00", list(item(r1, "DONE", "49.90")), `,"chargeback":{"status":"DONE"}`),
		}, payment.StatusChargedBack, []string{capture, fee, "refund refund:pay_1:" + r1 + ":4990:0 4990", "chargeback dispute:pay_1 10000"}},
		{"a receipt in cash that is undone, and the boleto that is paid after all", []string{
			asaasBody("CREATED", "2026-01-01 09:00:00", "100", "98.01", ""), asaasBody("RECEIVED", "2026-01-02 09:00:00", "100", "100", ""), asaasBody("RECEIVED_IN_CASH_UNDONE", "2026-01-03 09:00:00", "100", "98.01", ""),
			asaasBody("OVERDUE", "2026-01-11 00:00:00", "100.0", "98.01", ""), asaasBody("RECEIVED", "2026-01-20 10:00:00", "100", "98.01", ""),
		}, payment.StatusPaid, []string{"capture payment:pay_1 10000", "fee fee:pay_1 199", "refund refund:cash_undo:pay_1:2026-01-03 09:00:00 10000", "refund_reversal refund:cash_undo:pay_1:2026-01-03 09:00:00 10000"}},
	}
}

// TestAsaasEventsInAnyOrderEndAlike applies every order of typical histories,
// with repetitions, by the events alone. What needs something waits, and is
// tried again after the next one, as the sweeper would.
func TestAsaasEventsInAnyOrderEndAlike(t *testing.T) {
	t.Parallel()
	p, _, _ := mustLoad(t, full()).Lookup("asaas", "")
	for _, h := range asaasHistories() {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			claims := make([]payment.Claim, len(h.bodies))
			for i, body := range h.bodies {
				claims[i] = eventOf(t, p, "asaas", body)
			}
			slices.Sort(h.money)
			providertest.Sequences(len(claims), func(order []int) {
				state := payment.Payment{Provider: "asaas", GatewayID: "pay_1"}
				var bookings []payment.Booking
				var waiting []int
				try := func(i int) bool {
					r := payment.Apply(state, claims[i])
					if r.Need != "" {
						return false
					}
					state = r.Payment
					for _, tr := range r.Transitions {
						bookings = append(bookings, tr.Bookings...)
					}
					return true
				}
				for _, i := range order {
					waiting = append(waiting, i)
					waiting = slices.DeleteFunc(waiting, try)
				}
				for range waiting {
					waiting = slices.DeleteFunc(waiting, try)
				}
				got := providertest.Ending(state, bookings)
				if len(waiting) > 0 || state.Status != h.status || !slices.Equal(lines(got), h.money) {
					t.Fatalf("order %v waits for %v and ends as %s\nwant %s %q", order, waiting, got, h.status, h.money)
				}
			})
		})
	}
}

func lines(text string) (money []string) {
	for _, l := range strings.Split(text, "\n")[1:] {
		if l = strings.TrimSpace(l); l != "" {
			money = append(money, l)
		}
	}
	return money
}

// saleState is one state of a sale at the gateway: its status word and the
// list of its refunds.
type saleState struct{ status, refunds string }

// TestPagPolarEventsInAnyOrderEndAlike does the same for a gateway whose
// events only say that it should be asked: the sale moves on while the events
// are being handled, at every speed, and ends in the same books.
func TestPagPolarEventsInAnyOrderEndAlike(t *testing.T) {
	t.Parallel()
	body := func(e string) string {
		return `{"event":"TRANSACTION_` + e + `","id":"x","data":{"transaction":{"id":"sale-1"}}}`
	}
	const (
		none = `[]`
		half = `[{"id":"r1","amount":4990,"status":"DONE"}]`
		all  = `[{"id":"r2","amount":10000,"status":"DONE"},{"id":"r1","amount":4990,"status":"DONE"}]`
	)
	capture, fee := "capture payment:sale-1 14990", "fee fee:sale-1 497"
	for _, h := range []struct {
		history
		truth []saleState
	}{
		{history{"paid, and reported twice", []string{body("CREATED"), body("PAID"), body("PAID"), body("SEEN")}, payment.StatusPaid, []string{capture, fee}},
			[]saleState{{"NEW", none}, {"PAID", none}}},
		{history{"refunded in two parts", []string{body("CREATED"), body("PAID"), body("ASK_REFUNDING"), body("ASK_REFUNDING"), body("DONE")}, payment.StatusRefunded,
			[]string{capture, fee, "refund refund:r1 4990", "refund refund:r2 10000"}},
			[]saleState{{"NEW", none}, {"PAID", none}, {"PART", half}, {"BACK", all}}},
		{history{"never paid", []string{body("CREATED"), body("LATE"), body("OFF")}, payment.StatusCanceled, nil},
			[]saleState{{"NEW", none}, {"LATE", none}, {"OFF", none}}},
	} {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			var now saleState
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/refunds" {
					fmt.Fprint(w, now.refunds)
					return
				}
				fmt.Fprintf(w, `{"id":"sale-1","status":%q,"amount":14990,"fee":497}`, now.status)
			}))
			t.Cleanup(server.Close)
			s := pagpolarOnly()
			for k, v := range map[string]string{
				"API_BASE": server.URL, "FEE_PATH": "fee", "STATUS_MAP": "NEW=pending,PAID=paid,PART=partially_refunded,BACK=refunded,LATE=expired,OFF=canceled",
				"REFUNDS_LIST_PATH": ".", "REFUND_ID_PATH": "id", "REFUND_AMOUNT_PATH": "amount", "REFUND_STATUS_PATH": "status", "REFUND_STATUS_MAP": "DONE=succeeded",
			} {
				s["PAGPOLAR_"+k] = v
			}
			p, src, _ := mustLoad(t, s).Lookup("pagpolar", "")
			claims := make([]payment.Claim, len(h.bodies))
			for i, b := range h.bodies {
				claims[i] = eventOf(t, p, "pagpolar", b)
			}
			snapshots := make([]payment.Claim, len(h.truth))
			for i, state := range h.truth {
				var err error
				now = state
				if snapshots[i], err = p.Lookup(context.Background(), server.Client(), "sale-1"); err != nil {
					t.Fatal(err)
				}
			}
			slices.Sort(h.money)
			rng := rand.New(rand.NewPCG(11, 13))
			providertest.Sequences(len(claims), func(order []int) {
				state := payment.Payment{Provider: "pagpolar", GatewayID: "sale-1"}
				var bookings []payment.Booking
				clock, truth := time.Unix(1768480000, 0), 0
				try := func(i int) bool {
					clock = clock.Add(time.Hour)
					r, _ := payment.Resolve(state, &payment.Snapshot{Claim: snapshots[truth], ObservedAt: clock}, claims[i], payment.Policy{TrustBody: src.UnsafeTrust, Lag: src.LookupLag})
					if r.Need != "" {
						return false
					}
					state = r.Payment
					for _, tr := range r.Transitions {
						bookings = append(bookings, tr.Bookings...)
					}
					return true
				}
				var waiting []int
				for n, i := range order {
					if rng.IntN(2) == 0 {
						truth = min(truth+1, len(snapshots)-1)
					}
					if n == len(order)-1 {
						truth = len(snapshots) - 1
					}
					waiting = append(waiting, i)
					waiting = slices.DeleteFunc(waiting, try)
				}
				got := providertest.Ending(state, bookings)
				if len(waiting) > 0 || state.Status != h.status || !slices.Equal(lines(got), h.money) {
					t.Fatalf("order %v waits for %v and ends as %s\nwant %s %q", order, waiting, got, h.status, h.money)
				}
			})
		})
	}
}
