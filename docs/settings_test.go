// Package docs_test keeps the documents true where a test can.
package docs_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/daemon"
	"github.com/umavez/umavez/pkg/ingest"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/processor"
	"github.com/umavez/umavez/pkg/provider/registry"
	"github.com/umavez/umavez/pkg/queue"
	"github.com/umavez/umavez/pkg/sweeper"
)

// readmes both have the table of settings.
var readmes = []string{"../README.md", "../README.pt-BR.md"}

// rooms are the settings of all rooms.
var rooms = []any{
	daemon.Config{}, postgres.Config{}, queue.Config{}, queue.PublisherConfig{},
	ingest.Config{}, processor.Config{}, sweeper.Config{},
}

// tags gathers name and default of every setting of a struct and of those
// within it.
func tags(t reflect.Type, into map[string]string) {
	for f := range t.Fields() {
		if name := f.Tag.Get("envconfig"); name != "" {
			into[name] = f.Tag.Get("default")
		} else if f.Type.Kind() == reflect.Struct {
			tags(f.Type, into)
		}
	}
}

func roomSettings() map[string]string {
	known := map[string]string{}
	for _, c := range rooms {
		tags(reflect.TypeOf(c), known)
	}
	return known
}

// row is a line of a table whose first cell is a setting: its name, and its
// default in the second cell.
var row = regexp.MustCompile("(?m)^\\| `([A-Z<][A-Z0-9_<>]*)` \\|([^|]*)\\|")

func tableOf(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		if _, twice := rows[m[1]]; twice {
			t.Errorf("%s explains %s twice", file, m[1])
		}
		rows[m[1]] = strings.Trim(strings.TrimSpace(m[2]), "`")
	}
	return rows
}

// of no room: they belong to the registry of gateways.
var registrySettings = map[string]string{"SOURCES": "", "ENVIRONMENT": "production"}

func TestTheReadmesExplainEverySettingWithItsDefault(t *testing.T) {
	t.Parallel()
	known := roomSettings()
	for name, value := range registrySettings {
		known[name] = value
	}
	sources := sourceSettings(t)
	for _, file := range readmes {
		rows := tableOf(t, file)
		for name, value := range known {
			got, ok := rows[name]
			switch {
			case !ok:
				t.Errorf("%s does not explain %s", file, name)
			case got != value:
				t.Errorf("%s says that %s is %q unless set; the code says %q", file, name, got, value)
			}
		}
		for name := range sources {
			if _, ok := rows[name]; !ok && strings.HasPrefix(name, "<SOURCE>_") {
				t.Errorf("%s does not explain %s", file, name)
			}
		}
		for name := range rows {
			if _, room := known[name]; !room && !sources[name] {
				t.Errorf("%s explains %s, which nothing reads", file, name)
			}
		}
	}
}

func TestThePageOfGatewaysExplainsEverySettingOfEachAndNoOther(t *testing.T) {
	t.Parallel()
	rows, sources := tableOf(t, gatewaysPage), sourceSettings(t)
	for name := range sources {
		if _, ok := rows[name]; !ok && !strings.HasPrefix(name, "<SOURCE>_") {
			t.Errorf("%s does not explain %s", gatewaysPage, name)
		}
	}
	for name := range rows {
		if !sources[name] {
			t.Errorf("%s explains %s, which nothing reads", gatewaysPage, name)
		}
	}
}

var tag = regexp.MustCompile("envconfig:\"([A-Z][A-Z0-9_]*)\"")

