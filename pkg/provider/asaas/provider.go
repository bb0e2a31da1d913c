// Package asaas takes the webhooks of Asaas (API v3, Brazil; BRL only).
//
// What Asaas promises: each event has an id that stays the same on every
// redelivery; a shared token in a header proves that the sender is Asaas,
// though nothing signs the body; amounts are decimal reais; an event may come
// any number of times, and out of order. What it asks of us: answer exactly
// 200. Any other code, 204 too, is a failure, and fifteen in a row stop the
// queue for all payments.
//
// Two of its habits shape this package. PAYMENT_CONFIRMED and
// PAYMENT_RECEIVED are one fact, the capture, told at two stages. And refunds
// come as a list without ids in the payment itself, so that a refund gets an
// id here that is made of its content; see refunds.go.
package asaas

import (
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/umavez/umavez/pkg/provider"
)

// The addresses of Asaas's API.
const (
	ProductionBase = "https://api.asaas.com/v3"
	SandboxBase    = "https://api-sandbox.asaas.com/v3"
)

// The lengths of an access token that Asaas accepts.
const (
	minTokenLen = 32
	maxTokenLen = 255
)

// Asaas allows 25,000 requests in 12 hours, which is 0.578 a second, and 50
// at once.
const (
	lookupRate  = 0.5
	lookupBurst = 50
)

// Provider is one Asaas account. It is safe for concurrent use.
type Provider struct {
	src    provider.Source
	tokens provider.Tokens
	base   string
	agent  string
}

// New builds the provider of one source, or says what is wrong with its
// settings. Settings of its own: USER_AGENT, the application's name that
// Asaas requires of API clients ("umavez").
func New(src provider.Source) (provider.Provider, error) {
	if err := src.CheckSecrets(minTokenLen); err != nil {
		return nil, err
	}
	p := &Provider{src: src, base: src.APIBase, agent: src.Value("USER_AGENT", "umavez"),
		tokens: provider.NewTokens("", src.WebhookSecrets)}
	for i, s := range src.WebhookSecrets {
		if complaint := badToken(s.Reveal()); complaint != "" {
			return nil, fmt.Errorf("source %s: entry %d of %s %s", src.Name(), i+1, src.Variable("WEBHOOK_SECRETS"), complaint)
		}
	}
	if strings.ContainsFunc(p.agent, unicode.IsControl) {
		return nil, fmt.Errorf("source %s: %s contains a control character", src.Name(), src.Variable("USER_AGENT"))
	}
	if p.base == "" {
		if err := p.chooseBase(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func badToken(token string) string {
	switch {
	case len(token) > maxTokenLen:
		return fmt.Sprintf("is longer than %d characters, which Asaas does not accept as a token", maxTokenLen)
	case strings.ContainsFunc(token, unicode.IsSpace):
		return "contains white space, which Asaas does not accept in a token"
	case strings.HasPrefix(token, "$aact_"):
		return "is an API key; use the authToken of the webhook configuration"
	}
	return ""
}

// chooseBase picks the API of the environment and refuses a key of the other
// one, which Asaas would answer with 401 on every lookup.
func (p *Provider) chooseBase() error {
	key := p.src.APIKey.Reveal()
	foreign, env := "$aact_hmlg_", "production"
	p.base = ProductionBase
	if !p.src.Production {
		foreign, env, p.base = "$aact_prod_", "sandbox", SandboxBase
	}
	if strings.HasPrefix(key, foreign) {
		return fmt.Errorf("source %s: %s is a key of the other environment than ENVIRONMENT=%s; use a key of this one, or set %s",
			p.src.Name(), p.src.Variable("API_KEY"), env, p.src.Variable("API_BASE"))
	}
	return nil
}

// Traits implements provider.Provider.
func (p *Provider) Traits() provider.Traits {
	return provider.Traits{
		BodyAuthenticated: true, // the token is Asaas's and nobody else's
		CanLookup:         p.src.APIKey != "",
		Success:           provider.Answer{Status: http.StatusOK, Body: "ok"},
		Unauthorized:      provider.Answer{Status: http.StatusUnauthorized, Body: "unauthorized"},
		LookupRate:        lookupRate,
		LookupBurst:       lookupBurst,
	}
}

// Format implements fmt.Formatter: however a provider is printed, only its
// source's name is shown.
func (p *Provider) Format(f fmt.State, _ rune) { fmt.Fprint(f, "asaas source "+p.src.Name()) }

// String implements fmt.Stringer, for loggers.
func (p *Provider) String() string { return "asaas source " + p.src.Name() }
