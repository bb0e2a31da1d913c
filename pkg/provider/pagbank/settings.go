package pagbank

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"github.com/umavez/umavez/pkg/provider"
)

// minTokenLen is what an account token has at least. PagBank does not say how
// long its tokens are; the shortest in its own examples has 18 characters.
const minTokenLen = 16

// addressSecret is what a secret in an address may be made of, so that no
// proxy on the way writes it in another form.
var addressSecret = regexp.MustCompile(`^[A-Za-z0-9_-]{16,128}$`)

// configure reads the settings:
//
//   - EMAIL: the e-mail address of the account, which the old API wants beside
//     the token. Without it what a notification code is about stays unknown.
//   - NOTIFICATION_BASE: the address of the old API, that of the environment.
//   - NOTIFICATION_SECRET: when set, a form must come to the address that
//     ends with it; a list, for rotation. Without it anybody may post a code.
//   - SANDBOX_SECRET: in the sandbox alone, an address that ends with it
//     stands for the signature that PagBank often leaves out there.
func (p *Provider) configure() (err error) {
	src := p.src
	if err := src.CheckSecrets(minTokenLen); err != nil {
		return err
	}
	for i, s := range src.WebhookSecrets {
		if strings.ContainsFunc(s.Reveal(), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
			return fmt.Errorf("source %s: entry %d of %s contains white space; it is the account's API token", src.Name(), i+1, src.Variable("WEBHOOK_SECRETS"))
		}
		p.tokens = append(p.tokens, newSigner(s))
	}
	p.email = src.Value("EMAIL", "")
	if user, host, ok := strings.Cut(p.email, "@"); p.email != "" &&
		(!ok || user == "" || host == "" || strings.ContainsFunc(p.email, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })) {
		return fmt.Errorf("source %s: %s is not an e-mail address; it is the one that the account signs in with", src.Name(), src.Variable("EMAIL"))
	}
	if p.notification, err = addressSecrets(src, "NOTIFICATION_SECRET"); err != nil {
		return err
	}
	if p.sandbox, err = addressSecrets(src, "SANDBOX_SECRET"); err != nil {
		return err
	}
	if len(p.sandbox) > 0 && src.Production {
		return fmt.Errorf("source %s: %s is set in production, where a body without signature is never accepted; unset it, or set ENVIRONMENT=sandbox",
			src.Name(), src.Variable("SANDBOX_SECRET"))
	}
	return p.addresses()
}

// addressSecrets reads a list of secrets that are part of an address.
func addressSecrets(src provider.Source, setting string) (provider.Tokens, error) {
	text := src.Value(setting, "")
	if text == "" {
		return nil, nil
	}
	var secrets []provider.Secret
	for i, s := range strings.Split(text, ",") {
		if s = strings.TrimSpace(s); !addressSecret.MatchString(s) {
			return nil, fmt.Errorf("source %s: entry %d of %s is not made of 16 to 128 letters, digits, hyphens and underscores; it becomes a part of the webhook's address",
				src.Name(), i+1, src.Variable(setting))
		}
		secrets = append(secrets, provider.Secret(s))
	}
	return provider.NewTokens("", secrets), nil
}

// addresses chooses the APIs of the environment where none is set.
func (p *Provider) addresses() error {
	p.base, p.notificationBase = ProductionBase, ProductionNotificationBase
	if !p.src.Production {
		p.base, p.notificationBase = SandboxBase, SandboxNotificationBase
	}
	if p.src.APIBase != "" {
		p.base = p.src.APIBase
	}
	if text := p.src.Value("NOTIFICATION_BASE", ""); text != "" {
		if complaint := badAddress(text); complaint != "" {
			return fmt.Errorf("source %s: %s %s", p.src.Name(), p.src.Variable("NOTIFICATION_BASE"), complaint)
		}
		p.notificationBase = text
	}
	return nil
}

// badAddress says what is wrong with an address, without repeating it.
func badAddress(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return "is not an absolute address like " + ProductionNotificationBase
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "has a user, a query or a fragment; give the address up to the path only"
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "http" && !strings.EqualFold(u.Hostname(), "localhost") && (ip == nil || !ip.IsLoopback()) {
		return "is plain http, which would show e-mail and token to the network; use https"
	}
	return ""
}
