// Package pagbank takes the webhooks of PagBank (PagSeguro; orders and charges
// of API v4, Brazil; BRL only).
//
// PagBank sends two formats to one address. Format A, what happens to a charge
// until it is paid or canceled, is the JSON object that its API gives too,
// with a plain SHA-256 over the account's token and the raw body. Format B,
// what happens afterwards (disputes above all), is a form that holds a
// notification code and nothing else: unsigned, and useless without our
// credentials. So a form is stored and never believed; Resolve asks PagBank's
// old API what it is about, and that answer is.
//
// Neither format has an event id. Format A has no envelope at all: its key is
// made of everything that Facts reads of it, so that two bodies with one key
// say the same; see parse.go.
//
// The charges of API v4 do not show disputes, and the old API names none. It
// has one status a transaction, with a time, and so have the facts here: see
// statuses.go for why a charge that is merely "PAID" can end no dispute.
package pagbank

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// The addresses of PagBank's API v4, and of the old one that format B needs.
const (
	ProductionBase             = "https://api.pagseguro.com"
	SandboxBase                = "https://sandbox.api.pagseguro.com"
	ProductionNotificationBase = "https://ws.pagseguro.uol.com.br"
	SandboxNotificationBase    = "https://ws.sandbox.pagseguro.uol.com.br"
)

// PagBank publishes no limits of its API (reference, page of the charges);
// these are modest ones.
const (
	lookupRate  = 5
	lookupBurst = 10
)

// Provider is one PagBank account. It is safe for concurrent use.
type Provider struct {
	src    provider.Source
	tokens []signer

	// sandbox are the address secrets that stand for a missing signature in
	// the sandbox; notification those that a form must come with.
	sandbox, notification provider.Tokens

	base, notificationBase string
	email                  string
	now                    func() time.Time
}

var (
	_ provider.Provider  = (*Provider)(nil)
	_ provider.Resolver  = (*Provider)(nil)
	_ provider.Explainer = (*Provider)(nil)
	_ provider.Describer = (*Provider)(nil)
)

// New builds the provider of one source, or says what is wrong with its
// settings. WEBHOOK_SECRETS are the account's API tokens, the present one and
// those before it; API_KEY is the present one. Settings of its own: EMAIL,
// NOTIFICATION_BASE, NOTIFICATION_SECRET and SANDBOX_SECRET; see settings.go.
func New(src provider.Source) (provider.Provider, error) {
	p := &Provider{src: src, now: time.Now}
	if err := p.configure(); err != nil {
		return nil, err
	}
	return p, nil
}

// Traits implements provider.Provider. Where a signature may be missing, no
// body of the source is taken for authenticated, not even one that has it:
// the traits are the source's, and asking costs little in a sandbox.
func (p *Provider) Traits() provider.Traits {
	return provider.Traits{
		BodyAuthenticated: len(p.sandbox) == 0,
		CanLookup:         p.src.APIKey != "",
		Success:           provider.Answer{Status: http.StatusOK, Body: "ok"},
		Unauthorized:      provider.Answer{Status: http.StatusUnauthorized, Body: "unauthorized"},
		LookupRate:        lookupRate,
		LookupBurst:       lookupBurst,
		SignedHeaders:     []string{TokenHeader, RecurringHeader},
		OwnsPath:          len(p.sandbox)+len(p.notification) > 0,
	}
}

// Resolve implements provider.Resolver, for notification codes and for orders
// without charges.
func (p *Provider) Resolve(ctx context.Context, client *http.Client, e *event.Event) ([]payment.Claim, error) {
	if p.src.APIKey == "" {
		return nil, fmt.Errorf("%w: %s is not set", provider.ErrRefused, p.src.Variable("API_KEY"))
	}
	if n, ok := readNotification(e.Body); ok {
		return p.transaction(ctx, client, n.code)
	}
	b, err := decode(e.Body)
	switch {
	case err != nil:
		return nil, err
	case b.kind() != kindOrder:
		return nil, errors.New("only orders and notification codes are to be asked about")
	}
	return p.order(ctx, client, string(b.ID))
}

// Format implements fmt.Formatter: however a provider is printed, only its
// source's name is shown.
func (p *Provider) Format(f fmt.State, _ rune) { fmt.Fprint(f, "pagbank source "+p.src.Name()) }

// String implements fmt.Stringer, for loggers.
func (p *Provider) String() string { return "pagbank source " + p.src.Name() }
