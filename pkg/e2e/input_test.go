package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

func zipped(t testing.TB, body []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if _, err := z.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// sendCoded sends bytes on the wire under credentials made for a body.
func (w *testWorld) sendCoded(g *gateway, coding string, signed, sent []byte) reply {
	header := g.sign(secretsOf(g, "default")[1], signed)
	if coding != "" {
		header.Set("Content-Encoding", coding)
	}
	return w.post("/webhooks/"+g.name, header, sent)
}

func TestCase_A11_CompressedBodiesOfAllGatewaysReachTheLedgerAndBombsStopAtTheLimit(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		s := newSale(g).paid()
		w.api.says(g, "default", s)
		body := g.body(newHook("paid", "evt_"+s.id, s))
		body = append(body, bytes.Repeat([]byte(" "), 2048-len(body)%2048)...)
		if r := w.sendCoded(g, "gzip", body, zipped(w.t, body)); r.status != 200 {
			w.t.Errorf("gzip: %d %q", r.status, r.body)
		}
		w.wantStored(g, body)
		w.wantCredited(g, s)

		bomb := zipped(w.t, bytes.Repeat([]byte{' '}, 200<<20))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if r := w.sendCoded(g, "gzip", body, bomb); r.status != http.StatusRequestEntityTooLarge {
			w.t.Errorf("a bomb of %d bytes: %d %q", len(bomb), r.status, r.body)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
			w.t.Errorf("a bomb made us allocate %d MiB", n>>20)
		}
		for name, c := range map[string]struct {
			coding string
			sent   []byte
			status int
		}{
			"corrupt":            {"gzip", append(zipped(w.t, body)[:40], "corrupt, corrupt"...), 400},
			"cut short":          {"gzip", zipped(w.t, body)[:60], 400},
			"not compressed":     {"gzip", body, 400},
			"empty":              {"gzip", nil, 400},
			"an unknown coding":  {"br", body, 415},
			"coded twice":        {"gzip, gzip", zipped(w.t, zipped(w.t, body)), 415},
			"a trailer of bytes": {"gzip", append(zipped(w.t, body), "tail"...), 400},
		} {
			if r := w.sendCoded(g, c.coding, body, c.sent); r.status != c.status {
				w.t.Errorf("%s: %d %q, want %d", name, r.status, r.body, c.status)
			}
		}
	})
}

