// Package zoop takes the webhooks of Zoop (marketplace payments, Brazil; BRL
// only). It has nothing to do with the Zoop of India, which checks documents.
//
// Zoop signs nothing, and little of its contract is published. So a webhook
// is a hint that a transaction has changed, and what is true is read from the
// API: the sender proves itself by a long secret in the address, optionally by
// an Authorization header as well, and money moves only by what a lookup
// answers.
//
// Three of its habits shape this package. transaction.canceled is a partial
// refund, a whole one, or the end of a sale that was never paid, and only the
// object tells which (transaction.go). Amounts are decimal reais in answers
// and cents in requests, so that a number which could be either is refused.
// And a dispute has no id and no amount: it is a status, and it was won when
// the status is "succeeded" again.
package zoop

import (
	"fmt"
	"net/http"
	"time"

	"github.com/umavez/umavez/pkg/provider"
)

// Base is the address of Zoop's API, the same for test and live keys.
const Base = "https://api.zoop.ws/v1"

// minSecretLen is our own limit: the address is all that a sender shows.
const minSecretLen = 32

// Zoop publishes no limit; these are modest.
const (
	lookupRate  = 5
	lookupBurst = 5
)

// Provider is one Zoop marketplace. It is safe for concurrent use.
type Provider struct {
	src         provider.Source
	settings    settings
	secrets     provider.Tokens // the last segment of the address
	headers     provider.Tokens // the whole Authorization header; none: not checked
	base        string
	now         func() time.Time
	believeBody bool // bodies move money (UNSAFE_TRUST_BODY)
}

// New builds the provider of one source, or says what is wrong with its
// settings, all of it at once; see settings.go for those of its own.
func New(src provider.Source) (provider.Provider, error) {
	s, headers, err := read(src)
	if err != nil {
		return nil, err
	}
	p := &Provider{
		src: src, settings: s, base: src.APIBase, now: time.Now, believeBody: src.UnsafeTrust,
		secrets: provider.NewTokens("", src.WebhookSecrets), headers: provider.NewTokens("", headers),
	}
	if p.base == "" {
		p.base = Base
	}
	return p, nil
}

// Traits implements provider.Provider.
func (p *Provider) Traits() provider.Traits {
	return provider.Traits{
		BodyAuthenticated: false, // whoever knows the address can write any body
		CanLookup:         p.src.APIKey != "",
		Success:           provider.Answer{Status: http.StatusOK, Body: "ok"},
		Unauthorized:      provider.Answer{Status: http.StatusUnauthorized, Body: "unauthorized"},
		LookupRate:        lookupRate,
		LookupBurst:       lookupBurst,
		OwnsPath:          true,
	}
}

// Format implements fmt.Formatter: however a provider is printed, only its
// source's name is shown.
func (p *Provider) Format(f fmt.State, _ rune) { fmt.Fprint(f, p.String()) }

// String implements fmt.Stringer, for loggers.
func (p *Provider) String() string { return "zoop source " + p.src.Name() }
