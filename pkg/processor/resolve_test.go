package processor

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// coded is a gateway one of whose events is no more than a code.
type coded struct {
	*scripted
	says map[string][]payment.Claim // by code
	err  error
}

func (g *coded) Facts(e *event.Event) ([]payment.Claim, error) {
	if e.Type == "test" && len(e.Body) > 0 && e.Body[0] == '[' {
		return g.scripted.Facts(e)
	}
	return nil, provider.ErrUnresolved
}

func (g *coded) Resolve(_ context.Context, _ *http.Client, e *event.Event) ([]payment.Claim, error) {
	if string(e.Body) == "panic" {
		panic("a strange answer")
	}
	claims, ok := g.says[string(e.Body)]
	if !ok && g.err == nil {
		return nil, provider.ErrNotFound
	}
	return append([]payment.Claim(nil), claims...), g.err
}

type codedSource struct {
	gateway *coded
	src     provider.Source
}

func (s codedSource) Lookup(_, account string) (provider.Provider, provider.Source, bool) {
	src := s.src
	src.Account = account
	return s.gateway, src, true
}

func newCodedWorld(t *testing.T, mode provider.LookupMode) (*world, *coded) {
	w := newWorld(t, mode)
	g := &coded{scripted: w.gateway, says: map[string][]payment.Claim{}}
	w.sources = codedSource{g, provider.Source{Provider: "gw", Lookup: mode}}
	return w, g
}

func withReference(c payment.Claim, id, reference string) payment.Claim {
	c.GatewayID, c.Reference = id, reference
	return c
}

func lost(reference string) payment.Claim {
	return payment.Claim{Reference: reference, Currency: "BRL", Facts: []payment.Fact{
		{Kind: payment.FactDispute, ID: "case_1", Dispute: payment.DisputeLost, Amount: payment.Of(1000)},
	}}
}

func TestAnEventThatIsOnlyACodeIsJoinedByTheReferenceThatTheGatewayGives(t *testing.T) {
	t.Parallel()
	for _, mode := range []provider.LookupMode{provider.LookupAlways, provider.LookupInDoubt} {
		t.Run(string(mode), func(t *testing.T) {
			w, g := newCodedWorld(t, mode)
			held := withReference(paid("pay_1"), "pay_1", "PED-1")
			w.gateway.says(held)
			g.says["code-1"] = []payment.Claim{lost("PED-1")}
			w.process(w.receive(held))
			// The gateway's payments address says nothing of disputes; that must
			// not stand against what it answered about the code.
			id, other := w.receiveBody("", []byte("code-1")), w.receive(held)
			w.process(id, other)
			w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
			w.wantStatus("pay_1", payment.StatusChargedBack)
			again := w.receiveBody("", []byte("code-1"))
			w.process(again)
			w.wantEvent(again, event.StatusProcessed, event.OutcomeRepeated)
			w.verify()
		})
	}
}

func TestACodeAboutAPaymentThatIsNotThereYetWaitsForIt(t *testing.T) {
	t.Parallel()
	w, g := newCodedWorld(t, provider.LookupInDoubt)
	g.says["code-1"] = []payment.Claim{lost("PED-1")}
	id := w.receiveBody("", []byte("code-1"))
	w.process(id)
	if e := w.event(id); e.Status != "parked" || code(e.Reason) != "payment_unknown" {
		t.Fatalf("event is %+v", e)
	}
	w.process(w.receive(withReference(paid("pay_1"), "pay_1", "PED-1")))
	due, err := w.db.ClaimDue(t.Context(), 10, time.Minute) // at once, not in five seconds
	if err != nil || len(due) != 1 || due[0] != id {
		t.Fatalf("due are %v, want %d (%v)", due, id, err)
	}
	w.process(id)
	w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
	w.wantStatus("pay_1", payment.StatusChargedBack)
	w.verify()
}

func TestAReferenceOfTwoPaymentsIsForAPerson(t *testing.T) {
	t.Parallel()
	w, g := newCodedWorld(t, provider.LookupInDoubt)
	g.says["code-1"] = []payment.Claim{lost("PED-1")}
	for _, id := range []string{"pay_1", "pay_2"} {
		w.process(w.receive(withReference(paid(id), id, "PED-1")))
	}
	id := w.receiveBody("", []byte("code-1"))
	w.process(id)
	if e := w.event(id); e.Status != "parked" || code(e.Reason) != "reference_ambiguous" {
		t.Errorf("event is %+v", e)
	}
	for _, ref := range []string{"pay_1", "pay_2"} {
		w.wantStatus(ref, payment.StatusPaid)
	}
	w.verify()
}

func TestAmongAttemptsOfOneReferenceACodeIsAboutTheOneThatWasPaid(t *testing.T) {
	t.Parallel()
	w, g := newCodedWorld(t, provider.LookupInDoubt)
	g.says["code-1"] = []payment.Claim{lost("PED-1")}
	w.process(w.receive(withReference(pending("pay_1"), "pay_1", "PED-1")))
	w.process(w.receive(withReference(paid("pay_2"), "pay_2", "PED-1")))
	w.process(w.receiveBody("", []byte("code-1")))
	w.wantStatus("pay_1", payment.StatusPending)
	w.wantStatus("pay_2", payment.StatusChargedBack)
	w.verify()
}

func TestACodeThatTheGatewayDoesNotKnowMovesNothing(t *testing.T) {
	t.Parallel()
	w, g := newCodedWorld(t, provider.LookupInDoubt)
	for _, body := range []string{"forged", "panic"} {
		id := w.receiveBody("", []byte(body))
		w.process(id)
		if e := w.event(id); e.Status != "parked" {
			t.Errorf("%s: event is %+v", body, e)
		}
	}
	g.err = &provider.RetryError{Status: 503, After: time.Minute}
	id := w.receiveBody("", []byte("later"))
	w.process(id)
	if e := w.event(id); e.Status != "parked" || code(e.Reason) != "lookup_unavailable" {
		t.Errorf("event is %+v", e)
	}
	w.verify()
}

func TestACodeThatNamesAPaymentAndNoMoreIsLookedUp(t *testing.T) {
	t.Parallel()
	w, g := newCodedWorld(t, provider.LookupInDoubt)
	w.gateway.says(paid("pay_7"))
	g.says["case-7"] = []payment.Claim{{GatewayID: "pay_7"}}
	id := w.receiveBody("", []byte("case-7"))
	w.process(id)
	w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
	w.wantStatus("pay_7", payment.StatusPaid)
	w.verify()
}

func TestWithoutLookupsACodeIsForAPerson(t *testing.T) {
	t.Parallel()
	w, _ := newCodedWorld(t, provider.LookupNever)
	id := w.receiveBody("", []byte("code-1"))
	w.process(id)
	w.wantEvent(id, event.StatusQuarantined, "")
	w.verify()
}

func TestTheSecondPaymentOfAnEventIsKnownWhenItIsRegistered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	w.cfg.UnknownPayment = "park"
	id := w.receive(paid("pay_1"), paid("pay_2"))
	w.process(id)
	w.wantEvent(id, event.StatusParked, "")
	w.register("pay_1", 1000, "loja-1")
	w.register("pay_2", 1000, "loja-2")
	w.process(id)
	w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
	for _, owner := range []string{"loja-1", "loja-2"} {
		if got := w.balance(owner); got != 970 {
			t.Errorf("%s has %d, want 970", owner, got)
		}
	}
	w.verify()
}
