package standardwebhooks

import (
	"bytes"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/provider/providertest"
)

// kilobyte is a body of 1 KB, the size that the schema was measured with.
func kilobyte(b *testing.B, name string) []byte {
	body := testdata(b, name)
	pad := strings.Repeat("x", 1024-len(body)-len(`"description":"",`))
	return bytes.Replace(body, []byte(`{`), []byte(`{"description":"`+pad+`",`), 1)
}

func BenchmarkVerifyAndParseOneKilobyte(b *testing.B) {
	for _, c := range []struct {
		name, body, secret string
		src                provider.Source
	}{
		{"symmetric", "paid", secretNow, source()},
		{"asymmetric", "paid", vectorPrivate, source(vectorPublic)},
		{"mapped", "mapped/settled", secretNow, mapped()},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := build(b, c.src)
			r := sign(c.secret, kilobyte(b, c.body), clock)
			b.SetBytes(int64(len(r.Body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, reason := p.Verify(r); reason != "" {
					b.Fatal(reason)
				}
				if m := p.Parse(r); m[0].Reason != "" {
					b.Fatal(m[0].Reason)
				}
			}
		})
	}
}

// BenchmarkRefuseAForgery is the most that a stranger can make us do with one
// request of 1 KB.
func BenchmarkRefuseAForgery(b *testing.B) {
	p := build(b, source(vectorNow, vectorPublic))
	r := sign(secretNow, kilobyte(b, "paid"), clock)
	r.Header.Set("Webhook-Signature", strings.TrimSuffix(strings.Repeat(byPrivate+" ", maxEntries), " "))
	b.ReportAllocs()
	for b.Loop() {
		if _, reason := p.Verify(r); reason != provider.ReasonMismatch {
			b.Fatal(reason)
		}
	}
}

func BenchmarkFactsOneKilobyte(b *testing.B) {
	for name, c := range map[string]struct {
		body string
		src  provider.Source
	}{"generic": {"paid", source()}, "mapped": {"mapped/settled", mapped()}} {
		b.Run(name, func(b *testing.B) {
			p := build(b, c.src)
			r := sign(secretNow, kilobyte(b, c.body), clock)
			e := providertest.EventOf(p, c.src, r, p.Parse(r)[0])
			b.ReportAllocs()
			for b.Loop() {
				if claims, err := p.Facts(e); err != nil || len(claims) != 1 {
					b.Fatal(err)
				}
			}
		})
	}
}
