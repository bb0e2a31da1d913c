package zoop_test

import (
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// kilobyte is a paid sale's body of 1 KB, the size that the schema was
// measured with.
func kilobyte(b *testing.B) []byte {
	body := []byte(strings.Replace(succeeded, `"currency":"BRL",`, `"currency":"BRL","description":"`+strings.Repeat("x", 1024-len(succeeded)-len(`"description":"",`))+`",`, 1))
	if len(body) != 1024 {
		b.Fatalf("%d bytes", len(body))
	}
	return body
}

// BenchmarkVerifyAndParse takes a body of 1 KB through what ingest does with
// it before it is stored.
func BenchmarkVerifyAndParse(b *testing.B) {
	p := build(b, source(map[string]string{"AUTHORIZATION": "Bearer x"}))
	r := sign(oldSecret, kilobyte(b), now)
	r.Header.Set("Authorization", "Bearer x")
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

func BenchmarkVerify(b *testing.B) {
	p := build(b, source())
	r := sign(oldSecret, kilobyte(b), now)
	b.ReportAllocs()
	for b.Loop() {
		if _, reason := p.Verify(r); reason != "" {
			b.Fatal(reason)
		}
	}
}

func BenchmarkFacts(b *testing.B) {
	p := build(b, source())
	r := sign(secret, kilobyte(b), now)
	e := providertest.EventOf(p, source(), r, p.Parse(r)[0])
	b.ReportAllocs()
	for b.Loop() {
		if claims, err := p.Facts(e); err != nil || len(claims[0].Facts) != 2 {
			b.Fatal(claims, err)
		}
	}
}
