package efi

import (
	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
)

// Facts implements provider.Provider. The body of a stored event is one item.
func (p *Provider) Facts(e *event.Event) ([]payment.Claim, error) {
	switch e.Type {
	case typeProbe, typeRecurrence, typeRecurring:
		return nil, nil
	}
	it, x, err := decode(e.Body)
	if err != nil {
		return nil, err
	}
	if it.outgoing(x) {
		return nil, nil
	}
	r, err := p.received(it, x)
	if err != nil {
		return nil, err
	}
	reason := typeReceived
	if len(r.refunds) > 0 {
		reason = typeRefunded
	}
	return []payment.Claim{p.claim(r, reason)}, nil
}

// claim says what an item says. Settlement of a Pix is final at once, so
// whatever Pix was received was paid, and what happened since are its refunds.
// What was asked for stands with the charge, which is not read.
func (p *Provider) claim(r *received, reason string) payment.Claim {
	c := payment.Claim{
		GatewayID: r.id, Currency: currency, Captured: payment.Of(r.cents),
		Reference: r.txid, Beneficiary: p.src.Owner(r.txid), At: r.latest(), Reason: reason,
		Facts: []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusPaid, At: r.at}},
	}
	for i := range r.refunds {
		if f, ok := r.refunds[i].fact(r.id); ok {
			c.Facts = append(c.Facts, f)
		}
	}
	if r.fee.Known {
		c.Facts = append(c.Facts, payment.Fact{Kind: payment.FactFee, ID: r.id, Amount: r.fee})
	}
	return c
}