// What the contract asks for: success for whatever is authentic, so that no
// gateway stops its queue; the bytes kept; a reason for whoever looks.
func TestAuthenticBodiesThatCannotBeReadAreTakenKeptAndExplained(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		good := string(g.body(newHook("paid", "evt_bad", newSale(g).paid())))
		paymentID := `"id":"` + g.prefix
		amount := map[string]string{"stripe": `"amount_received":10010`, "asaas": `"value":100.10`}[g.name]
		amountName, _, _ := strings.Cut(amount, ":")
		unreadable := func(body string) want { return want{body, "quarantined", "unreadable"} }
		wants := []want{
			unreadable(good[:len(good)/2]), unreadable(good[:len(good)-1]), unreadable(good + "}"), unreadable(good + good),
			unreadable(" \n "), unreadable("\x00"), unreadable("null"), unreadable("{"), unreadable("{}"), unreadable(strings.Repeat("[", 100000)),
			unreadable(strings.Replace(good, `{"`, `{"id":"first","`, 1) + " "), // a name twice
			unreadable(strings.Replace(good, paymentID, `"id":"x",`+paymentID, 1)),
			unreadable(strings.Replace(good, paymentID, `"id":"a\u0000b`, 1)), unreadable(strings.Replace(good, paymentID, "\"id\":\"\xff\xfe", 1)),
			unreadable(strings.Replace(good, paymentID, `"id":{"a":1},"x":"`, 1)), unreadable(strings.Replace(good, paymentID, `"id":true,"x":"`, 1)),
			unreadable(strings.Replace(good, paymentID, `"id":"`+strings.Repeat("9", 300), 1)), unreadable("<xml/>"), unreadable("id=1&status=paid"),
			unreadable(strings.ReplaceAll(good, `"`, `'`)), unreadable(strings.Replace(good, ":", ":NaN,\"x\":", 1)),
		}
		if amount != "" { // PagPolar's bodies have none
			for _, n := range []string{
				"1234567890123456789012345678901234567890", "1e400", "-1", `"ten"`, `"0x10"`, `true`, `{"a":1}`, `[1]`, "100.001", "1e-5", `"1,00"`, `"NaN"`, "9223372036854775808",
			} {
				wants = append(wants, want{strings.Replace(good, amount, amountName+":"+n, 1), "quarantined", ""})
			}
		}
		seen := map[string]bool{}
		for i, c := range wants {
			if seen[c.body] {
				w.t.Fatalf("a body is there twice, so one was not changed: %.200s", c.body)
			}
			seen[c.body] = true
			wants[i].body = strings.ReplaceAll(c.body, "evt_bad", fmt.Sprint("evt_bad_", i)) // or one is a duplicate of another
		}
		panics := w.ingestMetric("umavez_ingest_panics_total")
		w.become(g, wants)
		for _, c := range wants {
			if e := w.settledBody(g, []byte(c.body)); e.Reason == "" || len(e.Reason) > 300 {
				w.t.Errorf("%.100s: reason %q", c.body, e.Reason)
			}
		}
		if n := w.ingestMetric("umavez_ingest_panics_total") - panics; n != 0 {
			w.t.Errorf("%v panics", n)
		}
		if n := w.ingestMetric("umavez_ingest_requests_total", "provider="+g.name, "class=5xx"); n != 0 {
			w.t.Errorf("%v answers 5xx", n)
		}
		if strings.Contains(w.log.String(), "panic") {
			w.t.Error("a panic was logged")
		}
	})
}

// Numbers in spellings that are exact are amounts like any other.
func TestAmountsInOddSpellingsThatAreExactAreTaken(t *testing.T) {
	w := inWorld(t)
	for g, spellings := range map[*gateway]map[string][]string{
		&stripeGateway: {`"amount_received":10010`: {`"10010"`}},
		&asaasGateway:  {`"value":100.10`: {"100.1", "100.100", `"100.10"`, "100.1000000000000000000000000000000000000"}},
	} {
		for amount, others := range spellings {
			name, _, _ := strings.Cut(amount, ":")
			for _, other := range others {
				s := newSale(g).paid()
				w.api.says(g, "default", s)
				body := strings.Replace(string(g.body(newHook("paid", "evt_"+s.id, s))), amount, name+":"+other, 1)
				w.take(g, []byte(body))
				w.wantCredited(g, s)
			}
		}
	}
}

