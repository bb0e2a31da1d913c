// Package standardwebhooks takes the webhooks of any sender that signs as the
// Standard Webhooks specification says, whatever the shape of its bodies.
//
// The specification is about headers and a signature; of payments it says
// nothing. So the signature is code (verify.go, keys.go) and everything else
// is configuration: which event type means what, and where in a body the ids
// and amounts are (settings.go lists the settings). Without configuration the
// shape is the profile "generic", a convention of this project for senders
// whose format one can choose (profile.go).
//
// The signature covers the webhook-id, the time of the attempt and the exact
// bytes of the body, so a body is the sender's own word and may move money
// without a lookup. Where the sender has an API, a source may be given it as
// well (lookup.go): without one, a lost event stays lost.
//
// The verifier is our own: no official library checks asymmetric signatures,
// and the tagged one for Go accepts what was signed with an empty key.
package standardwebhooks

import (
	"fmt"
	"net/http"
	"time"

	"github.com/umavez/umavez/pkg/provider"
)

// The limits of lookups, modest since the sender is not known.
const (
	lookupRate  = 5
	lookupBurst = 5
)

// Provider is one configured sender. It is safe for concurrent use.
type Provider struct {
	src       provider.Source
	mode      keyMode
	keys      []key
	tolerance time.Duration
	svix      bool // the svix-* headers are accepted too
	dedupe    dedupe
	shape     shape
	api       *api // nil: the sender is not asked
}

// New builds the provider of one source, or says what is wrong with its
// settings, all of it at once.
func New(src provider.Source) (provider.Provider, error) {
	r := newReader(src)
	p := &Provider{src: src}
	if err := src.CheckSecrets(1); err != nil {
		r.faults = append(r.faults, err)
	}
	p.mode, p.keys = r.keys()
	p.tolerance = r.tolerance()
	p.svix = r.flag("SVIX_HEADERS")
	p.dedupe = r.dedupe()
	p.shape = r.shape()
	p.api = r.api(p.shape)
	r.checkTogether(p)
	if err := r.err(); err != nil {
		return nil, err
	}
	return p, nil
}

// Traits implements provider.Provider.
func (p *Provider) Traits() provider.Traits {
	kept := standardHeaders[:]
	if p.svix {
		kept = append(kept[:len(kept):len(kept)], svixHeaders[:]...)
	}
	return provider.Traits{
		BodyAuthenticated: true,
		CanLookup:         p.api != nil,
		Success:           provider.Answer{Status: http.StatusOK, Body: "ok"},
		Unauthorized:      provider.Answer{Status: http.StatusUnauthorized, Body: "invalid signature"},
		LookupRate:        lookupRate,
		LookupBurst:       lookupBurst,
		SignedHeaders:     kept,
	}
}

// Format implements fmt.Formatter: however a provider is printed, only its
// source's name is shown.
func (p *Provider) Format(f fmt.State, _ rune) { fmt.Fprint(f, p.String()) }

// String implements fmt.Stringer, for loggers.
func (p *Provider) String() string { return "standardwebhooks source " + p.src.Name() }
