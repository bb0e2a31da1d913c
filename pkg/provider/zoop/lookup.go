package zoop

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// Lookup implements provider.Provider. It asks for the transaction.
func (p *Provider) Lookup(ctx context.Context, client *http.Client, ref string) (payment.Claim, error) {
	if p.src.APIKey == "" {
		return payment.Claim{}, fmt.Errorf("%w: %s is not set", provider.ErrRefused, p.src.Variable("API_KEY"))
	}
	var t transaction
	err := provider.GetJSON(ctx, client, provider.Call{
		Base: p.base, Segments: []string{"marketplaces", p.settings.marketplace, "transactions", ref},
		// The key is the user, and the password is empty.
		Header: http.Header{"Authorization": {provider.Basic(p.src.APIKey.Reveal(), "")}},
	}, &t)
	if err != nil {
		return payment.Claim{}, err
	}
	switch {
	case string(t.ID) != ref:
		return payment.Claim{}, fmt.Errorf("%w: the transaction's id is another one", provider.ErrMismatch)
	case t.Resource != "" && t.Resource != "transaction":
		return payment.Claim{}, fmt.Errorf("%w: the resource is no transaction", provider.ErrMismatch)
	case t.Currency == "":
		return payment.Claim{}, fmt.Errorf("%w: currency is missing", provider.ErrUnreadable)
	}
	r, known := statuses[t.Status]
	if !known {
		return payment.Claim{}, fmt.Errorf("%w: status %s is not in the table of Zoop's contract", provider.ErrUnreadable, word(t.Status))
	}
	// A transaction that was reversed was so by now. Times of the database
	// have microseconds.
	claim, err := p.claim(&t, r, p.now().UTC().Truncate(time.Microsecond))
	if err != nil {
		return payment.Claim{}, fmt.Errorf("%w: %w", provider.ErrUnreadable, err)
	}
	claim.Reason = "lookup"
	return claim, nil
}

var plainWord = regexp.MustCompile(`^[a-z_]{1,40}$`)

// word quotes a status word in an error, when it is no more than a word.
func word(t provider.Text) string {
	if plainWord.MatchString(string(t)) {
		return string(t)
	}
	return "(not a plain word)"
}
