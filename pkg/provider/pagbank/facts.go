package pagbank

import (
	"errors"
	"fmt"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// currency of all of PagBank.
const currency = "BRL"

// charge is a charge of API v4, in webhooks and in answers.
type charge struct {
	ID        provider.Text `json:"id"`
	Reference provider.Text `json:"reference_id"`
	Status    provider.Text `json:"status"`
	CreatedAt provider.Text `json:"created_at"`
	PaidAt    provider.Text `json:"paid_at"`
	Amount    amount        `json:"amount"`
}

// amount counts centavos.
type amount struct {
	Value    provider.Number `json:"value"`
	Currency provider.Text   `json:"currency"`
	Summary  struct {
		Paid     provider.Number `json:"paid"`
		Refunded provider.Number `json:"refunded"`
	} `json:"summary"`
}

// Facts implements provider.Provider. Each charge of a body is a payment of
// its own.
func (p *Provider) Facts(e *event.Event) ([]payment.Claim, error) {
	if n, ok := readNotification(e.Body); ok {
		return nil, p.unresolved(n)
	}
	if e.Secret == labelUnsigned {
		return nil, errors.New("nothing has authenticated this body, and it is no notification code")
	}
	if e.HeaderValue(TokenHeader) == "" && e.HeaderValue(RecurringHeader) != "" {
		return nil, errors.New(reasonRecurring) // nobody knows who wrote this body
	}
	b, err := decode(e.Body)
	if err != nil {
		return nil, err
	}
	all := b.payments()
	switch k := b.kind(); {
	case k == kindChargeback:
		return nil, errors.New(reasonChargeback)
	case b.ID == "":
		return nil, errors.New("id is missing")
	case k == kindOrder && len(all) == 0:
		return nil, provider.ErrUnresolved
	case len(all) > maxCharges:
		return nil, errors.New("more than 50 charges")
	}
	var claims []payment.Claim
	for i := range all {
		claim, err := p.claim(&all[i])
		if err != nil {
			return nil, err
		}
		claim.Reason = typed(b.kind(), all[i].Status)
		claims = append(claims, claim)
	}
	return claims, nil
}

// claim reads one charge. It has no time of its own but that of its payment:
// of two statuses before capture the one that is further on is the later one,
// whichever is received first.
func (p *Provider) claim(c *charge) (payment.Claim, error) {
	if c.ID == "" || !c.ID.Clean() {
		return payment.Claim{}, errors.New("the id of a charge is missing or not a clean identifier")
	}
	r, known := statuses[c.Status]
	if !known {
		return payment.Claim{}, errors.New("charge.status is not in the table of PagBank's contract")
	}
	if c.Amount.Currency != "" && c.Amount.Currency != currency {
		return payment.Claim{}, errors.New("amount.currency is not BRL")
	}
	claim := payment.Claim{GatewayID: string(c.ID), Currency: currency}
	if c.Reference.Clean() {
		claim.Reference = string(c.Reference)
	}
	claim.Beneficiary = p.src.Owner(claim.Reference)
	value, err := centavos(c.Amount.Value, "amount.value")
	if err != nil {
		return payment.Claim{}, err
	}
	claim.Expected = value
	paid, err := centavos(c.Amount.Summary.Paid, "amount.summary.paid")
	if err != nil {
		return payment.Claim{}, err
	}
	refunded, err := centavos(c.Amount.Summary.Refunded, "amount.summary.refunded")
	if err != nil {
		return payment.Claim{}, err
	}
	if r.stage != stageAttempt && paid.Value > 0 {
		claim.Captured = paid // else it is not said, and a lookup is asked for
	}
	claim.Facts = chargeFacts(c, r, claim.Captured.Known, refunded)
	return claim, nil
}

// chargeFacts gives what a charge says, by its own evidence alone.
func chargeFacts(c *charge, r rule, captured bool, refunded payment.Minor) []payment.Fact {
	paidAt := instant(c.PaidAt)
	switch {
	case r.stage == stageAttempt:
		return []payment.Fact{{Kind: payment.FactStatus, Status: r.status}}
	case r.stage == stageCanceled && !captured && paidAt.IsZero():
		return []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusCanceled}}
	case r.stage == stageCanceled:
		// All that is left went back; how much that is beside a dispute, only
		// the books know.
		return []payment.Fact{paidFact(paidAt), {Kind: payment.FactStatus, Status: payment.StatusRefunded}}
	case refunded.Value > 0:
		return []payment.Fact{paidFact(paidAt), {Kind: payment.FactRefundTotal, Amount: refunded}}
	}
	return []payment.Fact{paidFact(paidAt)}
}

// paidFact has the time of the payment, never that of the message: a charge
// goes on to say that it is paid while it is disputed.
func paidFact(at time.Time) payment.Fact {
	return payment.Fact{Kind: payment.FactStatus, Status: payment.StatusPaid, At: at}
}

// instant reads "2026-01-15T09:00:03.000-03:00". What is not such a text is
// the zero time, which means that the gateway did not say.
func instant(t provider.Text) time.Time {
	at, err := time.Parse(time.RFC3339, string(t))
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}

// centavos reads an integer of centavos, zero or more; unknown when absent.
func centavos(n provider.Number, field string) (payment.Minor, error) {
	if n == "" {
		return payment.Minor{}, nil
	}
	v, err := money.ParseMinor(string(n))
	switch {
	case err != nil:
		return payment.Minor{}, fmt.Errorf("%w (%s)", err, field)
	case v < 0:
		return payment.Minor{}, fmt.Errorf("the amount is below zero (%s)", field)
	}
	return payment.Of(v), nil
}
