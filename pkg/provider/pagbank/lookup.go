package pagbank

import (
	"context"
	"fmt"
	"net/http"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// Lookup implements provider.Provider: it asks for the charge. The answer
// shows no disputes; see statuses.go.
func (p *Provider) Lookup(ctx context.Context, client *http.Client, ref string) (payment.Claim, error) {
	if p.src.APIKey == "" {
		return payment.Claim{}, fmt.Errorf("%w: %s is not set", provider.ErrRefused, p.src.Variable("API_KEY"))
	}
	var c charge
	if err := p.get(ctx, client, &c, "charges", ref); err != nil {
		return payment.Claim{}, err
	}
	if string(c.ID) != ref {
		return payment.Claim{}, fmt.Errorf("%w: the charge's id is another one", provider.ErrMismatch)
	}
	claim, err := p.claim(&c)
	if err != nil {
		return payment.Claim{}, fmt.Errorf("%w: %w", provider.ErrUnreadable, err)
	}
	claim.Reason = "lookup"
	for i := range claim.Facts {
		f := &claim.Facts[i]
		if f.Kind != payment.FactStatus || f.Status != payment.StatusPaid || !f.At.IsZero() {
			continue
		}
		// Without a time it would count as paid when it was asked, and would
		// end a dispute. It was created before it was paid.
		if f.At = instant(c.CreatedAt); f.At.IsZero() {
			return payment.Claim{}, fmt.Errorf("%w: a paid charge has neither paid_at nor created_at", provider.ErrUnreadable)
		}
	}
	return claim, nil
}

// order asks for an order of which only the id is known. An order is no
// payment; its charges are, and each is looked up by itself.
func (p *Provider) order(ctx context.Context, client *http.Client, id string) ([]payment.Claim, error) {
	var b body
	if err := p.get(ctx, client, &b, "orders", id); err != nil {
		return nil, err
	}
	if string(b.ID) != id {
		return nil, fmt.Errorf("%w: the order's id is another one", provider.ErrMismatch)
	}
	if len(b.Charges) > maxCharges {
		return nil, fmt.Errorf("%w: more than %d charges", provider.ErrUnreadable, maxCharges)
	}
	var claims []payment.Claim
	for i := range b.Charges {
		c := &b.Charges[i]
		if c.ID == "" || !c.ID.Clean() {
			return nil, fmt.Errorf("%w: the id of a charge is missing or not a clean identifier", provider.ErrUnreadable)
		}
		claims = append(claims, payment.Claim{GatewayID: string(c.ID), Reason: "order"})
	}
	return claims, nil
}

func (p *Provider) get(ctx context.Context, client *http.Client, v any, segments ...string) error {
	return provider.GetJSON(ctx, client, provider.Call{
		Base: p.base, Segments: segments,
		Header: http.Header{"Authorization": {"Bearer " + p.src.APIKey.Reveal()}},
	}, v)
}
