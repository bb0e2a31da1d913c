// Package stripe receives the classic ("snapshot") events of Stripe's API v1
// and asks the same API what is true of a payment now.
//
// What it promises: an event is accepted only when an HMAC over its exact
// bytes matches one of the endpoint's secrets and was made within the
// tolerance, on either side of our clock; every status, amount and id is
// taken from the object in the event, never guessed from the event's name;
// no number passes through a float.
//
// What it does not do: thin events (API v2) are stored and set aside, so
// configure endpoints with snapshot payloads. Endpoints should use an API
// version of 2025-03-31 (basil) or later: before it, releasing part of an
// authorisation produced refund objects that look like real refunds. A
// dispute fee that Stripe gives back (a negative fee) is not booked.
//
// The payment is the PaymentIntent; the charge only where there is none.
//
// Settings of its own, each <PROVIDER>[_<ACCOUNT>]_<name>:
//
//	TOLERANCE             seconds between Stripe's clock and ours; 300, above 0
//	API_VERSION           the Stripe-Version of lookups; 2026-02-25.clover
//	ACCOUNT_ID            acct_... of a connected account, for lookups; optional
//	REFERENCE_FIELD       metadata key of the application's order id; order_id
//	BENEFICIARY_METADATA  metadata key of the payment's owner; optional
package stripe

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/umavez/umavez/pkg/provider"
)

// SignatureHeader carries the time-stamp and the digests.
const SignatureHeader = "Stripe-Signature"

const (
	defaultBase      = "https://api.stripe.com"
	defaultVersion   = "2026-02-25.clover"
	defaultTolerance = 300 // seconds, as in the official libraries

	// minSecret refuses what cannot be an endpoint's secret; the real ones
	// are about 40 characters.
	minSecret = 8
)

// gateway is one configured account.
type gateway struct {
	src       provider.Source
	tolerance int64 // seconds
	base      string
	header    http.Header // of lookups
	reference string      // metadata key
	owner     string      // metadata key; "" when not configured
	macs      []sync.Pool // of hash.Hash, one for each secret
}

var _ provider.Factory = New

// New builds the gateway of one source. It refuses a source without secrets,
// with a tolerance that is not a number of seconds above 0, or with header
// settings that cannot be sent.
func New(src provider.Source) (provider.Provider, error) {
	if err := src.CheckSecrets(minSecret); err != nil {
		return nil, err
	}
	tolerance, err := strconv.ParseInt(src.Value("TOLERANCE", strconv.Itoa(defaultTolerance)), 10, 32)
	if err != nil || tolerance <= 0 {
		return nil, fmt.Errorf("source %s: %s must be a number of seconds above 0", src.Name(), src.Variable("TOLERANCE"))
	}
	g := &gateway{
		src:       src,
		tolerance: tolerance,
		base:      src.APIBase,
		reference: src.Value("REFERENCE_FIELD", "order_id"),
		owner:     src.Value("BENEFICIARY_METADATA", ""),
		macs:      make([]sync.Pool, len(src.WebhookSecrets)),
	}
	if g.base == "" {
		g.base = defaultBase
	}
	g.header = http.Header{"Authorization": {"Bearer " + src.APIKey.Reveal()}}
	for name, setting := range map[string]string{
		"Stripe-Version": "API_VERSION", "Stripe-Account": "ACCOUNT_ID",
	} {
		value := src.Value(setting, "")
		if setting == "API_VERSION" && value == "" {
			value = defaultVersion
		}
		if !plainHeader(value) {
			return nil, fmt.Errorf("source %s: %s has characters that a header cannot carry", src.Name(), src.Variable(setting))
		}
		if value != "" {
			g.header.Set(name, value)
		}
	}
	if !plainHeader(src.APIKey.Reveal()) {
		return nil, fmt.Errorf("source %s: %s has characters that a header cannot carry", src.Name(), src.Variable("API_KEY"))
	}
	if complaint := g.wrongKey(); complaint != "" {
		return nil, fmt.Errorf("source %s: %s %s", src.Name(), src.Variable("API_KEY"), complaint)
	}
	for i, secret := range src.WebhookSecrets {
		// The key is the whole text, "whsec_" included: nothing is decoded.
		key := []byte(secret.Reveal())
		g.macs[i].New = func() any { return hmac.New(sha256.New, key) }
	}
	return g, nil
}

// wrongKey says why Stripe itself would answer no lookup of this source, if it
// is that plain: a key of the other mode knows none of its payments.
func (g *gateway) wrongKey() string {
	if g.src.APIBase != "" {
		return ""
	}
	kind, rest, _ := strings.Cut(g.src.APIKey.Reveal(), "_")
	mode, _, _ := strings.Cut(rest, "_")
	switch {
	case kind == "pk":
		return "is a publishable key, which may not read payments; use a restricted key (rk_...)"
	case mode == "test" && g.src.Production:
		return "is a key of test mode, but ENVIRONMENT=production; use one of live mode, or ENVIRONMENT=sandbox"
	case mode == "live" && !g.src.Production:
		return "is a key of live mode, but ENVIRONMENT=sandbox; use one of test mode, or ENVIRONMENT=production"
	}
	return ""
}

func plainHeader(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Traits implements provider.Provider.
func (g *gateway) Traits() provider.Traits {
	return provider.Traits{
		BodyAuthenticated: true,
		CanLookup:         g.src.APIKey != "",
		Success:           provider.Answer{Status: http.StatusOK, Body: "ok"},
		// Stripe retries a refused delivery, which is right: after a secret
		// was repaired on our side the event comes in.
		Unauthorized:  provider.Answer{Status: http.StatusBadRequest, Body: "invalid signature"},
		LookupRate:    20, // 25 a second and endpoint in a sandbox, 100 in all live
		LookupBurst:   20,
		SignedHeaders: []string{SignatureHeader},
	}
}

// Sign returns the value of the Stripe-Signature header for a body: what
// Stripe would send at t. Tests and simulators use it.
func Sign(secret string, t time.Time, body []byte) string {
	stamp := strconv.FormatInt(t.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	return "t=" + stamp + ",v1=" + fmt.Sprintf("%x", digest(mac, stamp, body, nil))
}

// digest appends the HMAC of "<stamp>.<body>" to buf.
func digest(mac hash.Hash, stamp string, body, buf []byte) []byte {
	mac.Write([]byte(stamp))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return mac.Sum(buf)
}
