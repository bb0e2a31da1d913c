package mercadopago_test

import (
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/mercadopago"
	"github.com/umavez/umavez/pkg/provider/providertest/npmtest"
)

// signed is one request as both sides see it.
type signed struct {
	Signature string `json:"signature"`
	RequestID string `json:"request_id"`
	DataID    string `json:"data_id"`
	Secret    string `json:"secret"`
	Tolerance int    `json:"tolerance"` // seconds; 0 is none
	Now       int64  `json:"now"`       // milliseconds
}

// validate asks the validator of the npm package mercadopago about each
// request; the answer is "" or its reason.
const validate = `
const { WebhookSignatureValidator } = require("mercadopago");
return input.map((r) => {
  try {
    WebhookSignatureValidator.validate({
      xSignature: r.signature, xRequestId: r.request_id, dataId: r.data_id, secret: r.secret,
      toleranceSeconds: r.tolerance || undefined, now: () => r.now,
    });
    return "";
  } catch (e) {
    return e.reason || String(e);
  }
});`

func (s *signed) request() provider.Request {
	r := request("", s.RequestID, s.Signature, nil)
	if s.DataID != "" {
		r.Query = url.Values{"data.id": {s.DataID}}.Encode()
	}
	r.Now = time.UnixMilli(s.Now)
	return r
}

// Mercado Pago's own library for Node and we agree on what is signed. Where we
// differ it is on purpose, and the row says why. The Go library in go.mod
// (v1.8.0) has no validator.
func TestWeAgreeWithMercadoPagosLibraryForNode(t *testing.T) {
	t.Parallel()
	const now = 1767225600000
	lower := strings.ToLower(ordID)
	rows := []struct {
		name         string
		s            signed
		ours, theirs bool
		why          string
	}{
		{"a payment, in milliseconds", signed{payMillis, requestID, payID, secret, 0, now}, true, true, ""},
		{"a payment, in seconds", signed{paySeconds, requestID, payID, secret, 0, now}, true, true, ""},
		{"an order, as sent", signed{ordSent, requestID, ordID, secret, 0, now}, true, true, ""},
		{"an order in lower case", signed{ordLower, requestID, lower, secret, 0, now}, true, true, ""},
		{"an order, signed in lower case", signed{ordLower, requestID, ordID, secret, 0, now}, true, false, "the documentation has data.id in lower case, the library does not change it"},
		{"no request id", signed{payNoID, "", payID, secret, 0, now}, true, true, ""},
		{"a request id that was not signed", signed{payNoID, requestID, payID, secret, 0, now}, false, false, ""},
		{"another payment", signed{payMillis, requestID, "98765432102", secret, 0, now}, false, false, ""},
		{"another secret", signed{payMillis, requestID, payID, oldSecret, 0, now}, false, false, ""},
		{"no signature", signed{"", requestID, payID, secret, 0, now}, false, false, ""},
		{"no ts", signed{payMillisV1, requestID, payID, secret, 0, now}, false, false, ""},
		{"only v0", signed{strings.Replace(payMillis, "v1", "v0", 1), requestID, payID, secret, 0, now}, false, false, ""},
		{"v1 that is not hexadecimal", signed{"ts=1767225600000,v1=" + strings.Repeat("x", 64), requestID, payID, secret, 0, now}, false, false, ""},
		{"v1 with letters of two bytes", signed{"ts=1767225600000,v1=" + strings.Repeat("é", 32), requestID, payID, secret, 0, now}, false, false, ""},
		{"items that are not known", signed{"x," + payMillis + ",v2=00", requestID, payID, secret, 0, now}, true, true, ""},
		{"spaces round the items", signed{strings.Replace(payMillis, ",", " , ", 1), requestID, payID, secret, 0, now}, true, true, ""},
		{"within a tolerance, in seconds", signed{paySeconds, requestID, payID, secret, 300, now}, true, true, ""},
		{"within a tolerance, in milliseconds", signed{payMillis, requestID, payID, secret, 300, now}, true, false, "the library takes every time for seconds"},
		{"outside of a tolerance", signed{paySeconds, requestID, payID, secret, 300, now + 301_000}, false, false, ""},
		{"two ts", signed{"ts=1," + payMillis, requestID, payID, secret, 0, now}, false, true, "the library takes the last; only one of the two was signed"},
		{"no data.id", signed{"ts=1767225600000,v1=" + digest(secret, "request-id:"+requestID+";ts:1767225600000;"), requestID, "", secret, 0, now}, true, true, ""},
	}
	questions := make([]signed, len(rows))
	for i := range rows {
		questions[i] = rows[i].s
	}
	var answers []string
	if err := npmtest.Run(t, validate, questions, &answers); err != nil {
		t.Fatal(err)
	}
	if len(answers) != len(rows) {
		t.Fatalf("%d answers to %d questions", len(answers), len(rows))
	}
	for i, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			src := source("TOLERANCE=" + (time.Duration(row.s.Tolerance) * time.Second).String())
			if row.s.Tolerance == 0 {
				src = source()
			}
			src.WebhookSecrets = []provider.Secret{provider.Secret(row.s.Secret)}
			p, err := mercadopago.New(src)
			if err != nil {
				t.Fatal(err)
			}
			_, reason := p.Verify(row.s.request())
			if ours, theirs := reason == "", answers[i] == ""; ours != row.ours || theirs != row.theirs {
				t.Errorf("we accept: %v (%s), the library accepts: %v (%s); want %v and %v", ours, reason, theirs, answers[i], row.ours, row.theirs)
			}
			if (row.ours != row.theirs) != (row.why != "") {
				t.Error("a difference needs a reason, and only a difference")
			}
		})
	}
}

// Many ids, request ids and times: what one side signs, the other accepts.
func TestWhatWeSignIsAcceptedByMercadoPagosLibraryForNode(t *testing.T) {
	t.Parallel()
	var all []signed
	for i, id := range []string{"1", payID, "18446744073709551615", ordID, "ORDTST01", "2c9380848f1e0001018f1e00aa0001aa", "a-b_c.d:e", "é", "a b"} {
		for j, request := range []string{"", requestID, "x", "São", "a,b=c"} {
			for k, stamp := range []string{"1767225600", "1767225600000", "0", "007"} {
				text := "id:" + id + ";request-id:" + request + ";ts:" + stamp + ";"
				if request == "" {
					text = "id:" + id + ";ts:" + stamp + ";"
				}
				key := secret + strconv.Itoa(i+j+k)
				all = append(all, signed{"ts=" + stamp + ",v1=" + digest(key, text), request, id, key, 0, 1767225600000})
			}
		}
	}
	var answers []string
	if err := npmtest.Run(t, validate, all, &answers); err != nil {
		t.Fatal(err)
	}
	for i, s := range all {
		src := source()
		src.WebhookSecrets = []provider.Secret{provider.Secret(s.Secret)}
		p, err := mercadopago.New(src)
		if err != nil {
			t.Fatal(err)
		}
		if _, reason := p.Verify(s.request()); reason != "" || answers[i] != "" {
			t.Errorf("%+v: we say %q, the library %q", s, reason, answers[i])
		}
	}
}
