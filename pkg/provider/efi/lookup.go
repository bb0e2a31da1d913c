package efi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// Lookup implements provider.Provider: it asks for the received Pix of an
// endToEndId, which comes with all of its refunds.
func (p *Provider) Lookup(ctx context.Context, client *http.Client, ref string) (payment.Claim, error) {
	if p.api == nil {
		return payment.Claim{}, fmt.Errorf("%w: %s is not set", provider.ErrRefused, p.src.Variable("API_KEY"))
	}
	var it item
	if err := p.get(ctx, client, &it, "v2", "pix", ref); err != nil {
		return payment.Claim{}, err
	}
	if string(it.EndToEndID) != ref {
		return payment.Claim{}, fmt.Errorf("%w: the endToEndId is another one, or missing", provider.ErrMismatch)
	}
	x, err := it.extras()
	if err != nil {
		return payment.Claim{}, fmt.Errorf("%w: %w", provider.ErrUnreadable, err)
	}
	if it.outgoing(x) {
		return payment.Claim{}, fmt.Errorf("%w: it is a Pix that we sent, not one that was paid to us", provider.ErrMismatch)
	}
	r, err := p.received(&it, x)
	if err != nil {
		return payment.Claim{}, fmt.Errorf("%w: %w", provider.ErrUnreadable, err)
	}
	return p.claim(r, "lookup"), nil
}

// get asks with the token at hand. One that is refused may have been revoked
// before its time: it is replaced, and the question put once more.
func (p *Provider) get(ctx context.Context, client *http.Client, v any, segments ...string) error {
	fetch := func(ctx context.Context) (grant, error) { return p.api.grant(ctx, client, p.src.APIKey) }
	refused := ""
	for {
		token, err := p.session.token(ctx, refused, fetch)
		if err != nil {
			return fmt.Errorf("access token: %w", err)
		}
		err = provider.GetJSON(ctx, client, provider.Call{
			Base: p.api.base, Segments: segments, Header: http.Header{"Authorization": {"Bearer " + token}},
		}, v)
		if refused != "" || !errors.Is(err, provider.ErrRefused) {
			return err
		}
		refused = token
	}
}
