package virtual

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/lookup"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
	"github.com/umavez/umavez/pkg/processor"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/settlement"
	"github.com/umavez/umavez/pkg/sweep"
)

// backend is what the model and pkg/postgres have in common.
type backend interface {
	processor.Store
	InsertEvents(context.Context, []event.Arrival) ([]event.Stored, error)
	DuePage(context.Context, sweep.Filter, sweep.Cursor, int) ([]sweep.Row, error)
	MarkSwept(context.Context, []sweep.Row) error
	RingForAll(context.Context) (int, error)
	BuryParked(context.Context, time.Duration, sweep.Filter, int) (int, error)
	CountParkedOver(context.Context, time.Duration, sweep.Filter) (int, error)
	Reconcile(context.Context, sweep.Filter, sweep.Reconcile, int64, int) ([]event.Notice, int64, error)
	DropBodies(context.Context, time.Duration) (int, error)
	ForgetEvents(context.Context, time.Duration, int) (int, error)
	MeetBroker(context.Context, string, time.Duration) (int, bool, error)
	RelayOutbox(context.Context, int, func(context.Context, []postgres.Outgoing) (int, error)) (int, bool, error)
}

// played is a backend under a trace of operations. Ids of events are told by
// their rank among all that were ever there, since sequences have gaps.
type played struct {
	backend
	work     *processor.Processor
	register func(ref settlement.Ref, r settlement.Registration) error
	pass     func(time.Duration)
	rows     func() []string // all tables, a line a row
	ids      func() []int64  // of the events there are

	ranks []int64
}

func (p *played) learn() {
	for _, id := range p.ids() {
		if !slices.Contains(p.ranks, id) {
			p.ranks = append(p.ranks, id)
		}
	}
	slices.Sort(p.ranks)
}

func (p *played) rank(id int64) int { return slices.Index(p.ranks, id) }

func (p *played) ranked(ids []int64) (out []int) {
	for _, id := range ids {
		out = append(out, p.rank(id))
	}
	slices.Sort(out)
	return out
}

// conformer is the gateway of the trace: bodies are claims, nobody is asked.
type conformer struct{ adapter }

func (conformer) Facts(e *event.Event) (cs []payment.Claim, err error) {
	return cs, json.Unmarshal(e.Body, &cs)
}
func (conformer) Traits() provider.Traits { return provider.Traits{BodyAuthenticated: true} }

func (conformer) source(name, account string) (provider.Provider, provider.Source, bool) {
	return conformer{}, provider.Source{Provider: name, Account: account, Lookup: provider.LookupNever}, true
}

type conformSources struct{ conformer }

// Lookup implements processor.Sources.
func (s conformSources) Lookup(name, account string) (provider.Provider, provider.Source, bool) {
	return s.source(name, account)
}

func conformWork(store processor.Store) *processor.Processor {
	cfg := processor.Config{Lookup: lookup.Config{Concurrency: 1, Timeout: time.Second, BreakAfter: 1, Open: time.Second}, Batch: 100, Workers: 1,
		MaxAttempts: 2, ParkLimit: parkLimit, AgreeLimit: time.Minute, UnknownPayment: "create", TxTimeout: 5 * time.Second, AckWait: time.Minute,
		DueEvery: time.Second, RelayEvery: time.Second}
	w := processor.New(cfg, store, conformSources{}, lookup.New(cfg.Lookup), metrics, zap.NewNop())
	w.Jitter = func(time.Duration) time.Duration { return 0 }
	return w
}

