package processor

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/lookup"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
	"github.com/umavez/umavez/pkg/provider"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// scripted is a gateway whose bodies are claims as JSON, and whose lookups
// answer what the test says.
type scripted struct {
	trusted bool

	mu      sync.Mutex
	answers map[string]payment.Claim
	failure error
	asked   int
	// during is called within a lookup, after its answer was made.
	during func()
}

func (g *scripted) Verify(provider.Request) (string, provider.Reason) { return "1", "" }
func (g *scripted) Parse(provider.Request) []provider.Message         { return nil }
func (g *scripted) Facts(e *event.Event) (cs []payment.Claim, _ error) {
	if string(e.Body) == "panic" {
		panic("a strange body")
	}
	return cs, json.Unmarshal(e.Body, &cs)
}

func (g *scripted) Lookup(_ context.Context, _ *http.Client, ref string) (payment.Claim, error) {
	g.mu.Lock()
	g.asked++
	c, ok := g.answers[ref]
	failure, during := g.failure, g.during
	g.mu.Unlock()
	if during != nil {
		during()
	}
	switch {
	case failure != nil:
		return payment.Claim{}, failure
	case !ok:
		return payment.Claim{}, provider.ErrNotFound
	}
	return c, nil
}

func (g *scripted) Traits() provider.Traits {
	return provider.Traits{BodyAuthenticated: g.trusted, CanLookup: true, LookupRate: 1e6, LookupBurst: 1000}
}

func (g *scripted) says(c payment.Claim) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answers[c.GatewayID] = c
}

func (g *scripted) fails(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failure = err
}

type oneSource struct {
	gateway *scripted
	src     provider.Source
}

func (s oneSource) Lookup(name, account string) (provider.Provider, provider.Source, bool) {
	if name != "gw" {
		return nil, provider.Source{}, false
	}
	src := s.src
	src.Account = account
	return s.gateway, src, true
}

// world is a processor over a database of its own.
type world struct {
	*Processor
	t       testing.TB
	db      *postgres.DB
	gateway *scripted
}

func newWorld(t testing.TB, mode provider.LookupMode) *world {
	return newWorldOn(t, postgrestest.New(t), mode)
}

