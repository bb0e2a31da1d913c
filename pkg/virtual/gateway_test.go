package virtual

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/settlement"
)

// truth is what the gateway knows of one payment from a moment on. It is kept
// by plain bookkeeping, without the state machine that it judges.
type truth struct {
	since    time.Time
	attempt  payment.Status // before capture
	paid     bool
	refunds  []trueRefund
	disputes []trueDispute
	fees     []trueFee
}

type trueRefund struct {
	id     string
	amount int64
	state  payment.RefundState
}

type trueDispute struct {
	id     string
	amount int64
	state  payment.DisputeState
}

type trueFee struct {
	id     string
	amount int64
}

func (t truth) clone() truth {
	t.refunds, t.disputes, t.fees = slices.Clone(t.refunds), slices.Clone(t.disputes), slices.Clone(t.fees)
	return t
}

func (t *truth) refunded() (n int64) {
	for _, r := range t.refunds {
		if r.state == payment.RefundSucceeded {
			n += r.amount
		}
	}
	return n
}

func (t *truth) chargedBack() (n int64) {
	for _, d := range t.disputes {
		if d.state == payment.DisputeOpen || d.state == payment.DisputeLost {
			n += d.amount
		}
	}
	return n
}

func (t *truth) fee() (n int64) {
	for _, f := range t.fees {
		n += f.amount
	}
	return n
}

// status is the one that follows from the money.
func (t *truth) status(price int64) payment.Status {
	if !t.paid {
		return t.attempt
	}
	status := payment.StatusPaid
	switch refunded := t.refunded(); {
	case refunded == price:
		status = payment.StatusRefunded
	case refunded > 0:
		status = payment.StatusPartiallyRefunded
	}
	for _, d := range t.disputes {
		switch {
		case d.state == payment.DisputeOpen:
			return payment.StatusDisputed
		case d.state == payment.DisputeLost:
			status = payment.StatusChargedBack
		}
	}
	return status
}

// dialect is how a payment's events speak.
type dialect string

const (
	byID    dialect = "by id"   // each fact with its id and amount
	totals  dialect = "totals"  // refunds as a running total without ids
	bells   dialect = "bells"   // events say nothing; the API knows
	scanty  dialect = "scanty"  // the facts' amounts are for the API to say
	oneKey  dialect = "one key" // all events of a payment share a key; a repeat asks again
	bundled dialect = "bundled" // each event says all that is true by then
)

// pay is one payment at the gateway.
type pay struct {
	ref     settlement.Ref
	n       int
	price   int64
	owner   string
	dialect dialect
	truths  []truth
	tells   []*tell
	ids     int
}

func (p *pay) last() *truth { return &p.truths[len(p.truths)-1] }

// at is the truth of a moment; nil before the payment existed.
func (p *pay) at(t time.Time) *truth {
	var found *truth
	for i := range p.truths {
		if !p.truths[i].since.After(t) {
			found = &p.truths[i]
		}
	}
	return found
}

func (p *pay) id(prefix string) string {
	p.ids++
	return fmt.Sprintf("%s_%d_%d", prefix, p.n, p.ids)
}

func (p *pay) base(at time.Time, reason string) payment.Claim {
	return payment.Claim{GatewayID: p.ref.GatewayID, Currency: "BRL", Expected: payment.Of(p.price), At: at, Reason: reason}
}

// answer is what the API says of a truth.
func (p *pay) answer(t *truth) payment.Claim {
	c := p.base(time.Time{}, "lookup")
	c.Facts = p.facts(t)
	if t.paid {
		c.Captured = payment.Of(p.price)
	}
	return c
}

// facts is all that is true.
func (p *pay) facts(t *truth) (facts []payment.Fact) {
	if !t.paid {
		return []payment.Fact{{Kind: payment.FactStatus, Status: t.attempt}}
	}
	facts = append(facts, payment.Fact{Kind: payment.FactStatus, Status: payment.StatusPaid})
	if p.dialect == totals {
		facts = append(facts, payment.Fact{Kind: payment.FactRefundTotal, Amount: payment.Of(t.refunded())})
	} else {
		for _, r := range t.refunds {
			facts = append(facts, refundFact(r))
		}
	}
	for _, d := range t.disputes {
		facts = append(facts, disputeFact(d))
	}
	for _, f := range t.fees {
		facts = append(facts, payment.Fact{Kind: payment.FactFee, ID: f.id, Amount: payment.Of(f.amount)})
	}
	return facts
}

func refundFact(r trueRefund) payment.Fact {
	return payment.Fact{Kind: payment.FactRefund, ID: r.id, Amount: payment.Of(r.amount), Refund: r.state}
}

func disputeFact(d trueDispute) payment.Fact {
	return payment.Fact{Kind: payment.FactDispute, ID: d.id, Amount: payment.Of(d.amount), Dispute: d.state}
}

// tell is one event as the gateway words it.
type tell struct {
	p        *pay
	Key      string          `json:"key"`
	Type     string          `json:"type"`
	Ref      string          `json:"ref"`
	At       time.Time       `json:"at"`
	Reopen   bool            `json:"reopen,omitempty"`
	Claims   []payment.Claim `json:"claims"`
	body     []byte
	forged   bool
	accepted bool // answered with success at least once
}

