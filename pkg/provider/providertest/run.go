package providertest

import (
	"bytes"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// Run runs the whole suite as subtests of t.
func Run(t *testing.T, s Spec) {
	t.Helper()
	s.check(t)
	t.Run("credentials", s.credentials)
	t.Run("secrets that would accept everybody", s.openSecrets)
	t.Run("signed bodies", s.signedBodies)
	t.Run("foreign bytes", s.foreignBytes)
	t.Run("shapes", s.shapes)
	t.Run("damaged values", s.damaged)
	t.Run("empty and test events", s.setAside)
	t.Run("golden", s.goldens)
	t.Run("dedupe keys", s.keys)
	t.Run("amounts", s.amounts)
	t.Run("lookup", s.lookup)
}

// check refuses a Spec that would let the suite pass without testing much.
func (s Spec) check(t *testing.T) {
	t.Helper()
	switch {
	case s.Factory == nil || s.Sign == nil || len(s.Body) == 0 || s.Now.IsZero():
		t.Fatal("Spec: Factory, Sign, Body and Now are required")
	case len(s.Source.WebhookSecrets) < 2:
		t.Fatal("Spec: Source needs two webhook secrets at least")
	case s.credentialPlaces() != 1:
		t.Fatal("Spec: exactly one of CredentialHeader, CredentialQuery and CredentialPath is set")
	case !s.Source.Production:
		t.Fatal("Spec: Source must be a production source")
	case (len(s.Lookups) > 0) != (s.LookupRef != "" && s.LookupAnswer != nil):
		t.Fatal("Spec: Lookups, LookupRef and LookupAnswer go together")
	}
}

func (s Spec) credentialPlaces() (n int) {
	for _, set := range []bool{s.CredentialHeader != "", s.CredentialQuery != "", s.CredentialPath} {
		if set {
			n++
		}
	}
	return n
}

func (s Spec) build(t testing.TB) provider.Provider {
	t.Helper()
	p, err := s.Factory(s.Source)
	if err != nil {
		t.Fatalf("the factory refuses Spec.Source: %v", err)
	}
	return p
}

func (s Spec) sign(body []byte) provider.Request {
	return s.Sign(s.Source.WebhookSecrets[0].Reveal(), body, s.Now)
}

// credential reads what Sign put where the credentials travel.
func (s Spec) credential(r provider.Request) string {
	switch {
	case s.CredentialPath:
		return r.Path
	case s.CredentialHeader != "":
		return r.Header.Get(s.CredentialHeader)
	}
	q, _ := url.ParseQuery(r.Query)
	return q.Get(s.CredentialQuery)
}

// with returns the request with other credentials: none, one or several.
func (s Spec) with(r provider.Request, values ...string) provider.Request {
	out := r
	out.Header = r.Header.Clone()
	if out.Header == nil {
		out.Header = http.Header{}
	}
	if s.CredentialPath {
		out.Path = strings.Join(values, "/")
		return out
	}
	if s.CredentialHeader != "" {
		out.Header.Del(s.CredentialHeader)
		if len(values) > 0 {
			out.Header[http.CanonicalHeaderKey(s.CredentialHeader)] = values
		}
		return out
	}
	q, _ := url.ParseQuery(r.Query)
	q.Del(s.CredentialQuery)
	for _, v := range values {
		q.Add(s.CredentialQuery, v)
	}
	out.Query = q.Encode()
	return out
}

// EventOf makes the stored event of a message, as ingest and storage do: with
// the headers that the gateway's Traits keep.
func EventOf(p provider.Provider, src provider.Source, r provider.Request, m provider.Message) *event.Event {
	e := &event.Event{
		ID: 1, Provider: src.Provider, Account: src.Account, DedupeKey: m.DedupeKey,
		ProviderEventID: m.ProviderEventID, Type: m.Type, PaymentRef: m.PaymentRef,
		OccurredAt: m.OccurredAt, ReceivedAt: r.Now, Secret: "1", Test: m.Test, Body: m.Body,
	}
	e.Headers = provider.KeptHeaders(r, p.Traits().SignedHeaders)
	return e
}

// parse calls Parse and checks what must hold of every message, whatever the
// body. A panic ends the test with the body at hand.
func (s Spec) parse(t *testing.T, p provider.Provider, r provider.Request) []provider.Message {
	t.Helper()
	defer func() {
		if v := recover(); v != nil {
			t.Fatalf("Parse panicked with %v\nbody: %.300q", v, r.Body)
		}
	}()
	before := bytes.Clone(r.Body)
	messages := p.Parse(r)
	if !bytes.Equal(before, r.Body) {
		t.Errorf("Parse changed the body\nbody: %.300q", before)
	}
	if len(messages) == 0 {
		t.Fatalf("Parse lost the request\nbody: %.300q", r.Body)
	}
	for _, m := range messages {
		for _, fault := range messageFaults(m) {
			t.Errorf("message: %s\nbody: %.300q", fault, r.Body)
		}
		if !s.Batch && !s.Parts && !bytes.Equal(m.Body, r.Body) || !bytes.Contains(r.Body, m.Body) {
			t.Errorf("the message does not keep the exact bytes\nbody: %.300q", r.Body)
		}
	}
	return messages
}

// messageFaults lists what storage and operators would not survive.
func messageFaults(m provider.Message) (faults []string) {
	add := func(bad bool, text string) {
		if bad {
			faults = append(faults, text)
		}
	}
	add(m.DedupeKey == "", "the dedupe key is empty")
	add(len(m.DedupeKey) > 300, "the dedupe key is longer than an index should hold")
	for name, text := range map[string]string{
		"DedupeKey": m.DedupeKey, "ProviderEventID": m.ProviderEventID, "Type": m.Type,
		"PaymentRef": m.PaymentRef, "Reason": m.Reason,
	} {
		add(!storable(text), name+" is not storable text: "+strconv.QuoteToASCII(text))
		add(len(text) > 300, name+" is too long")
	}
	switch m.Disposition {
	case provider.Process:
		add(m.Reason != "", "Process has a reason")
	case provider.Ignore, provider.Quarantine:
		add(m.Reason == "", "a settled message has no reason")
	default:
		add(true, "unknown disposition "+string(m.Disposition))
	}
	add(m.Disposition == provider.Process && m.Test, "a test event of a production source would be processed")
	return faults
}

// storable says whether PostgreSQL takes the text.
func storable(s string) bool {
	return utf8.ValidString(s) && !bytes.ContainsRune([]byte(s), 0)
}

// facts calls Facts and checks what must hold of every claim.
func (s Spec) facts(t *testing.T, p provider.Provider, r provider.Request, m provider.Message) ([]payment.Claim, error) {
	t.Helper()
	defer func() {
		if v := recover(); v != nil {
			t.Fatalf("Facts panicked with %v\nbody: %.300q", v, m.Body)
		}
	}()
	claims, err := p.Facts(EventOf(p, s.Source, r, m))
	if err != nil {
		if len(claims) > 0 {
			t.Errorf("Facts gives claims beside an error\nbody: %.300q", m.Body)
		}
		if !storable(err.Error()) || len(err.Error()) > 300 {
			t.Errorf("the error of Facts is not fit to be a reason: %.400q", err)
		}
		return nil, err
	}
	for _, c := range claims {
		for _, fault := range claimFaults(c) {
			t.Errorf("claim: %s\nbody: %.300q", fault, m.Body)
		}
		if len(claims) == 1 && m.PaymentRef != "" && c.GatewayID != m.PaymentRef {
			t.Errorf("the claim is about %q, the message about %q", c.GatewayID, m.PaymentRef)
		}
		payment.Apply(payment.Payment{GatewayID: c.GatewayID}, c) // must not panic
	}
	return claims, nil
}

// claimFaults lists what the state machine must never be given.
func claimFaults(c payment.Claim) (faults []string) {
	add := func(bad bool, text string) {
		if bad {
			faults = append(faults, text)
		}
	}
	add(c.GatewayID == "" || !storable(c.GatewayID), "GatewayID is empty or not storable")
	add(!storable(c.Reference) || !storable(c.Beneficiary), "Reference or Beneficiary is not storable")
	if c.Currency != "" {
		code, err := money.Currency(c.Currency)
		add(err != nil || code != c.Currency, "Currency is not ISO 4217 in upper case")
	}
	add(c.Expected.Value < 0 || !c.Expected.Known && c.Expected.Value != 0, "Expected is below zero")
	add(c.Captured.Known && c.Captured.Value <= 0, "Captured is not above zero")
	for _, f := range c.Facts {
		add(f.Amount.Value < 0 || !f.Amount.Known && f.Amount.Value != 0, "a fact's amount is below zero")
		add(!storable(f.ID), "a fact's id is not storable")
		switch f.Kind {
		case payment.FactStatus:
			add(f.Status == "", "a status fact has no status")
		case payment.FactRefund:
			add(f.ID == "" || f.Refund == "" || !f.Amount.Known, "a refund fact lacks id, state or amount")
		case payment.FactDispute:
			add(f.ID == "" || f.Dispute == "", "a dispute fact lacks id or state")
		case payment.FactFee:
			// Without an amount it says that the fee exists, and is to be looked up.
			add(f.ID == "" || f.Amount.Value < 0, "a fee fact lacks its id, or is below zero")
		case payment.FactRefundTotal:
			add(!f.Amount.Known, "a refund total lacks its amount")
		case payment.FactUndo:
			add(f.ID == "", "an undo fact lacks its id")
		default:
			add(true, "unknown kind of fact "+string(f.Kind))
		}
	}
	return faults
}

// DiffClaims says how two lists of claims differ, "" when they do not.
func DiffClaims(want, got []payment.Claim) string {
	return cmp.Diff(want, got, cmpopts.IgnoreUnexported(payment.Claim{}, payment.Fact{}), cmpopts.EquateEmpty())
}
