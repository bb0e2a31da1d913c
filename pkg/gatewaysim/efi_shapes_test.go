package gatewaysim_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

// What the contract says of the fields of an item, path by path.
var efiShapes = map[string]*regexp.Regexp{
	"endToEndId":                       regexp.MustCompile(`^E[0-9A-Za-z]{31}$`),
	"txid":                             regexp.MustCompile(`^[0-9A-Za-z]{26,35}$`),
	"chave":                            regexp.MustCompile(`.`),
	"valor":                            regexp.MustCompile(`^[0-9]+\.[0-9]{2}$`),
	"horario":                          regexp.MustCompile(`^2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z$`),
	"devolucoes.0.id":                  regexp.MustCompile(`^[0-9A-Za-z]{1,35}$`),
	"devolucoes.0.rtrId":               regexp.MustCompile(`^D[0-9A-Za-z]{31}$`),
	"devolucoes.0.valor":               regexp.MustCompile(`^[0-9]+\.[0-9]{2}$`),
	"devolucoes.0.status":              regexp.MustCompile(`^(EM_PROCESSAMENTO|DEVOLVIDO|NAO_REALIZADO)$`),
	"devolucoes.0.horario.solicitacao": regexp.MustCompile(`Z$`),
	"gnExtras.tarifa":                  regexp.MustCompile(`^[0-9]+\.[0-9]{2}$`),
	"gnExtras.idEnvio":                 regexp.MustCompile(`^[0-9A-Za-z]+$`),
	"tipo":                             regexp.MustCompile(`^SOLICITACAO$`),
	"status":                           regexp.MustCompile(`^(REALIZADO|NAO_REALIZADO)$`),
}

func TestEfisItemsHaveTheFieldsOfTheContract(t *testing.T) {
	t.Parallel()
	sim, _ := newEfi(t, gatewaysim.Config{Seed: 8, Payments: 300})
	seen := map[string]int{}
	all := sim.Deliveries()
	for i := range all {
		d := &all[i]
		sent := d.Request(time.Now(), 0)
		list, ok := decode(t, sent.Body)["pix"].([]any)
		if !ok || len(list) == 0 {
			t.Fatalf("no items: %s", sent.Body)
		}
		for _, item := range list {
			for path, shape := range efiShapes {
				v, there := at(item, path)
				if !there || v == nil {
					continue
				}
				if seen[path]++; !shape.MatchString(v.(string)) {
					t.Errorf("%s is %v", path, v)
				}
			}
			_, payout := at(item, "tipo")
			if _, txid := at(item, "txid"); txid == payout {
				t.Errorf("tipo %v, txid %v: %v", payout, txid, item)
			}
		}
		if got := strings.Count(string(sent.Body), string(sent.Part)); got != 1 && len(list) == 1 {
			t.Errorf("the event's own part is in its body %d times", got)
		}
	}
	for path := range efiShapes {
		if seen[path] == 0 {
			t.Errorf("%s never occurs", path)
		}
	}
}

// What the address looks like that Efí calls, by where the token was put.
func TestEfisAddressesEndInTheSuffix(t *testing.T) {
	t.Parallel()
	sim, _ := newEfi(t, gatewaysim.Config{Seed: 8, Payments: 60})
	const secret = "-0123456789abcdef0123456789abcdef"
	want := map[string]string{
		"efi":       "/webhooks/efi/sim-path" + secret + "/pix",
		"efi/loja2": "/webhooks/efi/loja2?hmac=sim-query" + secret + "&ignorar=/pix",
		"efi/loja3": "/webhooks/efi/loja3?hmac=sim-query-without-ignorar" + secret + "/pix",
	}
	for source, target := range want {
		sent, path, ok := sim.Sign(source, []byte(`{"pix":[]}`), time.Now())
		if got := sent.Target(path); !ok || got != target {
			t.Errorf("%s: %s, want %s", source, got, target)
		}
	}
}

// A request that is sent again is the same to the byte, riders and all.
func TestEfisDuplicatesAreEqual(t *testing.T) {
	t.Parallel()
	sim, _ := newEfi(t, gatewaysim.Config{Seed: 8, Payments: 200, Shares: gatewaysim.Shares{Duplicates: 1, Concurrent: .3}})
	type place struct{ payment, step int }
	first, compared := map[place]string{}, 0
	all := sim.Deliveries()
	for i := range all {
		if d := &all[i]; d.Kind == gatewaysim.DeliveryFirst {
			first[place{d.Payment, d.Step}] = string(d.Request(time.Now(), 0).Body)
		}
	}
	for i := range all {
		d := &all[i]
		if d.Kind != gatewaysim.DeliveryDuplicate && d.Kind != gatewaysim.DeliveryConcurrent {
			continue
		}
		compared++
		if got := string(d.Request(time.Now(), 1).Body); got != first[place{d.Payment, d.Step}] {
			t.Errorf("sent again as %s", got)
		}
	}
	if compared == 0 {
		t.Error("there are no duplicates")
	}
}
