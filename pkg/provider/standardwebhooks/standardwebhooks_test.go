package standardwebhooks

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// Keys of 48 bytes, whose base64 has no padding: a text cut short at its end
// is another key then, not another spelling.
var (
	secretNow = symmetricPrefix + base64.StdEncoding.EncodeToString([]byte("a key for tests that has forty-eight bytes in al"))
	secretOld = symmetricPrefix + base64.StdEncoding.EncodeToString([]byte("the previous key, which has forty-eight as well."))
)

// The keys of the contract's vectors, and a message.
const (
	vectorNow     = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	vectorOld     = "whsec_//79/Pv6+fj39vX08/Lx8O/u7ezr6uno5+bl5OPi4eA="
	vectorPrivate = "whsk_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8prLrhQbzK8LIuGpTTTQvHNh5SbQv+EsiXlLyTIpZt1w=="
	vectorPublic  = "whpk_Kay64UG8yvCyLhqU000LxzYeUm0L/hLIl5S8kyKWbdc="
	vectorID      = "msg_2testVec0000000000000001"
	vectorStamp   = 1767225600
	messageID     = "msg_2conformance0000000000001"
	apiKey        = "key-of-the-tests-only"
)

var clock = time.Unix(vectorStamp, 0)

func source(secrets ...provider.Secret) provider.Source {
	if secrets == nil {
		secrets = []provider.Secret{provider.Secret(secretNow), provider.Secret(secretOld)}
	}
	return provider.Source{
		Provider: "standardwebhooks", Account: provider.DefaultAccount, Production: true,
		WebhookSecrets: secrets, APIKey: apiKey, APIBase: "https://api.example.test/v1", Lookup: provider.LookupAlways,
	}
}

// with gives a source settings of its own.
func with(src provider.Source, settings map[string]string) provider.Source {
	src.Setting = func(name string) string { return settings[name] }
	return src
}

func build(t testing.TB, src provider.Source) *Provider {
	t.Helper()
	p, err := New(src)
	if err != nil {
		t.Fatal(err)
	}
	return p.(*Provider)
}

func testdata(t testing.TB, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func request(id, stamp, signature string, body []byte, now time.Time) provider.Request {
	return provider.Request{Header: http.Header{
		"Webhook-Id": {id}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {signature},
	}, Body: body, Now: now}
}

// sign signs as a sender that holds this very text would: what is no key of
// the specification is taken as it is.
func sign(secret string, body []byte, now time.Time) provider.Request {
	stamp := strconv.FormatInt(now.Unix(), 10)
	signature, err := Sign(secret, messageID, now, body)
	if err != nil {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(signedText(messageID, stamp, body))
		signature = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return request(messageID, stamp, signature, body, now)
}

func amounts(cents int64) (bodies [][]byte) {
	for _, spelling := range []string{strconv.FormatInt(cents, 10), fmt.Sprintf("%q", strconv.FormatInt(cents, 10))} {
		bodies = append(bodies, []byte(`{"type":"payment.paid","timestamp":"2026-01-01T00:00:05Z","data":{"payment_id":"pay_0001","amount":`+spelling+`,"currency":"BRL"}}`))
	}
	return bodies
}

func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }
}

// answered is an answer of the profile's API.
func answered(status, more string) http.HandlerFunc {
	return answer(`{"payment_id":"pay_0001","status":"` + status + `","amount":25000,"fee":1000,"net":24000,"currency":"BRL","reference":"loja-1:PED-1"` + more + `}`)
}