// conformClaim is one of a few things that an event may say of a payment.
func conformClaim(r *rand.Rand, ref string, begun time.Time) payment.Claim {
	c := payment.Claim{GatewayID: ref, Currency: "BRL", Reason: "told", At: begun.Add(time.Duration(r.IntN(50)) * time.Second)}
	id := fmt.Sprintf("%s_%d", ref, r.IntN(3))
	facts := []payment.Fact{
		{Kind: payment.FactStatus, Status: payment.StatusPending}, {Kind: payment.FactStatus, Status: payment.StatusFailed},
		{Kind: payment.FactStatus, Status: payment.StatusPaid}, {Kind: payment.FactStatus, Status: payment.StatusPaid},
		{Kind: payment.FactRefund, ID: "re" + id, Amount: payment.Of(400), Refund: payment.RefundSucceeded},
		{Kind: payment.FactRefund, ID: "re" + id, Amount: payment.Of(400), Refund: payment.RefundFailed},
		{Kind: payment.FactDispute, ID: "dp" + id, Amount: payment.Of(300), Dispute: payment.DisputeOpen},
		{Kind: payment.FactDispute, ID: "dp" + id, Amount: payment.Of(300), Dispute: payment.DisputeLost},
		{Kind: payment.FactFee, ID: "fee" + id, Amount: payment.Of(20)},
	}
	c.Facts = []payment.Fact{facts[r.IntN(len(facts))]}
	if r.IntN(3) > 0 {
		c.Captured = payment.Of(1000)
	}
	if r.IntN(3) == 0 {
		c.Beneficiary = "loja"
	}
	return c
}

const conformName = "conform"

