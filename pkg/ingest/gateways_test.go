package ingest_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/ingest"
	"github.com/umavez/umavez/pkg/provider/registry"
)

// The real gateways, through the whole room: new, again, unreadable, forged.
func TestCase_D11_EveryGatewayGetsItsOwnAnswers(t *testing.T) {
	t.Parallel()
	const (
		secret = "whsec_test_0123456789abcdefghijklmnopqrstuv"
		old    = "whsec_test_old_0123456789abcdefghijklmnopqr"
	)
	env := map[string]string{"ENVIRONMENT": "production", "SOURCES": "stripe,asaas,pagpolar,stripe/loja2",
		"STRIPE_WEBHOOK_SECRETS": old + "," + secret, "STRIPE_LOJA2_WEBHOOK_SECRETS": "whsec_test_of_the_other_account_0123456789",
		"ASAAS_WEBHOOK_SECRETS": old + "," + secret, "PAGPOLAR_WEBHOOK_SECRETS": old + "," + secret, "PAGPOLAR_UNSAFE_TRUST_BODY": "true"}
	set, err := registry.Load(func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(_ *ingest.Config, p *ingest.Parts) { p.Sources = set })
	stripe := func(key string, body []byte) (string, string) {
		at := time.Now().Unix()
		mac := hmac.New(sha256.New, []byte(key))
		fmt.Fprintf(mac, "%d.%s", at, body)
		return "Stripe-Signature", fmt.Sprintf("t=%d,v1=%s", at, hex.EncodeToString(mac.Sum(nil)))
	}
	gateways := map[string]struct {
		credential func(key string, body []byte) (header, value string)
		body       string
		refusal    int
	}{
		"stripe":   {stripe, `{"id":"evt_1","object":"event","type":"charge.updated","created":1767225600,"livemode":true,"data":{"object":{"id":"ch_1","object":"charge"}}}`, 400},
		"asaas":    {func(key string, _ []byte) (string, string) { return "asaas-access-token", key }, `{"id":"evt_05b708f961d739ea7eba7e4db318f621&368604920","event":"PAYMENT_RECEIVED","payment":{"id":"pay_1","value":10.5,"status":"RECEIVED"}}`, 401},
		"pagpolar": {func(key string, _ []byte) (string, string) { return "Authorization", "Bearer " + key }, `{"id":"att-1","event":"TRANSACTION_PAID","data":{"transaction":{"id":"sale-1"}}}`, 401},
	}
	for name, g := range gateways {
		post := func(key, body string) reply {
			req, _ := http.NewRequest(http.MethodPost, w.url+"/webhooks/"+name, strings.NewReader(body))
			req.Header.Set(g.credential(key, []byte(body)))
			return w.do(req)
		}
		for what, r := range map[string]reply{
			"new": post(secret, g.body), "again": post(secret, g.body), "with the older secret": post(old, g.body),
			"unreadable": post(secret, "<html>"), "of no type that we know": post(secret, strings.Replace(g.body, `"id"`, `"event":"X","type":"X","other"`, 1)),
			"empty object": post(secret, "{}"),
		} {
			if r.status != 200 || r.body != "ok" || r.header.Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("%s, %s: %d %q", name, what, r.status, r.body)
			}
		}
		before := w.rows()
		for what, r := range map[string]reply{"another secret": post(strings.ToUpper(secret), g.body), "no secret": post("", g.body)} {
			if r.status != g.refusal {
				t.Errorf("%s, %s: %d, want %d", name, what, r.status, g.refusal)
			}
		}
		if n := w.rows(); n != before {
			t.Errorf("%s: a forger stored %d events", name, n-before)
		}
		if n := query[int](w, `SELECT deliveries FROM webhook_events WHERE provider = $1 ORDER BY deliveries DESC LIMIT 1`, name); n != 3 {
			t.Errorf("%s: %d deliveries of one event, want 3", name, n)
		}
	}
}

func TestCase_A21_TheSecretOfOneAccountDoesNotOpenAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := []byte(`{"id":"1"}`)
	for path, secret := range map[string]string{"testpay": "secret-2", "testpay/loja2": "secret"} {
		req, _ := http.NewRequest(http.MethodPost, w.url+"/webhooks/"+path, strings.NewReader(string(text)))
		req.Header.Set(signatureHeader, sign(secret, text))
		if r := w.do(req); r.status/100 != 4 {
			t.Errorf("%s: %d", path, r.status)
		}
	}
	if n := w.rows(); n != 0 {
		t.Errorf("%d rows", n)
	}
}
