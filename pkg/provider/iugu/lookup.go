package iugu

import (
	"context"
	"fmt"
	"net/http"
	"regexp"

	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// invoice is the answer of the API, as far as it is read. The same amounts
// stand there a second time as texts for people ("R$ 149,90"), under names
// without _cents; those are left alone.
type invoice struct {
	ID                provider.Text   `json:"id"`
	Status            provider.Text   `json:"status"`
	Currency          provider.Text   `json:"currency"`
	Total             provider.Number `json:"total_cents"`
	Paid              provider.Number `json:"total_paid_cents"`
	Taxes             provider.Number `json:"taxes_paid_cents"`
	Refunded          provider.Number `json:"refunded_cents"`
	ExternalReference provider.Text   `json:"external_reference"`
	OrderID           provider.Text   `json:"order_id"`
}

// Lookup implements provider.Provider.
func (p *Provider) Lookup(ctx context.Context, client *http.Client, ref string) (payment.Claim, error) {
	if p.src.APIKey == "" {
		return payment.Claim{}, fmt.Errorf("%w: %s is not set", provider.ErrRefused, p.src.Variable("API_KEY"))
	}
	var inv invoice
	err := provider.GetJSON(ctx, client, provider.Call{
		Base: p.base, Segments: []string{"invoices", ref},
		Header: http.Header{"Authorization": {provider.Basic(p.src.APIKey.Reveal(), "")}},
	}, &inv)
	switch {
	case err != nil:
		return payment.Claim{}, err
	case string(inv.ID) != ref:
		return payment.Claim{}, fmt.Errorf("%w: the invoice's id is another one", provider.ErrMismatch)
	}
	claim, err := p.answer(&inv)
	if err != nil {
		return payment.Claim{}, fmt.Errorf("%w: %w", provider.ErrUnreadable, err)
	}
	return claim, nil
}

// answer reads what an invoice says of its money.
func (p *Provider) answer(inv *invoice) (payment.Claim, error) {
	s, known := statuses[inv.Status]
	if !known {
		return payment.Claim{}, fmt.Errorf("status %s is not in the table of Iugu's contract", word(inv.Status))
	}
	if inv.Currency != "" && inv.Currency != currency {
		return payment.Claim{}, fmt.Errorf("currency is not %s", currency)
	}
	f, err := figuresOf(inv)
	if err != nil {
		return payment.Claim{}, err
	}
	claim := payment.Claim{GatewayID: string(inv.ID), Currency: currency, Expected: f.total, Reference: inv.reference(), Reason: "lookup"}
	claim.Beneficiary = p.src.Owner(claim.Reference)
	switch inv.Status {
	case "externally_paid", "partially_paid": // what the canonical status does not tell
		claim.Reason = "lookup:" + string(inv.Status)
	}
	if s.stage == stageAttempt {
		claim.Facts = []payment.Fact{{Kind: payment.FactStatus, Status: s.status}}
		return claim, nil
	}
	if err := f.suffice(s.stage); err != nil {
		return payment.Claim{}, err
	}
	if f.paid.Value > 0 {
		claim.Captured = f.paid
	}
	claim.Facts = f.facts(s, claim.GatewayID)
	return claim, nil
}

// figures are the amounts of an invoice in cents, each zero or more, or not
// known where the answer has null or nothing.
type figures struct{ total, paid, taxes, refunded payment.Minor }

func figuresOf(inv *invoice) (f figures, err error) {
	for _, field := range []struct {
		name string
		text provider.Number
		into *payment.Minor
	}{
		{"total_cents", inv.Total, &f.total},
		{"total_paid_cents", inv.Paid, &f.paid},
		{"taxes_paid_cents", inv.Taxes, &f.taxes},
		{"refunded_cents", inv.Refunded, &f.refunded},
	} {
		if field.text == "" {
			continue
		}
		cents, err := money.ParseMinor(string(field.text))
		switch {
		case err != nil:
			return f, fmt.Errorf("%w (%s)", err, field.name)
		case cents < 0:
			return f, fmt.Errorf("%s is below zero", field.name)
		}
		*field.into = payment.Of(cents)
	}
	return f, nil
}

// suffice says which figure is missing for an invoice whose money stands. What
// has left again needs none of them: where the receipt was booked before, the
// answer says enough, and where it was not, payment.Apply asks for the amount.
func (f *figures) suffice(s stage) error {
	switch {
	case s != stagePaid && s != stagePartPaid:
		return nil
	case !f.paid.Known || f.paid.Value == 0:
		return fmt.Errorf("total_paid_cents is missing or zero in an invoice that was paid")
	case !f.taxes.Known:
		return fmt.Errorf("taxes_paid_cents is missing in an invoice that was paid")
	case s == stagePartPaid && !f.total.Known:
		return fmt.Errorf("total_cents is missing in an invoice that was paid in part")
	}
	return nil
}

// facts are those of an invoice from its receipt on. What was refunded is a
// cumulative figure, and it says more than the status word: a part leaves the
// word "paid". Without it, "refunded" stands for all that is left. "paid" is
// said only while the money stands: after a protest, it means that it was won.
func (f *figures) facts(s standing, id string) (facts []payment.Fact) {
	back := f.refunded.Value > 0
	if back && s.stage != stagePaid && s.stage != stagePartPaid && f.paid.Value > 0 && f.refunded.Value >= f.paid.Value {
		// All of it is gone, and the word says how: what a protest has taken
		// may be counted in the figure, and has not gone twice.
		back = false
	}
	switch {
	case s.stage == stageRefunded && back: // the figure says it
	default:
		facts = append(facts, payment.Fact{Kind: payment.FactStatus, Status: s.status})
	}
	if back {
		facts = append(facts, payment.Fact{Kind: payment.FactRefundTotal, Amount: f.refunded})
	}
	if f.taxes.Value > 0 {
		facts = append(facts, payment.Fact{Kind: payment.FactFee, ID: id, Amount: f.taxes})
	}
	return facts
}

// reference is the application's own key, by the first of the two names under
// which an invoice may carry it.
func (inv *invoice) reference() string {
	for _, t := range []provider.Text{inv.ExternalReference, inv.OrderID} {
		if t != "" && t.Clean() {
			return string(t)
		}
	}
	return ""
}

var plainWord = regexp.MustCompile(`^[a-z_]{1,40}$`)

// word quotes a status word in an error, when it is no more than a word.
func word(t provider.Text) string {
	if plainWord.MatchString(string(t)) {
		return string(t)
	}
	return "(not a plain word)"
}
