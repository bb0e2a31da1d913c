package pagbank_test

import (
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// kilobyte is an order's body of 1 KB, the size that the schema was measured
// with.
func kilobyte(b *testing.B) []byte {
	b.Helper()
	const member = `"description":"",`
	pad := strings.Repeat("x", 1024-len(paidOrder)-len(member))
	return change(paidOrder, `"charges":`, `"description":"`+pad+`","charges":`)
}

// BenchmarkVerifyAndParse takes a body through what ingest does with it before
// it is stored; the secret is the second one.
func BenchmarkVerifyAndParse(b *testing.B) {
	p := build(b, source())
	r := sign(oldToken, kilobyte(b), clock)
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

func BenchmarkVerifyAndParseOfACode(b *testing.B) {
	p := build(b, with(source(), settings{"NOTIFICATION_SECRET": addressSecret}))
	r := unsigned(form, addressSecret)
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

func BenchmarkFacts(b *testing.B) {
	p := build(b, source())
	r := sign(token, kilobyte(b), clock)
	e := providertest.EventOf(p, source(), r, p.Parse(r)[0])
	b.ReportAllocs()
	for b.Loop() {
		if claims, err := p.Facts(e); err != nil || len(claims) != 1 {
			b.Fatal(err)
		}
	}
}

func BenchmarkTransaction(b *testing.B) {
	p := build(b, source())
	answered := latin1(b, transactionXML("5"))
	b.ReportAllocs()
	for b.Loop() {
		if claims, err := resolve(b, p, answered); err != nil || len(claims) != 1 {
			b.Fatal(err)
		}
	}
}
