package pagarme_test

import (
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/provider"
)

// The benchmarks take a body of 1 KB through what ingest does with it before
// it is stored.
func benchmark(b *testing.B, p provider.Provider, r provider.Request) {
	if len(r.Body) != 1024 {
		b.Fatalf("%d bytes", len(r.Body))
	}
	if _, reason := p.Verify(r); reason != "" { // a key set is fetched
		b.Fatal(reason)
	}
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

func kilobyte() []byte {
	const at = `"code":"PED-1001",`
	pad := 1024 - len(paidBody) - len(`"note":"",`)
	return change(paidBody, at, `"note":"`+strings.Repeat("x", pad)+`",`+at)
}

func BenchmarkVerifyAndParseBasic(b *testing.B) {
	benchmark(b, build(b, source()), sign(oldLogin, kilobyte(), now))
}

func BenchmarkVerifyAndParseSignature(b *testing.B) {
	body := kilobyte()
	benchmark(b, build(b, signedSource(published())), signed(rs256(signers()[0], "one", body), body))
}

func BenchmarkVerifyAndParsePostback(b *testing.B) {
	body := []byte(postback + "&note=" + strings.Repeat("x", 1024-len(postback)-len("&note=")))
	benchmark(b, build(b, legacySource()), hubSign(oldHubKey, body, now))
}
