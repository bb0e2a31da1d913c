package registry

import (
	"strings"

	"github.com/umavez/umavez/pkg/provider"
)

// checkLookup refuses a source that could not, or must not, decide about
// money in the way it is set up.
func (l *loader) checkLookup(src provider.Source, t provider.Traits) {
	if src.Lookup != provider.LookupNever && !t.CanLookup {
		l.fault("source %s: %s=%s, but the gateway cannot be asked; set %s, or %s=never",
			src.Name(), src.Variable("LOOKUP"), src.Lookup, src.Variable("API_KEY"), src.Variable("LOOKUP"))
	}
	if !t.BodyAuthenticated && src.Lookup != provider.LookupAlways && !src.UnsafeTrust {
		l.fault("source %s: this gateway does not authenticate what its webhooks say, so each must be looked up before money moves (in_doubt is not enough): "+
			"set %s and %s=always, or accept that whoever knows the webhook secret can credit payments by setting %s=true",
			src.Name(), src.Variable("API_KEY"), src.Variable("LOOKUP"), src.Variable("UNSAFE_TRUST_BODY"))
	}
}

// refuseAmbiguous refuses names by which a variable could be read as the
// setting of two sources: the account "api" of stripe would begin its
// variables with STRIPE_API_, as STRIPE_API_KEY does, which is the plain
// account's; the accounts "a-b" and "a_b" would share all of theirs.
func (l *loader) refuseAmbiguous(names []name) {
	all := append([]name(nil), names...)
	for _, n := range names {
		plain := name{n.provider, provider.DefaultAccount}
		if n != plain { // it need not be configured today
			all = append(all, plain)
		}
	}
	reported := map[string]bool{}
	for i, n := range names {
		src := provider.Source{Provider: n.provider, Account: n.account}
		prefix := src.Variable("")
		for j, o := range all {
			if o == n {
				continue
			}
			other := provider.Source{Provider: o.provider, Account: o.account}
			if other.Variable("") == prefix {
				if j > i && j < len(names) {
					l.fault("SOURCES: %s and %s would both be set by variables beginning with %s; rename one of the accounts", src.Name(), other.Name(), prefix)
				}
				continue
			}
			if len(other.Variable("")) > len(prefix) {
				continue // it is the other that is more special
			}
			if variable := l.hidden(other, prefix); variable != "" && !reported[src.Name()] {
				reported[src.Name()] = true
				l.fault("SOURCES: variables of %s would begin with %s, and so does %s, which belongs to %s; give the account another name",
					src.Name(), prefix, variable, other.Name())
			}
		}
	}
}

// hidden returns a variable of a source that begins with another's prefix.
func (l *loader) hidden(src provider.Source, prefix string) string {
	for _, setting := range commonSettings {
		if v := src.Variable(setting); strings.HasPrefix(v, prefix) {
			return v
		}
	}
	least := ""
	for setting := range l.asked[src.Provider] {
		if v := src.Variable(setting); strings.HasPrefix(v, prefix) && (least == "" || v < least) {
			least = v
		}
	}
	return least
}
