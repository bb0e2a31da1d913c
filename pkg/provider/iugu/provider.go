// Package iugu takes the triggers ("gatilhos") of Iugu (API v1, Brazil; BRL
// only).
//
// What Iugu promises: little. A trigger is a form, not JSON; nothing signs it;
// it has no id and no time; it comes again until it is answered with exactly
// 200. What proves the sender is a value that the merchant chose when he
// registered the trigger, in a header or in the address (verify.go).
//
// So a trigger is a bell and no more. It names an invoice and the status that
// it rang for; money moves by what the API answers, and there by the fields in
// whole cents only (lookup.go). Two things that happened may ring with the same
// bytes, a second partial refund or a receipt that stands again after a
// protest, and so every repeat asks for processing again: what was new in it
// is found in the figures of the answer, which are cumulative (parse.go).
package iugu

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"unicode"

	"github.com/umavez/umavez/pkg/provider"
)

// Base is the address of Iugu's API, for live and test tokens alike.
const Base = "https://api.iugu.com/v1"

// minSecretLen is our own limit; Iugu's is not known.
const minSecretLen = 16

// Iugu publishes no limit; these are modest.
const (
	lookupRate  = 5
	lookupBurst = 5
)

// The two places of the credentials, in the setting AUTH.
const (
	inHeader = "header"
	inPath   = "path"
)

// Provider is one Iugu account. It is safe for concurrent use.
type Provider struct {
	src    provider.Source
	tokens provider.Tokens
	place  string // inHeader or inPath
	base   string
}

// New builds the provider of one source, or says what is wrong with its
// settings, all of it at once. Setting of its own: AUTH, where the webhook
// secret travels, "header" or "path". It has no default, since Iugu's pages do
// not say which header, if any, carries the value given at registration.
func New(src provider.Source) (provider.Provider, error) {
	p := &Provider{src: src, base: src.APIBase, place: src.Value("AUTH", ""), tokens: provider.NewTokens("", src.WebhookSecrets)}
	if p.base == "" {
		p.base = Base
	}
	faults := []error{src.CheckSecrets(minSecretLen), p.checkPlace(), p.checkKey()}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return p, nil
}

// plainSegment is a text that is the same in every spelling of an address.
var plainSegment = regexp.MustCompile(`^[A-Za-z0-9_~-][A-Za-z0-9._~-]*$`)

func (p *Provider) checkPlace() error {
	name, variable := p.src.Name(), p.src.Variable("AUTH")
	switch p.place {
	case inHeader:
		return nil
	case inPath:
		for i, s := range p.src.WebhookSecrets {
			if !plainSegment.MatchString(s.Reveal()) {
				return fmt.Errorf("source %s: entry %d of %s cannot be part of an address; with %s=path use letters, digits and . _ ~ - only",
					name, i+1, p.src.Variable("WEBHOOK_SECRETS"), variable)
			}
		}
		return nil
	case "":
		return fmt.Errorf("source %s: %s is not set; Iugu's documentation does not say where the authorization of a trigger arrives, so look at one: "+
			"set header if its Authorization header holds the value that you registered, else path, and register the address with a secret at its end", name, variable)
	}
	return fmt.Errorf("source %s: %s is neither header nor path", name, variable)
}

// checkKey refuses a token that would not survive HTTP Basic as the user.
func (p *Provider) checkKey() error {
	if key := p.src.APIKey.Reveal(); strings.ContainsFunc(key, func(r rune) bool { return r == ':' || unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return fmt.Errorf("source %s: %s contains a colon or white space; give the API token alone, as the panel shows it", p.src.Name(), p.src.Variable("API_KEY"))
	}
	return nil
}

// Traits implements provider.Provider.
func (p *Provider) Traits() provider.Traits {
	return provider.Traits{
		BodyAuthenticated: false, // whoever knows the secret can write any body
		CanLookup:         p.src.APIKey != "",
		Success:           provider.Answer{Status: http.StatusOK, Body: "ok"},
		Unauthorized:      provider.Answer{Status: http.StatusUnauthorized, Body: "unauthorized"},
		LookupRate:        lookupRate,
		LookupBurst:       lookupBurst,
		OwnsPath:          p.place == inPath,
	}
}

// Format implements fmt.Formatter: however a provider is printed, only its
// source's name is shown.
func (p *Provider) Format(f fmt.State, _ rune) { fmt.Fprint(f, p.String()) }

// String implements fmt.Stringer, for loggers.
func (p *Provider) String() string { return "iugu source " + p.src.Name() }
