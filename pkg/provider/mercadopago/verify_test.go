package mercadopago_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/mercadopago"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

func digest(key, text string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// request is one with the given parts; an empty request id is none.
func request(query, request, signature string, body []byte) provider.Request {
	h := http.Header{}
	if signature != "" {
		h["X-Signature"] = []string{signature}
	}
	if request != "" {
		h["X-Request-Id"] = []string{request}
	}
	return provider.Request{Header: h, Query: query, Body: body, Now: clock}
}

// The digests of the contract's vectors.
const (
	payMillis   = "ts=1767225600000,v1=eadead267906d05445432e1066006e8f6ea47953bdb64932b4c3a32bc1998c65"
	paySeconds  = "ts=1767225600,v1=c6dd11cef243859ef1940411bbd0755f37e2df75643ce8e6b148f1809da21cad"
	ordSent     = "ts=1767225600000,v1=96c8ac81e676df84648fea26fcb1639e196619fbf5e03f6378784f5d4f932ce4"
	ordLower    = "ts=1767225600000,v1=929acd6ef49966cb08ca256075c943051ebe4a7fad735c3919d641846d71986c"
	payNoID     = "ts=1767225600000,v1=c058521756ad327ec20be86a627e9f2c7f2934728b05a59a0e46ef2a48f81f4f"
	payQuery    = "data.id=" + payID + "&type=payment"
	ordQuery    = "data.id=" + ordID + "&type=order"
	otherOfTwo  = "7d2b1f60-5a3e-4c8f-9b1a-0c2d4e6f8a11"
	zeros       = "0000000000000000000000000000000000000000000000000000000000000000"
	payMillisV1 = "v1=eadead267906d05445432e1066006e8f6ea47953bdb64932b4c3a32bc1998c65"
)

func accepted(body []byte) []providertest.Credential {
	ok := func(name, query, id, signature string) providertest.Credential {
		return providertest.Credential{Name: name, Label: "1", Request: request(query, id, signature, body)}
	}
	return []providertest.Credential{
		ok("a payment, in milliseconds", payQuery, requestID, payMillis),
		ok("a payment, in seconds", payQuery, requestID, paySeconds),
		ok("an order, as sent", ordQuery, requestID, ordSent),
		ok("an order, in lower case", ordQuery, requestID, ordLower),
		ok("an order that the address has in lower case", strings.ToLower(ordQuery), requestID, ordLower),
		ok("no request id", payQuery, "", payNoID),
		ok("the query in another order, encoded", "type=payment&data.id=%39"+payID[1:]+"&data.external_reference=a", requestID, payMillis),
		ok("the first of two data.id", payQuery+"&data.id=1", requestID, payMillis),
		ok("spaces between the items", payQuery, requestID, strings.Replace(payMillis, ",", " , ", 1)),
		ok("an item that is not known", payQuery, requestID, payMillis+",v2=x,y"),
		ok("capital hexadecimal digits", payQuery, requestID, strings.Replace(strings.ToUpper(payMillis), "TS=1767225600000,V1", "ts=1767225600000,v1", 1)),
		ok("a right digest after a wrong one (CASES A19)", payQuery, requestID, "ts=1767225600000,v1="+zeros+","+payMillisV1),
	}
}

func refused(body []byte) []providertest.Credential {
	no := func(name string, reason provider.Reason, query, id, signature string) providertest.Credential {
		return providertest.Credential{Name: name, Reason: reason, Request: request(query, id, signature, body)}
	}
	const mismatch, malformed = provider.ReasonMismatch, provider.ReasonMalformed
	twoIDs := request(payQuery, requestID, payMillis, body)
	twoIDs.Header["X-Request-Id"] = []string{requestID, otherOfTwo}
	return []providertest.Credential{
		no("another payment in the address", mismatch, "data.id=98765432102&type=payment", requestID, payMillis),
		no("another request id", mismatch, payQuery, otherOfTwo, payMillis),
		no("a request id that was not signed", mismatch, payQuery, requestID, payNoID),
		no("a request id that is gone", mismatch, payQuery, "", payMillis),
		no("another time", mismatch, payQuery, requestID, strings.Replace(payMillis, "1767225600000", "1767225600001", 1)),
		no("a time in another unit", mismatch, payQuery, requestID, strings.Replace(payMillis, "1767225600000", "1767225600", 1)),
		no("no data.id, as an IPN", mismatch, "id="+payID+"&topic=payment", requestID, payMillis),
		no("an empty data.id", mismatch, "data.id=&type=payment", requestID, payMillis),
		no("no query", mismatch, "", requestID, payMillis),
		no("data.id in the spelling DATA.ID", mismatch, "DATA.ID="+payID, requestID, payMillis),
		no("a data.id that holds the request id", malformed, "data.id="+payID+"%3Brequest-id%3A"+requestID, "", payMillis),
		no("no signature", provider.ReasonMissing, payQuery, requestID, ""),
		no("only v0", malformed, payQuery, requestID, strings.Replace(payMillis, "v1", "v0", 1)),
		no("no ts", malformed, payQuery, requestID, payMillisV1),
		no("two ts", malformed, payQuery, requestID, "ts=1767225600000,"+payMillis),
		no("a ts that is no number", malformed, payQuery, requestID, "ts=-1,"+payMillisV1),
		no("a ts beyond all times", malformed, payQuery, requestID, "ts="+strings.Repeat("9", 19)+","+payMillisV1),
		no("a ts in other digits", malformed, payQuery, requestID, "ts=\u0661\u0662,"+payMillisV1),
		no("v1 that is not hexadecimal", malformed, payQuery, requestID, "ts=1767225600000,v1="+strings.Repeat("x", 64)),
		no("v1 with letters of two bytes", malformed, payQuery, requestID, "ts=1767225600000,v1="+strings.Repeat("é", 32)),
		no("v1 that is too long", malformed, payQuery, requestID, payMillis+"00"),
		no("nine v1", malformed, payQuery, requestID, "ts=1767225600000"+strings.Repeat(","+payMillisV1, 9)),
		{Name: "two request ids", Reason: malformed, Request: twoIDs},
	}
}

// Vendor and field disagree on the letter case: each setting takes its own
// form, and the default both (CASES A15).
func TestCase_A15_MercadoPagoTakesTheSpellingsOfItsSetting(t *testing.T) {
	t.Parallel()
	body := body(t, "orders/order_processed")
	for setting, want := range map[string][2]bool{"": {true, true}, "ID_CASE=both": {true, true}, "ID_CASE=sent": {true, false}, "ID_CASE=lower": {false, true}} {
		p := build(t, setting)
		for i, signature := range []string{ordSent, ordLower} {
			_, reason := p.Verify(request(ordQuery, requestID, signature, body))
			if (reason == "") != want[i] {
				t.Errorf("%q, %s: reason %q", setting, signature, reason)
			}
		}
		if _, reason := p.Verify(request(payQuery, requestID, payMillis, body)); reason != "" {
			t.Errorf("%q: a payment's number is refused: %s", setting, reason)
		}
	}
}

// On failure the computed texts are shown, without a secret, so that on-call
// sees which form would have matched (CASES A15).
func TestCase_A15_MercadoPagoExplainsWhatWasSigned(t *testing.T) {
	t.Parallel()
	explain := func(p provider.Provider, r provider.Request) []provider.SignedText {
		e, ok := provider.As[provider.Explainer](p)
		if !ok {
			t.Fatal("no Explainer")
		}
		return e.Explain(r)
	}
	const sent, lower, bare = "data.id as sent", "data.id in lower case", "without x-request-id, which a proxy may have added"
	for name, c := range map[string]struct {
		setting string
		request provider.Request
		want    map[string]string // form: secret, with "!" when it is not accepted
	}{
		"as sent":               {"", request(ordQuery, requestID, ordSent, nil), map[string]string{sent: "1", lower: "", bare: "!"}},
		"lower":                 {"", request(ordQuery, requestID, ordLower, nil), map[string]string{sent: "", lower: "1", bare: "!"}},
		"lower, not wanted":     {"ID_CASE=sent", request(ordQuery, requestID, ordLower, nil), map[string]string{sent: "", lower: "!1", bare: "!"}},
		"as sent, not wanted":   {"ID_CASE=lower", request(ordQuery, requestID, ordSent, nil), map[string]string{sent: "!1", lower: "", bare: "!"}},
		"a number":              {"ID_CASE=lower", request(payQuery, requestID, payMillis, nil), map[string]string{sent: "1", bare: "!"}},
		"a proxy's request id":  {"", request(payQuery, otherOfTwo, payNoID, nil), map[string]string{sent: "", bare: "!1"}},
		"no request id":         {"", request(payQuery, "", payNoID, nil), map[string]string{sent: "1"}},
		"the previous secret":   {"", sign(oldSecret, body(t, "payment_updated"), clock), map[string]string{sent: "2", bare: "!"}},
		"nobody's":              {"", request(payQuery, requestID, "ts=1,v1="+zeros, nil), map[string]string{sent: "", bare: "!"}},
		"an IPN":                {"", request("id=1&topic=payment", requestID, payMillis, nil), map[string]string{"an IPN, which cannot be verified; end notification_url with ?source_news=webhooks": "!"}},
		"no data.id":            {"", request("", requestID, payMillis, nil), map[string]string{"no data.id in the address, so nothing can be verified": "!"}},
		"a header that is none": {"", request(payQuery, requestID, "x", nil), map[string]string{}},
	} {
		texts := explain(build(t, c.setting), c.request)
		if len(texts) != len(c.want) {
			t.Errorf("%s: %+v", name, texts)
		}
		for _, s := range texts {
			got := s.Secret
			if !s.Accepted {
				got = "!" + got
			}
			if want, known := c.want[s.Name]; !known || got != want {
				t.Errorf("%s: %s is %q, want %q", name, s.Name, got, want)
			}
			if strings.Contains(s.Text, secret) || strings.Contains(s.Text, oldSecret) {
				t.Errorf("%s shows a secret", name)
			}
		}
	}
	texts := explain(build(t), request(ordQuery, requestID, ordSent, []byte("a body")))
	if want := "id:" + ordID + ";request-id:" + requestID + ";ts:1767225600000;"; texts[0].Text != want {
		t.Errorf("%q, want %q", texts[0].Text, want)
	}
	if want := "id:" + strings.ToLower(ordID) + ";request-id:" + requestID + ";ts:1767225600000;"; texts[1].Text != want {
		t.Errorf("%q, want %q", texts[1].Text, want)
	}
	long := explain(build(t), request("data.id="+strings.Repeat("a", 60<<10), strings.Repeat("b", 60<<10), payMillis, nil))
	for _, s := range long {
		if len(s.Text) > 500 {
			t.Errorf("%d bytes of a stranger's", len(s.Text))
		}
	}
}

// A wrong clock of ours is told apart from a wrong digest (CASES A17), in
// both units.
func TestCase_A17_MercadoPagoTellsAClockFromAForgery(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		setting string
		shift   time.Duration
		want    provider.Reason
	}{
		{"", 1000 * 24 * time.Hour, ""}, {"", -1000 * 24 * time.Hour, ""},
		{"TOLERANCE=300s", 0, ""}, {"TOLERANCE=300s", 5 * time.Minute, ""}, {"TOLERANCE=300s", -5 * time.Minute, ""},
		{"TOLERANCE=300s", 6 * time.Minute, provider.ReasonTooOld}, {"TOLERANCE=300s", -6 * time.Minute, provider.ReasonTooNew},
		{"TOLERANCE=72h", 71 * time.Hour, ""}, {"TOLERANCE=72h", 73 * time.Hour, provider.ReasonTooOld},
	} {
		for _, signature := range []string{payMillis, paySeconds} {
			r := request(payQuery, requestID, signature, nil)
			r.Now = clock.Add(c.shift)
			if label, reason := build(t, c.setting).Verify(r); reason != c.want || (label == "1") != (reason == "") {
				t.Errorf("%s, clock moved by %s, %s: label %q, reason %q, want %q", c.setting, c.shift, signature, label, reason, c.want)
			}
			r.Header["X-Signature"] = []string{strings.Replace(signature, "v1=", "v1="+zeros+",x=", 1)}
			if _, reason := build(t, c.setting).Verify(r); reason != provider.ReasonMismatch {
				t.Errorf("a forgery is called %q", reason)
			}
		}
	}
}

