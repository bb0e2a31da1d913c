package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// maxPages bounds one listing: 100 refunds or disputes a page.
const maxPages = 20

// Lookup implements provider.Provider. References of charges are asked for as
// charges, all others as PaymentIntents.
func (g *gateway) Lookup(ctx context.Context, client *http.Client, ref string) (payment.Claim, error) {
	if !provider.Text(ref).Clean() {
		return payment.Claim{}, fmt.Errorf("%w: the reference cannot be an id", provider.ErrMismatch)
	}
	a := &answer{g: g, client: client, ref: ref}
	a.r.g = g
	a.r.says = payment.Claim{GatewayID: ref, Reason: "lookup"}
	var err error
	if strings.HasPrefix(ref, "ch_") || strings.HasPrefix(ref, "py_") {
		err = a.charge(ctx)
	} else {
		err = a.intent(ctx)
	}
	if err != nil {
		return payment.Claim{}, err
	}
	return a.r.says, nil
}

// answer is one lookup under way.
type answer struct {
	g      *gateway
	client *http.Client
	ref    string
	r      reading
}

func (a *answer) get(ctx context.Context, query url.Values, v any, segments ...string) error {
	return provider.GetJSON(ctx, a.client, provider.Call{
		Base: a.g.base, Segments: append([]string{"v1"}, segments...), Query: query, Header: a.g.header,
	}, v)
}

// unreadable gives an error about the content of an answer its kind.
func unreadable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", provider.ErrUnreadable, err)
}

// same compares what was asked for with what came.
func (a *answer) same(b *base, kind string, livemode *bool) error {
	switch {
	case string(b.Object) != kind:
		return fmt.Errorf("%w: the answer is not a %s", provider.ErrMismatch, kind)
	case string(b.ID) != a.ref:
		return fmt.Errorf("%w: another id", provider.ErrMismatch)
	case livemode == nil || *livemode != a.g.src.Production:
		return fmt.Errorf("%w: livemode is not that of this source", provider.ErrMismatch)
	}
	return nil
}

func (a *answer) intent(ctx context.Context) error {
	var o intent
	query := url.Values{"expand[]": {"latest_charge.balance_transaction", "latest_charge.refunds"}}
	if err := a.get(ctx, query, &o, "payment_intents", a.ref); err != nil {
		return err
	}
	if err := a.same(&o.base, o.kind(), o.Livemode); err != nil {
		return err
	}
	r := &a.r
	if err := r.money("payment_intent", o.Currency, o.Amount); err != nil {
		return unreadable(err)
	}
	r.owner(metadata(o.Metadata, a.g.reference), metadata(o.Metadata, a.g.owner))
	switch o.Status {
	case "requires_payment_method":
		r.status(payment.StatusPending)
		if !provider.Empty(o.LastPaymentError) {
			r.says.Facts[0].Status = payment.StatusFailed
		}
	case "requires_confirmation", "requires_action", "processing":
		r.status(payment.StatusPending)
	case "requires_capture":
		r.status(payment.StatusAuthorized)
	case "canceled":
		r.status(o.canceled(a.g.header.Get("Stripe-Version")))
	case "succeeded":
		r.status(payment.StatusPaid)
		if err := r.captured("payment_intent.amount_received", o.AmountReceived); err != nil {
			return unreadable(err)
		}
		return a.latestCharge(ctx, &o)
	default:
		return unreadable(errors.New("payment_intent.status is not a known one"))
	}
	return nil
}

// latestCharge refines "succeeded", which Stripe keeps after refunds and
// disputes.
func (a *answer) latestCharge(ctx context.Context, o *intent) error {
	if o.LatestCharge.id == "" {
		return nil
	}
	if o.LatestCharge.object == nil {
		return unreadable(errors.New("latest_charge was not expanded"))
	}
	var c charge
	if err := provider.Decode(o.LatestCharge.object, &c); err != nil {
		return unreadable(err)
	}
	if pi := c.PaymentIntent.id; pi != "" && string(pi) != a.ref {
		return fmt.Errorf("%w: latest_charge belongs to another payment", provider.ErrMismatch)
	}
	return a.refine(ctx, &c, "payment_intent")
}

