// Package pagarme takes the webhooks of Pagar.me (Brazil): of its core API
// v5, and, with API_VERSION=4, the postbacks of the API v1 to v4.
//
// What v5 promises: each delivery has an id that stays the same on every
// retry and resend; bodies hold the whole charge or order, amounts in integer
// cents. What shapes this package:
//
//   - The unit of money is the charge. An order tells of all its charges
//     again, so order.paid and charge.paid are one fact, credited once.
//   - A refunded charge has the status "canceled", as one that was never paid.
//     Which of the two it is follows from the charge's own evidence, and where
//     that is silent from a lookup or from what we hold; see facts.go.
//   - Refunds have no ids, only a cumulative canceled_amount.
//   - Fees are in neither the webhook nor the charge but in the payables,
//     which only PSP accounts have; see payables.go.
//   - The asymmetric signature proves that Pagar.me wrote the body, not for
//     which of its merchants: all accounts share the keys. So without a lookup
//     of everything the account's id must be configured, and is compared.
//
// What is not established of v5, whether webhooks that were typed into the
// dashboard are signed, is left to the setting AUTH, which has no default.
// The older API is in the files v4*.go, by itself.
//
// Settings of its own, each PAGARME[_<ACCOUNT>]_<name>:
//
//	API_VERSION      5 (the default), or 4 for postbacks of API v1 to v4
//	AUTH             accepted credentials: signature, basic, or both; v5 only
//	JWKS_URL         where the keys are published; Pagar.me's own
//	ACCOUNT_ID       acc_... of this account, compared with account.id
//	PAYABLES         true: ask for fees (PSP accounts only); false
//	REFERENCE_FIELD  code (the default), order.code or metadata.<name>
//
// WEBHOOK_SECRETS holds user:password entries for AUTH=basic, or the account's
// API keys (ak_...) for API_VERSION=4. API_KEY is the secret key (sk_...).
package pagarme

import (
	"fmt"
	"net/http"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/keyset"
)

// The addresses of Pagar.me. One host serves test and live.
const (
	DefaultBase    = "https://api.pagar.me/core/v5"
	DefaultJWKSURL = "https://hubapi.pagar.me/.well-known/jwks.json"
)

// GET /charges may be asked 200 times a minute.
const (
	lookupRate  = 3
	lookupBurst = 20
)

// Provider is one Pagar.me account of the core API v5. It is safe for
// concurrent use.
type Provider struct {
	src       provider.Source
	keys      *keyset.Set     // nil: signatures are not accepted
	basic     provider.Tokens // none: HTTP Basic is not accepted
	account   string          // "" is not compared
	base      string
	auth      string // the Authorization of lookups
	payables  bool
	reference []string // path within a charge
}

var _ provider.Factory = New

// New builds the provider of one source, or says what is wrong with its
// settings, all of it at once.
func New(src provider.Source) (provider.Provider, error) {
	r := reader{src: src}
	switch version := src.Value("API_VERSION", "5"); version {
	case "5":
		p := r.v5()
		if err := r.err(); err != nil {
			return nil, err
		}
		return p, nil
	case "4":
		p := r.v4()
		if err := r.err(); err != nil {
			return nil, err
		}
		return p, nil
	default:
		r.fault("%s is neither 5 (the core API) nor 4 (postbacks of API v1 to v4)", src.Variable("API_VERSION"))
	}
	return nil, r.err()
}

// Traits implements provider.Provider.
func (p *Provider) Traits() provider.Traits {
	t := provider.Traits{
		BodyAuthenticated: true, // signed, or the password is Pagar.me's and nobody else's
		CanLookup:         p.src.APIKey != "",
		Success:           provider.Answer{Status: http.StatusOK, Body: "ok"},
		Unauthorized:      provider.Answer{Status: http.StatusUnauthorized, Body: "unauthorized"},
		LookupRate:        lookupRate,
		LookupBurst:       lookupBurst,
	}
	if p.keys != nil {
		t.SignedHeaders, t.OtherCredentials = []string{SignatureHeader}, true
	}
	return t
}

// Format implements fmt.Formatter: however a provider is printed, only its
// source's name is shown.
func (p *Provider) Format(f fmt.State, _ rune) { fmt.Fprint(f, p.String()) }

// String implements fmt.Stringer, for loggers.
func (p *Provider) String() string { return "pagarme source " + p.src.Name() }