// operate makes one operation, drawn by r, and says what came of it. Two
// backends in the same state get the same one from equal generators.
func (p *played) operate(r *rand.Rand, begun time.Time) string {
	ctx := context.Background()
	refs := []string{"pay_a", "pay_b", "pay_c"}
	some := func() (ids []int64) {
		for range 1 + r.IntN(5) {
			if n := r.IntN(24); n < len(p.ranks) {
				ids = append(ids, p.ranks[n])
			}
		}
		slices.Sort(ids)
		return slices.Compact(ids)
	}
	switch op := r.IntN(21); op {
	case 0, 1, 2, 3:
		var as []event.Arrival
		for range 1 + r.IntN(4) {
			ref := refs[r.IntN(len(refs))]
			body, _ := json.Marshal([]payment.Claim{conformClaim(r, ref, begun)})
			a := event.Arrival{Event: event.Event{Provider: conformName, Account: "default", DedupeKey: fmt.Sprintf("k%02d", r.IntN(16)), Type: "told",
				PaymentRef: ref, Body: body, BodySHA256: sha256.Sum256(body), Secret: "1"}, Reopen: r.IntN(5) == 0}
			if r.IntN(12) == 0 {
				a.Settle, a.Reason = event.StatusIgnored, "informational"
			}
			as = append(as, a)
		}
		stored, err := p.InsertEvents(ctx, as)
		p.learn()
		out := fmt.Sprint("insert ", refusedOrNot(err))
		for i, s := range stored {
			out += fmt.Sprintf(" %s:%d,%t,%t", as[i].DedupeKey, p.rank(s.ID), s.New, s.Publish)
		}
		return out
	case 4, 5, 6, 7, 8:
		out := "process"
		results := p.work.Process(ctx, some())
		ids := make([]int64, 0, len(results))
		for id := range results {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		for _, id := range ids {
			out += fmt.Sprintf(" %d:%d", p.rank(id), results[id])
		}
		return out
	case 9:
		out := "fail"
		turn := int32(1 + r.IntN(2))
		for _, id := range some() {
			dead, err := p.Fail(ctx, settlement.Handle{EventID: id, Turn: turn}, "broken", 5*time.Second, 2)
			out += fmt.Sprintf(" %d:%t,%s", p.rank(id), dead, refusedOrNot(err))
		}
		return out
	case 10:
		ids, err := p.ClaimDue(ctx, 100, 30*time.Second)
		return fmt.Sprint("due ", p.ranked(ids), refusedOrNot(err))
	case 11, 12:
		f := sweep.Filter{}
		if r.IntN(3) == 0 {
			f.OlderThan = time.Minute
		}
		page, err := p.DuePage(ctx, f, sweep.Cursor{}, 100)
		out := fmt.Sprint("page ", refusedOrNot(err))
		slices.SortFunc(page, func(a, b sweep.Row) int { return cmp.Compare(a.Notice.ID, b.Notice.ID) })
		for _, row := range page {
			out += fmt.Sprintf(" %d:%s,%s,%d,%d,%d,%s", p.rank(row.Notice.ID), row.State, row.Reason, row.Attempts, row.Sweeps, row.Turn, row.NextAt.Sub(begun))
		}
		return fmt.Sprint(out, refusedOrNot(p.MarkSwept(ctx, page)))
	case 13:
		n, err := p.RingForAll(ctx)
		return fmt.Sprint("ring ", n, refusedOrNot(err))
	case 14:
		n, err := p.CountParkedOver(ctx, time.Hour, sweep.Filter{})
		m, err2 := p.BuryParked(ctx, time.Hour, sweep.Filter{}, 100)
		return fmt.Sprint("bury ", n, m, refusedOrNot(errors.Join(err, err2)))
	case 15:
		_, _, err := p.Reconcile(ctx, sweep.Filter{}, sweep.Reconcile{After: time.Hour, Within: 30 * 24 * time.Hour, All: r.IntN(2) == 0, Sources: []string{conformName + "/default"}}, 0, 100)
		p.learn()
		return fmt.Sprint("reconcile ", refusedOrNot(err))
	case 16:
		_, err := p.DropBodies(ctx, bodyRetention)
		n, err2 := p.ForgetEvents(ctx, keyRetention, 100)
		return fmt.Sprint("retain ", n, refusedOrNot(errors.Join(err, err2)))
	case 17:
		take := r.IntN(4)
		out := "relay"
		n, leading, err := p.RelayOutbox(ctx, 10, func(_ context.Context, rows []postgres.Outgoing) (int, error) {
			for _, o := range rows {
				out += " " + o.Subject
			}
			return min(take, len(rows)), nil
		})
		return fmt.Sprint(out, n, leading, refusedOrNot(err))
	case 18:
		unsent, met, err := p.MeetBroker(ctx, fmt.Sprint("server ", r.IntN(4)), 5*time.Minute)
		return fmt.Sprint("meet ", unsent, met, refusedOrNot(err))
	case 19:
		reg := settlement.Registration{Beneficiary: "dono", Reference: "r"}
		if r.IntN(2) == 0 {
			reg.Expected, reg.Currency = payment.Of(1000), "BRL"
		}
		err := p.register(settlement.Ref{Provider: conformName, Account: "default", GatewayID: refs[r.IntN(len(refs))]}, reg)
		p.learn()
		return fmt.Sprint("register ", refusedOrNot(err))
	default:
		d := []time.Duration{time.Second, 10 * time.Second, 6 * time.Minute, 2 * time.Hour, 73 * time.Hour, 40 * 24 * time.Hour, 410 * 24 * time.Hour}[r.IntN(7)]
		p.pass(d)
		return fmt.Sprint("wait ", d)
	}
}

func refusedOrNot(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}

// step is one operation of a trace: what it said and what the tables were.
type conformed struct {
	said string
	rows []string
}

const traceLength = 60

// modelTrace plays the operations of a seed on the model.
func modelTrace(t *testing.T, seed uint64) (trace []conformed) {
	synctest.Test(t, func(*testing.T) {
		w := newWorld(seed)
		w.plan, w.faults = plan{}, faults{}
		world := w.newProc(outside, outside+" conform")
		s := db{w.store, world}
		begun := time.Now().UTC()
		p := &played{backend: s, work: conformWork(s),
			register: func(ref settlement.Ref, r settlement.Registration) error {
				return s.register(context.Background(), ref, r)
			},
			pass: func(d time.Duration) { world.sleep(d, "passes") },
			rows: func() []string { return nil },
			ids: func() (ids []int64) {
				for id := range w.store.events {
					ids = append(ids, id)
				}
				return ids
			}}
		p.rows = func() []string { return w.store.dump(p, begun) }
		go func() {
			defer w.sched.finish()
			r := rand.New(rand.NewPCG(seed, 7))
			for range traceLength {
				said := p.operate(r, begun)
				trace = append(trace, conformed{said, p.rows()})
			}
		}()
		w.sched.run()
		if w.violation != "" {
			t.Errorf("seed %d: %s", seed, w.violation)
		}
	})
	return trace
}

func since(t, begun time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return fmt.Sprint(int64(t.Sub(begun) / time.Microsecond))
}

func plainKey(k string) string {
	for _, own := range []string{"umavez/registered", "umavez/reconcile"} {
		if strings.HasPrefix(k, own) {
			return own
		}
	}
	return k
}

// dump writes every row of the model.
func (s *store) dump(p *played, begun time.Time) (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	name := func(id int64) string { return s.payments[id].GatewayID }
	for id, e := range s.events {
		_, kept := s.bodies[id]
		add("event %d %s %s %s %s body %t", p.rank(id), plainKey(e.DedupeKey), e.Type, e.PaymentRef, since(e.ReceivedAt, begun), kept)
	}
	for id, w := range s.work {
		add("work %d %s %d %d %d %d %s %s %s %s %q %q %s", p.rank(id), w.state, w.turn, w.attempts, w.parks, w.sweeps, since(w.nextAt, begun), since(w.since, begun),
			w.reason, since(w.reasonSince, begun), w.lastError, "", w.waiting)
	}
	for id, rs := range s.results {
		for _, r := range rs {
			add("result %d %d %s %s %s %d %s", p.rank(id), r.turn, r.status, r.outcome, r.reason, r.attempts, since(r.at, begun))
		}
	}
	for id, r := range s.repeats {
		add("repeats %d %d %d", p.rank(id), r.count, len(r.differing))
	}
	for _, r := range s.payments {
		status := r.Status
		if status == payment.StatusNone {
			status = payment.StatusPending
		}
		add("payment %s %s %d %s %d %d %d %d %s %s %s", r.GatewayID, status, r.Version, minor(r.Captured), r.Refunded, r.ChargedBack, r.Fee, 0, r.Currency, r.Beneficiary, r.Reference)
	}
	for id, ms := range s.moves {
		for _, m := range ms {
			add("move %s %d %d %s %s %s", name(id), m.seq, p.rank(m.event), m.from, m.to, m.reason)
		}
	}
	for _, e := range s.entries {
		add("entry %s %d %d %s %s %s %s %s %s", name(e.payment), e.seq, e.amount, e.currency, e.kind, e.debit, e.credit, e.refType, e.refID)
	}
	for k, n := range s.balances {
		add("balance %s %s %d", k.account, k.currency, n)
	}
	for _, o := range s.outbox {
		add("outbox %s %d %s %s", name(o.payment), o.seq, o.subject, since(o.relayed, begun))
	}
	for ref, r := range s.regs {
		add("registration %s %s %s %s %s", ref.GatewayID, minor(r.Expected), r.Currency, r.Beneficiary, r.Reference)
	}
	slices.Sort(out)
	return out
}

func minor(m payment.Minor) string {
	if !m.Known {
		return "unknown"
	}
	return fmt.Sprint(m.Value)
}

// clocked is a PostgreSQL schema whose now() is a row that the test sets.
type clocked struct {
	*postgres.DB
	t   *testing.T
	now time.Time
}

// newClocked makes a schema of its own beside the test's: in it, now() and
// clock_timestamp() are ours, found before those of pg_catalog.
func newClocked(t *testing.T) *clocked {
	t.Helper()
	admin := postgrestest.New(t)
	schema := postgrestest.Schema(t) + "_clock"
	u, err := url.Parse(postgrestest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", schema+",pg_catalog")
	u.RawQuery = q.Encode()
	exec := func(db *postgres.DB, sql string, args ...any) {
		t.Helper()
		if _, err := db.Pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatalf("%v: %s", err, sql)
		}
	}
	exec(admin, `DROP SCHEMA IF EXISTS `+schema+` CASCADE`)
	exec(admin, `CREATE SCHEMA `+schema)
	t.Cleanup(func() {
		if _, err := admin.Pool.Exec(context.Background(), `DROP SCHEMA IF EXISTS `+schema+` CASCADE`); err != nil {
			t.Error(err)
		}
	})
	db, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: u.String(), MaxConns: 4, LockTimeout: 2 * time.Second, StatementTimeout: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	exec(db, `CREATE TABLE test_clock (at timestamptz NOT NULL)`)
	exec(db, `INSERT INTO test_clock VALUES ('2000-01-01')`)
	for _, f := range []string{"now", "clock_timestamp"} {
		exec(db, `CREATE FUNCTION `+f+`() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT at FROM `+schema+`.test_clock'`)
	}
	if _, err := db.Migrate(t.Context(), false, nil); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"register_payment(text, text, text, bigint, text, text, text)", "drop_body_partition(date)"} {
		exec(db, `ALTER FUNCTION `+f+` SET search_path = `+schema+`, pg_catalog, pg_temp`)
	}
	return &clocked{DB: db, t: t}
}

