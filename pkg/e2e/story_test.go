package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var saleSeq atomic.Int64

// newSale is a payment that no other test uses: R$ 100,10 with a fee of 3,10,
// where the gateway tells of fees.
func newSale(g *gateway) sale { return saleOf(g, idOf(g, fmt.Sprintf("e2e%06d", saleSeq.Add(1)))) }

// saleOf is the same with an id of one's own.
func saleOf(g *gateway, id string) sale {
	s := sale{id: id, ref: owner + ":" + id, status: "created", amount: 10010, fee: 310}
	if g.reference != nil {
		s.ref = g.reference(id)
	}
	if g.noFee {
		s.fee = 0
	}
	return s
}

// idOf makes a payment's id of a text.
func idOf(g *gateway, text string) string {
	if g.id != nil {
		return g.id(text)
	}
	return g.prefix + text
}

// paid and refunded are the same sale later.
func (s sale) paid() sale { s.status = "paid"; return s }

func (s sale) failed() sale { s.status = "failed"; return s }

func (s sale) refundedPart(amount int64) sale {
	s.status, s.earlier, s.refunded = "part", s.refunded, s.refunded+amount
	return s
}

func (s sale) lost() sale { s.status = "lost"; return s }

func (s sale) refundedAll() sale { s.status, s.refunded = "refunded", s.amount; return s }

// each runs a case for every gateway.
func (w *testWorld) each(story func(w *testWorld, g *gateway)) {
	w.eachThat(func(*gateway) bool { return true }, story)
}

// eachThat runs a case for every gateway that has a trait.
func (w *testWorld) eachThat(trait func(g *gateway) bool, story func(w *testWorld, g *gateway)) {
	for _, g := range gateways {
		if trait(g) {
			w.t.Run(g.String(), func(t *testing.T) { story(w.in(t), g) })
		}
	}
}

// Traits that several cases ask for.
func asksItsAPI(g *gateway) bool { return !g.noAPI }

func sendsJSON(g *gateway) bool { return !g.form }

// send sends a body as the gateway's account does.
func (w *testWorld) send(g *gateway, body []byte) reply { return w.post(g.by(1, body)) }

// take sends a body that is to be taken.
func (w *testWorld) take(g *gateway, body []byte) {
	w.t.Helper()
	if r := w.send(g, body); r.err != nil || r.status != 200 {
		w.t.Errorf("%s answered %d %q %v, want 200", g, r.status, r.body, r.err)
	}
}

// final waits until nothing about a payment is unfinished.
func (w *testWorld) final(g *gateway, id string) {
	w.t.Helper()
	settled := func() bool {
		return queryOne[bool](w.t, w.db, `
SELECT EXISTS (SELECT FROM events WHERE provider = $1 AND payment_ref = $2)
   AND NOT EXISTS (SELECT FROM event_work w JOIN events e ON e.id = w.event_id WHERE e.provider = $1 AND e.payment_ref = $2)`, g.name, id)
	}
	for deadline := time.Now().Add(20 * time.Second); !settled(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("not within 20s: everything about %s is final; unfinished: %s", id, queryOne[string](w.t, w.db, `
SELECT COALESCE(string_agg(format('%s %s (%s), turn %s, %s attempts, %s parks, next in %s', e.type, w.state, COALESCE(w.reason, w.last_error), w.turn, w.attempts, w.parks, w.next_at - now()), '; '), 'none')
FROM event_work w JOIN events e ON e.id = w.event_id WHERE e.provider = $1 AND e.payment_ref = $2`, g.name, id))
		}
	}
}

// hurry makes what is parked due now, as time would.
func (w *testWorld) hurry(g *gateway, id string) {
	w.t.Helper()
	if _, err := w.db.Pool.Exec(w.t.Context(), `
UPDATE event_work w SET next_at = now() FROM events e WHERE e.id = w.event_id AND e.provider = $1 AND e.payment_ref = $2`, g.name, id); err != nil {
		w.t.Fatal(err)
	}
}

// stored is a webhook event as users see it.
type stored struct {
	ID                         int64
	Status, Outcome, Reason    string
	Type, EventID, PaymentRef  string
	Deliveries, Attempts       int64
	Test                       bool
	Body                       []byte
	DedupeKey, Account, Secret string
}

func (s stored) String() string {
	return fmt.Sprintf("{%d %s %s (%s) type %q event %q payment %q, %d deliveries, %d attempts, secret %q, key %.60s, body %.100q}", s.ID, s.Status, s.Outcome, s.Reason,
		s.Type, s.EventID, s.PaymentRef, s.Deliveries, s.Attempts, s.Secret, s.DedupeKey, s.Body)
}