func lookups() []providertest.Lookup {
	attempt := func(s payment.Status) payment.Fact { return payment.Fact{Kind: payment.FactStatus, Status: s} }
	paid, fee := attempt(payment.StatusPaid), payment.Fact{Kind: payment.FactFee, ID: "pay_0001", Amount: payment.Of(1000)}
	refund := func(id string, cents int64, s payment.RefundState) payment.Fact {
		return payment.Fact{Kind: payment.FactRefund, ID: id, Amount: payment.Of(cents), Refund: s}
	}
	total := func(cents int64) payment.Fact {
		return payment.Fact{Kind: payment.FactRefundTotal, Amount: payment.Of(cents), ByID: true}
	}
	dispute := func(s payment.DisputeState) payment.Fact {
		return payment.Fact{Kind: payment.FactDispute, ID: "dp_1", Amount: payment.Of(25000), Dispute: s}
	}
	item := func(id, cents, status string) string {
		return `{"refund_id":"` + id + `","amount":` + cents + `,"status":"` + status + `"}`
	}
	disputed := func(status string) string {
		return `,"disputes":[{"dispute_id":"dp_1","amount":25000,"status":"` + status + `"}]`
	}
	row := func(status, more string, leads payment.Status, facts ...payment.Fact) providertest.Lookup {
		return providertest.Lookup{Name: strings.TrimSpace(status + " " + more), Ref: "pay_0001", Answer: answered(status, more), Status: leads, Facts: facts}
	}
	rows := []providertest.Lookup{
		row("paid", "", payment.StatusPaid, paid, fee),
		row("pending", "", payment.StatusPending, attempt(payment.StatusPending)),
		row("authorized", "", payment.StatusAuthorized, attempt(payment.StatusAuthorized)),
		row("failed", "", payment.StatusFailed, attempt(payment.StatusFailed)),
		row("canceled", "", payment.StatusCanceled, attempt(payment.StatusCanceled)),
		row("expired", "", payment.StatusExpired, attempt(payment.StatusExpired)),
		row("paid", `,"amount_refunded":0,"refunds":[],"disputes":[]`, payment.StatusPaid, paid, fee),
		row("paid", `,"refunds":null,"disputes":null`, payment.StatusPaid, paid, fee),
		row("paid", `,"refunds":[`+item("rf_1", "10000", "pending")+`]`, payment.StatusPaid, refund("rf_1", 10000, payment.RefundPending), paid, fee),
		row("paid", `,"refunds":[`+item("rf_1", "10000", "failed")+`]`, payment.StatusPaid, refund("rf_1", 10000, payment.RefundFailed), paid, fee),
		row("partially_refunded", `,"amount_refunded":10000,"refunds":[`+item("rf_1", "10000", "succeeded")+`]`, payment.StatusPartiallyRefunded,
			refund("rf_1", 10000, payment.RefundSucceeded), total(10000), paid, fee),
		row("paid", `,"amount_refunded":25000,"refunds":[`+item("rf_1", "25000", "succeeded")+`]`, payment.StatusRefunded,
			refund("rf_1", 25000, payment.RefundSucceeded), total(25000), paid, fee),
		row("refunded", `,"amount_refunded":25000,"refunds":[`+item("rf_1", "10000", "succeeded")+`,`+item("rf_2", "15000", "succeeded")+`]`, payment.StatusRefunded,
			refund("rf_1", 10000, payment.RefundSucceeded), refund("rf_2", 15000, payment.RefundSucceeded), total(25000), fee),
		row("refunded", "", payment.StatusRefunded, attempt(payment.StatusRefunded), fee),
		row("refunded", `,"refunds":[`+item("rf_1", "10000", "succeeded")+`]`, payment.StatusRefunded, refund("rf_1", 10000, payment.RefundSucceeded), attempt(payment.StatusRefunded), fee),
		row("disputed", disputed("open"), payment.StatusDisputed, dispute(payment.DisputeOpen), fee),
		row("disputed", "", payment.StatusDisputed, attempt(payment.StatusDisputed), fee),
		row("charged_back", disputed("lost"), payment.StatusChargedBack, dispute(payment.DisputeLost), fee),
		row("charged_back", "", payment.StatusChargedBack, attempt(payment.StatusChargedBack), fee),
		row("paid", disputed("won"), payment.StatusPaid, dispute(payment.DisputeWon), paid, fee),
		row("paid", disputed("inquiry"), payment.StatusPaid, dispute(payment.DisputeInquiry), paid, fee),
		row("refunded", disputed("lost"), payment.StatusChargedBack, dispute(payment.DisputeLost), fee),
	}
	for name, h := range map[string]http.HandlerFunc{
		"a status of tomorrow":              answered("dreamt", ""),
		"no status":                         answer(`{"payment_id":"pay_0001","amount":1,"currency":"BRL"}`),
		"no amount":                         answer(`{"payment_id":"pay_0001","status":"paid","currency":"BRL"}`),
		"an amount of zero":                 answer(`{"payment_id":"pay_0001","status":"paid","amount":0,"currency":"BRL"}`),
		"an amount below zero":              answer(`{"payment_id":"pay_0001","status":"paid","amount":-1,"currency":"BRL"}`),
		"an amount with a fraction":         answer(`{"payment_id":"pay_0001","status":"paid","amount":1.5,"currency":"BRL"}`),
		"no currency":                       answer(`{"payment_id":"pay_0001","status":"paid","amount":1}`),
		"an odd currency":                   answer(`{"payment_id":"pay_0001","status":"paid","amount":1,"currency":"REAL"}`),
		"a net that is not amount less fee": answer(`{"payment_id":"pay_0001","status":"paid","amount":10,"fee":1,"net":8,"currency":"BRL"}`),
		"a refund without id":               answered("paid", `,"refunds":[{"amount":1,"status":"succeeded"}]`),
		"a refund without amount":           answered("paid", `,"refunds":[{"refund_id":"rf_1","status":"succeeded"}]`),
		"a refund without status":           answered("paid", `,"refunds":[{"refund_id":"rf_1","amount":1}]`),
		"a refund of an odd status":         answered("paid", `,"refunds":[`+item("rf_1", "1", "dreamt")+`]`),
		"refunds that are no list":          answered("paid", `,"refunds":{"refund_id":"rf_1"}`),
		"refunds beyond 64 bits":            answered("paid", `,"refunds":[`+item("rf_1", "9223372036854775807", "succeeded")+`,`+item("rf_2", "9223372036854775807", "succeeded")+`]`),
		"a dispute of an odd status":        answered("paid", disputed("dreamt")),
		"no id":                             answer(`{"status":"paid","amount":1,"currency":"BRL"}`),
	} {
		rows = append(rows, providertest.Lookup{Name: name, Ref: "pay_0001", Answer: h, Err: provider.ErrUnreadable})
	}
	return rows
}

