package pagarme_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/pagarme"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

const (
	hubKey    = "ak_live_OfTheTestsOnly0000000000"
	oldHubKey = "ak_9999EarlierKeyOfTheTests"

	// The contract's worked vector.
	hubVectorKey    = "ak_test_EXAMPLEKEY0000000000000000"
	hubVectorBody   = "id=9000001&fingerprint=0000000000000000000000000000000000000001&event=transaction_status_changed&old_status=waiting_payment&desired_status=paid&current_status=paid&object=transaction&transaction%5Bid%5D=9000001&transaction%5Bamount%5D=14990"
	hubVectorHeader = "sha1=8d0db6145236735d849126551e216a45a80d6e07"

	postback = "id=9000001&fingerprint=0000000000000000000000000000000000000001&event=transaction_status_changed&old_status=waiting_payment&desired_status=paid&current_status=paid&object=transaction" +
		"&transaction%5Bid%5D=9000001&transaction%5Bdate_updated%5D=2026-01-15T12%3A00%3A04.120Z&transaction%5Bamount%5D=14990&transaction%5Bpaid_amount%5D=14990&transaction%5Brefunded_amount%5D=0&transaction%5Bmetadata%5D%5Border_id%5D=PED-1001"
)

func legacySource() provider.Source {
	return provider.Source{
		Provider: "pagarme", Account: "legado", Production: true, WebhookSecrets: []provider.Secret{hubKey, oldHubKey},
		Lookup: provider.LookupNever, Setting: settings("API_VERSION", "4", "REFERENCE_FIELD", "metadata.order_id"),
	}
}

