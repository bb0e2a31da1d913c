package e2e

import (
	"maps"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/postgres/postgrestest"
)

func TestCase_A23_AnIngestThatCouldBeOpenToAnybodyDoesNotStart(t *testing.T) {
	env := worldSettings("http://127.0.0.1:1")
	maps.Copy(env, map[string]string{"DATABASE_URL": postgrestest.URL(t), "NATS_URL": "nats://127.0.0.1:1", "INGEST_ADDR": "127.0.0.1:0", "ADMIN_ADDR": "off"})
	const secret = "canary-secret-0123456789-0123456789"
	changes := map[string]struct {
		env  map[string]string
		says string
	}{
		"no source":                         {map[string]string{"SOURCES": ""}, "SOURCES"},
		"an unknown gateway":                {map[string]string{"SOURCES": "stripe,none"}, "none"},
		"an unknown scheme":                 {map[string]string{"SOURCES": "hmac"}, "hmac"},
		"certificates that nobody verifies": {map[string]string{"EFI_AUTH": "mtls"}, "INGEST_TLS_CLIENT_CA_FILE"},
	}
	for _, g := range gateways {
		for _, c := range g.open {
			changes[g.String()+" "+c.what] = struct {
				env  map[string]string
				says string
			}{c.env, c.says}
		}
		if g.published {
			continue
		}
		variable := variable(g, g.home(), "WEBHOOK_SECRETS")
		for name, value := range map[string]string{
			"without a secret": "", "with a blank secret": "   ", "with an empty secret in its list": secret + ",", "with a short secret": "x",
			"with a line break in its secret": secret + "\nx",
		} {
			changes[g.String()+" "+name] = struct {
				env  map[string]string
				says string
			}{map[string]string{variable: value}, variable}
		}
	}
	for name, c := range changes {
		changed := maps.Clone(env)
		maps.Copy(changed, c.env)
		out, errs, code := run(t, "ingest", changed)
		if code != 2 || !strings.Contains(errs, c.says) {
			t.Errorf("%s: code %d, %q; want 2 and a line about %s", name, code, tail(errs, 600), c.says)
		}
		if strings.Contains(out+errs, "canary-secret") {
			t.Errorf("%s: the secret is shown", name)
		}
	}
}