// A Config that is forgotten in the list above would go unexplained.
func TestEverySettingOfTheCodeBelongsToARoomOfTheList(t *testing.T) {
	t.Parallel()
	known, found := roomSettings(), 0
	for _, dir := range []string{"../pkg", "../cmd"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range tag.FindAllStringSubmatch(string(text), -1) {
				found++
				if _, ok := known[m[1]]; !ok {
					t.Errorf("%s reads %s, and its Config is not in the list of this test", path, m[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 40 {
		t.Fatalf("only %d settings found in the code", found)
	}
}

// everything is a configuration of each gateway in which all of its settings
// are looked at.
var everything = map[string]string{
	"SOURCES": "stripe,asaas,pagpolar,pagarme,mercadopago,zoop,standardwebhooks,pagbank,efi,iugu",

	"PAGARME_AUTH": "signature,basic", "PAGARME_WEBHOOK_SECRETS": "hookuser:hookpass-0001", "PAGARME_ACCOUNT_ID": "acc_1",
	"PAGARME_API_KEY":             "sk_0123456789",
	"MERCADOPAGO_WEBHOOK_SECRETS": "0123456789abcdef0123456789abcdef", "MERCADOPAGO_API_KEY": "APP_USR-0123456789",
	"ZOOP_WEBHOOK_SECRETS": "0123456789abcdef0123456789abcdef", "ZOOP_API_KEY": "zpk_prod_0123456789", "ZOOP_MARKETPLACE_ID": "0123456789abcdef",
	"STANDARDWEBHOOKS_WEBHOOK_SECRETS": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
	"PAGBANK_WEBHOOK_SECRETS":          "0123456789abcdef-token", "PAGBANK_API_KEY": "0123456789abcdef-token",
	"PAGBANK_EMAIL": "loja@example.com", "PAGBANK_NOTIFICATION_SECRET": "0123456789abcdef",
	"EFI_AUTH": "skip-mtls", "EFI_WEBHOOK_SECRETS": "0123456789abcdef0123456789abcdef", "EFI_CLIENT_ID": "Client_Id_1",
	"EFI_API_KEY": "Client_Secret_1",
	"IUGU_AUTH":   "header", "IUGU_WEBHOOK_SECRETS": "0123456789abcdef0123456789abcdef", "IUGU_API_KEY": "0123456789abcdef0123456789abcdef",

	"STRIPE_WEBHOOK_SECRETS":       "whsec_0123456789",
	"STRIPE_API_KEY":               "rk_0123456789",
	"ASAAS_WEBHOOK_SECRETS":        "0123456789abcdef0123456789abcdef",
	"ASAAS_API_KEY":                "key",
	"PAGPOLAR_WEBHOOK_SECRETS":     "0123456789",
	"PAGPOLAR_API_KEY":             "key",
	"PAGPOLAR_API_BASE":            "https://api.example.com",
	"PAGPOLAR_API_AUTH":            "Authorization: Bearer {key}",
	"PAGPOLAR_SALE_ID_PATH":        "id",
	"PAGPOLAR_STATUS_PATH":         "status",
	"PAGPOLAR_STATUS_MAP":          "PAID=paid",
	"PAGPOLAR_AMOUNT_PATH":         "amount",
	"PAGPOLAR_AMOUNT_UNIT":         "minor",
	"PAGPOLAR_CURRENCY":            "BRL",
	"PAGPOLAR_REFUNDS_LIST_PATH":   ".",
	"PAGPOLAR_REFUND_ID_PATH":      "id",
	"PAGPOLAR_REFUND_AMOUNT_PATH":  "amount",
	"PAGPOLAR_REFUND_STATUS_PATH":  "status",
	"PAGPOLAR_REFUND_STATUS_MAP":   "DONE=succeeded",
	"PAGPOLAR_BENEFICIARY_PATTERN": "^([a-z]+)",
}

// sourceSettings asks the gateways' own code: what all of them read is
// <SOURCE>_..., the rest goes by the gateway's name.
func sourceSettings(t *testing.T) map[string]bool {
	t.Helper()
	asked, settings := map[string]bool{}, withCertificate(t)
	_, err := registry.Load(func(name string) (string, bool) {
		asked[name] = true
		v, ok := settings[name]
		return v, ok
	})
	if err != nil {
		t.Fatal(err)
	}
	gateways := strings.Split(strings.ToUpper(everything["SOURCES"]), ",")
	if len(gateways) != len(registry.Factories()) {
		t.Fatalf("the test knows %d gateways, the registry %d", len(gateways), len(registry.Factories()))
	}
	found := map[string]bool{}
	for name := range asked {
		if _, ok := registrySettings[name]; ok {
			continue
		}
		gateway, setting, _ := strings.Cut(name, "_")
		common := true
		for _, g := range gateways {
			common = common && asked[g+"_"+setting]
		}
		if common {
			gateway = "<SOURCE>"
		}
		found[gateway+"_"+setting] = true
	}
	return found
}

// withCertificate is everything, with a client certificate for the gateway
// whose API wants one.
func withCertificate(t *testing.T) map[string]string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "client.pem")
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	settings := maps.Clone(everything)
	settings["EFI_CERTIFICATE_FILE"] = file
	return settings
}
