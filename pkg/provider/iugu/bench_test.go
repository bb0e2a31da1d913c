package iugu_test

import (
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/provider"
)

// BenchmarkVerifyAndParse takes a body of 1 KB through what ingest does with
// it before it is stored.
func BenchmarkVerifyAndParse(b *testing.B) {
	for _, place := range []string{"header", "path"} {
		b.Run(place, func(b *testing.B) {
			p := build(b, source(place))
			const field = "&data%5Border_id%5D="
			body := paid + field + strings.Repeat("%C3%A3o+", (1024-len(paid)-len(field))/8)
			body += strings.Repeat("x", 1024-len(body))
			sign := inHeader
			if place == "path" {
				sign = inPath
			}
			r := sign(oldToken, []byte(body), now)
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