const storedColumns = `
SELECT v.id, v.status, COALESCE(v.outcome, ''), COALESCE(v.reason, ''), v.type, COALESCE(v.provider_event_id, ''), COALESCE(v.payment_ref, ''),
       v.deliveries, v.attempts, v.test, b.body, v.dedupe_key, v.account, e.secret
FROM webhook_events v JOIN events e ON e.id = v.id JOIN event_bodies b ON b.event_id = v.id `

// about are the stored events of a payment in the order of receipt.
func (w *testWorld) about(g *gateway, id string) []stored {
	w.t.Helper()
	return queryAll[stored](w.t, w.db, storedColumns+`WHERE v.provider = $1 AND v.account = $2 AND v.payment_ref = $3 ORDER BY v.id`, g.name, g.home(), id)
}

// withBody is the one stored event whose first body was exactly this.
func (w *testWorld) withBody(g *gateway, body []byte) (stored, bool) {
	w.t.Helper()
	found := queryAll[stored](w.t, w.db, storedColumns+`WHERE v.provider = $1 AND v.account = $2 AND e.body_sha256 = sha256($3) AND b.body = $3`, g.name, g.home(), body)
	if len(found) > 1 {
		w.t.Errorf("%d events have one body", len(found))
	}
	if len(found) == 0 {
		return stored{}, false
	}
	return found[0], true
}

func (w *testWorld) wantStored(g *gateway, body []byte) stored {
	w.t.Helper()
	e, ok := w.withBody(g, g.keptOf(body))
	if !ok {
		w.t.Errorf("no event of %s has exactly these bytes: %.120q", g, g.keptOf(body))
	}
	return e
}

// pay is a payment as users see it.
type pay struct {
	Status                              string
	Captured, Refunded, Fee, Net        int64
	Currency, Beneficiary, Reference    string
	Version, Transitions, Domain, Count int64
}

func (w *testWorld) payment(g *gateway, id string) (p pay) {
	w.t.Helper()
	all := queryAll[pay](w.t, w.db, `
SELECT status, COALESCE(captured, 0), refunded, fee, net, COALESCE(currency, ''), COALESCE(beneficiary, ''), COALESCE(reference, ''), version,
       (SELECT count(*) FROM payment_transitions t WHERE t.payment_id = p.id), (SELECT count(*) FROM outbox o WHERE o.payment_id = p.id), count(*) OVER ()
FROM payments p WHERE provider = $1 AND account = $2 AND gateway_id = $3`, g.name, g.home(), id)
	if len(all) != 1 {
		w.t.Fatalf("%d payments %s %s", len(all), g.name, id)
	}
	return all[0]
}

// ledger are the entries of a payment, "kind amount", sorted.
func (w *testWorld) ledger(g *gateway, id string) string {
	w.t.Helper()
	type line struct{ Text string }
	var all []string
	for _, l := range queryAll[line](w.t, w.db, `
SELECT l.kind || ' ' || l.amount FROM ledger_entries l JOIN payments p ON p.id = l.payment_id WHERE p.provider = $1 AND p.account = $2 AND p.gateway_id = $3`, g.name, g.home(), id) {
		all = append(all, l.Text)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// credited is the ledger of a sale that was paid, and returned that of one
// that was refunded wholly.
func (s sale) credited() string {
	if s.fee == 0 {
		return fmt.Sprintf("capture %d", s.amount)
	}
	return fmt.Sprintf("capture %d, fee %d", s.amount, s.fee)
}

func (s sale) returned() string { return fmt.Sprintf("%s, refund %d", s.credited(), s.amount) }

func (w *testWorld) wantLedger(g *gateway, id, want string) {
	w.t.Helper()
	if got := w.ledger(g, id); got != want {
		w.t.Errorf("ledger of %s: %q, want %q", id, got, want)
	}
}

// wantCredited waits, and wants a sale credited once, to its owner.
func (w *testWorld) wantCredited(g *gateway, s sale) {
	w.t.Helper()
	w.final(g, s.id)
	w.wantLedger(g, s.id, s.credited())
	p := w.payment(g, s.id)
	if p.Status != "paid" || p.Captured != s.amount || p.Fee != s.fee || p.Currency != "BRL" || p.Beneficiary != owner || p.Reference != s.reference() {
		w.t.Errorf("payment %s is %+v", s.id, p)
	}
}
