package pagarme

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/keyset"
)

// minPassword is our own limit; Pagar.me's is not known.
const minPassword = 8

// reader reads a source's settings and collects what is wrong with them. Its
// texts name variables, never values.
type reader struct {
	src    provider.Source
	faults []error
}

func (r *reader) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf("source "+r.src.Name()+": "+format, args...))
}

func (r *reader) err() error { return errors.Join(r.faults...) }

func (r *reader) variable(setting string) string { return r.src.Variable(setting) }

func (r *reader) v5() *Provider {
	p := &Provider{
		src: r.src, base: r.src.APIBase, account: r.src.Value("ACCOUNT_ID", ""),
		payables: r.flag("PAYABLES"), reference: r.reference("code"),
	}
	if !provider.Text(p.account).Clean() {
		r.fault("%s is not an identifier (acc_...)", r.variable("ACCOUNT_ID"))
	}
	r.credentials(p)
	r.api(p)
	return p
}

// credentials reads which are accepted.
func (r *reader) credentials(p *Provider) {
	modes := r.modes()
	if slices.Contains(modes, "signature") {
		keys, err := keyset.New(keyset.Config{URL: r.src.Value("JWKS_URL", DefaultJWKSURL)})
		if err != nil {
			r.fault("%s %w", r.variable("JWKS_URL"), err)
		}
		p.keys = keys
		if p.account == "" && r.src.Lookup != provider.LookupAlways {
			r.fault("%s is not set. Pagar.me signs for all its merchants with the same keys, so a signature does not tell for whom: "+
				"set it to the acc_... of this account, or look every event up (%s and %s=always)",
				r.variable("ACCOUNT_ID"), r.variable("API_KEY"), r.variable("LOOKUP"))
		}
	}
	if slices.Contains(modes, "basic") {
		r.passwords(p)
	} else if len(modes) > 0 && len(r.src.WebhookSecrets) > 0 {
		r.fault("%s is set, but %s does not list basic, so no request would be compared with it; remove one or add the other",
			r.variable("WEBHOOK_SECRETS"), r.variable("AUTH"))
	}
}

func (r *reader) modes() []string {
	text := r.src.Value("AUTH", "")
	if text == "" {
		r.fault("%s is not set. Say which credentials the webhooks carry: signature (%s, sent for Hub apps; for a webhook typed into the "+
			"dashboard look at one delivery), basic (the user and password of the webhook's configuration), or signature,basic",
			r.variable("AUTH"), SignatureHeader)
		return nil
	}
	var modes []string
	for i, m := range strings.Split(text, ",") {
		switch m = strings.TrimSpace(m); {
		case m != "signature" && m != "basic":
			r.fault("entry %d of %s is neither signature nor basic", i+1, r.variable("AUTH"))
		case slices.Contains(modes, m):
			r.fault("entry %d of %s occurs twice", i+1, r.variable("AUTH"))
		default:
			modes = append(modes, m)
		}
	}
	return modes
}

// passwords reads user:password entries. A password may hold colons.
func (r *reader) passwords(p *Provider) {
	if err := r.src.CheckSecrets(minPassword + 2); err != nil {
		r.faults = append(r.faults, err)
		return
	}
	headers := make([]provider.Secret, len(r.src.WebhookSecrets))
	for i, s := range r.src.WebhookSecrets {
		user, password, ok := strings.Cut(s.Reveal(), ":")
		if !ok || user == "" || len(password) < minPassword {
			r.fault("entry %d of %s is not user:password with a password of %d characters or more", i+1, r.variable("WEBHOOK_SECRETS"), minPassword)
			return
		}
		headers[i] = provider.Secret(provider.Basic(user, password))
	}
	p.basic = provider.NewTokens("", headers)
}

// api prepares lookups and refuses a key that belongs elsewhere.
func (r *reader) api(p *Provider) {
	key := r.src.APIKey.Reveal()
	p.auth = provider.Basic(key, "")
	switch {
	case strings.Contains(key, ":"):
		r.fault("%s contains a colon; it is the secret key alone, without a password", r.variable("API_KEY"))
	case strings.HasPrefix(key, "pk_"), strings.HasPrefix(key, "ak_"), strings.HasPrefix(key, "ek_"):
		r.fault("%s is not a secret key of the core API (sk_...)", r.variable("API_KEY"))
	case p.base == "" && r.src.Production && strings.HasPrefix(key, "sk_test_"):
		r.fault("%s is a test key, but ENVIRONMENT is production; use a live key, or set %s", r.variable("API_KEY"), r.variable("API_BASE"))
	case p.base == "" && !r.src.Production && strings.HasPrefix(key, "sk_live_"):
		r.fault("%s is a live key, but ENVIRONMENT is sandbox; use a test key, or set %s", r.variable("API_KEY"), r.variable("API_BASE"))
	}
	if p.payables && (key == "" || r.src.Lookup == provider.LookupNever) {
		r.fault("%s=true, but fees are known by lookups only; set %s and not %s=never, or set %s=false",
			r.variable("PAYABLES"), r.variable("API_KEY"), r.variable("LOOKUP"), r.variable("PAYABLES"))
	}
	if p.base == "" {
		p.base = DefaultBase
	}
}

func (r *reader) flag(setting string) bool {
	switch r.src.Value(setting, "false") {
	case "true":
		return true
	case "false":
	default:
		r.fault("%s is neither true nor false", r.variable(setting))
	}
	return false
}

// reference reads the path of the application's order id.
func (r *reader) reference(otherwise string) []string {
	text := r.src.Value("REFERENCE_FIELD", otherwise)
	switch name, isMetadata := strings.CutPrefix(text, "metadata."); {
	case isMetadata && name != "" && provider.Text(name).Clean():
		return []string{"metadata", name}
	case text == otherwise:
		return []string{text}
	case text == "order.code" && otherwise != "":
		return []string{"order", "code"}
	}
	r.fault("%s is none of the fields that can carry a reference; see the documentation of this gateway", r.variable("REFERENCE_FIELD"))
	return nil
}