func checkLookup(r *http.Request) error {
	if r.Method != http.MethodGet || r.URL.RequestURI() != "/payments/pay_0001" {
		return errors.New("asked " + r.Method + " " + r.URL.RequestURI())
	}
	if r.Header.Get("Authorization") != "Bearer "+apiKey {
		return errors.New("the key is not where it belongs")
	}
	return nil
}

func paidBody(amount string) []byte {
	return []byte(`{"type":"payment.paid","timestamp":"2026-01-01T00:00:05Z","data":{"payment_id":"pay_0001","amount":` + amount + `,"currency":"BRL"}}`)
}

func spec(t *testing.T) providertest.Spec {
	t.Helper()
	body := testdata(t, "paid")
	good := sign(secretNow, body, clock)
	changed := func(change func(http.Header)) provider.Request {
		r := good
		r.Header = good.Header.Clone()
		change(r.Header)
		return r
	}
	at := func(now time.Time) provider.Request { r := good; r.Now = now; return r }
	signature := good.Header.Get("Webhook-Signature")
	refused := func(name string, reason provider.Reason, change func(http.Header)) providertest.Credential {
		return providertest.Credential{Name: name, Reason: reason, Request: changed(change)}
	}
	accepted := func(name string, change func(http.Header)) providertest.Credential {
		return providertest.Credential{Name: name, Label: "1", Request: changed(change)}
	}
	longID := strings.Repeat("m", maxID+1)
	junk := strings.Repeat("v9,x ", maxEntries-1)
	return providertest.Spec{
		Factory: New, Source: source(), Now: clock, Sign: sign,
		CredentialHeader: "Webhook-Signature", BodySigned: true, CaseMatters: true,
		Refused: []providertest.Credential{
			{Name: "301 seconds old", Reason: provider.ReasonTooOld, Request: at(clock.Add(301 * time.Second))},
			{Name: "301 seconds ahead", Reason: provider.ReasonTooNew, Request: at(clock.Add(-301 * time.Second))},
			refused("no id", provider.ReasonMissing, func(h http.Header) { h.Del("Webhook-Id") }),
			refused("no time-stamp", provider.ReasonMissing, func(h http.Header) { h.Del("Webhook-Timestamp") }),
			refused("two ids", provider.ReasonMalformed, func(h http.Header) { h.Add("Webhook-Id", messageID) }),
			refused("two time-stamps", provider.ReasonMalformed, func(h http.Header) { h.Add("Webhook-Timestamp", "1767225600") }),
			refused("another id", provider.ReasonMismatch, func(h http.Header) { h.Set("Webhook-Id", messageID+"x") }),
			refused("an id with a dot", provider.ReasonMalformed, func(h http.Header) { h.Set("Webhook-Id", "msg_2conformance.0000000000001") }),
			refused("an id with a space", provider.ReasonMalformed, func(h http.Header) { h.Set("Webhook-Id", "msg 2") }),
			refused("an id that is not ASCII", provider.ReasonMalformed, func(h http.Header) { h.Set("Webhook-Id", "msg_é") }),
			refused("an id of 257 bytes", provider.ReasonMalformed, func(h http.Header) { h.Set("Webhook-Id", longID) }),
			refused("another time-stamp", provider.ReasonMismatch, func(h http.Header) { h.Set("Webhook-Timestamp", "1767225601") }),
			refused("a time-stamp with a leading zero", provider.ReasonMismatch, func(h http.Header) { h.Set("Webhook-Timestamp", "01767225600") }),
			refused("a time-stamp with a sign", provider.ReasonMalformed, func(h http.Header) { h.Set("Webhook-Timestamp", "+1767225600") }),
			refused("a time-stamp with a fraction", provider.ReasonMalformed, func(h http.Header) { h.Set("Webhook-Timestamp", "1767225600.0") }),
			refused("a time-stamp of 13 digits", provider.ReasonMalformed, func(h http.Header) { h.Set("Webhook-Timestamp", "1767225600000") }),
			refused("another version", provider.ReasonMalformed, func(h http.Header) { h.Set("Webhook-Signature", "v2"+signature[2:]) }),
			refused("17 entries", provider.ReasonMalformed, func(h http.Header) { h.Set("Webhook-Signature", junk+"v9,x "+signature) }),
			refused("v1 with nothing after it", provider.ReasonMalformed, func(h http.Header) { h.Set("Webhook-Signature", "v1,") }),
			refused("svix headers, which are not configured", provider.ReasonMissing, func(h http.Header) {
				for i, name := range standardHeaders {
					h[svixHeaders[i]] = h[name]
					delete(h, name)
				}
			}),
		},
		Accepted: []providertest.Credential{
			{Name: "300 seconds old", Label: "1", Request: at(clock.Add(300 * time.Second))},
			{Name: "300 seconds ahead", Label: "1", Request: at(clock.Add(-300 * time.Second))},
			accepted("junk entries beside it", func(h http.Header) { h.Set("Webhook-Signature", "garbage v1 v2,AAAA v1, "+signature) }),
			accepted("16 entries", func(h http.Header) { h.Set("Webhook-Signature", junk+signature) }),
			accepted("an empty entry between", func(h http.Header) { h.Set("Webhook-Signature", "v1a,x  "+signature) }),
			accepted("another set of headers beside the right one", func(h http.Header) { h["Svix-Id"] = []string{"x"} }),
		},
		Body: body,
		EmptyData: [][]byte{
			[]byte(`{"type":"payment.paid","data":null}`), []byte(`{"type":"payment.paid","data":{}}`),
			[]byte(`{"type":"payment.paid","data":[]}`), []byte(`{"type":"payment.paid"}`),
		},
		TestBodies: [][]byte{
			testdata(t, "test"), []byte(`{"type":"payment.paid","data":{"payment_id":"pay_0001","amount":1,"currency":"BRL","livemode":"false"}}`),
			[]byte(`{"type":"payment.dreamt","data":{"livemode":false}}`),
		},
		Keys: []providertest.KeyPair{
			{Name: "one message with other bytes", A: body, B: testdata(t, "refunded"), Same: true},
		},
		Amounts: amounts,
		OutOfRange: [][]byte{
			paidBody("12345678901234567890"), paidBody("-1"), paidBody("0.5"), paidBody("25.00"), paidBody(`"25.00"`), paidBody("25.0"), paidBody("1e400"), paidBody(`"1,5"`), paidBody("true"),
		},
		Lookups: lookups(), LookupRef: "pay_0001", LookupAnswer: answered("paid", ""), CheckLookup: checkLookup,
		LookupAmounts: func(cents int64) (all []http.HandlerFunc) {
			for _, n := range []string{"%d", `"%d"`} {
				all = append(all, answer(fmt.Sprintf(`{"payment_id":"pay_0001","status":"paid","currency":"BRL","amount":`+n+`}`, cents)))
			}
			return all
		},
	}
}