// Whether a body is too large is known before its sender is.
func TestBodiesThatAreEmptyOrBeyondTheLimitAreRefusedAndNothingIsStored(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		before := queryOne[int](w.t, w.db, `SELECT count(*) FROM events WHERE provider = $1`, g.name)
		if r := w.send(g, nil); r.status != http.StatusBadRequest {
			w.t.Errorf("no body at all: %d %q", r.status, r.body)
		}
		large := append(g.body(newHook("paid", "evt_large", newSale(g).paid())), bytes.Repeat([]byte(" "), 1<<20)...)
		if r := w.send(g, large); r.status != http.StatusRequestEntityTooLarge {
			w.t.Errorf("over the limit: %d %q %v", r.status, r.body, r.err)
		}
		sign := func(body []byte) http.Header { return g.sign(secretsOf(g, "default")[0], body) }
		path := "/webhooks/" + g.name

		conn := dialRaw(w.t, w.addr())
		writeRaw(w.t, conn, []byte(head(path, sign(large), "Transfer-Encoding: chunked")))
		for range 17 { // 64 KiB each
			if _, err := fmt.Fprintf(conn, "10000\r\n%s\r\n", large[:1<<16]); err != nil {
				break // it has hung up, as it should
			}
		}
		if status, _ := readAnswer(conn); status != http.StatusRequestEntityTooLarge && status != 0 {
			w.t.Errorf("chunks without end: %d", status)
		}

		body := large[:200]
		begun := time.Now()
		conn = dialRaw(w.t, w.addr())
		writeRaw(w.t, conn, []byte(head(path, sign(body), "Transfer-Encoding: chunked")+"64\r\n"+string(body[:100])+"\r\n"))
		if status, text := readAnswer(conn); status != http.StatusRequestTimeout || time.Since(begun) > 6*time.Second {
			w.t.Errorf("a body that never ends: %d %q after %s", status, text, time.Since(begun))
		}

		conn = dialRaw(w.t, w.addr())
		writeRaw(w.t, conn, []byte(head(path, sign(body), "Transfer-Encoding: chunked")+"zz\r\n"))
		if status, _ := readAnswer(conn); status != http.StatusBadRequest {
			w.t.Errorf("a chunk without a length: %d", status)
		}

		conn = dialRaw(w.t, w.addr())
		writeRaw(w.t, conn, []byte(head(path, sign(body), "Content-Length: 200")))
		writeRaw(w.t, conn, body[:100])
		conn.Close() //nolint:errcheck // on purpose, in the middle of the body
		eventually(w.t, 5*time.Second, "the sender's leaving is noticed", func() bool {
			return w.ingestMetric("umavez_ingest_requests_total", "provider="+g.name, "class=4xx") >= 5
		})
		if after := queryOne[int](w.t, w.db, `SELECT count(*) FROM events WHERE provider = $1`, g.name); after != before {
			w.t.Errorf("%d events were stored", after-before)
		}
		if n := w.ingestMetric("umavez_ingest_requests_total", "provider="+g.name, "class=5xx"); n != 0 {
			w.t.Errorf("%v answers 5xx", n)
		}
	})
}

func TestCase_A27_BodiesWithoutALengthAreRead(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		path := "/webhooks/" + g.name
		send := func(transport *http.Transport, body []byte) reply {
			req, err := http.NewRequest(http.MethodPost, "http://"+w.addr()+path, struct{ *bytes.Reader }{bytes.NewReader(body)})
			if err != nil {
				return reply{err: err}
			}
			req.Header = g.sign(secretsOf(g, "default")[0], body)
			req.ContentLength = -1
			defer transport.CloseIdleConnections()
			resp, err := transport.RoundTrip(req)
			if err != nil {
				return reply{err: err}
			}
			defer resp.Body.Close() //nolint:errcheck // only the status counts
			return reply{status: resp.StatusCode, body: resp.Proto}
		}
		var h2c http.Protocols
		h2c.SetUnencryptedHTTP2(true)
		for proto, transport := range map[string]*http.Transport{"HTTP/1.1": {}, "HTTP/2.0": {Protocols: &h2c}} {
			s := newSale(g).paid()
			w.api.says(g, "default", s)
			body := g.body(newHook("paid", "evt_"+s.id, s))
			if r := send(transport, body); r.status != 200 || r.body != proto {
				w.t.Errorf("%s: %+v", proto, r)
			}
			w.wantStored(g, body)
			w.wantCredited(g, s)
		}
		// With length 0 the body is empty, and the rest is no request.
		body := g.body(newHook("paid", "evt_zero", newSale(g).paid()))
		conn := dialRaw(w.t, w.addr())
		writeRaw(w.t, conn, []byte(head(path, g.sign(secretsOf(g, "default")[0], body), "Content-Length: 0")+string(body)))
		if status, _ := readAnswer(conn); status < 400 || status > 499 || g.signs && status != g.refused {
			w.t.Errorf("length 0: %d, want a refusal", status)
		}
		if _, found := w.withBody(g, body); found {
			w.t.Error("a body beyond its length is stored")
		}
	})
}
