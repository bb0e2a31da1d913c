package ingest_test

import (
	"bytes"
	"encoding/binary"
	"hash/adler32"
	"net/http"
	"strings"
	"testing"

	"github.com/umavez/umavez/pkg/ingest"
	"github.com/umavez/umavez/pkg/provider/registry"
)

// stored is "deflate" (zlib) that stores its data as it is: it begins with the
// letter x, and what a form decoder makes of it is up to the data.
func stored(data string) []byte {
	var b bytes.Buffer
	b.WriteString("x\x01\x01")
	n := uint16(len(data))
	_ = binary.Write(&b, binary.LittleEndian, []uint16{n, ^n})
	b.WriteString(data)
	_ = binary.Write(&b, binary.BigEndian, adler32.Checksum([]byte(data)))
	return b.Bytes()
}

// A compressed body must not be taken for the unsigned notification code that
// its compressed bytes look like: what is read is the charge within.
func TestAForgedChargeDoesNotPassAsANotificationCode(t *testing.T) {
	t.Parallel()
	env := map[string]string{"ENVIRONMENT": "production", "SOURCES": "pagbank",
		"PAGBANK_WEBHOOK_SECRETS": "EXAMPLE-TOKEN-0001", "PAGBANK_LOOKUP": "never"}
	set, err := registry.Load(func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(_ *ingest.Config, p *ingest.Parts) { p.Sources = set })
	for _, encoding := range []string{"", "deflate"} {
		body := []byte(`{"id":"CHAR_1","status":"PAID","paid_at":"2026-01-15T09:00:03.000-03:00","amount":{"value":14990,"currency":"BRL","summary":{"total":14990,"paid":14990,"refunded":0}},` +
			`"x":"&notificationCode=A1&notificationType=transaction&"}`)
		req, _ := http.NewRequest(http.MethodPost, w.url+"/webhooks/pagbank", bytes.NewReader(body))
		if encoding != "" {
			req, _ = http.NewRequest(http.MethodPost, w.url+"/webhooks/pagbank", bytes.NewReader(stored(string(body))))
			req.Header.Set("Content-Encoding", encoding)
		}
		req.Header.Set("X-Authenticity-Token", strings.Repeat("0", 64))
		if r := w.do(req); r.status != http.StatusUnauthorized {
			t.Errorf("%q: %d %q", encoding, r.status, r.body)
		}
	}
	if n := w.rows(); n != 0 {
		t.Errorf("a stranger stored %d events: %s", n, query[string](w, `SELECT status || ' ' || type || ' ' || payment_ref || ' ' || body FROM webhook_events`))
	}
}
