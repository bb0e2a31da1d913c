package registry

import (
	"math"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/umavez/umavez/pkg/provider"
)

// commonSettings are the settings that every source has.
var commonSettings = []string{
	"WEBHOOK_SECRETS", "WEBHOOK_SECRETS_FILE", "API_KEY", "API_KEY_FILE", "API_BASE",
	"LOOKUP", "LOOKUP_RATE", "LOOKUP_LAG", "UNSAFE_TRUST_BODY", "BENEFICIARY", "BENEFICIARY_PATTERN",
	"ALLOWED_IPS",
}

// defaultLookupLag is how far a gateway's read side may be behind, unless
// LOOKUP_LAG says otherwise.
const defaultLookupLag = 60 * time.Second

// common reads the settings that every source has, but for the secrets. It
// returns false when the lookup mode could not be read.
func (l *loader) common(src *provider.Source) bool {
	get := func(setting string) (variable, value string) {
		variable = src.Variable(setting)
		return variable, l.env(variable)
	}
	src.Lookup = provider.LookupNever
	if src.APIKey != "" {
		src.Lookup = provider.LookupAlways
	}
	ok := true
	if variable, v := get("LOOKUP"); v != "" {
		src.Lookup = provider.LookupMode(v)
		switch src.Lookup {
		case provider.LookupAlways, provider.LookupInDoubt, provider.LookupNever:
		default:
			l.fault("%s is not one of always, in_doubt and never", variable)
			ok = false
		}
	}
	variable, v := get("API_BASE")
	if src.APIBase = v; v != "" {
		if complaint := badBase(v); complaint != "" {
			l.fault("%s %s", variable, complaint)
		}
	}
	if variable, v := get("LOOKUP_RATE"); v != "" {
		rate, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(rate) || math.IsInf(rate, 0) || rate <= 0 {
			l.fault("%s is not a number of requests a second above zero, like 0.5; unset it for the gateway's own limit", variable)
		}
		src.LookupRate = rate
	}
	src.LookupLag = defaultLookupLag
	if variable, v := get("LOOKUP_LAG"); v != "" {
		lag, err := time.ParseDuration(v)
		if err != nil || lag < 0 {
			l.fault("%s is not a duration like 60s or 2m", variable)
		}
		src.LookupLag = lag
	}
	if variable, v := get("UNSAFE_TRUST_BODY"); v != "" {
		trust, err := strconv.ParseBool(v)
		if err != nil {
			l.fault("%s is neither true nor false", variable)
		}
		src.UnsafeTrust = trust
	}
	if variable, v := get("ALLOWED_IPS"); v != "" {
		for i, entry := range strings.Split(v, ",") {
			prefix, err := provider.ParsePrefix(entry)
			if err != nil {
				l.fault("entry %d of %s is neither an IP address nor a network like 192.0.2.0/24", i+1, variable)
				continue
			}
			src.AllowedFrom = append(src.AllowedFrom, prefix)
		}
	}
	_, src.Beneficiary = get("BENEFICIARY")
	if variable, v := get("BENEFICIARY_PATTERN"); v != "" {
		pattern, err := regexp.Compile(v)
		switch {
		case err != nil:
			l.fault("%s is not a regular expression in Go's syntax", variable)
		case pattern.NumSubexp() != 1:
			l.fault("%s has %d groups; put exactly one pair of parentheses round the part of the reference that names the owner", variable, pattern.NumSubexp())
		}
		src.BeneficiaryPattern = pattern
	}
	return ok
}

// badBase says what is wrong with an API address, without repeating it.
func badBase(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return "is not an absolute address like https://api.example.com/v1"
	case u.User != nil:
		return "contains a user name or password; remove them, the key has its own setting"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "has a query or a fragment; give the address up to the path only"
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return "is plain http, which would show the API key to the network; use https (http is for addresses of this machine only)"
	}
	return ""
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// secrets reads the credentials of a source. It returns false when one of
// them could not be read, since what is built without them would complain
// about the wrong thing.
func (l *loader) secrets(src *provider.Source) bool {
	before := len(l.faults)
	variable, text := l.secret(*src, "WEBHOOK_SECRETS")
	if text != "" {
		for i, s := range strings.Split(text, ",") {
			s = strings.TrimSpace(s)
			switch {
			case s == "":
				l.fault("entry %d of %s is empty; remove the extra comma, an empty secret would let anybody in", i+1, variable)
			case strings.ContainsFunc(s, unicode.IsControl):
				l.fault("entry %d of %s contains a line break or another control character; separate secrets by commas", i+1, variable)
			}
			src.WebhookSecrets = append(src.WebhookSecrets, provider.Secret(s))
		}
	}
	variable, key := l.secret(*src, "API_KEY")
	if strings.ContainsFunc(key, unicode.IsControl) || strings.TrimSpace(key) != key {
		l.fault("%s contains a line break, another control character or outer spaces; it is one key", variable)
	}
	src.APIKey = provider.Secret(key)
	return len(l.faults) == before
}

// secret reads a credential from its variable, or from the file that
// <variable>_FILE names, and says which of the two it was.
func (l *loader) secret(src provider.Source, setting string) (variable, text string) {
	variable = src.Variable(setting)
	text = l.env(variable)
	path := l.env(variable + "_FILE")
	if path == "" {
		return variable, text
	}
	if text != "" {
		l.fault("%s and %s_FILE are both set; keep one", variable, variable)
		return variable, ""
	}
	variable += "_FILE"
	held, err := l.file(path)
	if err != nil {
		// The path stays out of the text: somebody may have put the secret
		// itself there.
		l.fault("%s names a file that cannot be read; check the mount and its permissions", variable)
		return variable, ""
	}
	text = strings.TrimSuffix(strings.TrimSuffix(held, "\n"), "\r")
	if strings.TrimSpace(text) == "" {
		l.fault("%s names a file without a secret in it", variable)
	}
	return variable, text
}

// file reads a file once for a pass, and has it watched.
func (l *loader) file(path string) (string, error) {
	if held, seen := l.files[path]; seen {
		return held, nil
	}
	b, err := l.readFile(path)
	if err != nil {
		return "", err
	}
	l.files[path] = string(b)
	return string(b), nil
}
