package provider

import (
	"strings"
	"testing"
)

func TestSecretsThatLetEverybodyInAreRefused(t *testing.T) {
	t.Parallel()
	const good = "a-secret-of-some-length"
	for name, secrets := range map[string][]Secret{
		"none":              nil,
		"one of no length":  {""},
		"an empty second":   {good, ""},
		"blank":             {"        "},
		"shorter than said": {"short"},
		"with outer spaces": {good + " "},
	} {
		s := Source{Provider: "gw", WebhookSecrets: secrets}
		if err := s.CheckSecrets(8); err == nil || !strings.Contains(err.Error(), "GW_WEBHOOK_SECRETS") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (Source{Provider: "gw", WebhookSecrets: []Secret{good, good + "2"}}).CheckSecrets(8); err != nil {
		t.Error(err)
	}
}
