package stripe

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/provider/providertest"
)

func timeOf(seconds int64) time.Time { return time.Unix(seconds, 0) }

func mustURL(path string) *url.URL {
	u, err := url.Parse(path)
	if err != nil {
		panic(err)
	}
	return u
}

// recorder keeps what a handler writes.
type recorder struct{ bytes.Buffer }

func (*recorder) Header() http.Header { return http.Header{} }
func (*recorder) WriteHeader(int)     {}

// kilobyte is a payment's body of 1 KB, the size that the schema was measured
// with.
func kilobyte(b *testing.B) []byte {
	body := testdata(b, "succeeded")
	pad := strings.Repeat("x", 1024-len(body)-len(`"description":"",`))
	return bytes.Replace(body, []byte(`"amount":25000,`), []byte(`"description":"`+pad+`","amount":25000,`), 1)
}

func BenchmarkVerifyAndParseOneKilobyte(b *testing.B) {
	p := gatewayOf(b, source())
	r := signed(secretNow, kilobyte(b), clock)
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
}

func BenchmarkVerifyOneKilobyte(b *testing.B) {
	p := gatewayOf(b, source())
	r := signed(secretNow, kilobyte(b), clock)
	b.ReportAllocs()
	for b.Loop() {
		if _, reason := p.Verify(r); reason != "" {
			b.Fatal(reason)
		}
	}
}

func BenchmarkFactsOneKilobyte(b *testing.B) {
	src := source()
	p := gatewayOf(b, src)
	r := signed(secretNow, kilobyte(b), clock)
	e := providertest.EventOf(p, src, r, p.Parse(r)[0])
	b.ReportAllocs()
	for b.Loop() {
		if claims, err := p.Facts(e); err != nil || len(claims) != 1 {
			b.Fatal(err)
		}
	}
}
