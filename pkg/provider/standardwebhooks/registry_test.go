package standardwebhooks_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/registry"
	"github.com/umavez/umavez/pkg/provider/standardwebhooks"
)

// A gateway that nobody knows is connected by an account and a file, with no
// code: here from the variables and the disk, as the binaries do it.
func TestAnUnknownGatewayIsConnectedByAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "canary-acme.json")
	settings := map[string]string{
		"SOURCES": "standardwebhooks/acme,standardwebhooks", "STANDARDWEBHOOKS_ACME_MAPPING_FILE": file,
		"STANDARDWEBHOOKS_ACME_WEBHOOK_SECRETS": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=, whpk_Kay64UG8yvCyLhqU000LxzYeUm0L/hLIl5S8kyKWbdc=",
		"STANDARDWEBHOOKS_WEBHOOK_SECRETS":      "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
	}
	load := func(content string) (*registry.Set, error) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return registry.LoadWith(func(name string) (string, bool) { v, ok := settings[name]; return v, ok },
			map[string]provider.Factory{"standardwebhooks": standardwebhooks.New})
	}
	set, err := load(`{
		"type_path": "kind", "payment_id_path": {"refund.*": "of", "*": "order.id"},
		"events": {"order.paid": "paid", "refund.done": "refund", "order.*": "none"},
		"amount_path": "order.total", "amount_unit": "decimal", "currency": "BRL",
		"refund_id_path": "id", "refund_amount_path": "total"
	}`)
	if err != nil {
		t.Fatal(err)
	}
	acme, src, ok := set.Lookup("standardwebhooks", "acme")
	if !ok || src.Name() != "standardwebhooks/acme" {
		t.Fatal("the source is missing")
	}
	m := acme.Parse(provider.Request{Body: []byte(`{"kind":"refund.done","of":"o-1","id":"r-1","total":1.5}`)})[0]
	if m.Disposition != provider.Process || m.PaymentRef != "o-1" || acme.Traits().CanLookup {
		t.Errorf("%+v", m)
	}
	plain, _, _ := set.Lookup("standardwebhooks", "")
	if m := plain.Parse(provider.Request{Body: []byte(`{"type":"payment.paid","data":{"payment_id":"p"}}`)})[0]; m.PaymentRef != "p" {
		t.Errorf("the plain account has lost its profile: %+v", m)
	}
	if _, ok := provider.As[provider.Explainer](acme); !ok {
		t.Error("a signature that nobody can explain")
	}
	for _, content := range []string{`{"type_path":"canary"}`, `{"canary":1}`, "canary"} {
		if _, err := load(content); err == nil || !strings.Contains(err.Error(), "STANDARDWEBHOOKS_ACME_") || strings.Contains(strings.ReplaceAll(err.Error(), "setting: canary", ""), "canary") {
			t.Errorf("%s: %v", content, err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	settings["STANDARDWEBHOOKS_ACME_MAPPING_FILE"] = file + ".gone"
	if _, err := load("{}"); err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "STANDARDWEBHOOKS_ACME_MAPPING_FILE") {
		t.Errorf("a missing file: %v", err)
	}
}