func (c *clocked) set(now time.Time) {
	c.now = now
	if _, err := c.Pool.Exec(c.t.Context(), `UPDATE test_clock SET at = $1`, now); err != nil {
		c.t.Fatal(err)
	}
}

// reset empties all tables for the next trace.
func (c *clocked) reset(begun time.Time) {
	if _, err := c.Pool.Exec(c.t.Context(), `
		BEGIN; SET LOCAL session_replication_role = replica;
		DELETE FROM ledger_entries; DELETE FROM ledger_balances; DELETE FROM ledger_accounts; DELETE FROM outbox; DELETE FROM brokers_met; DELETE FROM payment_transitions;
		DELETE FROM payments; DELETE FROM payment_registrations; DELETE FROM event_work; DELETE FROM event_results; DELETE FROM event_redeliveries;
		DELETE FROM event_bodies; DELETE FROM events; COMMIT`); err != nil {
		c.t.Fatal(err)
	}
	c.set(begun)
}

func (c *clocked) played(begun time.Time) *played {
	p := &played{backend: c.DB, work: conformWork(c.DB), pass: func(d time.Duration) { c.set(c.now.Add(d)) }}
	p.register = func(ref settlement.Ref, r settlement.Registration) error {
		var expected *int64
		if r.Expected.Known {
			expected = &r.Expected.Value
		}
		var currency *string
		if r.Currency != "" {
			currency = &r.Currency
		}
		_, err := c.Pool.Exec(c.t.Context(), `SELECT register_payment($1, $2, $3, $4, $5, $6, $7)`, ref.Provider, ref.Account, ref.GatewayID, expected, currency, r.Beneficiary, r.Reference)
		return err
	}
	p.ids = func() (ids []int64) {
		if err := c.Pool.QueryRow(c.t.Context(), `SELECT COALESCE(array_agg(id), '{}') FROM events`).Scan(&ids); err != nil {
			c.t.Fatal(err)
		}
		return ids
	}
	p.rows = func() []string { return c.dump(p, begun) }
	return p
}

