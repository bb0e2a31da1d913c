package pagarme

import (
	"errors"
	"fmt"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// v4Currency is that of all transactions of the API v1 to v4, whose amounts
// are cents and name none.
const v4Currency = "BRL"

// v4Statuses is the table of a transaction's status words.
var v4Statuses = map[string]reading{
	"processing":      attempt(payment.StatusPending),
	"waiting_payment": attempt(payment.StatusPending),
	"analyzing":       attempt(payment.StatusPending),
	"pending_review":  attempt(payment.StatusPending),
	"authorized":      attempt(payment.StatusAuthorized),
	"refused":         attempt(payment.StatusFailed),
	"paid":            {stage: stagePaid},
	"refunded":        {stage: stageGone},
	"chargedback":     {stage: stageChargedBack},
	"pending_refund":  {},
}

// Facts implements provider.Provider.
func (p *Legacy) Facts(e *event.Event) ([]payment.Claim, error) {
	form, err := provider.DecodeForm(e.Body)
	switch {
	case err != nil:
		return nil, err
	case form["event"] == "" || !form["event"].Clean():
		return nil, errors.New("event is missing or not a clean word")
	case form["event"] != transactionChanged:
		return nil, nil
	}
	if fault := v4Fault(form); fault != "" {
		return nil, errors.New(fault)
	}
	r, known := v4Statuses[string(form["current_status"])]
	if !known {
		return nil, errors.New("current_status is not in the table of the contract")
	}
	if r.stage == stageUnsaid {
		return nil, nil
	}
	claim, err := p.claim(form, r)
	if err != nil {
		return nil, err
	}
	return []payment.Claim{claim}, nil
}

func (p *Legacy) claim(form provider.Form, r reading) (payment.Claim, error) {
	claim := payment.Claim{
		GatewayID: string(form["id"]), Currency: v4Currency,
		At: timeOf(form["transaction[date_updated]"]), Reason: string(form["event"]),
	}
	var asked, paid, refunded payment.Minor
	for name, into := range map[string]*payment.Minor{"amount": &asked, "paid_amount": &paid, "refunded_amount": &refunded} {
		v, err := cents(provider.Number(form["transaction["+name+"]"]))
		if err != nil {
			return claim, fmt.Errorf("%w (transaction[%s])", err, name)
		}
		*into = v
	}
	claim.Expected = asked
	if ref := form.Under("transaction")[p.reference]; p.reference != "" && ref.Clean() {
		claim.Reference = string(ref)
	}
	claim.Beneficiary = p.src.Owner(claim.Reference)
	if r.stage != stageAttempt && paid.Value > 0 {
		claim.Captured = paid
	}
	status := func(s payment.Status) {
		claim.Facts = append(claim.Facts, payment.Fact{Kind: payment.FactStatus, Status: s})
	}
	total := func() {
		claim.Facts = append(claim.Facts, payment.Fact{Kind: payment.FactRefundTotal, Amount: refunded})
	}
	switch r.stage {
	case stageAttempt:
		status(r.status)
	case stagePaid:
		if paid.Known && paid.Value == 0 {
			return claim, errors.New("transaction[paid_amount] of a paid transaction is zero")
		}
		status(payment.StatusPaid)
		if refunded.Value > 0 {
			total()
		}
	case stageGone:
		if paid.Known && paid.Value == 0 { // an authorisation that was never captured
			status(payment.StatusCanceled)
			break
		}
		status(payment.StatusRefunded)
	case stageChargedBack:
		if refunded.Value > 0 && refunded.Value < paid.Value {
			total()
		}
		status(payment.StatusChargedBack)
	}
	return claim, nil
}