func hubDigest(key string, body []byte) string {
	mac := hmac.New(sha1.New, []byte(key))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

func hub(header string, body []byte) provider.Request {
	return provider.Request{Header: http.Header{pagarme.HubSignatureHeader: {header}}, Body: body, Now: now}
}

func hubSign(key string, body []byte, _ time.Time) provider.Request {
	return hub(hubDigest(key, body), body)
}

func TestPostbacksKeepTheContractOfProviders(t *testing.T) {
	t.Parallel()
	body := []byte(postback)
	amount := func(cents string) []byte {
		return change(postback, "paid_amount%5D=14990", "paid_amount%5D="+cents)
	}
	providertest.Run(t, providertest.Spec{
		Factory: pagarme.New, Source: legacySource(), Now: now, Sign: hubSign,
		CredentialHeader: pagarme.HubSignatureHeader, BodySigned: true,
		Accepted: []providertest.Credential{
			{Name: "with the prefix", Request: hub("sha1="+hubDigest(hubKey, body), body), Label: "1"},
			{Name: "without it", Request: hub(hubDigest(oldHubKey, body), body), Label: "2"},
		},
		Refused: []providertest.Credential{
			{Name: "another algorithm's prefix", Request: hub("sha256="+hubDigest(hubKey, body), body), Reason: provider.ReasonMalformed},
			{Name: "the prefix twice", Request: hub("sha1=sha1="+hubDigest(hubKey, body), body), Reason: provider.ReasonMalformed},
			{Name: "the digest of another body", Request: hub(hubDigest(hubKey, body[1:]), body), Reason: provider.ReasonMismatch},
		},
		Body: body, Form: true, GoldenDir: "testdata/v4",
		Keys: []providertest.KeyPair{
			{Name: "a redelivery", A: body, B: body, Same: true},
			{Name: "one change with another body (CASES B13)", A: body, B: change(postback, "PED-1001", "PED-9"), Same: true},
			{Name: "two changes", A: body, B: change(postback, "04.120Z", "05.120Z")},
			{Name: "two transactions", A: body, B: change(postback, "id=9000001&", "id=9000002&", "%5Bid%5D=9000001", "%5Bid%5D=9000002")},
			{Name: "two statuses at one time", A: body, B: change(postback, "current_status=paid", "current_status=refunded")},
			{Name: "two old statuses at one time", A: body, B: change(postback, "old_status=waiting_payment", "old_status=paid")},
			{Name: "without a time, the same bytes", A: []byte(hubVectorBody), B: []byte(hubVectorBody), Same: true},
			{Name: "without a time, other bytes", A: []byte(hubVectorBody), B: change(hubVectorBody, "14990", "14991")},
		},
		Amounts: func(cents int64) [][]byte { return [][]byte{amount(fmt.Sprint(cents))} },
		OutOfRange: [][]byte{amount("12345678901234567890"), amount("-14990"), amount("149.90"), amount("0"), amount("1e400"),
			change(postback, "refunded_amount%5D=0", "refunded_amount%5D=-1")},
	})
}

func TestTheContractsPostbackVector(t *testing.T) {
	t.Parallel()
	src := legacySource()
	src.Production, src.WebhookSecrets = false, []provider.Secret{hubKey, hubVectorKey}
	p := build(t, src)
	if len(hubVectorBody) != 240 {
		t.Fatal("the vector's body was changed")
	}
	for _, header := range []string{hubVectorHeader, strings.TrimPrefix(hubVectorHeader, "sha1=")} {
		if label, reason := p.Verify(hub(header, []byte(hubVectorBody))); label != "2" || reason != "" {
			t.Errorf("%q: label %q, reason %q", header, label, reason)
		}
	}
}

func TestCase_A14_PagarmePostbacksAreCheckedOnTheirRawBytes(t *testing.T) {
	t.Parallel()
	p := build(t, legacySource())
	raw := []byte(postback + "&transaction%5Bsoft_descriptor%5D=a+b%20c&x=")
	form, err := url.ParseQuery(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	anew := []byte(form.Encode())
	digest := hubDigest(hubKey, raw)
	mac := hmac.New(sha256.New, []byte(hubKey))
	mac.Write(raw)
	for name, c := range map[string]struct {
		request provider.Request
		reason  provider.Reason
	}{
		"as sent":                         {hub("sha1="+digest, raw), ""},
		"prefix missing":                  {hub(digest, raw), ""},
		"upper-case hex":                  {hub("sha1="+strings.ToUpper(digest), raw), ""},
		"upper-case prefix":               {hub("SHA1="+digest, raw), provider.ReasonMalformed},
		"built anew from the parsed form": {hub("sha1="+digest, anew), provider.ReasonMismatch},
		"a signature of the form anew":    {hub("sha1="+hubDigest(hubKey, anew), raw), provider.ReasonMismatch},
		"a plus for %20":                  {hub("sha1="+digest, []byte(strings.Replace(string(raw), "%20", "+", 1))), provider.ReasonMismatch},
		"lower-case escapes":              {hub("sha1="+digest, []byte(strings.ReplaceAll(string(raw), "%5B", "%5b"))), provider.ReasonMismatch},
		"a wrong key":                     {hub("sha1="+hubDigest("ak_live_another0000000000000000000", raw), raw), provider.ReasonMismatch},
		"an encryption key":               {hub("sha1="+hubDigest("ek_live_OfTheTestsOnly0000000000", raw), raw), provider.ReasonMismatch},
		"an empty key":                    {hub("sha1="+hubDigest("", raw), raw), provider.ReasonMismatch},
		"SHA-256 cut to length":           {hub("sha1="+hex.EncodeToString(mac.Sum(nil))[:40], raw), provider.ReasonMismatch},
		"an empty digest":                 {hub("sha1=", raw), provider.ReasonMalformed},
		"zeros":                           {hub("sha1="+strings.Repeat("0", 40), raw), provider.ReasonMismatch},
	} {
		if label, reason := p.Verify(c.request); reason != c.reason || (label == "1") != (reason == "") {
			t.Errorf("%s: label %q, reason %q, want %q", name, label, reason, c.reason)
		}
	}
	// On-call can see what happened on the way.
	explainer, _ := provider.As[provider.Explainer](p)
	list := explainer.Explain(hub("sha1="+hubDigest(hubKey, anew), raw))
	if last := list[len(list)-1]; last.Secret != "1" || last.Accepted || !strings.Contains(last.Name, "anew") {
		t.Errorf("%+v", list)
	}
	if list := explainer.Explain(hub("sha1="+digest, raw)); list[0].Secret != "1" || !list[0].Accepted {
		t.Errorf("%+v", list)
	}
}

func TestPostbacksAreNotLookedUp(t *testing.T) {
	t.Parallel()
	p := build(t, legacySource())
	client := &http.Client{Transport: providertest.HandlerTransport{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked") })}}
	if _, err := p.Lookup(context.Background(), client, "9000001"); !errors.Is(err, provider.ErrRefused) {
		t.Error(err)
	}
	if tr := p.Traits(); tr.CanLookup || !tr.BodyAuthenticated || tr.OtherCredentials || tr.Success.Status != 200 {
		t.Errorf("%+v", tr)
	}
}

// A transaction that was only authorised is "refunded" too when it is given
// up; nothing was ever paid.
func TestARefundedAuthorizationMovesNoMoney(t *testing.T) {
	t.Parallel()
	p := build(t, legacySource())
	body := change(postback, "current_status=paid", "current_status=refunded", "paid_amount%5D=14990", "paid_amount%5D=0")
	r := hubSign(hubKey, body, now)
	claims, err := p.Facts(providertest.EventOf(p, legacySource(), r, p.Parse(r)[0]))
	if err != nil {
		t.Fatal(err)
	}
	if res := payment.Apply(payment.Payment{GatewayID: "9000001"}, claims[0]); res.Payment.Status != payment.StatusCanceled || res.Need != "" {
		t.Errorf("%+v", res)
	}
}
