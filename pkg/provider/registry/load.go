package registry

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/provider"
)

// loader is one pass over the settings; it collects faults as it goes.
type loader struct {
	getenv    func(string) (string, bool)
	factories map[string]provider.Factory
	readFile  func(string) ([]byte, error)

	files  map[string]string
	asked  map[string]map[string]bool // provider -> the settings of its own that it asked for
	faults []error
}

func (l *loader) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Errorf(format, args...))
}

// env reads a variable; unset and empty are the same.
func (l *loader) env(variable string) string {
	v, _ := l.getenv(variable)
	return strings.TrimSpace(v)
}

func (l *loader) run() (*snapshot, error) {
	l.asked = map[string]map[string]bool{}
	production := l.production()
	names := l.names()
	var entries []Entry
	for _, n := range names {
		if e, ok := l.source(n, production); ok {
			entries = append(entries, e)
		}
	}
	l.refuseAmbiguous(names)
	if len(l.faults) > 0 {
		return nil, errors.Join(l.faults...)
	}
	return newSnapshot(entries, l.files), nil
}

func (l *loader) production() bool {
	switch l.env("ENVIRONMENT") {
	case "", "production":
		return true
	case "sandbox":
		return false
	}
	l.fault("ENVIRONMENT is neither production (test events are ignored) nor sandbox")
	return true
}

func (l *loader) known() string {
	return strings.Join(slices.Sorted(maps.Keys(l.factories)), ", ")
}

// names reads SOURCES. Faulty entries are reported and left out.
func (l *loader) names() []name {
	text := l.env("SOURCES")
	if text == "" {
		l.fault("SOURCES is not set: list the accounts to take webhooks from, for example SOURCES=stripe,asaas,stripe/loja2; known gateways: %s", l.known())
		return nil
	}
	var names []name
	for i, entry := range strings.Split(text, ",") {
		entry = strings.TrimSpace(entry)
		p, a, hasAccount := strings.Cut(entry, "/")
		if !hasAccount {
			a = provider.DefaultAccount
		}
		n := name{p, a}
		switch {
		case entry == "":
			l.fault("SOURCES: entry %d is empty; remove the extra comma", i+1)
		case !event.NamePattern.MatchString(p) || !event.NamePattern.MatchString(a):
			l.fault("SOURCES: entry %d, %.80q, is not <gateway> or <gateway>/<account>, each up to 32 of the characters a-z, 0-9, _ and -, beginning with a letter or digit", i+1, entry)
		case l.factories[p] == nil:
			l.fault("SOURCES: entry %d, %q: unknown gateway; known are %s", i+1, entry, l.known())
		case slices.Contains(names, n):
			l.fault("SOURCES: entry %d, %q, occurs twice; list each account once", i+1, entry)
		default:
			names = append(names, n)
		}
	}
	return names
}

// source reads the settings of one source and builds its provider.
func (l *loader) source(n name, production bool) (Entry, bool) {
	before := len(l.faults)
	src := provider.Source{Provider: n.provider, Account: n.account, Production: production}
	secrets, lookup := l.secrets(&src), l.common(&src)
	if !secrets {
		return Entry{}, false
	}
	// What the gateway's code asks for while it is built is noted, since the
	// name of another account must not hide one of those variables.
	noting, asked := true, l.askedOf(n.provider)
	src.Setting = func(setting string) string {
		if noting {
			asked[setting] = true
		}
		v, _ := l.getenv(src.Variable(setting))
		return strings.TrimSpace(v)
	}
	src.File = func(setting string) ([]byte, error) {
		path := src.Setting(setting)
		if path == "" {
			return nil, fmt.Errorf("%s is not set", src.Variable(setting))
		}
		text, err := l.file(path)
		if err != nil {
			return nil, fmt.Errorf("%s names a file that cannot be read; check the mount and its permissions", src.Variable(setting))
		}
		return []byte(text), nil
	}
	p, err := l.factories[n.provider](src)
	noting = false
	switch {
	case err != nil:
		l.faults = append(l.faults, err)
	case p == nil:
		l.fault("source %s: the gateway's code built nothing", src.Name())
	case len(src.WebhookSecrets) == 0 && !p.Traits().OtherCredentials:
		l.fault("source %s: %s is not set; without it anybody could send webhooks", src.Name(), src.Variable("WEBHOOK_SECRETS"))
	case lookup:
		l.checkLookup(src, p.Traits())
	}
	return Entry{Source: src, Provider: &quiet{p, src.Name()}}, len(l.faults) == before
}

func (l *loader) askedOf(gateway string) map[string]bool {
	if l.asked[gateway] == nil {
		l.asked[gateway] = map[string]bool{}
	}
	return l.asked[gateway]
}
