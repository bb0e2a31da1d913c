package e2e

import (
	"maps"
	"strings"
)

// worldSettings configure all accounts of each gateway.
func worldSettings(apiBase string) map[string]string {
	env := map[string]string{"ENVIRONMENT": "production"}
	var sources []string
	for _, g := range gateways {
		for _, a := range g.accounts {
			sources = append(sources, sourceName(g, a))
			own := map[string]string{"WEBHOOK_SECRETS": strings.Join(secretsOf(g, a), ","), "BENEFICIARY_PATTERN": `^([^:]+):.`}
			if !g.noAPI {
				maps.Copy(own, map[string]string{
					"API_KEY": apiKeyOf(g, a), "API_BASE": apiBase + "/" + g.String() + g.base, "LOOKUP_RATE": "100000", "LOOKUP_LAG": "2s",
				})
			}
			if g.settings != nil {
				maps.Copy(own, g.settings(apiBase+"/"+g.String(), a))
			}
			for name, value := range own {
				if value != "" {
					env[variable(g, a, name)] = value
				}
			}
		}
	}
	env["SOURCES"] = strings.Join(sources, ",")
	return env
}
