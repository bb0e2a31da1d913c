package efi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// BenchmarkVerifyAndParse takes a body of 1 KB through what ingest does with
// it before it is stored: with one item, and with as many as fit.
func BenchmarkVerifyAndParse(b *testing.B) {
	p := build(b, source())
	long := strings.Replace(paidItem, `"infoPagador":"`, `"infoPagador":"`+strings.Repeat("x", 1024-len(paidBody)), 1)
	for name, body := range map[string]string{
		"one item":           `{"pix":[` + long + `]}`,
		"four items":         `{"pix":[` + strings.Join([]string{paidItem, paidItem, paidItem, paidItem}, ",") + `]}`,
		"an item, 2 refunds": `{"pix":[` + with(devolucoes(devolucao("1", "49.90", "DEVOLVIDO"), devolucao("2", "100.00", "EM_PROCESSAMENTO"))) + `]}`,
	} {
		r := sign(oldToken, []byte(body), now)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, reason := p.Verify(r); reason != "" {
					b.Fatal(reason)
				}
				if m := p.Parse(r); m[0].Disposition != provider.Process {
					b.Fatal(m[0].Reason)
				}
			}
		})
	}
}

// BenchmarkLookup is what we add to the gateway's own time, with a token at
// hand.
func BenchmarkLookup(b *testing.B) {
	p := build(b, source())
	client := &http.Client{Transport: providertest.HandlerTransport{Handler: withToken(answer(with(devolucoes(devolucao("1", "49.90", "DEVOLVIDO")))))}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Lookup(context.Background(), client, pixID); err != nil {
			b.Fatal(err)
		}
	}
}