// gateway is the other side: what is true, what its API says, and which
// secrets its webhooks are signed with.
type gateway struct {
	w       *world
	account string
	pays    []*pay
	byRef   map[string]*pay
	secrets []string // those that umavez accepts now
	signing string   // the one that the gateway uses now
	lag     time.Duration
}

func (g *gateway) findPay(ref string) *pay { return g.byRef[ref] }

// lookup is one question to the API, asked by a process.
func (g *gateway) lookup(p *proc, ref string) (payment.Claim, error) {
	w := g.w
	p.step("lookup " + ref)
	asked := time.Now()
	f, sch := &w.faults, w.sched
	switch {
	case f.apiAway:
		w.saw("lookup: gateway away")
		return payment.Claim{}, &provider.RetryError{Status: 503}
	case sch.chance(f.apiFails):
		switch sch.rng.IntN(4) {
		case 0:
			w.saw("lookup: 429")
			return payment.Claim{}, &provider.RetryError{Status: 429, After: sch.below(20 * time.Second)}
		case 1:
			w.saw("lookup: no answer in time")
			p.sleep(6*time.Second, "lookup "+ref+" late")
			return payment.Claim{}, &provider.RetryError{Err: context.DeadlineExceeded}
		case 2:
			w.saw("lookup: 5xx")
			return payment.Claim{}, &provider.RetryError{Status: 502}
		default:
			w.saw("lookup: 404")
			return payment.Claim{}, provider.ErrNotFound
		}
	}
	pay := g.findPay(ref)
	if pay == nil {
		return payment.Claim{}, provider.ErrNotFound
	}
	if sch.chance(f.apiFails) {
		w.saw("lookup: about another payment")
		c := pay.answer(pay.last())
		c.GatewayID = "another"
		return c, nil
	}
	seen := asked
	switch {
	case sch.chance(f.apiLag):
		seen = seen.Add(-sch.below(g.lag))
	case sch.chance(f.apiStale):
		seen = seen.Add(-g.lag - sch.below(2*time.Minute))
		w.saw("lookup: stale beyond the lag")
	}
	t := pay.at(seen)
	if t == nil {
		w.saw("lookup: not there yet")
		return payment.Claim{}, provider.ErrNotFound
	}
	if t != pay.last() {
		w.saw("lookup: lagged behind")
	}
	return pay.answer(t), nil
}

// adapter is the gateway's folder below pkg/provider, as one process has it.
type adapter struct {
	g *gateway
	p *proc
}

const secretHeader = "X-Secret"

// Verify implements provider.Provider.
func (a adapter) Verify(r provider.Request) (string, provider.Reason) {
	for i, s := range a.g.secrets {
		if r.Header.Get(secretHeader) == s {
			if i > 0 {
				a.g.w.saw("signed by the old secret while it is active")
			}
			return fmt.Sprint(i + 1), provider.ReasonNone
		}
	}
	return "", provider.ReasonToken
}

// Parse implements provider.Provider.
func (a adapter) Parse(r provider.Request) []provider.Message {
	var t tell
	if err := json.Unmarshal(r.Body, &t); err != nil {
		return []provider.Message{{DedupeKey: event.BodyKey(r.Body), Disposition: provider.Quarantine, Reason: provider.ReasonUnreadable}}
	}
	return []provider.Message{{DedupeKey: t.Key, Type: t.Type, PaymentRef: t.Ref, OccurredAt: t.At, Reopen: t.Reopen, Disposition: provider.Process}}
}

// Facts implements provider.Provider.
func (a adapter) Facts(e *event.Event) ([]payment.Claim, error) {
	var t tell
	if err := json.NewDecoder(bytes.NewReader(e.Body)).Decode(&t); err != nil {
		return nil, errors.New("unreadable")
	}
	return t.Claims, nil
}

// Lookup implements provider.Provider.
func (a adapter) Lookup(_ context.Context, _ *http.Client, ref string) (payment.Claim, error) {
	return a.g.lookup(a.p, ref)
}

// Traits implements provider.Provider.
func (a adapter) Traits() provider.Traits {
	return provider.Traits{BodyAuthenticated: a.g.w.plan.trusted, CanLookup: a.g.w.plan.mode != provider.LookupNever, LookupRate: 1e6, LookupBurst: 1000}
}

// sources are the configured accounts as one process has them.
type sources struct {
	w *world
	p *proc
}

// Lookup implements processor.Sources and ingest.Sources.
func (s sources) Lookup(name, account string) (provider.Provider, provider.Source, bool) {
	if s.w.real != nil {
		if p, src, ok := s.w.real.sources.Lookup(name, account); ok {
			return p, src, true
		}
	}
	if name != gatewayName || account != s.w.gateway.account {
		return nil, provider.Source{}, false
	}
	return adapter{s.w.gateway, s.p}, provider.Source{Provider: name, Account: account, Lookup: s.w.plan.mode, LookupLag: s.w.gateway.lag}, true
}

const gatewayName = "gw"