// dump writes every row as the model does. A number behind '#' is an event's
// id, one behind '@' a time in microseconds.
func (c *clocked) dump(p *played, begun time.Time) (out []string) {
	at := func(col string) string {
		return `COALESCE((extract(epoch FROM ` + col + ` - timestamptz '` + begun.Format(time.RFC3339) + `') * 1000000)::bigint::text, 'never')`
	}
	minorOf := func(col string) string { return `COALESCE(` + col + `::text, 'unknown')` }
	sql := `
SELECT 'event', id, concat_ws(' ', '', dedupe_key, type, COALESCE(payment_ref, ''), ` + at("received_at") + `, 'body', CASE WHEN EXISTS (SELECT FROM event_bodies b WHERE b.event_id = id) THEN 'true' ELSE 'false' END) FROM events
UNION ALL SELECT 'work', event_id, concat_ws(' ', '', state, turn, attempts, parks, sweeps, ` + at("next_at") + `, ` + at("since") + `, COALESCE(reason, ''), ` + at("reason_since") + `, to_json(COALESCE(last_error, ''))::text, '""', COALESCE(waiting_for, '')) FROM event_work
UNION ALL SELECT 'result', event_id, concat_ws(' ', '', turn, status, COALESCE(outcome, ''), COALESCE(reason, ''), attempts, ` + at("at") + `) FROM event_results
UNION ALL SELECT 'repeats', event_id, concat_ws(' ', '', count, cardinality(differing)) FROM event_redeliveries
UNION ALL SELECT 'payment', -1, concat_ws(' ', '', gateway_id, status, version, ` + minorOf("captured") + `, refunded, charged_back, fee, 0, COALESCE(currency, ''), COALESCE(beneficiary, ''), COALESCE(reference, '')) FROM payments
UNION ALL SELECT 'move ' || gateway_id || ' ' || seq, event_id, concat_ws(' ', '', COALESCE(from_status, ''), to_status, reason) FROM payment_transitions t JOIN payments p ON p.id = t.payment_id
UNION ALL SELECT 'entry', -1, concat_ws(' ', '', gateway_id, transition_seq, amount, l.currency, kind, debit_account, credit_account, reference_type, reference_id) FROM ledger_entries l JOIN payments p ON p.id = l.payment_id
UNION ALL SELECT 'balance', -1, concat_ws(' ', '', account, currency, balance) FROM ledger_balances
UNION ALL SELECT 'outbox', -1, concat_ws(' ', '', gateway_id, seq, subject, ` + at("relayed_at") + `) FROM outbox o JOIN payments p ON p.id = o.payment_id
UNION ALL SELECT 'registration', -1, concat_ws(' ', '', gateway_id, ` + minorOf("expected") + `, COALESCE(currency, ''), COALESCE(beneficiary, ''), COALESCE(reference, '')) FROM payment_registrations`
	rows, err := c.Pool.Query(c.t.Context(), sql)
	if err != nil {
		c.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var table, rest string
		var id int64
		if err := rows.Scan(&table, &id, &rest); err != nil {
			c.t.Fatal(err)
		}
		line := table
		if id >= 0 {
			line += fmt.Sprint(" ", p.rank(id))
		}
		for _, own := range []string{"umavez/registered", "umavez/reconcile"} {
			if i := strings.Index(rest, own+"/"); i >= 0 {
				end := strings.IndexByte(rest[i:], ' ')
				rest = rest[:i] + own + rest[i+end:]
			}
		}
		out = append(out, line+rest)
	}
	if err := rows.Err(); err != nil {
		c.t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// TestTheStoreIsAsPostgreSQLIs plays random traces on the model and on a real
// PostgreSQL, whose clock the test holds, and compares each result and, after
// each operation, all rows.
func TestTheStoreIsAsPostgreSQLIs(t *testing.T) {
	t.Parallel()
	c := newClocked(t)
	kinds := map[string]int{}
	for seed := uint64(1); seed <= 10/slower+2; seed++ {
		want := modelTrace(t, seed)
		begun := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		c.reset(begun)
		p := c.played(begun)
		r := rand.New(rand.NewPCG(seed, 7))
		for i, w := range want {
			said := p.operate(r, begun)
			kind, _, _ := strings.Cut(said, " ")
			kinds[kind]++
			if said != w.said {
				t.Fatalf("seed %d, operation %d: PostgreSQL says\n%s\nthe model says\n%s", seed, i, said, w.said)
			}
			if rows := p.rows(); !slices.Equal(rows, w.rows) {
				t.Fatalf("seed %d, operation %d (%s): rows differ\n%s", seed, i, said, difference(rows, w.rows))
			}
		}
	}
	if len(kinds) < 12 {
		t.Errorf("only these operations were drawn: %v", kinds)
	}
}

func difference(server, model []string) string {
	var b strings.Builder
	for _, l := range server {
		if !slices.Contains(model, l) {
			fmt.Fprintln(&b, "PostgreSQL:", l)
		}
	}
	for _, l := range model {
		if !slices.Contains(server, l) {
			fmt.Fprintln(&b, "model:     ", l)
		}
	}
	return b.String()
}
