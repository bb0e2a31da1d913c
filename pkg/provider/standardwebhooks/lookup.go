package standardwebhooks

import (
	"context"
	"fmt"
	"math"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/jsonpath"
)

// Lookup implements provider.Provider. Everything that it reads from an
// answer, it finds by a setting; what it does not find is ErrUnreadable with
// the path or the setting, and moves nothing.
func (p *Provider) Lookup(ctx context.Context, client *http.Client, ref string) (payment.Claim, error) {
	if p.api == nil {
		return payment.Claim{}, fmt.Errorf("%w: %s and the settings that go with it are not set", provider.ErrRefused, p.src.Variable("API_BASE"))
	}
	answer, err := p.get(ctx, client, p.api.payment, ref)
	if err != nil {
		return payment.Claim{}, err
	}
	id, err := p.api.id.Text(answer)
	if err != nil || id == "" {
		return payment.Claim{}, unreadable("%s, which repeats the payment's id, is missing", p.api.id)
	}
	if string(id) != ref {
		return payment.Claim{}, fmt.Errorf("%w: the payment's id is another one", provider.ErrMismatch)
	}
	claim, status, err := p.answered(answer, ref)
	if err != nil || !afterCapture(status) {
		return claim, err
	}
	refunds := answer
	if p.api.refundsAt != nil {
		if refunds, err = p.get(ctx, client, p.api.refundsAt, ref); err != nil {
			return payment.Claim{}, err
		}
	}
	if err := p.moneyOf(&claim, status, answer, refunds); err != nil {
		return payment.Claim{}, err
	}
	return claim, nil
}

func (p *Provider) get(ctx context.Context, client *http.Client, at address, ref string) (v jsontext.Value, err error) {
	if ref == "" || ref == "." || ref == ".." {
		// GetJSON refuses such a segment; in a query it would ask for all.
		return nil, fmt.Errorf("%w: not a payment's id", provider.ErrMismatch)
	}
	segments, query := at(ref)
	err = provider.GetJSON(ctx, client, provider.Call{Base: p.api.base, Segments: segments, Query: query, Header: p.api.header.Clone()}, &v)
	return v, err
}

func unreadable(format string, args ...any) error {
	return fmt.Errorf("%w: %w", provider.ErrUnreadable, fmt.Errorf(format, args...))
}

// answered reads what any answer says: status, amount, whose it is.
func (p *Provider) answered(v jsontext.Value, ref string) (c payment.Claim, status payment.Status, err error) {
	a := p.api
	word, err := a.status.Text(v)
	if err != nil || word == "" {
		return c, "", unreadable("%s, which holds the status, is missing", a.status)
	}
	status, known := a.statuses[string(word)]
	if !known {
		return c, "", unreadable("%s does not have the status %s", p.src.Variable("LOOKUP_STATUS_MAP"), quoted(word))
	}
	c = payment.Claim{GatewayID: ref, Reason: "lookup"}
	if c.Currency, err = a.sums.code(v); err != nil {
		return payment.Claim{}, "", unreadable("%w", err)
	}
	amount, err := a.sums.read(v, a.sums.amount, c.Currency)
	if err != nil {
		return payment.Claim{}, "", unreadable("%w", err)
	}
	c.Reference, c.Beneficiary = p.whose(v, a.reference, a.owner)
	if !afterCapture(status) {
		c.Expected = amount
		c.Facts = []payment.Fact{{Kind: payment.FactStatus, Status: status}}
		return c, status, nil
	}
	if !amount.Known || amount.Value == 0 {
		return payment.Claim{}, "", unreadable("%s is missing or zero", a.sums.amount)
	}
	if c.Currency == "" {
		return payment.Claim{}, "", unreadable("%s is missing", a.sums.currencyAt)
	}
	c.Captured = amount
	return c, status, nil
}

func afterCapture(s payment.Status) bool {
	switch s {
	case payment.StatusPaid, payment.StatusPartiallyRefunded, payment.StatusRefunded, payment.StatusDisputed, payment.StatusChargedBack:
		return true
	}
	return false
}