// The body is not signed: another one passes, and changes nothing of which
// payment is asked for.
func TestABodyThatNamesAnotherPaymentChangesNothing(t *testing.T) {
	t.Parallel()
	p := build(t)
	for name, text := range map[string]string{
		"another payment": `{"id":1,"type":"payment","action":"payment.updated","data":{"id":"98765432102","status":"approved","amount":1000000}}`,
		"none":            `{"id":1,"type":"payment","action":"payment.updated","data":{}}`,
		"null":            `{"id":1,"type":"payment","action":"payment.updated","data":null}`,
		"no data":         `{"id":1,"type":"payment","action":"payment.updated"}`,
		"a text":          `{"id":1,"type":"payment","action":"payment.updated","data":"98765432102"}`,
	} {
		r := request(payQuery, requestID, payMillis, []byte(text))
		if _, reason := p.Verify(r); reason != "" {
			t.Fatalf("%s: %s", name, reason)
		}
		m := p.Parse(r)[0]
		claims, err := p.Facts(providertest.EventOf(p, source(), r, m))
		if err != nil || m.PaymentRef != payID || len(claims) != 1 || claims[0].GatewayID != payID || len(claims[0].Facts) != 0 || claims[0].Captured.Known {
			t.Errorf("%s: %+v, %+v, %v", name, m, claims, err)
		}
	}
	if p.Traits().BodyAuthenticated {
		t.Error("the body is called authenticated")
	}
}

// The query is part of the event: with what is kept, a stored event can be
// verified again, and shows which payment was signed.
func TestWhatIsKeptOfARequestSufficesToVerifyItAgain(t *testing.T) {
	t.Parallel()
	p := build(t)
	r := sign(secret, body(t, "payment_updated"), clock)
	r.Query += "&id=7&topic=payment"
	r.Header["X-Retry"] = []string{"2"}
	e := providertest.EventOf(p, source(), r, p.Parse(r)[0])
	for name, want := range map[string]string{
		mercadopago.SignatureHeader: r.Header.Get("X-Signature"), mercadopago.RequestIDHeader: requestID, "User-Agent": "MercadoPago WebHook v1.0 payment",
		"X-Retry": "2", "?data.id": payID, "?type": "payment", "?id": "7", "?topic": "payment",
	} {
		if got := e.HeaderValue(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	again := request("data.id="+e.HeaderValue("?data.id"), e.HeaderValue(mercadopago.RequestIDHeader), e.HeaderValue(mercadopago.SignatureHeader), e.Body)
	if _, reason := p.Verify(again); reason != "" {
		t.Error(reason)
	}
}
