// Package pagpolar takes the webhooks of PagPolar.
//
// About half of PagPolar's contract could not be established: the address and
// the credentials of its API, its status words, where its answers keep
// amounts, and in which unit. What is unknown is a setting without a default,
// and nothing is assumed in its place; see settings.go.
//
// What is known shapes the rest. The envelope's id and date are new on every
// attempt, so an event is known by what it says (parse.go). The token in the
// header does not protect the body, and no body names an amount, so money
// moves only by what a lookup answers (lookup.go).
package pagpolar

import (
	"fmt"
	"net/http"

	"github.com/umavez/umavez/pkg/provider"
)

// minTokenLen is our own limit; PagPolar's is not known.
const minTokenLen = 8

// PagPolar publishes no limit; these are modest.
const (
	lookupRate  = 5
	lookupBurst = 5
)

// Provider is one PagPolar account. It is safe for concurrent use.
type Provider struct {
	src    provider.Source
	tokens provider.Tokens // with "Bearer " before each
	saleID path            // of the sale's id, within an event's data
	daily  bool            // SUBSCRIPTION_DELAYED once a day, not once a state
	api    *api            // nil: the settings do not suffice to look up
}

// New builds the provider of one source, or says what is wrong with its
// settings, all of it at once.
func New(src provider.Source) (provider.Provider, error) {
	r := reader{src: src}
	if err := src.CheckSecrets(minTokenLen); err != nil {
		r.faults = append(r.faults, err)
	}
	p := &Provider{
		src:    src,
		saleID: r.path("TRANSACTION_ID_PATH", "transaction.id"),
		daily:  r.flag("DELAYED_DAILY"),
		api:    r.api(),
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	p.tokens = provider.NewTokens(scheme, src.WebhookSecrets)
	return p, nil
}

// Traits implements provider.Provider.
func (p *Provider) Traits() provider.Traits {
	return provider.Traits{
		BodyAuthenticated: false, // whoever knows the token can write any body
		CanLookup:         p.api != nil,
		Success:           provider.Answer{Status: http.StatusOK, Body: "ok"},
		Unauthorized:      provider.Answer{Status: http.StatusUnauthorized, Body: "unauthorized"},
		LookupRate:        lookupRate,
		LookupBurst:       lookupBurst,
	}
}

// Format implements fmt.Formatter: however a provider is printed, only its
// source's name is shown.
func (p *Provider) Format(f fmt.State, _ rune) { fmt.Fprint(f, p.String()) }

// String implements fmt.Stringer, for loggers.
func (p *Provider) String() string { return "pagpolar source " + p.src.Name() }