func TestStandardWebhooks(t *testing.T) {
	t.Parallel()
	providertest.Run(t, spec(t))
}

// The message id is the key: whatever the body, another id is another event,
// and the same id on a retry with a new time-stamp is not.
func TestTheWebhookIDIsTheKey(t *testing.T) {
	t.Parallel()
	p := build(t, source())
	body := testdata(t, "paid")
	a, b := sign(secretNow, body, clock), sign(secretNow, body, clock.Add(time.Hour))
	c := sign(secretNow, body, clock)
	c.Header.Set("Webhook-Id", "msg_other")
	ka, kb, kc := p.Parse(a)[0], p.Parse(b)[0], p.Parse(c)[0]
	if ka.DedupeKey != kb.DedupeKey || ka.DedupeKey == kc.DedupeKey || ka.ProviderEventID != messageID || kc.ProviderEventID != "msg_other" {
		t.Errorf("%q %q %q", ka.DedupeKey, kb.DedupeKey, kc.DedupeKey)
	}
}

// keyPair makes the two texts of an asymmetric key.
func keyPair(seed byte) (private, public string) {
	k := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	return privatePrefix + base64.StdEncoding.EncodeToString(k),
		publicPrefix + base64.StdEncoding.EncodeToString(k.Public().(ed25519.PublicKey))
}
