package standardwebhooks

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// verified signs a body and says what Verify thinks of another one under the
// same headers.
func verified(t *testing.T, signed, sent []byte) provider.Reason {
	t.Helper()
	r := sign(secretNow, signed, clock)
	r.Body = sent
	_, reason := build(t, source()).Verify(r)
	return reason
}

func TestCase_A1_StandardWebhooksSignaturesCoverTheBytesAsSent(t *testing.T) {
	t.Parallel()
	body := []byte(`{"amount": 100.10,  "id":"pay_T1"}`)
	if reason := verified(t, body, body); reason != "" {
		t.Error(reason)
	}
	if reason := verified(t, body, []byte(`{"amount":100.1,"id":"pay_T1"}`)); reason != provider.ReasonMismatch {
		t.Error(reason)
	}
}

func TestCase_A3_StandardWebhooksKeepUnicodeLineSeparators(t *testing.T) {
	t.Parallel()
	body := []byte("{\"type\":\"payment.paid\",\"data\":{\"payment_id\":\"p\",\"customer\":\"Ana\u2028da\u2029Luz\"}}")
	if reason := verified(t, body, body); reason != "" {
		t.Error(reason)
	}
	if m := build(t, source()).Parse(sign(secretNow, body, clock))[0]; !bytes.Equal(m.Body, body) || m.Disposition != provider.Process {
		t.Errorf("%s %q", m.Disposition, m.Body)
	}
}

func TestCase_A5_StandardWebhooksEscapesAreNotUndoneBeforeTheDigest(t *testing.T) {
	t.Parallel()
	body := []byte(`{"url":"https:\/\/loja.example\/a\u0026b"}`)
	if reason := verified(t, body, body); reason != "" {
		t.Error(reason)
	}
	if reason := verified(t, body, []byte(`{"url":"https://loja.example/a&b"}`)); reason != provider.ReasonMismatch {
		t.Error(reason)
	}
}

func TestCase_A7_StandardWebhooksIgnoreTheDeclaredCharset(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	r := sign(secretNow, []byte(`{"d":"R$ 10 – ₹ 99 – 💳"}`), clock)
	r.Header.Set("Content-Type", "application/json; charset=ISO-8859-1")
	if _, reason := p.Verify(r); reason != "" {
		t.Error(reason)
	}
}

func TestCase_A17_StandardWebhooksTellASkewedClockFromAForgery(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	for skew, want := range map[time.Duration]provider.Reason{6 * time.Minute: provider.ReasonTooOld, -6 * time.Minute: provider.ReasonTooNew} {
		r := sign(secretNow, testdata(t, "paid"), clock)
		r.Now = clock.Add(skew)
		if _, reason := p.Verify(r); reason != want {
			t.Errorf("%v: %q, want %q", skew, reason, want)
		}
		r.Body = append(bytes.Clone(r.Body), ' ') // a forgery is never called skew
		if _, reason := p.Verify(r); reason != provider.ReasonMismatch {
			t.Errorf("%v, forged: %q", skew, reason)
		}
	}
	// The retry after the clock was repaired has a time-stamp of its own.
	again := sign(secretNow, testdata(t, "paid"), clock.Add(10*time.Minute))
	if _, reason := p.Verify(again); reason != "" {
		t.Error(reason)
	}
}

func TestCase_A19_StandardWebhooksTryEverySignatureOfTheList(t *testing.T) {
	t.Parallel()
	current := build(t, source(vectorNow))
	for list, want := range map[string]provider.Reason{
		byOld + " " + byNow + " v0,junk": "", byNow + " " + byOld: "", byPrivate + " " + byOld + " " + byNow: "",
		byOld + " " + byPrivate: provider.ReasonMismatch, "v0," + byNow[3:]: provider.ReasonMalformed,
	} {
		if _, reason := current.Verify(vector(t, list)); reason != want {
			t.Errorf("%q: %q, want %q", list, reason, want)
		}
	}
}

