package gatewaysim_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/provider"
)

func TestPagBanksDigestIsThatOfTheContract(t *testing.T) {
	t.Parallel()
	const token = "EXAMPLE-TOKEN-0001"
	sim := newSim(t, gatewaysim.Config{Seed: 5, Payments: 1, Gateways: []string{"pagbank"},
		Credentials: map[string]gatewaysim.Credentials{"pagbank": {WebhookSecrets: []string{token}}}})
	body := []byte(`{"id":"ORDE_00000000-0000-4000-8000-000000000001","reference_id":"PED-1001","charges":[{"id":"CHAR_00000000-0000-4000-8000-000000000002","status":"PAID","amount":{"value":14990,"currency":"BRL"}}]}`)
	sent, path, ok := sim.Sign("pagbank", body, time.Now())
	if got := sent.Header.Get("x-authenticity-token"); !ok || path != "/webhooks/pagbank" || got != "d7b879dd50591f96a7ab877e606f4107e7da6f1f56b3d7a6588041aac6f74e18" {
		t.Errorf("%s %q", path, got)
	}
	sum := sha256.Sum256([]byte(token + "-" + "{}"))
	if sent, _, _ = sim.Sign("pagbank", []byte("{}"), time.Now()); sent.Header.Get("x-authenticity-token") != hex.EncodeToString(sum[:]) {
		t.Error("another digest than that of token, hyphen and body")
	}
	form, _, _ := sim.Sign("pagbank", []byte("notificationCode=1&notificationType=transaction"), time.Now())
	if form.Header.Get("x-authenticity-token") != "" || form.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || len(form.Suffix) < 16 {
		t.Errorf("%+v", form)
	}
}

// get asks the simulated API and returns status, content type and body.
func (w *pagbankWorld) get(path, key string) (int, string, []byte) {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodGet, w.api+"/pagbank/"+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", key)
	}
	resp, err := w.http.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), body
}

func TestPagBanksAPIAnswersWhoeverHasTheTokenAndNobodyElse(t *testing.T) {
	t.Parallel()
	w := newPagBank(t, gatewaysim.Config{Seed: 9, Payments: 80})
	c, _ := w.sim.Credentials("pagbank")
	truth := w.sim.Truth()
	bearer := "Bearer " + c.APIKey
	if status, _, _ := w.get("charges/"+truth[0].ID, bearer); status != http.StatusNotFound {
		t.Errorf("a charge that is not public yet: %d", status)
	}
	w.sim.PublishAll()
	codes, orders := map[string]int{}, map[string]bool{}
	all := w.sim.Deliveries()
	number := regexp.MustCompile(`<status>(\d)</status>`)
	for i := range all {
		d := &all[i]
		body := d.Request(time.Now(), 0).Body
		if d.EventID == "" {
			if id, _ := at(decode(t, body), "id"); strings.HasPrefix(fmt.Sprint(id), "ORDE_") {
				orders[fmt.Sprint(id)] = true
			}
			continue
		}
		status, kind, answered := w.get("v3/transactions/notifications/"+d.EventID+"?email=loja@example.com&token="+c.APIKey, "")
		if status != http.StatusOK || kind != "application/xml;charset=ISO-8859-1" || !strings.Contains(string(answered), "Jo\xe3o") {
			t.Fatalf("%s: %d %s %s", d.EventType, status, kind, answered)
		}
		codes[number.FindStringSubmatch(string(answered))[1]]++
		for _, query := range []string{"", "?email=loja@example.com", "?token=" + c.APIKey, "?email=x@example.com&token=" + c.APIKey, "?email=loja@example.com&token=x"} {
			if status, _, _ := w.get("v3/transactions/notifications/"+d.EventID+query, bearer); status != http.StatusUnauthorized {
				t.Errorf("with %q: %d", query, status)
			}
		}
	}
	for _, n := range []string{"4", "6", "7", "8"} {
		if codes[n] == 0 {
			t.Errorf("no transaction of status %s: %v", n, codes)
		}
	}
	for id := range orders {
		if status, _, body := w.get("orders/"+id, bearer); status != http.StatusOK || !strings.Contains(string(body), id) {
			t.Errorf("order: %d %s", status, body)
		}
		if status, _, _ := w.get("charges/"+id, bearer); status != http.StatusNotFound {
			t.Errorf("an order in the place of a charge: %d", status)
		}
	}
	for _, key := range []string{"", c.APIKey, "Bearer ", "Bearer x", "bearer " + c.APIKey} {
		if status, _, _ := w.get("charges/"+truth[0].ID, key); status != http.StatusUnauthorized {
			t.Errorf("%q: %d", key, status)
		}
	}
	if status, _, _ := w.get("v3/transactions/notifications/"+strings.Repeat("0", 38)+"?email=loja@example.com&token="+c.APIKey, ""); status != http.StatusNotFound {
		t.Errorf("a code of nobody: %d", status)
	}
}

func TestPagBanksBodiesCanBeEdited(t *testing.T) {
	t.Parallel()
	w := newPagBank(t, gatewaysim.Config{Seed: 9, Payments: 80})
	all := w.sim.Deliveries()
	tried := map[string]bool{}
	for i := range all {
		d := &all[i]
		object, _, _ := strings.Cut(d.EventType, ".")
		to, changes := map[string]string{"order.PAID": "order.CANCELED", "charge.PAID": "charge.CANCELED"}[d.EventType]
		if object == "transaction" {
			to = d.EventType
		}
		if changes || object == "transaction" {
			before := d.Request(time.Now(), 0).Body
			after, err := d.Edit(before, to, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			p, _, _ := w.set.Lookup("pagbank", "")
			a, b := p.Parse(provider.Request{Body: before})[0], p.Parse(provider.Request{Body: after})[0]
			if (a.DedupeKey == b.DedupeKey) != (object == "transaction") || b.Disposition != provider.Process || object != "transaction" && b.Type != to {
				t.Errorf("%s became %s: %s", d.EventType, b.Type, after)
			}
			tried[object] = true
		}
	}
	if len(tried) != 3 {
		t.Errorf("only %v were edited", tried)
	}
}
