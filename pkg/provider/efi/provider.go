// Package efi takes the Pix callbacks of Efí (formerly Gerencianet; Brazil,
// BRL only). Its older API for boletos and cards is another product and is not
// covered.
//
// A callback has no event id, no event type and no signature. It is a list:
// one request tells of several Pix, and the same list carries the outcome of
// Pix that we sent, which are money out and never a payment (item.go). An item
// is the whole state of one Pix, so it comes again, longer, with every refund;
// parse.go says by what an item is known. Efí glues "/pix" to the end of
// whatever address was registered, into the query if there is one (verify.go).
//
// A payment here is one settled transfer, named by its endToEndId, and not the
// charge (cob) that it paid: a charge can be paid more than once, and there is
// no callback when one expires or is removed. So nothing is known of a payment
// before it was paid; the charge's txid is its reference.
//
// Nobody vouches for what a body says, so money moves only by what the API
// answers (lookup.go), which wants OAuth2 and a client certificate (token.go,
// settings.go).
package efi

import (
	"crypto/tls"
	"fmt"
	"net/http"

	"github.com/umavez/umavez/pkg/provider"
)

// The addresses of Efí's Pix API.
const (
	ProductionBase = "https://pix.api.efipay.com.br"
	SandboxBase    = "https://pix-h.api.efipay.com.br"
)

// Efí's limits are not established; these are modest. EFI_LOOKUP_RATE raises
// them once they are known.
const (
	lookupRate  = 2
	lookupBurst = 4
)

// Provider is one Efí account. It is safe for concurrent use.
type Provider struct {
	src     provider.Source
	mtls    bool            // a verified client certificate is required
	tokens  provider.Tokens // of the address; none only where mtls is
	place   tokenPlace
	noFee   bool // gnExtras.tarifa is not taken for a fee
	api     *api // nil: the settings do not suffice to look up
	session session
}

// New builds the provider of one source, or says what is wrong with its
// settings, all of it at once. The settings beyond the common ones are listed
// in settings.go.
func New(src provider.Source) (provider.Provider, error) {
	r := reader{src: src}
	p := &Provider{src: src}
	p.mtls = r.auth()
	p.place = r.tokenPlace(p.mtls)
	p.noFee = r.ignoresTarifa()
	p.api = r.api()
	if err := r.err(); err != nil {
		return nil, err
	}
	if len(src.WebhookSecrets) > 0 {
		p.tokens = provider.NewTokens("", src.WebhookSecrets)
	}
	return p, nil
}

// Traits implements provider.Provider.
func (p *Provider) Traits() provider.Traits {
	return provider.Traits{
		BodyAuthenticated: false, // nothing signs it, in neither mode
		CanLookup:         p.api != nil,
		Success:           provider.Answer{Status: http.StatusOK, Body: "200"},
		Unauthorized:      provider.Answer{Status: http.StatusUnauthorized, Body: "unauthorized"},
		LookupRate:        lookupRate,
		LookupBurst:       lookupBurst,
		OwnsPath:          true,
		EmptyBodies:       true, // the probe at registration
		OtherCredentials:  p.mtls,
	}
}

// ClientCertificate implements provider.ClientCertificate.
func (p *Provider) ClientCertificate() *tls.Certificate {
	if p.api == nil {
		return nil
	}
	return p.api.certificate
}

// Format implements fmt.Formatter: however a provider is printed, only its
// source's name is shown.
func (p *Provider) Format(f fmt.State, _ rune) { fmt.Fprint(f, p.String()) }

// String implements fmt.Stringer, for loggers.
func (p *Provider) String() string { return "efi source " + p.src.Name() }
