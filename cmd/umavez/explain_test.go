package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/explain"
)

const (
	explainedAsaas  = `{"id":"evt_1&2","event":"PAYMENT_RECEIVED","dateCreated":"2026-01-20 14:01:09","payment":{"id":"pay_1","value":59.90,"netValue":57.91,"status":"RECEIVED","externalReference":"loja-7:PED-1"}}`
	explainedStripe = `{"id":"evt_1","object":"event","type":"payment_intent.succeeded","created":1767225600,"livemode":true,"data":{"object":{"id":"pi_1","object":"payment_intent","status":"succeeded","amount":1000,"amount_received":1000,"currency":"brl"}}}`
	explainSecret   = "whsec_0123456789abcdef"
	explainToken    = "0123456789abcdef0123456789abcdef"
)

var explainSettings = []string{"STRIPE_WEBHOOK_SECRETS=" + explainSecret, "ASAAS_WEBHOOK_SECRETS=" + explainToken}

func stripeSignature(body string) string {
	mac := hmac.New(sha256.New, []byte(explainSecret))
	fmt.Fprintf(mac, "1767225600.%s", body)
	return "Stripe-Signature: t=1767225600,v1=" + hex.EncodeToString(mac.Sum(nil))
}

// explained runs the command and reads its report.
func explained(t *testing.T, bin, body string, env []string, args ...string) (r explain.Report, code int, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := run(t, filepath.Join(bin, "umavez"), env, append([]string{"explain", file, "-o", "json"}, args...)...)
	if code < 2 {
		if err := json.Unmarshal([]byte(stdout), &r); err != nil {
			t.Fatalf("%v: %s%s", err, stdout, stderr)
		}
	}
	if strings.Contains(stdout+stderr, explainSecret) || strings.Contains(stdout+stderr, explainToken) {
		t.Errorf("a secret is shown: %s%s", stdout, stderr)
	}
	return r, code, stderr
}

func TestExplainSaysWhatAWebhookIsAndWhatItWouldDo(t *testing.T) {
	t.Parallel()
	bin := build(t)
	const at = "2026-01-01T00:00:01Z"
	rewritten := strings.ReplaceAll(explainedStripe, ":", ": ")
	for _, c := range []struct {
		name, body     string
		args           []string
		code           int
		provider       string
		reason, secret string
		payment        string
		outcome, to    string
	}{
		{"the gateway is found by its credentials", explainedAsaas, []string{"-H", "asaas-access-token: " + explainToken}, 0, "asaas", "", "1", "pay_1", "applied", "paid"},
		{"a repetition", explainedAsaas, []string{"-H", "asaas-access-token: " + explainToken, "--state", "paid"}, 0, "asaas", "", "1", "pay_1", "applied", "paid"},
		{"a signature", explainedStripe, []string{"-H", stripeSignature(explainedStripe), "--at", at}, 0, "stripe", "", "1", "pi_1", "applied", "paid"},
		{"what comes late", explainedStripe, []string{"-H", stripeSignature(explainedStripe), "--at", at, "--state", "refunded"}, 0, "stripe", "", "1", "pi_1", "repeated", "refunded"},
		{"another amount than was captured", explainedStripe, []string{"-H", stripeSignature(explainedStripe), "--at", at, "--state", "paid", "--captured", "999"}, 0, "stripe", "", "1", "pi_1", "parked", "paid"},
		{"a recording", explainedStripe, []string{"-H", stripeSignature(explainedStripe)}, 1, "stripe", "timestamp_too_old", "", "pi_1", "applied", "paid"},
		{"a body that was written anew", rewritten, []string{"-H", stripeSignature(explainedStripe), "--at", at}, 1, "stripe", "digest_differs", "", "pi_1", "applied", "paid"},
		{"no credentials at all", explainedAsaas, []string{"--source", "asaas"}, 1, "asaas", "credentials_missing", "", "pay_1", "applied", "paid"},
		{"a whole request", "POST /webhooks/asaas HTTP/1.1\r\nHost: h\r\nasaas-access-token: " + explainToken + "\r\n\r\n" + explainedAsaas, nil, 0, "asaas", "", "1", "pay_1", "applied", "paid"},
	} {
		r, code, stderr := explained(t, bin, c.body, explainSettings, c.args...)
		if code != c.code || r.Provider != c.provider || r.Verified != (c.code == 0) || r.Reason != c.reason || r.Secret != c.secret || r.Payment != c.payment {
			t.Errorf("%s: code %d, %+v\n%s", c.name, code, r, stderr)
			continue
		}
		if len(r.Events) != 1 || len(r.Events[0].Claims) != 1 || r.DedupeKey == "" || len(r.Facts) == 0 {
			t.Errorf("%s: %+v", c.name, r)
			continue
		}
		if e := r.Events[0].Claims[0].Effect; e.Outcome != c.outcome || e.To != c.to {
			t.Errorf("%s: effect %+v, want %s to %s", c.name, e, c.outcome, c.to)
		}
	}
	zoop := []string{"ZOOP_WEBHOOK_SECRETS=" + strings.Repeat("z", 40), "ZOOP_API_KEY=zpk_x", "ZOOP_MARKETPLACE_ID=0123456789abcdef"}
	if _, code, stderr := explained(t, bin, `{}`, zoop); code != 1 || !strings.Contains(stderr, "--url") {
		t.Errorf("an address that is missing: code %d, %s", code, stderr)
	}
	r, _, _ := explained(t, bin, rewritten, explainSettings, "-H", stripeSignature(explainedStripe), "--at", at)
	if len(r.Signed) < 2 || r.Signed[0].Secret != "" || !r.Signed[0].Accepted || r.Signed[1].Secret != "1" || r.Signed[1].Accepted {
		t.Errorf("the text that was signed is not found: %+v", r.Signed)
	}
}

func TestExplainRefusesWhatItCannotExplain(t *testing.T) {
	t.Parallel()
	bin := build(t)
	for _, c := range []struct {
		env  []string
		args []string
		says string
	}{
		{nil, nil, "no source to try"},
		{explainSettings, []string{"--source", "nobody"}, "unknown gateway"},
		{nil, []string{"--source", "stripe"}, "STRIPE_WEBHOOK_SECRETS is not set"},
		{explainSettings, []string{"--state", "nearly"}, "--state is not one of"},
		{explainSettings, []string{"--captured", "-1"}, "--captured is below zero"},
		{explainSettings, []string{"-H", "no colon"}, "--header is not"},
		{explainSettings, []string{"--at", "yesterday"}, "--at is not a time"},
		{explainSettings, []string{"--url", "/elsewhere"}, "--url has no /webhooks/"},
		{explainSettings, []string{"--url", "/webhooks/pagpolar"}, `--url names the source "pagpolar"`},
		{explainSettings, []string{"-o", "xml"}, "--output"},
	} {
		if _, code, stderr := explained(t, bin, explainedAsaas, c.env, c.args...); code != 2 || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: code %d, %s", c.args, code, stderr)
		}
	}
	if _, code, stderr := explained(t, bin, "POST / HTTP/1.1", explainSettings); code != 2 || !strings.Contains(stderr, "cannot be read as one") {
		t.Errorf("code %d, %s", code, stderr)
	}
}
