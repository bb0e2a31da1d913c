package asaas

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// statuses is the table of the API's status words; what a payment of that
// status is in the terms of the event that would have told so.
var statuses = map[provider.Text]rule{
	"PENDING":                      {stage: stageAttempt, status: payment.StatusPending},
	"AWAITING_RISK_ANALYSIS":       {stage: stageAttempt, status: payment.StatusPending},
	"AUTHORIZED":                   {stage: stageAttempt, status: payment.StatusAuthorized},
	"OVERDUE":                      {stage: stageAttempt, status: payment.StatusExpired},
	"DUNNING_REQUESTED":            {stage: stageAttempt, status: payment.StatusExpired},
	"CONFIRMED":                    {stage: stageCaptured},
	"RECEIVED":                     {stage: stageCaptured},
	"RECEIVED_IN_CASH":             {stage: stageCaptured},
	"DUNNING_RECEIVED":             {stage: stageCaptured},
	"REFUND_REQUESTED":             {stage: stageCaptured},
	"REFUND_IN_PROGRESS":           {stage: stageCaptured},
	"REFUNDED":                     {stage: stageRefunded},
	"CHARGEBACK_REQUESTED":         {stage: stageDisputed, dispute: payment.DisputeOpen},
	"CHARGEBACK_DISPUTE":           {stage: stageDisputed, dispute: payment.DisputeOpen},
	"AWAITING_CHARGEBACK_REVERSAL": {stage: stageDisputed, dispute: payment.DisputeWon},
}

// Lookup implements provider.Provider. It asks for the payment and, where a
// refund is said without a list, for the list.
func (p *Provider) Lookup(ctx context.Context, client *http.Client, ref string) (payment.Claim, error) {
	if p.src.APIKey == "" {
		return payment.Claim{}, fmt.Errorf("%w: %s is not set", provider.ErrRefused, p.src.Variable("API_KEY"))
	}
	var c charge
	if err := p.get(ctx, client, &c, nil, "payments", ref); err != nil {
		return payment.Claim{}, err
	}
	if string(c.ID) != ref {
		return payment.Claim{}, fmt.Errorf("%w: the payment's id is another one", provider.ErrMismatch)
	}
	r, known := statuses[c.Status]
	if !known {
		return payment.Claim{}, fmt.Errorf("%w: status %s is not in the table of Asaas's contract", provider.ErrUnreadable, word(c.Status))
	}
	if c.Deleted && r.stage == stageAttempt {
		r.status = payment.StatusCanceled // a removed charge keeps its old status word
	}
	if c.Refunds == nil && (c.Status == "REFUNDED" || c.Status == "REFUND_REQUESTED" || c.Status == "REFUND_IN_PROGRESS") {
		if err := p.fetchRefunds(ctx, client, &c); err != nil {
			return payment.Claim{}, err
		}
	}
	claim, err := p.answer(&c, r)
	if err != nil {
		return payment.Claim{}, fmt.Errorf("%w: %w", provider.ErrUnreadable, err)
	}
	return claim, nil
}

// answer maps a payment of the API as if an event had brought it.
func (p *Provider) answer(c *charge, r rule) (payment.Claim, error) {
	claim, err := p.claim(c)
	if err != nil {
		return claim, err
	}
	claim.Reason = "lookup"
	if claim.Facts, err = p.facts(claim, c, r, ""); err != nil {
		return claim, err
	}
	switch r.stage {
	case stageAttempt:
		claim.Captured = payment.Minor{}
	case stageRefunded, stageDisputed:
		paid := payment.Fact{Kind: payment.FactStatus, Status: payment.StatusPaid}
		claim.Facts = append([]payment.Fact{paid}, claim.Facts...)
	case stageCaptured:
		// Money that stands, with a chargeback that was reversed: it was won,
		// and the event that said so may have been the one we missed.
		if c.Chargeback != nil && c.Chargeback.Status == "REVERSED" {
			won, err := dispute(claim.GatewayID, c, payment.DisputeWon)
			if err != nil {
				return claim, err
			}
			claim.Facts = append(claim.Facts, won)
		}
	}
	return claim, nil
}

// fetchRefunds fills a payment's list of refunds from its own address.
func (p *Provider) fetchRefunds(ctx context.Context, client *http.Client, c *charge) error {
	var list struct {
		Data    *[]refundItem `json:"data"`
		HasMore bool          `json:"hasMore"`
	}
	if err := p.get(ctx, client, &list, url.Values{"limit": {"100"}}, "payments", string(c.ID), "refunds"); err != nil {
		return err
	}
	if list.Data == nil || list.HasMore {
		return fmt.Errorf("%w: the list of refunds has no data, or goes on after 100", provider.ErrUnreadable)
	}
	c.Refunds = list.Data
	return nil
}

func (p *Provider) get(ctx context.Context, client *http.Client, v any, query url.Values, segments ...string) error {
	return provider.GetJSON(ctx, client, provider.Call{
		Base: p.base, Segments: segments, Query: query,
		Header: http.Header{"access_token": {p.src.APIKey.Reveal()}, "User-Agent": {p.agent}},
	}, v)
}

var plainWord = regexp.MustCompile(`^[A-Z_]{1,40}$`)

// word quotes a status word in an error, when it is no more than a word.
func word(t provider.Text) string {
	if plainWord.MatchString(string(t)) {
		return string(t)
	}
	return "(not a plain word)"
}
