package ingest_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/umavez/umavez/pkg/ingest"
)

// Whatever a stranger sends, the answer is one of the known ones, and a
// success only for the right signature.
func FuzzHandler(f *testing.F) {
	good := []byte(`{"id":"1"}`)
	f.Add("/webhooks/testpay", "", sign("secret", good), good)
	f.Add("/webhooks/testpay/loja2", "gzip", "", []byte("\x1f\x8b\x08\x00"))
	f.Add("/webhooks/testpay", "deflate", "v1=\xe9", []byte("\x78\x9c"))
	f.Add("//webhooks/../testpay/", "gzip,br", "panic ", []byte{})
	c := defaults()
	c.BodyLimit = 64 << 10
	p := parts(nil, &bell{deaf: true})
	p.Store, p.RecordRejections = instant{}, nil
	in := ingest.New(c, p)
	in.Start()
	f.Cleanup(in.Close)
	f.Fuzz(func(t *testing.T, path, encoding, signature string, body []byte) {
		if signature == "panic" {
			return // the test's own gateway panics on this word
		}
		req := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		req.URL.Path = path
		req.Header["Content-Encoding"] = []string{encoding}
		req.Header[signatureHeader] = []string{signature}
		rec := httptest.NewRecorder()
		in.ServeHTTP(rec, req)
		switch rec.Code {
		case 200, 204:
			if len(signature) != 64 {
				t.Errorf("success for the signature %q", signature)
			}
		case 400, 401, 404, 413, 415:
		default:
			t.Errorf("answer %d", rec.Code)
		}
	})
}
