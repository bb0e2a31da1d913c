package pagarme

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
)

// Legacy is one account of the API v1 to v4, by its postbacks: a form whose
// exact bytes are signed with the account's API key. It is safe for
// concurrent use.
//
// How that API is asked for a transaction is not established, so it is not:
// the postbacks carry status and amounts, and are authentic.
type Legacy struct {
	src       provider.Source
	keys      [][]byte
	reference string // field within transaction[...]; "" when not configured
}

// HubSignatureHeader carries the HMAC of a postback.
var HubSignatureHeader = http.CanonicalHeaderKey("X-Hub-Signature")

// minKey is our own limit; real keys have 35 characters and more.
const minKey = 16

func (r *reader) v4() *Legacy {
	p := &Legacy{src: r.src}
	if err := r.src.CheckSecrets(minKey); err != nil {
		r.faults = append(r.faults, err)
	}
	for i, s := range r.src.WebhookSecrets {
		key := s.Reveal()
		switch {
		case strings.HasPrefix(key, "ek_"), strings.HasPrefix(key, "sk_"), strings.HasPrefix(key, "pk_"):
			r.fault("entry %d of %s is another key than the account's API key (ak_...), with which postbacks are signed", i+1, r.variable("WEBHOOK_SECRETS"))
		case r.src.Production && strings.HasPrefix(key, "ak_test_"):
			r.fault("entry %d of %s is a test key, but ENVIRONMENT is production", i+1, r.variable("WEBHOOK_SECRETS"))
		}
		p.keys = append(p.keys, []byte(key))
	}
	if r.src.Lookup != provider.LookupNever {
		r.fault("%s=4, and how that API is asked for a transaction is not established; set %s=never", r.variable("API_VERSION"), r.variable("LOOKUP"))
	}
	for _, setting := range []string{"AUTH", "JWKS_URL", "ACCOUNT_ID", "PAYABLES"} {
		if r.src.Value(setting, "") != "" {
			r.fault("%s is set, but it belongs to API version 5, and %s is 4", r.variable(setting), r.variable("API_VERSION"))
		}
	}
	if name := r.src.Value("REFERENCE_FIELD", ""); name != "" {
		inner, isMetadata := strings.CutPrefix(name, "metadata.")
		switch {
		case !provider.Text(name).Clean() || strings.ContainsAny(name, "[]"):
			r.fault("%s is not the name of a field", r.variable("REFERENCE_FIELD"))
		case isMetadata:
			p.reference = "metadata[" + inner + "]"
		default:
			p.reference = name
		}
	}
	return p
}

// Verify implements provider.Provider: an HMAC-SHA1 of the raw body, as hex,
// with "sha1=" before it or without.
func (p *Legacy) Verify(r provider.Request) (string, provider.Reason) {
	value, reason := provider.OneValue(r.Header[HubSignatureHeader])
	if reason != provider.ReasonNone {
		return "", reason
	}
	var sent [sha1.Size]byte
	digits := strings.TrimPrefix(value, "sha1=")
	if len(digits) != 2*sha1.Size {
		return "", provider.ReasonMalformed
	}
	if _, err := hex.Decode(sent[:], []byte(digits)); err != nil {
		return "", provider.ReasonMalformed
	}
	matched := p.match(sent[:], r.Body)
	if matched == "" {
		return "", provider.ReasonMismatch
	}
	return matched, provider.ReasonNone
}

// match tries every key, whatever matches, and names the first that does.
func (p *Legacy) match(sent, text []byte) (label string) {
	for i := len(p.keys) - 1; i >= 0; i-- {
		mac := hmac.New(sha1.New, p.keys[i])
		mac.Write(text)
		if subtle.ConstantTimeCompare(mac.Sum(nil), sent) == 1 {
			label = strconv.Itoa(i + 1)
		}
	}
	return label
}

// Lookup implements provider.Provider, and refuses.
func (p *Legacy) Lookup(context.Context, *http.Client, string) (payment.Claim, error) {
	return payment.Claim{}, fmt.Errorf("%w: how the API v1 to v4 is asked is not established", provider.ErrRefused)
}

// Traits implements provider.Provider.
func (p *Legacy) Traits() provider.Traits {
	return provider.Traits{
		BodyAuthenticated: true,
		Success:           provider.Answer{Status: http.StatusOK, Body: "ok"}, // exactly 200 stops the 31 attempts
		Unauthorized:      provider.Answer{Status: http.StatusBadRequest, Body: "invalid signature"},
		SignedHeaders:     []string{HubSignatureHeader},
	}
}

// Format implements fmt.Formatter: only the source's name is shown.
func (p *Legacy) Format(f fmt.State, _ rune) { fmt.Fprint(f, p.String()) }

// String implements fmt.Stringer, for loggers.
func (p *Legacy) String() string { return "pagarme source " + p.src.Name() }
