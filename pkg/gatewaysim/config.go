package gatewaysim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Config says what to simulate. The zero value of a field is its default.
type Config struct {
	// Seed determines everything that is repeatable.
	Seed uint64
	// Payments is how many payments there are; 0 is 200. From 60 on, each
	// kind of history occurs at each gateway that knows it, for one account
	// a gateway.
	Payments int
	// Gateways lists the accounts in the form of umavez's SOURCES:
	// "stripe", "asaas", "stripe/loja2". Empty is stripe, asaas, pagpolar.
	Gateways []string
	// Credentials by entry of Gateways; missing ones are made from Seed.
	Credentials map[string]Credentials
	// Beneficiaries is how many owners the payments have; 0 is 10.
	Beneficiaries int
	// Shares are none by default; see DefaultShares.
	Shares Shares
	// Order of the webhooks; "" is OrderShuffle.
	Order Order
	// Window bounds OrderShuffle: an event moves at most so many places
	// down. 0 shuffles wholly.
	Window int
	// Start is the end of all histories: every event lies in the 15 days
	// before it. Zero is 5 January 2026. A Start in the future makes lookups
	// look older than events, which no gateway does.
	Start time.Time
	// API is how the lookup API behaves; its zero value is perfect.
	API API
}

// Credentials are those of one account of a gateway.
type Credentials struct {
	// WebhookSecrets: Stripe signs with each of them, as it does while a
	// secret is rolled; the others use one of them at random.
	WebhookSecrets []string `json:"webhook_secrets"`
	APIKey         string   `json:"api_key"`
}

// Shares are fractions of the number of true events, from 0 to 1.
// Duplicates may be above 1.
type Shares struct {
	Duplicates      float64 // further deliveries of an event that was sent
	Concurrent      float64 // of the duplicates: sent at the same instant as their original
	WrongSignatures float64 // forged requests, to be refused
	Malformed       float64 // authentic requests that cannot be read
	Tests           float64 // marked as tests or without content; not at Asaas, which has neither
	Lost            float64 // true events that are never sent
}

// DefaultShares is a bad day at the gateways.
func DefaultShares() Shares {
	return Shares{Duplicates: 0.30, Concurrent: 0.5, WrongSignatures: 0.02, Malformed: 0.01, Tests: 0.01, Lost: 0.02}
}

// Order is the order in which webhooks are sent.
type Order string

// The orders. OrderKeep keeps the gateways' time, for each payment even with
// several senders.
const (
	OrderShuffle Order = "shuffle"
	OrderKeep    Order = "keep"
	OrderReverse Order = "reverse"
)

// API is how the lookup APIs misbehave. Shares are from 0 to 1.
type API struct {
	Latency time.Duration // of every answer
	Jitter  time.Duration // up to so much more
	// TooMany is the share of answers 429, with Retry-After: RetryAfter in
	// whole seconds (0 is one second).
	TooMany    float64
	RetryAfter time.Duration
	// ServerErrors is the share of answers 500 and 503.
	ServerErrors float64
	// Stale is the share of answers from a replica that has not seen the last
	// step, for StaleFor (0 is 1 s) after it became true.
	Stale    float64
	StaleFor time.Duration
}

// defaultStart is fixed, so that a seed means the same tomorrow.
var defaultStart = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

func (c *Config) normalize() error {
	if c.Payments == 0 {
		c.Payments = 200
	}
	if c.Beneficiaries == 0 {
		c.Beneficiaries = 10
	}
	if len(c.Gateways) == 0 {
		c.Gateways = []string{"stripe", "asaas", "pagpolar"}
	}
	if c.Order == "" {
		c.Order = OrderShuffle
	}
	if c.Start.IsZero() {
		c.Start = defaultStart
	}
	c.Start = c.Start.UTC().Truncate(time.Second)
	if c.API.RetryAfter == 0 {
		c.API.RetryAfter = time.Second
	}
	if c.API.StaleFor == 0 {
		c.API.StaleFor = time.Second
	}
	return c.check()
}

func (c *Config) check() error {
	if c.Payments < 0 || c.Beneficiaries < 0 || c.Window < 0 {
		return fmt.Errorf("gatewaysim: payments, beneficiaries and window must not be negative")
	}
	if !slices.Contains([]Order{OrderShuffle, OrderKeep, OrderReverse}, c.Order) {
		return fmt.Errorf("gatewaysim: order %.40q is not one of keep, shuffle and reverse", c.Order)
	}
	for i, name := range c.Gateways {
		gateway, _, _ := strings.Cut(name, "/")
		if gateways[gateway] == nil {
			return fmt.Errorf("gatewaysim: %.60q is not a gateway of this simulator; use %s, with /<account> for a second one", name, strings.Join(Gateways(), ", "))
		}
		if slices.Contains(c.Gateways[:i], name) {
			return fmt.Errorf("gatewaysim: gateway %q is listed twice", name)
		}
	}
	if c.Shares.Duplicates < 0 || c.Shares.Duplicates > 100 {
		return fmt.Errorf("gatewaysim: share of duplicates is %v, must be from 0 to 100", c.Shares.Duplicates)
	}
	for name, v := range map[string]float64{
		"concurrent duplicates": c.Shares.Concurrent, "wrong signatures": c.Shares.WrongSignatures,
		"malformed": c.Shares.Malformed, "tests": c.Shares.Tests, "lost": c.Shares.Lost,
		"429 answers": c.API.TooMany, "5xx answers": c.API.ServerErrors, "stale answers": c.API.Stale,
	} {
		if v < 0 || v > 1 {
			return fmt.Errorf("gatewaysim: share of %s is %v, must be from 0 to 1", name, v)
		}
	}
	return nil
}