func TestCase_A23_StandardWebhooksWithoutAKeyDoNotStart(t *testing.T) {
	t.Parallel()
	for name, secrets := range map[string][]provider.Secret{
		"none": {}, "an empty one": {""}, "a prefix alone": {"whsec_"}, "a public prefix alone": {"whpk_"}, "one good, one empty key": {vectorNow, "whsec_"},
		"an unknown scheme": {"v9_" + vectorNow},
	} {
		if _, err := New(source(secrets...)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestCase_A25_StandardWebhooksTakeTheirKeyFromASignedHeader(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	r := sign(secretNow, testdata(t, "paid"), clock)
	for i := range 5 { // the same signed body under new ids
		r.Header.Set("Webhook-Id", fmt.Sprintf("msg_replay%d", i))
		if _, reason := p.Verify(r); reason != provider.ReasonMismatch {
			t.Errorf("id %d: %q", i, reason)
		}
	}
	// A new body under an old id is a forgery as well, not a duplicate.
	if reason := verified(t, testdata(t, "paid"), testdata(t, "refunded")); reason != provider.ReasonMismatch {
		t.Error(reason)
	}
}

func TestCase_A26_StandardWebhooksSkipAByteOrderMarkAfterTheDigest(t *testing.T) {
	t.Parallel()
	plain := testdata(t, "paid")
	marked := append([]byte("\xef\xbb\xbf"), plain...)
	if reason := verified(t, marked, marked); reason != "" {
		t.Error(reason)
	}
	if reason := verified(t, marked, plain); reason != provider.ReasonMismatch {
		t.Error(reason)
	}
	if m := build(t, source()).Parse(sign(secretNow, marked, clock))[0]; m.Disposition != provider.Process || m.PaymentRef != "pay_0001" {
		t.Errorf("%s %q", m.Disposition, m.PaymentRef)
	}
}

// Senders that claim the scheme and make a new webhook-id for each attempt
// need a key of their own: not the hash of the body, which differs too.
func TestCase_B13_StandardWebhooksWithAnIDPerAttemptAreKnownByFields(t *testing.T) {
	t.Parallel()
	p := build(t, with(source(), map[string]string{"DEDUPE": "fields", "DEDUPE_FIELDS": "type,data.sale,data.payment_id"}))
	key := func(id, body string) string {
		r := sign(secretNow, []byte(body), clock)
		r.Header.Set("Webhook-Id", id)
		return p.Parse(r)[0].DedupeKey
	}
	const first = `{"type":"payment.paid","data":{"payment_id":"p","sale":"s1"}}`
	a := key("msg_1", first)
	if b := key("msg_2", `{"type":"payment.paid","data":{"payment_id":"p","sale":"s1","invoice_number":7}}`); a != b {
		t.Errorf("%q and %q", a, b)
	}
	if b := key("msg_1", `{"type":"payment.paid","data":{"payment_id":"p","sale":"s2"}}`); a == b {
		t.Errorf("two sales have the key %q", a)
	}
	// CASES B21: parts do not run into each other.
	if key("m", `{"type":"payment.paid","data":{"payment_id":"c","sale":"ab"}}`) == key("m", `{"type":"payment.paid","data":{"payment_id":"bc","sale":"a"}}`) {
		t.Error("the parts of two keys run into each other")
	}
	// A test of the same sale does not take the key of the live event.
	if b := key("msg_3", `{"type":"payment.paid","data":{"payment_id":"p","sale":"s1","livemode":false}}`); a == b {
		t.Errorf("a test has the key %q of a live event", a)
	}
}

func TestCase_B23_StandardWebhooksLookupSaysPaidAndAllRefunded(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	h := answered("paid", `,"amount_refunded":25000,"refunds":[{"refund_id":"rf_1","amount":25000,"status":"succeeded"}]`)
	c, err := p.Lookup(context.Background(), &http.Client{Transport: providertest.HandlerTransport{Handler: h}}, "pay_0001")
	if err != nil {
		t.Fatal(err)
	}
	r := payment.Apply(payment.Payment{GatewayID: "pay_0001"}, c)
	again := payment.Apply(r.Payment, c)
	if r.Payment.Status != payment.StatusRefunded || r.Payment.Refunded != 25000 || again.Applied() || again.Need != "" {
		t.Errorf("%+v, then %+v", r.Payment, again)
	}
}

func TestCase_C1_StandardWebhooksLateOlderEventIsStale(t *testing.T) {
	t.Parallel()
	src := source()
	p := build(t, src)
	state := payment.Payment{GatewayID: "pay_0001"}
	for _, name := range []string{"pending", "paid"} {
		state = payment.Apply(state, claimOf(t, p, src, string(testdata(t, name)))).Payment
	}
	r := payment.Apply(state, claimOf(t, p, src, string(testdata(t, "pending"))))
	if r.Applied() || !r.Stale || r.Payment.Status != payment.StatusPaid {
		t.Errorf("%+v", r)
	}
}

func TestCase_C5_StandardWebhooksFewerFieldsEmptyNothing(t *testing.T) {
	t.Parallel()
	src := source()
	src.Beneficiary = "loja-1"
	p := build(t, src)
	state := payment.Apply(payment.Payment{GatewayID: "pay_0001"}, claimOf(t, p, src, string(testdata(t, "created")))).Payment
	state = payment.Apply(state, claimOf(t, p, src, string(testdata(t, "paid_no_time")))).Payment
	bare := `{"type":"payment.refunded","data":{"payment_id":"pay_0001"}}`
	state = payment.Apply(state, claimOf(t, p, src, bare)).Payment
	if state.Reference != "loja-1:PED-1" || state.Currency != "BRL" || state.Beneficiary != "loja-1" || state.Refunded != 25000 {
		t.Errorf("%+v", state)
	}
}

func TestCase_D3_StandardWebhooksKeepBigNumbers(t *testing.T) {
	t.Parallel()
	src := source()
	p := build(t, src)
	if c := claimOf(t, p, src, `{"type":"payment.paid","data":{"payment_id":9007199254740993,"amount":9007199254740993,"currency":"BRL"}}`); c.GatewayID != "9007199254740993" || c.Captured.Value != 9007199254740993 {
		t.Errorf("%+v", c)
	}
	r := sign(secretNow, paidBody("12345678901234567890"), clock)
	if _, err := p.Facts(providertest.EventOf(p, src, r, p.Parse(r)[0])); err == nil || !strings.Contains(err.Error(), "data.amount") {
		t.Errorf("beyond 64 bits: %v", err)
	}
}

func TestCase_D9_StandardWebhooksTestsStayOutOfProduction(t *testing.T) {
	t.Parallel()
	sandbox := source()
	sandbox.Production = false
	r := sign(secretNow, testdata(t, "test"), clock)
	if m := build(t, source()).Parse(r)[0]; !m.Test || m.Disposition != provider.Ignore || m.Reason != provider.ReasonTestEvent {
		t.Errorf("%+v", m)
	}
	if m := build(t, sandbox).Parse(r)[0]; !m.Test || m.Disposition != provider.Process {
		t.Errorf("%+v", m)
	}
	// A mark that cannot be read is not taken for "live".
	odd := sign(secretNow, testdata(t, "livemode_odd"), clock)
	if m := build(t, source()).Parse(odd)[0]; m.Disposition != provider.Quarantine {
		t.Errorf("%+v", m)
	}
}

func TestCase_D11_StandardWebhooksAnswers(t *testing.T) {
	t.Parallel()
	tr := build(t, source()).Traits()
	if tr.Success != (provider.Answer{Status: 200, Body: "ok"}) || tr.Unauthorized.Status != 401 {
		t.Errorf("%+v", tr)
	}
	for _, never := range []int{http.StatusGone, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusGatewayTimeout} {
		if tr.Success.Status == never || tr.Unauthorized.Status == never {
			t.Errorf("answers %d, by which senders disable or slow down", never)
		}
	}
}
