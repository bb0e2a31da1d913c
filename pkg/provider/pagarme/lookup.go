package pagarme

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// Lookup implements provider.Provider. It asks for the charge and, where the
// source is set up so, for its payables.
func (p *Provider) Lookup(ctx context.Context, client *http.Client, ref string) (payment.Claim, error) {
	if p.src.APIKey == "" {
		return payment.Claim{}, fmt.Errorf("%w: %s is not set", provider.ErrRefused, p.src.Variable("API_KEY"))
	}
	var c charge
	if err := p.get(ctx, client, &c, nil, "charges", ref); err != nil {
		return payment.Claim{}, err
	}
	if string(c.ID) != ref {
		return payment.Claim{}, fmt.Errorf("%w: the charge's id is another one", provider.ErrMismatch)
	}
	r, known := statuses[string(c.Status)]
	if !known {
		return payment.Claim{}, fmt.Errorf("%w: status %s is not in the table of Pagar.me's contract", provider.ErrUnreadable, word(c.Status))
	}
	claim, err := p.answered(&c, r)
	if err != nil {
		return payment.Claim{}, fmt.Errorf("%w: %w", provider.ErrUnreadable, err)
	}
	if p.payables && captured(&claim) {
		fees, err := p.fees(ctx, client, ref)
		if err != nil {
			return payment.Claim{}, err
		}
		claim.Facts = append(claim.Facts, fees...)
	}
	return claim, nil
}

// captured says whether a charge's money came in, so that it has payables.
func captured(c *payment.Claim) bool {
	return c.Captured.Known || len(c.Facts) > 0 && c.Facts[0].Status == payment.StatusRefunded && c.Facts[0].Otherwise == ""
}

// answered reads a charge of the API. Unlike an event it has the last word: a
// canceled charge without any sign of a payment was never paid, unless we hold
// its capture.
func (p *Provider) answered(c *charge, r reading) (payment.Claim, error) {
	claim, sums, err := p.claim(c, "")
	if err != nil {
		return claim, err
	}
	claim.Reason = "lookup"
	if r.stage == stageGone && c.everPaid(sums) != yes {
		claim.Facts = goneOrCanceled()
		return claim, nil
	}
	switch {
	case r.stage == stageAttempt || sums.paid.Known:
	case r.stage == stageGone:
		// A charge that was refunded whole has been seen without paid_amount.
		// What was paid we hold; if not, a canceled_amount that equals the
		// amount says it. Fines and interest make the two differ.
		gone := payment.Fact{Kind: payment.FactStatus, Status: payment.StatusRefunded}
		if sums.asked.Value > 0 && sums.canceled == sums.asked.Value {
			gone.Amount = sums.asked
		}
		claim.Facts = []payment.Fact{gone}
		return claim, nil
	default:
		return claim, fmt.Errorf("a charge with status %s has no paid_amount", word(c.Status))
	}
	if r.stage == stageGone || r.stage == stageChargedBack {
		claim.Facts = []payment.Fact{{Kind: payment.FactStatus, Status: payment.StatusPaid}}
	}
	return claim, fill(&claim, c, sums, r, "")
}

func (p *Provider) get(ctx context.Context, client *http.Client, v any, query url.Values, segments ...string) error {
	return provider.GetJSON(ctx, client, provider.Call{
		Base: p.base, Segments: segments, Query: query, Header: http.Header{"Authorization": {p.auth}},
		MaybeMissing: []int{http.StatusBadRequest},
	}, v)
}

var plainWord = regexp.MustCompile(`^[a-z_]{1,40}$`)

// word quotes a status word in an error, when it is no more than a word.
func word(t provider.Text) string {
	if plainWord.MatchString(string(t)) {
		return string(t)
	}
	return "(not a plain word)"
}
