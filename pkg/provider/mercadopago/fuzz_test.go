package mercadopago_test

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// FuzzVerify compares Verify with the rule written the slow way round: what is
// accepted holds a digest, with one of the secrets, of a text made of the
// request.
func FuzzVerify(f *testing.F) {
	p := build(f)
	for _, s := range []string{payMillis, paySeconds, ordSent, ordLower, payNoID, "", "ts=1,v1=é", "ts=,v1=", payMillis + "," + payMillis, "v1=" + zeros + ",ts=1"} {
		for _, q := range []string{payQuery, ordQuery, "data.id=a%3Bb", "%zz&data.id=1", "id=1", ";"} {
			f.Add(s, q, requestID, 1)
			f.Add(s, q, "", 2)
		}
	}
	f.Fuzz(func(t *testing.T, signature, query, id string, times int) {
		r := request(query, "", "", nil)
		for range min(max(times, 0), 3) {
			r.Header["X-Signature"] = append(r.Header["X-Signature"], signature)
		}
		if id != "" {
			r.Header["X-Request-Id"] = []string{id}
		}
		label, reason := p.Verify(r)
		if (reason == "") != (label != "") {
			t.Fatalf("label %q, reason %q", label, reason)
		}
		if reason == "" && (len(r.Header["X-Signature"]) != 1 || !justified(signature, query, id)) {
			t.Fatalf("accepted: %q for %q with request id %q", signature, query, id)
		}
	})
}

func justified(signature, query, request string) bool {
	values, _ := url.ParseQuery(query)
	id := values.Get("data.id")
	for _, stamp := range strings.Split(signature, ",") {
		_, ts, _ := strings.Cut(stamp, "=")
		for _, spelling := range []string{id, strings.ToLower(id)} {
			text := "id:" + spelling + ";request-id:" + request + ";ts:" + strings.TrimSpace(ts) + ";"
			if request == "" {
				text = "id:" + spelling + ";ts:" + strings.TrimSpace(ts) + ";"
			}
			for _, key := range []string{secret, oldSecret} {
				for _, item := range strings.Split(signature, ",") {
					_, v1, _ := strings.Cut(item, "=")
					got, err := hex.DecodeString(strings.TrimSpace(v1))
					want, _ := hex.DecodeString(digest(key, text))
					if err == nil && subtle.ConstantTimeCompare(got, want) == 1 {
						return id != ""
					}
				}
			}
		}
	}
	return false
}

func FuzzParseAndFacts(f *testing.F) {
	both := []provider.Provider{build(f), build(f, "MONEY_SOURCE=order", "USER_ID=444555666")}
	for _, dir := range []string{"testdata", "testdata/orders"} {
		files, err := filepath.Glob(dir + "/*.json")
		if err != nil || len(files) == 0 {
			f.Fatalf("no bodies in %s: %v", dir, err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b, query(b))
		}
	}
	f.Add([]byte(`{"type":"payment"}`), "data.id=%00&data.id=1")
	f.Fuzz(func(t *testing.T, b []byte, q string) {
		for _, p := range both {
			r := request(q, requestID, payMillis, b)
			for _, m := range p.Parse(r) {
				if m.DedupeKey == "" || m.Disposition != provider.Process && m.Reason == "" {
					t.Fatalf("not fit to be stored: %+v", m)
				}
				claims, err := p.Facts(providertest.EventOf(p, source(), r, m))
				if err != nil || m.Disposition != provider.Process {
					continue
				}
				for _, c := range claims {
					if c.GatewayID != m.PaymentRef || c.Captured.Known || c.Reference != "" || c.Beneficiary != "" {
						t.Fatalf("message about %q gives claim %+v", m.PaymentRef, c)
					}
					if slices.ContainsFunc(c.Facts, func(f payment.Fact) bool { return f.Amount.Value > 1 || f.Kind == payment.FactFee }) {
						t.Fatalf("a body that nobody signed says %+v", c.Facts)
					}
				}
			}
		}
	})
}

func FuzzLookup(f *testing.F) {
	p := build(f)
	f.Add([]byte(`{"id":98765432101,"status":"refunded","currency_id":"BRL","transaction_amount":1.5,"refunds":null}`), []byte(`[{"id":1,"status":"approved","amount":1.5}]`), true)
	f.Add([]byte(`{"id":"98765432101","status":"charged_back","status_detail":"reimbursed","currency_id":"JPY","transaction_amount":"10","fee_details":[{"fee_payer":"collector","amount":1}]}`), []byte(`{}`), true)
	f.Add([]byte(`{"id":"`+ordID+`","status":"charged_back","status_detail":"settled","country_code":"BR","total_amount":"10","transactions":{"chargebacks":[{"id":"C","amount":"3","status":"settled"}]}}`), []byte(`[]`), false)
	f.Fuzz(func(t *testing.T, answer, list []byte, isPayment bool) {
		client := clientOf(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/refunds") {
				_, _ = w.Write(list)
				return
			}
			_, _ = w.Write(answer)
		})
		ref := ordID
		if isPayment {
			ref = payID
		}
		c, err := p.Lookup(context.Background(), client, ref)
		if err != nil {
			return
		}
		if c.GatewayID != ref || c.Currency == "" || len(c.Facts) == 0 || c.Captured.Known && c.Captured.Value <= 0 {
			t.Fatalf("%+v", c)
		}
		payment.Apply(payment.Payment{GatewayID: ref}, c)
	})
}
