package iugu

import (
	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// currency of all of Iugu.
const currency = "BRL"

// Facts implements provider.Provider. No amount is taken from a body, even
// where one is there: Iugu does not say that it is to be relied on.
func (p *Provider) Facts(e *event.Event) ([]payment.Claim, error) {
	t, err := read(e.Body)
	if err != nil {
		return nil, err
	}
	if t.empty || !t.aboutInvoice() || invoiceEvents[t.event] == ringNothing {
		return nil, nil
	}
	claim := payment.Claim{GatewayID: string(t.id), Reason: string(t.event), Beneficiary: p.src.Beneficiary}
	if f := p.fact(t); f.Kind != "" {
		claim.Facts = []payment.Fact{f}
	}
	return []payment.Claim{claim}, nil
}

// fact is what an answer of the API must show, or it is older than the
// trigger: the answer is then asked for again. A trigger has no time, so that
// only what stays true once it was true can be held against an answer. A
// protest may be over by the time its trigger is read, and is none of that.
func (p *Provider) fact(t trigger) payment.Fact {
	switch invoiceEvents[t.event] {
	case ringFailed:
		return payment.Fact{Kind: payment.FactStatus, Status: payment.StatusFailed}
	case ringRefund:
		return p.refunded(t)
	case ringStatus:
		s, known := statuses[t.status]
		switch {
		case !known:
		case s.stage == stageRefunded:
			return p.refunded(t)
		case s.stage == stageProtest && p.src.Lookup != provider.LookupNever:
		default:
			return payment.Fact{Kind: payment.FactStatus, Status: s.status}
		}
	}
	return payment.Fact{}
}

// refunded says that something was given back. How much is for the answer to
// say: with every event looked up, it must show one centavo at least. Where
// bodies are trusted instead, against Iugu's contract, a centavo would be
// booked; there the claim is left open, so that the API is asked if it can be,
// and else the event waits for a person, unless the whole invoice is refunded.
func (p *Provider) refunded(t trigger) payment.Fact {
	switch {
	case p.src.Lookup == provider.LookupAlways:
		return payment.Fact{Kind: payment.FactRefundTotal, Amount: payment.Of(1)}
	case p.src.Lookup == provider.LookupInDoubt:
		return payment.Fact{}
	case t.status == "refunded":
		return payment.Fact{Kind: payment.FactStatus, Status: payment.StatusRefunded}
	}
	return payment.Fact{Kind: payment.FactRefundTotal}
}