func (a *answer) charge(ctx context.Context) error {
	var o charge
	query := url.Values{"expand[]": {"balance_transaction", "refunds"}}
	if err := a.get(ctx, query, &o, "charges", a.ref); err != nil {
		return err
	}
	if err := a.same(&o.base, o.kind(), o.Livemode); err != nil {
		return err
	}
	if o.PaymentIntent.id != "" {
		return fmt.Errorf("%w: the charge belongs to a PaymentIntent", provider.ErrMismatch)
	}
	r := &a.r
	if err := r.money("charge", o.Currency, o.Amount); err != nil {
		return unreadable(err)
	}
	r.owner(metadata(o.Metadata, a.g.reference), metadata(o.Metadata, a.g.owner))
	switch o.Status {
	case "pending":
		r.status(payment.StatusPending)
		return nil
	case "failed":
		r.status(payment.StatusFailed)
		return nil
	case "succeeded":
	default:
		return unreadable(errors.New("charge.status is not a known one"))
	}
	switch {
	case o.Captured == nil:
		return unreadable(errors.New("charge.captured is missing"))
	case !*o.Captured && o.Refunded:
		r.status(payment.StatusCanceled) // released, or lapsed
		return nil
	case !*o.Captured:
		r.status(payment.StatusAuthorized)
		return nil
	}
	r.status(payment.StatusPaid)
	return a.refine(ctx, &o, "charge")
}

// refine adds what happened after the capture of a charge. by is the name of
// the parameter under which lists know the payment.
func (a *answer) refine(ctx context.Context, c *charge, by string) error {
	r := &a.r
	if !r.says.Captured.Known {
		if err := r.captured("charge.amount_captured", c.AmountCaptured); err != nil {
			return unreadable(err)
		}
	}
	if err := a.refunds(ctx, c, by); err != nil {
		return err
	}
	if c.Disputed {
		disputes, err := listAll[dispute](ctx, a, "disputes", by)
		if err != nil {
			return err
		}
		for i := range disputes {
			if err := a.mine(disputes[i].PaymentIntent, disputes[i].Charge, by); err != nil {
				return err
			}
			if err := disputes[i].facts(r); err != nil {
				return unreadable(err)
			}
		}
	}
	return unreadable(r.fee(c.BalanceTransaction))
}

func (a *answer) refunds(ctx context.Context, c *charge, by string) error {
	var refunds []refund
	if c.Refunds != nil && !c.Refunds.HasMore {
		refunds = c.Refunds.Data
	} else {
		// The list in the charge is a first page, or was not expanded.
		var err error
		if refunds, err = listAll[refund](ctx, a, "refunds", by); err != nil {
			return err
		}
	}
	for i := range refunds {
		if err := a.mine(refunds[i].PaymentIntent, refunds[i].Charge, by); err != nil {
			return err
		}
		if err := refunds[i].fact(&a.r); err != nil {
			return unreadable(err)
		}
	}
	return nil
}

// mine refuses a refund or dispute that names another payment.
func (a *answer) mine(intent, charge reference, by string) error {
	named := intent.id
	if by == "charge" {
		named = charge.id
	}
	if named != "" && string(named) != a.ref {
		return fmt.Errorf("%w: a listed object belongs to another payment", provider.ErrMismatch)
	}
	return nil
}

// identified is an object that a list can continue after.
type identified[T any] interface {
	*T
	core() *base
}

// listAll reads every page of a list of the payment's objects.
func listAll[T any, P identified[T]](ctx context.Context, a *answer, resource, by string) ([]T, error) {
	var all []T
	query := url.Values{by: {a.ref}, "limit": {"100"}}
	for range maxPages {
		var page list[T]
		if err := a.get(ctx, query, &page, resource); err != nil {
			return nil, err
		}
		all = append(all, page.Data...)
		if !page.HasMore {
			return all, nil
		}
		if len(page.Data) == 0 {
			return nil, unreadable(errors.New(resource + " has more pages, but this one is empty"))
		}
		last := P(&page.Data[len(page.Data)-1]).core().ID
		if string(last) == query.Get("starting_after") || !last.Clean() || last == "" {
			return nil, unreadable(errors.New("a page of " + resource + " has no usable last id"))
		}
		query.Set("starting_after", string(last))
	}
	return nil, unreadable(fmt.Errorf("%s has more than %d pages", resource, maxPages))
}
