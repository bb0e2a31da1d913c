package mercadopago

import (
	"context"
	"fmt"
	"net/http"
	"regexp"

	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// paymentAnswer is a payment of the Payments API. Its amounts are decimal
// numbers of currency units.
type paymentAnswer struct {
	ID          provider.Text   `json:"id"`
	Status      provider.Text   `json:"status"`
	Detail      provider.Text   `json:"status_detail"`
	Currency    provider.Text   `json:"currency_id"`
	Amount      provider.Number `json:"transaction_amount"`
	Refunded    provider.Number `json:"transaction_amount_refunded"`
	Fees        []feeItem       `json:"fee_details"`
	Refunds     []refundItem    `json:"refunds"`
	Reference   provider.Text   `json:"external_reference"`
	CollectorID provider.Text   `json:"collector_id"`
}

type feeItem struct {
	Payer  provider.Text   `json:"fee_payer"`
	Amount provider.Number `json:"amount"`
}

type refundItem struct {
	ID     provider.Text   `json:"id"`
	Amount provider.Number `json:"amount"`
	Status provider.Text   `json:"status"`
}

// orderAnswer is an order of the Orders API. Its amounts are texts.
type orderAnswer struct {
	ID           provider.Text   `json:"id"`
	Status       provider.Text   `json:"status"`
	Detail       provider.Text   `json:"status_detail"`
	Currency     provider.Text   `json:"currency"`
	Country      provider.Text   `json:"country_code"`
	Total        provider.Number `json:"total_amount"`
	Paid         provider.Number `json:"total_paid_amount"`
	Reference    provider.Text   `json:"external_reference"`
	UserID       provider.Text   `json:"user_id"`
	Transactions struct {
		Refunds     []refundItem     `json:"refunds"`
		Chargebacks []chargebackItem `json:"chargebacks"`
	} `json:"transactions"`
}

type chargebackItem struct {
	ID     provider.Text   `json:"id"`
	Amount provider.Number `json:"amount"`
	Status provider.Text   `json:"status"`
}

// Lookup implements provider.Provider. The form of the reference says whether
// it is a payment or an order.
func (p *Provider) Lookup(ctx context.Context, client *http.Client, ref string) (payment.Claim, error) {
	switch {
	case isPaymentID(ref):
		return p.lookupPayment(ctx, client, ref)
	case ref != "" && orderID(ref) == ref:
		return p.lookupOrder(ctx, client, ref)
	}
	return payment.Claim{}, fmt.Errorf("%w: the reference is neither a payment's number nor an order's id", provider.ErrMismatch)
}

func (p *Provider) lookupPayment(ctx context.Context, client *http.Client, ref string) (payment.Claim, error) {
	var a paymentAnswer
	if err := p.get(ctx, client, &a, "v1", "payments", ref); err != nil {
		return payment.Claim{}, err
	}
	if string(a.ID) != ref {
		return payment.Claim{}, fmt.Errorf("%w: the payment's id is another one", provider.ErrMismatch)
	}
	if p.user != "" && a.CollectorID != "" && string(a.CollectorID) != p.user {
		return payment.Claim{}, fmt.Errorf("%w: collector_id is not the one in %s", provider.ErrMismatch, p.src.Variable("USER_ID"))
	}
	s, known := paymentState(a.Status, a.Detail)
	if !known {
		return payment.Claim{}, unknownStatus("payment", a.Status, a.Detail)
	}
	o, err := p.readPayment(&a, s)
	if err != nil {
		return payment.Claim{}, unreadable(err)
	}
	if o.refundsMissing() {
		// The payment's own list is short; the list at its own address is not.
		var list []refundItem
		if err := p.get(ctx, client, &list, "v1", "payments", ref, "refunds"); err != nil {
			return payment.Claim{}, err
		}
		if o.refunds, err = readRefunds(list, o.currency); err != nil {
			return payment.Claim{}, unreadable(err)
		}
	}
	return p.claim(o)
}

func (p *Provider) readPayment(a *paymentAnswer, s state) (o object, err error) {
	o = object{ref: string(a.ID), state: s, reference: a.Reference}
	if o.currency, err = money.Currency(string(a.Currency)); err != nil {
		return o, fmt.Errorf("%w (currency_id)", money.ErrCurrency)
	}
	if o.expected, err = optional(a.Amount, o.currency, "transaction_amount"); err != nil {
		return o, err
	}
	if o.refunded, err = optional(a.Refunded, o.currency, "transaction_amount_refunded"); err != nil {
		return o, err
	}
	if o.refunds, err = readRefunds(a.Refunds, o.currency); err != nil {
		return o, err
	}
	o.captured = o.expected
	o.fee, err = collectorFee(a.Fees, o.currency)
	return o, err
}

// collectorFee is what the seller pays. The other fees are the payer's.
func collectorFee(items []feeItem, currency string) (sum int64, err error) {
	for i, f := range items {
		if f.Payer != "collector" {
			continue
		}
		cents, err := money.ParseDecimal(string(f.Amount), currency)
		if err != nil {
			return 0, fmt.Errorf("%w (fee_details[%d].amount)", err, i)
		}
		if sum, err = money.Add(sum, cents); err != nil {
			return 0, fmt.Errorf("%w (sum of fee_details)", err)
		}
	}
	if sum < 0 {
		return 0, fmt.Errorf("the sum of fee_details is below zero")
	}
	return sum, nil
}

func (p *Provider) lookupOrder(ctx context.Context, client *http.Client, ref string) (payment.Claim, error) {
	var a orderAnswer
	if err := p.get(ctx, client, &a, "v1", "orders", ref); err != nil {
		return payment.Claim{}, err
	}
	if string(a.ID) != ref {
		return payment.Claim{}, fmt.Errorf("%w: the order's id is another one", provider.ErrMismatch)
	}
	if p.user != "" && a.UserID != "" && string(a.UserID) != p.user {
		return payment.Claim{}, fmt.Errorf("%w: user_id is not the one in %s", provider.ErrMismatch, p.src.Variable("USER_ID"))
	}
	s, known := orderState(a.Status, a.Detail)
	if !known {
		return payment.Claim{}, unknownStatus("order", a.Status, a.Detail)
	}
	o, err := p.readOrder(&a, s)
	if err != nil {
		return payment.Claim{}, unreadable(err)
	}
	return p.claim(o)
}

// readOrder reads an order's money. What the payer paid may hold interest
// that is not the seller's, and may be less than was asked for when a part
// was captured; so the smaller of the two is what was captured. The Orders
// API names no fee.
func (p *Provider) readOrder(a *orderAnswer, s state) (o object, err error) {
	o = object{ref: string(a.ID), state: s, reference: a.Reference}
	if o.currency, err = p.orderCurrency(a); err != nil {
		return o, err
	}
	if o.expected, err = optional(a.Total, o.currency, "total_amount"); err != nil {
		return o, err
	}
	paid, err := optional(a.Paid, o.currency, "total_paid_amount")
	if err != nil {
		return o, err
	}
	o.captured = o.expected
	if paid.Value > 0 && (!o.expected.Known || paid.Value < o.expected.Value) {
		o.captured = paid
	}
	if o.refunds, err = readRefunds(a.Transactions.Refunds, o.currency); err != nil {
		return o, err
	}
	o.disputes, err = readChargebacks(a.Transactions.Chargebacks, o.currency)
	return o, err
}

func (p *Provider) orderCurrency(a *orderAnswer) (string, error) {
	switch {
	case a.Currency != "":
		code, err := money.Currency(string(a.Currency))
		if err != nil {
			return "", fmt.Errorf("%w (currency)", money.ErrCurrency)
		}
		return code, nil
	case p.currency != "":
		return p.currency, nil
	case currencies[a.Country] != "":
		return currencies[a.Country], nil
	}
	return "", fmt.Errorf("the order names neither a currency nor a country that is known; set %s", p.src.Variable("CURRENCY"))
}

func (p *Provider) get(ctx context.Context, client *http.Client, v any, segments ...string) error {
	return provider.GetJSON(ctx, client, provider.Call{
		Base: p.base, Segments: segments,
		Header: http.Header{"Authorization": {"Bearer " + p.src.APIKey.Reveal()}},
	}, v)
}

func unreadable(err error) error { return fmt.Errorf("%w: %w", provider.ErrUnreadable, err) }

func unknownStatus(of string, status, detail provider.Text) error {
	return fmt.Errorf("%w: status %s with status_detail %s is not in the table of Mercado Pago's contract for a %s",
		provider.ErrUnreadable, word(status), word(detail), of)
}

var plainWord = regexp.MustCompile(`^[a-z_]{1,40}$`)

// word quotes a status word in an error, when it is no more than a word.
func word(t provider.Text) string {
	if plainWord.MatchString(string(t)) {
		return string(t)
	}
	return "(not a plain word)"
}
