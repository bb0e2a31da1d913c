package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"sync"
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
	req := g.by(1, signed)
	if coding != "" {
		req.header.Set("Content-Encoding", coding)
	}
	req.body = sent
	return w.post(req)
}

func TestCase_A11_CompressedBodiesOfAllGatewaysReachTheLedgerAndBombsStopAtTheLimit(t *testing.T) {
	bomb := bytes.Repeat(zipped(t, bytes.Repeat([]byte{' '}, 4<<20)), 50) // 200 MiB
	inWorld(t).each(func(w *testWorld, g *gateway) {
		s := newSale(g).paid()
		w.api.tells(g, s)
		body := g.body(newHook("paid", "evt_"+s.id, s))
		body = g.padded(body, 2048)
		if r := w.sendCoded(g, "gzip", body, zipped(w.t, body)); r.status != 200 {
			w.t.Errorf("gzip: %d %q", r.status, r.body)
		}
		w.wantStored(g, body)
		w.wantCredited(g, s)

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

// Numbers in spellings that are exact are amounts like any other.
func TestAmountsInOddSpellingsThatAreExactAreTaken(t *testing.T) {
	odd := func(g *gateway) bool { return len(g.odds) > 0 }
	inWorld(t).eachThat(odd, func(w *testWorld, g *gateway) {
		for _, other := range g.odds {
			s := newSale(g).paid()
			w.api.tells(g, s)
			body := g.body(newHook("paid", "evt_"+s.id, s))
			changed := g.worth(body, other)
			if bytes.Equal(body, changed) {
				w.t.Fatalf("the amount was not changed to %s", other)
			}
			w.take(g, changed)
			w.wantCredited(g, s)
		}
	})
}

// Whether a body is too large is known before its sender is.
func TestBodiesThatAreEmptyOrBeyondTheLimitAreRefusedAndNothingIsStored(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		before := queryOne[int](w.t, w.db, `SELECT count(*) FROM events WHERE provider = $1`, g.name)
		answers := func() float64 { return w.ingestMetric("umavez_ingest_requests_total", "provider="+g.name, "class=4xx") }
		refused, want := answers(), 4.0
		if !g.probes {
			want++ // the one without a body
		}
		large := g.padded(g.body(newHook("paid", "evt_large", newSale(g).paid())), 1<<20+1)
		if r := w.send(g, nil); !g.probes && r.status != http.StatusBadRequest {
			w.t.Errorf("no body at all: %d %q", r.status, r.body)
		}
		if r := w.send(g, large); r.status != http.StatusRequestEntityTooLarge {
			w.t.Errorf("over the limit: %d %q %v", r.status, r.body, r.err)
		}
		req := g.by(0, large)
		conn := dialRaw(w.t, w.addr())
		writeRaw(w.t, conn, []byte(head(req.target, req.header, "Transfer-Encoding: chunked")))
		for range 17 { // 64 KiB each
			if _, err := fmt.Fprintf(conn, "10000\r\n%s\r\n", large[:1<<16]); err != nil {
				break // it has hung up, as it should
			}
		}
		if status, _ := readAnswer(conn); status != http.StatusRequestEntityTooLarge && status != 0 {
			w.t.Errorf("chunks without end: %d", status)
		}

		body := large[:200]
		req = g.by(0, body)
		conn = dialRaw(w.t, w.addr())
		writeRaw(w.t, conn, []byte(head(req.target, req.header, "Transfer-Encoding: chunked")+"zz\r\n"))
		if status, _ := readAnswer(conn); status != http.StatusBadRequest {
			w.t.Errorf("a chunk without a length: %d", status)
		}

		conn = dialRaw(w.t, w.addr())
		writeRaw(w.t, conn, []byte(head(req.target, req.header, "Content-Length: 200")))
		writeRaw(w.t, conn, body[:100])
		conn.Close() //nolint:errcheck // on purpose, in the middle of the body
		eventually(w.t, 5*time.Second, "the sender's leaving is noticed", func() bool {
			return answers()-refused >= want
		})
		if after := queryOne[int](w.t, w.db, `SELECT count(*) FROM events WHERE provider = $1`, g.name); after != before && !g.probes {
			w.t.Errorf("%d events were stored", after-before)
		}
		if n := w.ingestMetric("umavez_ingest_requests_total", "provider="+g.name, "class=5xx"); n != 0 {
			w.t.Errorf("%v answers 5xx", n)
		}
	})
}

// All at once: each takes as long as a body may.
func TestABodyThatNeverEndsIsGivenUp(t *testing.T) {
	w := inWorld(t)
	var all sync.WaitGroup
	for _, g := range gateways {
		body := g.body(newHook("paid", "evt_endless", newSale(g).paid()))
		all.Go(func() {
			req, begun := g.by(0, body), time.Now()
			conn, err := net.Dial("tcp", w.addr())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close() //nolint:errcheck // the answer is read
			fmt.Fprintf(conn, "%s64\r\n%s\r\n", head(req.target, req.header, "Transfer-Encoding: chunked"), body[:100])
			if status, text := readAnswer(conn); status != http.StatusRequestTimeout || time.Since(begun) > 6*time.Second {
				t.Errorf("%s: %d %q after %s", g, status, text, time.Since(begun))
			}
		})
	}
	all.Wait()
}

func TestCase_A27_BodiesWithoutALengthAreRead(t *testing.T) {
	inWorld(t).each(func(w *testWorld, g *gateway) {
		send := func(transport *http.Transport, body []byte) reply {
			r := g.by(0, body)
			req, err := http.NewRequest(http.MethodPost, "http://"+w.addr()+r.target, struct{ *bytes.Reader }{bytes.NewReader(body)})
			if err != nil {
				return reply{err: err}
			}
			req.Header = r.header
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
			w.api.tells(g, s)
			body := g.body(newHook("paid", "evt_"+s.id, s))
			if r := send(transport, body); r.status != 200 || r.body != proto {
				w.t.Errorf("%s: %+v", proto, r)
			}
			w.wantStored(g, body)
			w.wantCredited(g, s)
		}
		// With length 0 the body is empty, and the rest is no request.
		body := g.body(newHook("paid", "evt_zero", newSale(g).paid()))
		req := g.by(0, body)
		conn := dialRaw(w.t, w.addr())
		writeRaw(w.t, conn, []byte(head(req.target, req.header, "Content-Length: 0")+string(body)))
		if status, _ := readAnswer(conn); g.probes && status == 200 {
			// An empty body is a probe there, and says nothing.
		} else if status < 400 || status > 499 || g.signs && status != g.refused {
			w.t.Errorf("length 0: %d, want a refusal", status)
		}
		if _, found := w.withBody(g, body); found {
			w.t.Error("a body beyond its length is stored")
		}
	})
}
