// Package mercadopago takes the webhooks of Mercado Pago: of its Payments
// API, and of its Orders API for accounts that use that one.
//
// Three things shape it. The signature covers the data.id of the address, a
// request id and a time, and never the body: what is signed says which
// payment to look at, and nothing that may move money. A payment's
// notification has no status at all, so the API is asked each time. And
// Mercado Pago's pages and libraries contradict each other in what exactly is
// signed (the letter case of data.id) and in the unit of the time; both
// readings are accepted. See verify.go.
//
// One payment is told of by several topics (payment, order, merchant order,
// subscription charge). An account has one source of money, the payment or
// the order; what the other topics say is stored and has no effect.
package mercadopago

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/provider"
)

// Base is the address of Mercado Pago's API. Test credentials use it too.
const Base = "https://api.mercadopago.com"

// minSecretLen is our own limit; the panel shows secrets of 64 characters.
const minSecretLen = 16

// Mercado Pago publishes no limit; these are modest.
const (
	lookupRate  = 5
	lookupBurst = 10
)

// Which topic decides about money.
const (
	moneyPayment = "payment"
	moneyOrder   = "order"
)

// Which spelling of data.id may be signed.
const (
	caseBoth  = "both"
	caseSent  = "sent"
	caseLower = "lower"
)

// Provider is one Mercado Pago account. It is safe for concurrent use.
type Provider struct {
	src       provider.Source
	keys      []*key
	base      string
	idCase    string
	tolerance time.Duration // 0: none
	orders    bool          // the order is the source of money
	currency  string        // of orders, whose answers do not name one; "" is by their country
	user      string        // the seller's user_id; "" is not compared
}

// New builds the provider of one source, or says what is wrong with its
// settings, all of it at once. Settings of its own:
//
//	MONEY_SOURCE  payment (default) or order: the topic that decides about money
//	ID_CASE       both (default), sent or lower: the spelling of data.id that is signed
//	TOLERANCE     how old or new a signature may be, as "72h"; none by default
//	CURRENCY      of orders, as "BRL"; by default that of the order's country
//	USER_ID       the seller's number; others' notifications are set aside
func New(src provider.Source) (provider.Provider, error) {
	r := reader{src: src}
	if err := src.CheckSecrets(minSecretLen); err != nil {
		r.faults = append(r.faults, err)
	}
	p := &Provider{
		src:       src,
		base:      src.APIBase,
		idCase:    r.choice("ID_CASE", caseBoth, caseSent, caseLower),
		tolerance: r.duration("TOLERANCE"),
		orders:    r.choice("MONEY_SOURCE", moneyPayment, moneyOrder) == moneyOrder,
		currency:  r.currency("CURRENCY"),
		user:      r.number("USER_ID"),
	}
	if p.base == "" {
		p.base = Base
	}
	r.access()
	if err := errors.Join(r.faults...); err != nil {
		return nil, err
	}
	for _, s := range src.WebhookSecrets {
		p.keys = append(p.keys, newKey(s))
	}
	return p, nil
}

// reader reads settings and collects what is wrong with them. Its messages
// name the variable; they never repeat the value.
type reader struct {
	src    provider.Source
	faults []error
}

func (r *reader) fault(setting, format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf("source %s: %s %s", r.src.Name(), r.src.Variable(setting), fmt.Sprintf(format, args...)))
}

// choice reads a word; the first one is the default.
func (r *reader) choice(setting string, words ...string) string {
	text := r.src.Value(setting, words[0])
	for _, w := range words {
		if text == w {
			return w
		}
	}
	r.fault(setting, "is none of %s", strings.Join(words, ", "))
	return words[0]
}

func (r *reader) duration(setting string) time.Duration {
	text := r.src.Value(setting, "")
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Minute {
		r.fault(setting, "is not a duration of a minute or more, like 72h; leave it unset for no limit")
	}
	return d
}

func (r *reader) currency(setting string) string {
	text := r.src.Value(setting, "")
	if text == "" {
		return ""
	}
	code, err := money.Currency(text)
	if err != nil {
		r.fault(setting, "is not an ISO 4217 code like BRL")
	}
	return code
}

func (r *reader) number(setting string) string {
	text := r.src.Value(setting, "")
	if text != "" && !isPaymentID(text) {
		r.fault(setting, "is not a number; it is the user_id that the notifications carry")
	}
	return text
}

// access checks what lookups need. A notification says nothing of money, so
// no mode without lookups could ever credit anything.
func (r *reader) access() {
	switch key := r.src.APIKey.Reveal(); {
	case key == "":
		r.fault("API_KEY", "is not set; Mercado Pago's notifications carry no amounts, so each payment is asked for with the access token")
	case strings.ContainsAny(key, " \t\r\n"):
		r.fault("API_KEY", "contains white space; use the access token as the panel shows it")
	case strings.HasPrefix(key, "TEST-") && r.src.Production && r.src.APIBase == "":
		r.fault("API_KEY", "is a test access token, but ENVIRONMENT=production; use the one of production, or ENVIRONMENT=sandbox")
	}
	// Without a key it is never by itself, and the fault is the key's.
	if r.src.Lookup == provider.LookupNever && r.src.APIKey != "" {
		r.fault("LOOKUP", "is never, but Mercado Pago's notifications carry no amounts; use always")
	}
}

// Traits implements provider.Provider.
func (p *Provider) Traits() provider.Traits {
	return provider.Traits{
		BodyAuthenticated: false,
		CanLookup:         true,
		Success:           provider.Answer{Status: http.StatusOK, Body: "ok"}, // 202 and 204 would bring it again
		Unauthorized:      provider.Answer{Status: http.StatusUnauthorized, Body: "unauthorized"},
		LookupRate:        lookupRate,
		LookupBurst:       lookupBurst,
		// What was signed is in the address, so it belongs to the event.
		SignedHeaders: []string{SignatureHeader, RequestIDHeader, "User-Agent", "X-Retry", "?data.id", "?type", "?id", "?topic"},
	}
}

// Format implements fmt.Formatter: however a provider is printed, only its
// source's name is shown.
func (p *Provider) Format(f fmt.State, _ rune) { fmt.Fprint(f, p.String()) }

// String implements fmt.Stringer, for loggers.
func (p *Provider) String() string { return "mercadopago source " + p.src.Name() }
