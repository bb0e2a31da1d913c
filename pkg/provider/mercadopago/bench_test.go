package mercadopago_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// kilobyte is an order's notification of 1 KB; its signature is over the
// lower-case id, so that both spellings are tried.
func kilobyte(b *testing.B) provider.Request {
	text := string(body(b, "orders/order_processed"))
	text = strings.Replace(text, `"type":"online",`, `"type":"online","x":"`+strings.Repeat("x", 1024-len(text)-len(`"x":"",`))+`",`, 1)
	if len(text) != 1024 {
		b.Fatalf("%d bytes", len(text))
	}
	r := request(ordQuery, requestID, ordLower, []byte(text))
	r.Header["User-Agent"] = []string{"MercadoPago WebHook v1.0 order"}
	return r
}

// BenchmarkVerifyAndParseOneKilobyte takes a body through what ingest does
// with it before it is stored.
func BenchmarkVerifyAndParseOneKilobyte(b *testing.B) {
	p := build(b, "MONEY_SOURCE=order")
	r := kilobyte(b)
	b.SetBytes(int64(len(r.Body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, reason := p.Verify(r); reason != "" {
			b.Fatal(reason)
		}
		if m := p.Parse(r); m[0].Disposition != provider.Process {
			b.Fatal(m[0].Reason)
		}
	}
}

func BenchmarkVerifyOneKilobyte(b *testing.B) {
	p := build(b, "MONEY_SOURCE=order")
	r := kilobyte(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, reason := p.Verify(r); reason != "" {
			b.Fatal(reason)
		}
	}
}

func BenchmarkFactsOneKilobyte(b *testing.B) {
	p := build(b, "MONEY_SOURCE=order")
	r := kilobyte(b)
	e := providertest.EventOf(p, source(), r, p.Parse(r)[0])
	b.ReportAllocs()
	for b.Loop() {
		if claims, err := p.Facts(e); err != nil || len(claims) != 1 {
			b.Fatal(err)
		}
	}
}

func BenchmarkLookupAnswer(b *testing.B) {
	p := build(b)
	h := pay("approved", "partially_refunded", `"transaction_amount_refunded":100,"refunds":[`+refundItem("11", "100", "approved")+`]`)
	client := &http.Client{Transport: providertest.HandlerTransport{Handler: h}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Lookup(context.Background(), client, payID); err != nil {
			b.Fatal(err)
		}
	}
}