// moneyOf reads what the answer about a captured payment says of its money.
// The lists are the stronger witnesses: what they account for needs no status.
// "paid" is said only while the money stands, since after "disputed" it means
// a dispute that was won.
func (p *Provider) moneyOf(c *payment.Claim, status payment.Status, v, refundsIn jsontext.Value) error {
	gone, err := p.refundsOf(c, status, refundsIn, v)
	if err != nil {
		return err
	}
	disputed, named, err := p.disputesOf(c, v)
	if err != nil {
		return err
	}
	if gone, err = money.Add(gone, disputed); err != nil {
		return unreadable("%w", err)
	}
	say := func(s payment.Status) { c.Facts = append(c.Facts, payment.Fact{Kind: payment.FactStatus, Status: s}) }
	switch status {
	case payment.StatusPaid, payment.StatusPartiallyRefunded:
		say(payment.StatusPaid)
	case payment.StatusRefunded:
		switch {
		case gone >= c.Captured.Value:
		case p.api.refundsAt != nil:
			// The list was asked for by itself and lags behind the status.
			// Booked without its name, a refund that fails later could not be
			// taken back.
			c.Facts = append(c.Facts, payment.Fact{Kind: payment.FactRefundTotal, Amount: payment.Of(math.MaxInt64), ByID: true})
		default:
			say(payment.StatusRefunded)
		}
	case payment.StatusDisputed, payment.StatusChargedBack:
		if !named {
			say(status)
		}
	}
	fee, _, err := p.api.sums.kept(v, c.Captured, c.Currency)
	if err != nil {
		return unreadable("%w", err)
	}
	if fee.Known {
		c.Facts = append(c.Facts, payment.Fact{Kind: payment.FactFee, ID: c.GatewayID, Amount: fee})
	}
	return nil
}

// refundsOf reads the refunds, one by one and in total, and returns how much
// of the payment they account for.
func (p *Provider) refundsOf(c *payment.Claim, status payment.Status, v, whole jsontext.Value) (gone int64, err error) {
	a := p.api
	if a.refunds != nil {
		err = a.refunds.each(p, v, c.Currency, func(id string, amount payment.Minor, state payment.RefundState) error {
			if !amount.Known || amount.Value == 0 {
				return unreadable("%s is missing or zero", a.refunds.amount)
			}
			if state == payment.RefundSucceeded {
				if gone, err = money.Add(gone, amount.Value); err != nil {
					return unreadable("%w", err)
				}
			}
			c.Facts = append(c.Facts, payment.Fact{Kind: payment.FactRefund, ID: id, Amount: amount, Refund: state})
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	total, err := a.sums.read(whole, a.total, c.Currency)
	if err != nil {
		return 0, unreadable("%w", err)
	}
	switch {
	case total.Known && total.Value > 0:
		c.Facts = append(c.Facts, payment.Fact{Kind: payment.FactRefundTotal, Amount: total, ByID: a.refunds != nil})
		gone = max(gone, total.Value)
	case status == payment.StatusPartiallyRefunded && gone == 0:
		if a.refunds == nil {
			return 0, unreadable("the payment is partially refunded, and no setting says where the amount is (%s)", p.src.Variable("LOOKUP_REFUND_TOTAL_PATH"))
		}
		// The list lags behind the payment: more than it names is refunded.
		c.Facts = append(c.Facts, payment.Fact{Kind: payment.FactRefundTotal, Amount: payment.Of(math.MaxInt64), ByID: true})
	}
	return gone, nil
}

// disputesOf reads the disputes, and returns how much of the payment those
// that are open or lost took, and whether there is one.
func (p *Provider) disputesOf(c *payment.Claim, v jsontext.Value) (gone int64, named bool, err error) {
	if p.api.disputes == nil {
		return 0, false, nil
	}
	err = p.api.disputes.each(p, v, c.Currency, func(id string, amount payment.Minor, state payment.DisputeState) error {
		if amount.Value == 0 {
			amount = payment.Minor{}
		}
		if state == payment.DisputeOpen || state == payment.DisputeLost {
			named = true
			if gone, err = money.Add(gone, amount.Value); err != nil {
				return unreadable("%w", err)
			}
		}
		c.Facts = append(c.Facts, payment.Fact{Kind: payment.FactDispute, ID: id, Amount: amount, Dispute: state})
		return nil
	})
	return gone, named, err
}

// each reads a list, element by element. No list at all is an empty one, as
// long as nothing else stands in its place.
func (l *listed[S]) each(p *Provider, v jsontext.Value, currency string, visit func(id string, amount payment.Minor, state S) error) error {
	found := l.list.In(v)
	if found == nil || found.Kind() == 'n' {
		return nil
	}
	var items []jsontext.Value
	if found.Kind() != '[' || provider.Decode(found, &items) != nil {
		return unreadable("%s is not a list", l.list)
	}
	for _, item := range items {
		id, err := requiredName(item, l.id)
		if err != nil {
			return err
		}
		amount, err := p.api.sums.read(item, l.amount, currency)
		if err != nil {
			return unreadable("%w", err)
		}
		word, err := l.status.Text(item)
		if err != nil || word == "" {
			return unreadable("%s is missing in an element of %s", l.status, l.list)
		}
		state, known := l.states[string(word)]
		if !known {
			return unreadable("%s does not have the status %s", l.setting, quoted(word))
		}
		if err := visit(id, amount, state); err != nil {
			return err
		}
	}
	return nil
}

func requiredName(v jsontext.Value, at jsonpath.Path) (string, error) {
	id, err := name(v, at)
	if err != nil {
		return "", unreadable("%w", err)
	}
	if id == "" {
		return "", unreadable("%s is missing in a list", at)
	}
	return id, nil
}
