// Package explain says what umavez makes of one webhook: which gateway it is
// from, whether its credentials hold and, if not, what was signed instead, its
// dedupe key, its payment, its facts, and what they would do to a payment in a
// given state. It runs the same code as ingest and processor, and neither
// stores nor asks anything.
package explain

import (
	"fmt"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// Candidate is one source that the request may be for.
type Candidate struct {
	Source   provider.Source
	Provider provider.Provider
}

// Report is the explanation of one request.
type Report struct {
	Provider string `json:"provider"`
	Account  string `json:"account"`
	Verified bool   `json:"verified"`
	Secret   string `json:"secret,omitempty"` // label of the one that matched
	Reason   string `json:"reason,omitempty"` // why not verified
	// Signed are the texts that the sender may have signed, where the gateway
	// signs.
	Signed []Signed `json:"signed,omitempty"`
	// The first event's, for scripts that meet one event a request.
	DedupeKey string  `json:"dedupe_key"`
	Payment   string  `json:"payment"`
	Facts     []Fact  `json:"facts"`
	Events    []Event `json:"events"`
	Lookup    string  `json:"lookup"` // what the gateway is asked before money moves
}

// Signed is one text that may have been signed.
type Signed struct {
	Name     string `json:"name"`
	Text     string `json:"text"`
	Secret   string `json:"secret,omitempty"` // label of the secret under which it matches
	Accepted bool   `json:"accepted"`
}

// Event is one event of the request.
type Event struct {
	DedupeKey   string  `json:"dedupe_key"`
	ID          string  `json:"provider_event_id,omitempty"`
	Type        string  `json:"type,omitempty"`
	Payment     string  `json:"payment,omitempty"`
	OccurredAt  string  `json:"occurred_at,omitempty"`
	Test        bool    `json:"test,omitempty"`
	Disposition string  `json:"disposition"`
	Reason      string  `json:"reason,omitempty"`
	Claims      []Claim `json:"claims"`
	Fault       string  `json:"fault,omitempty"` // why its facts cannot be read
}

// Claim is what an event says of one payment, and what that would do.
type Claim struct {
	Payment     string `json:"payment"`
	Reference   string `json:"reference,omitempty"`
	Beneficiary string `json:"beneficiary,omitempty"`
	Currency    string `json:"currency,omitempty"`
	Expected    *int64 `json:"expected,omitempty"` // minor units
	Captured    *int64 `json:"captured,omitempty"`
	Facts       []Fact `json:"facts"`
	Effect      Effect `json:"effect"`
}

// Fact is one thing that a claim says. Amounts are in minor units.
type Fact struct {
	Kind   string `json:"kind"`
	ID     string `json:"id,omitempty"`
	State  string `json:"state,omitempty"`
	Amount *int64 `json:"amount,omitempty"`
}

// Effect is what the facts would do to a payment in the given state, once the
// gateway is believed.
type Effect struct {
	From        string       `json:"from"`
	To          string       `json:"to"`
	Transitions []Transition `json:"transitions"`
	Outcome     string       `json:"outcome"`         // applied, repeated, stale or parked
	Needs       string       `json:"needs,omitempty"` // of parked
}

// Transition is one step with what it books.
type Transition struct {
	From  string    `json:"from"`
	To    string    `json:"to"`
	Books []Booking `json:"books"`
}

// Booking is one movement of money, in minor units.
type Booking struct {
	Kind      string `json:"kind"`
	Reference string `json:"reference"`
	Amount    int64  `json:"amount"`
}

// State is the payment that effects are worked out for.
type State struct {
	Status payment.Status
	// Captured is its gross amount in minor units; unknown takes the event's.
	Captured payment.Minor
}

// Request explains a request for the first candidate whose credentials hold,
// else for the likeliest one.
func Request(r provider.Request, candidates []Candidate, s State) (Report, error) {
	if len(candidates) == 0 {
		return Report{}, fmt.Errorf("no source to try")
	}
	best, bestReason, bestRank := candidates[0], provider.Reason(""), -1
	for _, c := range candidates {
		secret, reason := c.Provider.Verify(r)
		if reason == provider.ReasonNone {
			return report(r, c, secret, reason, s), nil
		}
		if n := likelihood(r, c, reason); n > bestRank {
			best, bestReason, bestRank = c, reason, n
		}
	}
	return report(r, best, "", bestReason, s), nil
}

// likelihood ranks sources that refused a request: one that found credentials
// of its kind before one that found none, one that can read the body first.
func likelihood(r provider.Request, c Candidate, reason provider.Reason) (n int) {
	switch reason {
	case provider.ReasonMissing, provider.ReasonNoClient:
	case provider.ReasonMalformed:
		n = 2
	default:
		n = 4
	}
	for _, m := range c.Provider.Parse(r) {
		if m.Disposition == provider.Process {
			return n + 1
		}
	}
	return n
}

func report(r provider.Request, c Candidate, secret string, reason provider.Reason, s State) Report {
	out := Report{
		Provider: c.Source.Provider, Account: c.Source.Account, Verified: reason == provider.ReasonNone,
		Secret: secret, Reason: string(reason), Events: []Event{}, Facts: []Fact{}, Lookup: lookups(c),
	}
	if e, ok := provider.As[provider.Explainer](c.Provider); ok {
		for _, t := range e.Explain(r) {
			out.Signed = append(out.Signed, Signed{t.Name, t.Text, t.Secret, t.Accepted})
		}
	}
	for _, m := range c.Provider.Parse(r) {
		out.Events = append(out.Events, one(r, c, m, s))
	}
	if len(out.Events) > 0 {
		first := &out.Events[0]
		out.DedupeKey, out.Payment = first.DedupeKey, first.Payment
		for _, cl := range first.Claims {
			out.Facts = append(out.Facts, cl.Facts...)
		}
	}
	return out
}

// lookups says in words when the gateway is asked.
func lookups(c Candidate) string {
	t := c.Provider.Traits()
	switch {
	case !t.BodyAuthenticated && !c.Source.UnsafeTrust:
		return "always: the credentials do not cover the body, so nothing moves money until the gateway's API says the same"
	case !t.CanLookup || c.Source.Lookup == provider.LookupNever:
		return "never: the body is believed"
	case c.Source.Lookup == provider.LookupInDoubt:
		return "in_doubt: when the body and what is held do not fit"
	}
	return "always: the body and the gateway's API have to agree"
}

func one(r provider.Request, c Candidate, m provider.Message, s State) Event {
	e := Event{
		DedupeKey: m.DedupeKey, ID: m.ProviderEventID, Type: m.Type, Payment: m.PaymentRef, Test: m.Test,
		Disposition: string(m.Disposition), Reason: m.Reason, Claims: []Claim{},
	}
	if !m.OccurredAt.IsZero() {
		e.OccurredAt = m.OccurredAt.UTC().Format("2006-01-02T15:04:05.999Z07:00")
	}
	if m.Disposition != provider.Process {
		return e
	}
	claims, err := c.Provider.Facts(&event.Event{
		Provider: c.Source.Provider, Account: c.Source.Account, DedupeKey: m.DedupeKey, ProviderEventID: m.ProviderEventID,
		Type: m.Type, PaymentRef: m.PaymentRef, OccurredAt: m.OccurredAt, ReceivedAt: r.Now, Test: m.Test, Body: m.Body,
		Headers: provider.KeptHeaders(r, c.Provider.Traits().SignedHeaders),
	})
	if err != nil {
		e.Fault = err.Error()
		return e
	}
	for _, cl := range claims {
		if cl.At.IsZero() {
			cl.At = m.OccurredAt
		}
		e.Claims = append(e.Claims, claim(cl, s))
	}
	return e
}

func claim(c payment.Claim, s State) Claim {
	out := Claim{
		Payment: c.GatewayID, Reference: c.Reference, Beneficiary: c.Beneficiary, Currency: c.Currency,
		Expected: known(c.Expected), Captured: known(c.Captured), Facts: []Fact{},
	}
	for _, f := range c.Facts {
		state := string(f.Status)
		switch {
		case f.Refund != "":
			state = string(f.Refund)
		case f.Dispute != "":
			state = string(f.Dispute)
		}
		out.Facts = append(out.Facts, Fact{Kind: string(f.Kind), ID: f.ID, State: state, Amount: known(f.Amount)})
	}
	out.Effect = effect(c, s)
	return out
}

func known(m payment.Minor) *int64 {
	if !m.Known {
		return nil
	}
	return &m.Value
}

func effect(c payment.Claim, s State) Effect {
	held := s.payment(c)
	r := payment.Apply(held, c)
	e := Effect{From: string(held.Status), To: string(r.Payment.Status), Transitions: []Transition{}, Outcome: "repeated"}
	switch {
	case r.Need != "":
		e.Outcome, e.Needs = "parked", string(r.Need)
	case r.Applied():
		e.Outcome = "applied"
	case r.Stale:
		e.Outcome = "stale"
	}
	for _, t := range r.Transitions {
		step := Transition{From: string(t.From), To: string(t.To), Books: []Booking{}}
		for _, b := range t.Bookings {
			step.Books = append(step.Books, Booking{string(b.Kind), b.RefType + ":" + b.RefID, b.Amount})
		}
		e.Transitions = append(e.Transitions, step)
	}
	return e
}
