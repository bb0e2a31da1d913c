package provider

import (
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"time"
)

// Secret is a credential. It prints as "[redacted]" wherever it is formatted.
type Secret string

// String implements fmt.Stringer.
func (Secret) String() string { return "[redacted]" }

// GoString implements fmt.GoStringer.
func (Secret) GoString() string { return "[redacted]" }

// Format implements fmt.Formatter, for verbs that would bypass String.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[redacted]")) }

// MarshalText implements encoding.TextMarshaler.
func (Secret) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// Reveal gives the credential itself, for the one place that needs it.
func (s Secret) Reveal() string { return string(s) }

// LookupMode says when the gateway is asked.
type LookupMode string

// The lookup modes.
const (
	LookupAlways  LookupMode = "always"
	LookupInDoubt LookupMode = "in_doubt"
	LookupNever   LookupMode = "never"
)

// Source is the configuration of one account of a gateway, from the settings
// <PROVIDER>[_<ACCOUNT>]_... . Settings that only one gateway has are read
// with Setting.
type Source struct {
	Provider, Account string
	Production        bool // test events are ignored

	WebhookSecrets []Secret // ..._WEBHOOK_SECRETS, comma-separated, never empty
	APIKey         Secret   // ..._API_KEY
	APIBase        string   // ..._API_BASE; "" is the gateway's own
	Lookup         LookupMode
	LookupRate     float64       // ..._LOOKUP_RATE, requests a second; 0 is the gateway's default
	LookupLag      time.Duration // ..._LOOKUP_LAG: how far the gateway's read side may be behind
	UnsafeTrust    bool          // ..._UNSAFE_TRUST_BODY: move money on unauthenticated bodies

	// AllowedFrom, from ..._ALLOWED_IPS, are the addresses that may send; none
	// means any. It is a second factor, checked before Verify.
	AllowedFrom []netip.Prefix

	Beneficiary        string         // ..._BENEFICIARY: the owner of all payments of this source
	BeneficiaryPattern *regexp.Regexp // ..._BENEFICIARY_PATTERN: first group, on the reference

	// Setting reads another setting of this source by its last part, for
	// example "REFERENCE_FIELD" for ASAAS_REFERENCE_FIELD. "" when unset.
	Setting func(name string) string
	// File reads a file that a setting names, and has it watched: when its
	// content changes the source is built anew, as for rotated secrets.
	// Errors name the variable, never the path.
	File func(name string) ([]byte, error)
}

// Name is "<provider>" or "<provider>/<account>", as in SOURCES.
func (s Source) Name() string {
	if s.Account == "" || s.Account == DefaultAccount {
		return s.Provider
	}
	return s.Provider + "/" + s.Account
}

// DefaultAccount is the account of the plain address and setting names.
const DefaultAccount = "default"

// Variable is the full name of one of the source's settings.
func (s Source) Variable(name string) string {
	up := func(t string) string { return strings.ToUpper(strings.ReplaceAll(t, "-", "_")) }
	if s.Account == "" || s.Account == DefaultAccount {
		return up(s.Provider) + "_" + name
	}
	return up(s.Provider) + "_" + up(s.Account) + "_" + name
}

// Value is Setting, with a default.
func (s Source) Value(name, otherwise string) string {
	if s.Setting != nil {
		if v := s.Setting(name); v != "" {
			return v
		}
	}
	return otherwise
}

// Owner derives a payment's beneficiary from its reference: the fixed one of
// the source, or the first group of the pattern; "" when neither says.
func (s Source) Owner(reference string) string {
	if s.Beneficiary != "" {
		return s.Beneficiary
	}
	if s.BeneficiaryPattern == nil || reference == "" {
		return ""
	}
	m := s.BeneficiaryPattern.FindStringSubmatch(reference)
	if len(m) < 2 {
		return ""
	}
	return m[1]
}

// CheckSecrets refuses a source that would accept everybody.
func (s Source) CheckSecrets(minLen int) error {
	if len(s.WebhookSecrets) == 0 {
		return fmt.Errorf("source %s: %s is not set; without it anybody could send webhooks", s.Name(), s.Variable("WEBHOOK_SECRETS"))
	}
	for i, secret := range s.WebhookSecrets {
		if strings.TrimSpace(secret.Reveal()) != secret.Reveal() || len(secret) < minLen {
			return fmt.Errorf("source %s: entry %d of %s is empty, has outer spaces or is shorter than %d characters",
				s.Name(), i+1, s.Variable("WEBHOOK_SECRETS"), minLen)
		}
	}
	return nil
}

// Factory builds the provider of one source, or says what is wrong with it.
type Factory func(Source) (Provider, error)
