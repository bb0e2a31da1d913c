package app

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/umavez/umavez/pkg/daemon"
	"github.com/umavez/umavez/pkg/explain"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/registry"
)

// ExplainSources builds the sources that an explanation may try: the one that
// is named, else those of SOURCES, else every gateway with a webhook secret in
// the environment. Lookups are not made, so their settings may be missing.
func ExplainSources(only string) ([]explain.Candidate, error) {
	names := strings.Split(os.Getenv("SOURCES"), ",")
	switch {
	case only != "":
		names = []string{only}
	case strings.TrimSpace(os.Getenv("SOURCES")) == "":
		names = withSecrets()
	}
	if len(names) == 0 {
		return nil, &daemon.ConfigError{Err: errors.New("no source to try: name one with --source, and set its secrets, for example ASAAS_WEBHOOK_SECRETS")}
	}
	var candidates []explain.Candidate
	var faults []error
	for _, name := range names {
		set, err := registry.Load(explainEnv(strings.TrimSpace(name)))
		if err != nil {
			faults = append(faults, err)
			continue
		}
		for _, e := range set.Entries() {
			candidates = append(candidates, explain.Candidate{Source: e.Source, Provider: e.Provider})
		}
	}
	if len(candidates) == 0 {
		return nil, &daemon.ConfigError{Err: distinct(faults...)}
	}
	return candidates, nil
}

func withSecrets() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(registry.Factories())) {
		variable := provider.Source{Provider: name}.Variable("WEBHOOK_SECRETS")
		if os.Getenv(variable) != "" || os.Getenv(variable+"_FILE") != "" {
			names = append(names, name)
		}
	}
	return names
}

// explainEnv is the environment with one source and, where it has no key to
// ask with, its consent to do without.
func explainEnv(name string) func(string) (string, bool) {
	gateway, account, _ := strings.Cut(name, "/")
	src := provider.Source{Provider: gateway, Account: account}
	key := src.Variable("API_KEY")
	bare := os.Getenv(key) == "" && os.Getenv(key+"_FILE") == ""
	return func(variable string) (string, bool) {
		switch {
		case variable == "SOURCES":
			return name, true
		case bare && variable == src.Variable("LOOKUP"):
			return string(provider.LookupNever), true
		case bare && variable == src.Variable("UNSAFE_TRUST_BODY"):
			return "true", true
		}
		return os.LookupEnv(variable)
	}
}
