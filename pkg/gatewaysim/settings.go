package gatewaysim

import (
	"strings"
	"time"
)

// Settings are the environment variables by which umavez takes webhooks from
// this simulator and asks its API. apiBase is the address of APIHandler,
// without a path, for example "http://127.0.0.1:8181".
func (s *Sim) Settings(apiBase string) map[string]string {
	apiBase = strings.TrimRight(apiBase, "/")
	// A reader must allow for more lag than the replicas have.
	lag := 2 * time.Second
	if s.cfg.API.Stale > 0 {
		lag = max(lag, s.cfg.API.StaleFor+time.Second)
	}
	all := map[string]string{"SOURCES": strings.Join(s.cfg.Gateways, ","), "ENVIRONMENT": "production"}
	for _, a := range s.accounts {
		prefix := upper(a.gateway.name()) + "_"
		if a.name != "default" {
			prefix += upper(a.name) + "_"
		}
		for name, value := range map[string]string{
			"WEBHOOK_SECRETS":     strings.Join(a.WebhookSecrets, ","),
			"API_KEY":             a.APIKey,
			"API_BASE":            apiBase,
			"LOOKUP":              "always",
			"LOOKUP_RATE":         "100000",
			"LOOKUP_LAG":          lag.String(),
			"BENEFICIARY_PATTERN": `^([^:]+):.`,
		} {
			all[prefix+name] = value
		}
		for name, value := range a.gateway.settings(a, apiBase) {
			all[prefix+name] = value
		}
	}
	return all
}

func upper(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "-", "_")) }
