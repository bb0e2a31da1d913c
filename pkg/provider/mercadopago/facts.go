package mercadopago

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// Facts implements provider.Provider. A notification claims no more than that
// its payment should be looked at. What the body of an order says of money is
// repeated as a question: a lookup that does not know of it yet came too
// early, and is made again.
func (p *Provider) Facts(e *event.Event) ([]payment.Claim, error) {
	var env envelope
	if err := provider.Decode(e.Body, &env); err != nil {
		return nil, err
	}
	if fault := env.fault(); fault != "" {
		return nil, errors.New(fault)
	}
	kind := topics[env.Type]
	switch {
	case !p.decides(kind):
		return nil, nil
	case e.PaymentRef == "" && kind == topicChargeback:
		return nil, provider.ErrUnresolved
	case e.PaymentRef == "":
		return nil, errors.New("data.id of the address is missing, or not the id of what the notification is about")
	}
	claim := payment.Claim{GatewayID: e.PaymentRef, Reason: env.name(), At: env.at()}
	if kind == topicOrder {
		claim.Facts = p.asked(env.content())
	}
	return []payment.Claim{claim}, nil
}

// asked is what the body of an order says of money. It moves none: a refund or
// chargeback that the answer does not list makes us ask again, and for that its
// id is enough, whatever the amount (a stand-in of one). Attempts pass, and may be over when their notification is read.
func (p *Provider) asked(c content) (facts []payment.Fact) {
	s, known := orderState(c.Status, c.Detail)
	if !known || s.stage == stageAttempt {
		return nil
	}
	if s.stage == stagePaid || s.stage == stagePartly {
		facts = append(facts, payment.Fact{Kind: payment.FactStatus, Status: payment.StatusPaid})
	}
	if p.src.UnsafeTrust {
		return facts // then a body would be taken at its word
	}
	for _, it := range c.Transactions.Refunds {
		if refundState(it.Status) == payment.RefundSucceeded && it.ID != "" && it.ID.Clean() {
			facts = append(facts, payment.Fact{Kind: payment.FactRefund, ID: string(it.ID), Amount: payment.Of(1), Refund: payment.RefundSucceeded})
		}
	}
	if s.stage == stageRefunded {
		facts = append(facts, payment.Fact{Kind: payment.FactStatus, Status: payment.StatusRefunded})
	}
	for _, it := range c.Transactions.Chargebacks {
		if state, known := chargebackState(it.Status); known && it.ID != "" && it.ID.Clean() {
			facts = append(facts, payment.Fact{Kind: payment.FactDispute, ID: string(it.ID), Dispute: state})
		}
	}
	return facts
}

// Resolve implements provider.Resolver, for chargebacks that do not name
// their payment. Whether the case's number in the address and the one in the
// body are the same is not established, so the signed one is asked for first.
func (p *Provider) Resolve(ctx context.Context, client *http.Client, e *event.Event) ([]payment.Claim, error) {
	var env envelope
	if err := provider.Decode(e.Body, &env); err != nil {
		return nil, fmt.Errorf("%w: %w", provider.ErrUnreadable, err)
	}
	if topics[env.Type] != topicChargeback || !p.decides(topicChargeback) {
		return nil, fmt.Errorf("%w: the notification is not about a chargeback", provider.ErrUnreadable)
	}
	asked := map[string]bool{}
	for _, id := range []string{e.HeaderValue("?data.id"), string(env.content().ID)} {
		if !isPaymentID(id) || asked[id] {
			continue
		}
		asked[id] = true
		claims, err := p.chargeback(ctx, client, id, env.name())
		if !errors.Is(err, provider.ErrNotFound) {
			return claims, err
		}
	}
	return nil, provider.ErrNotFound
}

// chargeback asks for a case and gives the payments that it is about.
func (p *Provider) chargeback(ctx context.Context, client *http.Client, id, reason string) ([]payment.Claim, error) {
	var answer struct {
		ID        provider.Text    `json:"id"`
		PaymentID provider.Text    `json:"payment_id"`
		Payments  []jsontext.Value `json:"payments"`
	}
	if err := p.get(ctx, client, &answer, "v1", "chargebacks", id); err != nil {
		return nil, err
	}
	if string(answer.ID) != id {
		return nil, fmt.Errorf("%w: the chargeback's id is another one", provider.ErrMismatch)
	}
	refs := make([]provider.Text, 0, 1+len(answer.Payments))
	for _, v := range answer.Payments {
		ref, err := paymentOf(v)
		if err != nil {
			return nil, err
		}
		refs = append(refs, ref)
	}
	if len(refs) == 0 && answer.PaymentID != "" {
		refs = append(refs, answer.PaymentID)
	}
	var claims []payment.Claim
	seen := map[provider.Text]bool{}
	for _, ref := range refs {
		if !isPaymentID(string(ref)) {
			return nil, fmt.Errorf("%w: payments of the chargeback holds something else than a payment's number", provider.ErrUnreadable)
		}
		if !seen[ref] {
			seen[ref] = true
			claims = append(claims, payment.Claim{GatewayID: string(ref), Reason: reason})
		}
	}
	if len(claims) == 0 {
		return nil, fmt.Errorf("%w: the chargeback names no payment", provider.ErrUnreadable)
	}
	return claims, nil
}

// paymentOf reads an element of payments: a number, or an object with an id.
func paymentOf(v jsontext.Value) (provider.Text, error) {
	var ref provider.Text
	if v.Kind() != '{' {
		if err := provider.Decode(v, &ref); err != nil {
			return "", fmt.Errorf("%w: payments of the chargeback: %w", provider.ErrUnreadable, err)
		}
		return ref, nil
	}
	var o struct {
		ID provider.Text `json:"id"`
	}
	if err := provider.Decode(v, &o); err != nil {
		return "", fmt.Errorf("%w: payments of the chargeback: %w", provider.ErrUnreadable, err)
	}
	return o.ID, nil
}