func newWorldOn(t testing.TB, db *postgres.DB, mode provider.LookupMode) *world {
	t.Helper()
	g := &scripted{trusted: true, answers: map[string]payment.Claim{}}
	cfg := Config{
		Lookup: lookup.Config{Concurrency: 8, Timeout: 2 * time.Second, BreakAfter: 1000, Open: time.Millisecond},
		Batch:  100, Workers: 1, MaxAttempts: 3, ParkLimit: 72 * time.Hour, AgreeLimit: 15 * time.Minute,
		UnknownPayment: "create", TxTimeout: 5 * time.Second, AckWait: 30 * time.Second,
		DueEvery: 10 * time.Millisecond, RelayEvery: 10 * time.Millisecond,
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	src := provider.Source{Provider: "gw", Lookup: mode}
	p := New(cfg, db, oneSource{g, src}, lookup.New(cfg.Lookup), NewMetrics(prometheus.NewRegistry()), zap.NewNop())
	return &world{Processor: p, t: t, db: db, gateway: g}
}

// receive stores one event whose body is the claim.
func (w *world) receive(claims ...payment.Claim) int64 {
	w.t.Helper()
	body, err := json.Marshal(claims)
	if err != nil {
		w.t.Fatal(err)
	}
	ref := ""
	if len(claims) > 0 {
		ref = claims[0].GatewayID
	}
	return w.receiveBody(ref, body)
}

func (w *world) receiveBody(ref string, body []byte) int64 {
	w.t.Helper()
	return w.receiveAs(fmt.Sprintf("%s-%d", w.t.Name(), received.Add(1)), ref, body)
}

// receiveAs stores an event under a key, or counts it as a redelivery.
func (w *world) receiveAs(key, ref string, body []byte) int64 {
	w.t.Helper()
	stored, err := w.db.InsertEvents(w.t.Context(), []event.Arrival{{Event: event.Event{
		Provider: "gw", Account: "default", DedupeKey: key, Type: "test",
		PaymentRef: ref, Body: body, BodySHA256: sha256.Sum256(body), Secret: "1",
	}}})
	if err != nil {
		w.t.Fatal(err)
	}
	return stored[0].ID
}

// process runs one batch and fails the test unless every event is done, or in
// somebody else's hands.
func (w *world) process(ids ...int64) {
	w.t.Helper()
	for id, r := range w.Process(w.t.Context(), ids) {
		if r != Done && r != Elsewhere {
			w.t.Fatalf("event %d: result %v", id, r)
		}
	}
}

type eventRow struct{ Status, Outcome, Reason string }

func (w *world) event(id int64) (e eventRow) {
	w.t.Helper()
	err := w.db.Pool.QueryRow(w.t.Context(),
		`SELECT status, COALESCE(outcome, ''), COALESCE(reason, '') FROM webhook_events WHERE id = $1`, id).Scan(&e.Status, &e.Outcome, &e.Reason)
	if err != nil {
		w.t.Fatalf("event %d: %v", id, err)
	}
	return e
}

func (w *world) wantEvent(id int64, status event.Status, outcome event.Outcome) {
	w.t.Helper()
	if e := w.event(id); e.Status != string(status) || e.Outcome != string(outcome) {
		w.t.Errorf("event %d is %+v, want %s %s", id, e, status, outcome)
	}
}

func (w *world) wantStatus(ref string, want payment.Status) {
	w.t.Helper()
	var got payment.Status
	if err := w.db.Pool.QueryRow(w.t.Context(), `SELECT status FROM payments WHERE gateway_id = $1`, ref).Scan(&got); err != nil {
		w.t.Fatalf("payment %s: %v", ref, err)
	}
	if got != want {
		w.t.Errorf("payment %s is %s, want %s", ref, got, want)
	}
}

// ledger is the entries of a payment, as "kind amount" in the order of entry.
func (w *world) ledger(ref string) (out []string) {
	w.t.Helper()
	rows, err := w.db.Pool.Query(w.t.Context(), `
SELECT l.kind || ' ' || l.amount FROM ledger_entries l JOIN payments p ON p.id = l.payment_id
WHERE p.gateway_id = $1 ORDER BY l.id`, ref)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			w.t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

func (w *world) balance(beneficiary string) (n int64) {
	w.t.Helper()
	if err := w.db.Pool.QueryRow(w.t.Context(),
		`SELECT COALESCE(sum(balance), 0)::bigint FROM ledger_balances WHERE account = 'beneficiary:' || $1`, beneficiary).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// verify fails the test when any invariant is broken.
func (w *world) verify() {
	w.t.Helper()
	verify(w.t, w.db)
}

func verify(t testing.TB, db *postgres.DB) {
	t.Helper()
	results, err := db.Verify(t.Context(), postgres.VerifyOptions{PendingLimit: time.Hour, BodiesSince: time.Hour, Rows: 5}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != len(postgres.Checks()) {
		t.Fatalf("%d checks ran, want %d", len(results), len(postgres.Checks()))
	}
	for _, r := range results {
		for _, v := range r.Rows {
			t.Errorf("invariant %d, %s: %s %s", v.Invariant, v.Check, v.Subject, v.Detail)
		}
	}
}

// received numbers the events of all worlds, which may share a database.
var received atomic.Int64

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// The claims that the tests speak in.
func pending(ref string) payment.Claim {
	return payment.Claim{GatewayID: ref, Currency: "BRL", Expected: payment.Of(1000), At: start,
		Facts: []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusPending}}}
}

func paid(ref string) payment.Claim {
	return payment.Claim{GatewayID: ref, Currency: "BRL", Captured: payment.Of(1000), At: start.Add(time.Minute), Beneficiary: "loja",
		Facts: []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusPaid}, {Kind: payment.FactFee, ID: "fee_" + ref, Amount: payment.Of(30)}}}
}

func refunded(ref, id string, amount int64) payment.Claim {
	c := paid(ref)
	c.At = start.Add(time.Hour)
	c.Facts = append(c.Facts, payment.Fact{Kind: payment.FactRefund, ID: id, Amount: payment.Of(amount), Refund: payment.RefundSucceeded})
	return c
}

func refundOnly(ref, id string, amount int64) payment.Claim {
	return payment.Claim{GatewayID: ref, Currency: "BRL", At: start.Add(time.Hour),
		Facts: []payment.Fact{{Kind: payment.FactRefund, ID: id, Amount: payment.Of(amount), Refund: payment.RefundSucceeded}}}
}

func disputed(ref string, state payment.DisputeState, at time.Time) payment.Claim {
	return payment.Claim{GatewayID: ref, Currency: "BRL", At: at,
		Facts: []payment.Fact{{Kind: payment.FactDispute, ID: "du_" + ref, Amount: payment.Of(1000), Dispute: state}}}
}

var errCut = errors.New("cut here by the test")
