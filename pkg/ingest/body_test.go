package ingest_test

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/ingest"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
)

// raw writes pieces to a connection of its own, each in a TCP packet, and
// returns the status line of the answer ("" when there is none) and whether
// the server then closed.
func raw(t *testing.T, w *world, pieces ...string) (status string, rest string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(15 * time.Second))
	for _, p := range pieces {
		if _, err := io.WriteString(conn, p); err != nil {
			break // the server has answered and closed
		}
	}
	r := bufio.NewReader(conn)
	status, _ = r.ReadString('\n')
	conn.SetReadDeadline(time.Now().Add(time.Second))
	tail, _ := io.ReadAll(r)
	return strings.TrimSpace(strings.TrimPrefix(status, "HTTP/1.1 ")), string(tail)
}

func head(body string, lines ...string) string {
	return "POST /webhooks/testpay HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + signatureHeader + ": " + sign("secret", []byte(body)) + "\r\n" +
		strings.Join(lines, "\r\n") + "\r\n\r\n"
}

func chunked(body string, size int) (pieces []string) {
	for len(body) > 0 {
		n := min(size, len(body))
		pieces = append(pieces, fmt.Sprintf("%x\r\n%s\r\n", n, body[:n]))
		body = body[n:]
	}
	return append(pieces, "0\r\n\r\n")
}

func (w *world) storedBody(t *testing.T) string {
	t.Helper()
	return string(query[[]byte](w, `SELECT body FROM event_bodies ORDER BY event_id DESC LIMIT 1`))
}

func TestCase_A6_ALetterCutByPacketsOrChunksIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain := `{"id":"1","name":"São João – ação"}`
	pieces := []string{head(plain, fmt.Sprint("Content-Length: ", len(plain)))}
	for i := range len(plain) {
		pieces = append(pieces, plain[i:i+1])
	}
	if status, _ := raw(t, w, pieces...); status != "200 OK" {
		t.Errorf("in one-byte writes: %s", status)
	}
	if got := w.storedBody(t); got != plain {
		t.Errorf("stored %q", got)
	}
	other := `{"id":"2","name":"São João – ação"}`
	if status, _ := raw(t, w, append([]string{head(other, "Transfer-Encoding: chunked")}, chunked(other, 1)...)...); status != "200 OK" {
		t.Errorf("in one-byte chunks: %s", status)
	}
	if got := w.storedBody(t); got != other {
		t.Errorf("stored %q", got)
	}
}

func TestCase_A7_TheDeclaredCharsetIsNotBelieved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, ctype := range []string{"application/json", "application/json; charset=ISO-8859-1", "text/plain; charset=us-ascii", "nonsense/;;"} {
		text := fmt.Sprintf(`{"id":"%d","description":"R$ 10 – ₹ 99 – 💳","line":"a`+"\u2028"+`b"}`, i)
		req := signed(w.url, text)
		req.Header.Set("Content-Type", ctype)
		if r := w.do(req); r.status != 200 {
			t.Errorf("%s: %d", ctype, r.status)
		}
		if got := w.storedBody(t); got != text {
			t.Errorf("%s: stored %q", ctype, got)
		}
	}
}

func TestCase_A26_AByteOrderMarkIsPartOfTheSignedBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, mark := range []string{"\xef\xbb\xbf", "\xef\xbb\xbf\xef\xbb\xbf"} {
		text := mark + fmt.Sprintf(`{"id":"%d"}`, i)
		w.send(text)
		if got := w.storedBody(t); got != text {
			t.Errorf("stored %q", got)
		}
	}
}

func pack(t *testing.T, coding, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	var c io.WriteCloser
	switch coding {
	case "gzip":
		c = gzip.NewWriter(&b)
	case "zlib":
		c = zlib.NewWriter(&b)
	default:
		c, _ = flate.NewWriter(&b, flate.BestCompression)
	}
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func packed(w *world, encoding string, body []byte, signedBytes []byte) *http.Request {
	req, _ := http.NewRequest(http.MethodPost, w.url+"/webhooks/testpay", bytes.NewReader(body))
	req.Header.Set(signatureHeader, sign("secret", signedBytes))
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	return req
}

func TestCase_A11_CompressedBodiesAreReadUnderTheSameLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := func(id string) string { return `{"id":"` + id + `","pad":"` + strings.Repeat("abcdefgh", 250) + `"}` }
	for i, c := range []struct{ coding, encoding string }{{"gzip", "gzip"}, {"gzip", "GZIP"}, {"gzip", "x-gzip"}, {"zlib", "deflate"}, {"flate", "deflate"}} {
		plain := text(fmt.Sprint("decoded", i))
		if r := w.do(packed(w, c.encoding, pack(t, c.coding, plain), []byte(plain))); r.status != 200 {
			t.Errorf("%s, signed before compression: %d", c.encoding, r.status)
		}
		if got := w.storedBody(t); got != plain {
			t.Errorf("%s: stored %.60q", c.encoding, got)
		}
		plain = text(fmt.Sprint("wire", i))
		wire := pack(t, c.coding, plain)
		if r := w.do(packed(w, c.encoding, wire, wire)); r.status != 200 {
			t.Errorf("%s, signed as sent: %d", c.encoding, r.status)
		}
		if got := w.storedBody(t); got != plain {
			t.Errorf("%s: stored %.60q", c.encoding, got)
		}
	}
	before := w.rows()
	good := pack(t, "gzip", text("x"))
	corrupt := append([]byte(nil), good...)
	corrupt[len(corrupt)-5] ^= 1 // the checksum
	for name, c := range map[string]struct {
		req    *http.Request
		status int
	}{
		"signed by somebody else":      {packed(w, "gzip", good, []byte("else")), 400},
		"a wrong checksum":             {packed(w, "gzip", corrupt, corrupt), 400},
		"cut short":                    {packed(w, "gzip", good[:len(good)-9], good[:len(good)-9]), 400},
		"not compressed at all":        {packed(w, "gzip", []byte(text("x")), []byte(text("x"))), 400},
		"an empty body":                {packed(w, "gzip", nil, nil), 400},
		"garbage after the end":        {packed(w, "gzip", append(append([]byte(nil), good...), "garbage"...), good), 400},
		"an encoding that nobody told": {packed(w, "br", good, good), 415},
		"two encodings":                {packed(w, "gzip, gzip", good, good), 415},
	} {
		if r := w.do(c.req); r.status != c.status {
			t.Errorf("%s: %d, want %d", name, r.status, c.status)
		}
	}
	if r := w.do(packed(w, "identity", []byte(`{"id":"i"}`), []byte(`{"id":"i"}`))); r.status != 200 {
		t.Errorf("identity: %d", r.status)
	}
	if n := w.rows(); n != before+1 {
		t.Errorf("%d rows more, want the identity one", n-before)
	}
}

func TestCase_A11_AGzipBombStopsAtTheLimit(t *testing.T) {
	w := newWorld(t) // alone: it measures memory
	var packed200MB bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed200MB, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		z.Write(make([]byte, 1<<20)) //nolint:errcheck // a buffer takes all
	}
	z.Close()
	bomb := packed200MB.Bytes()
	nested := bytes.Repeat(pack(t, "gzip", strings.Repeat("\x00", 1000)), 5000) // many members, each small
	for name, b := range map[string][]byte{"one member": bomb, "many members": nested} {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if r := w.do(packed(w, "gzip", b, b)); r.status != 413 {
			t.Errorf("%s of %d bytes: %d, want 413", name, len(b), r.status)
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
			t.Errorf("%s: %d bytes were allocated", name, used)
		}
	}
	if n := w.rows(); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestBodiesUpToTheLimitAreTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *ingest.Config, _ *ingest.Parts) { c.BodyLimit = 100 << 10 })
	noise := make([]byte, 50<<10)
	rand.Read(noise)
	big := fmt.Sprintf(`{"id":"1","pad":"%x`, noise)
	exact := big[:100<<10-2] + `"}`
	for name, c := range map[string]struct {
		body   io.Reader
		status int
	}{
		"exactly the limit":              {strings.NewReader(exact), 200},
		"exactly the limit, no length":   {io.MultiReader(strings.NewReader(exact)), 200},
		"one byte more":                  {strings.NewReader(exact + " "), 413},
		"one byte more, no length":       {io.MultiReader(strings.NewReader(exact + " ")), 413},
		"a hundred times more":           {strings.NewReader(strings.Repeat(exact, 100)), 413},
		"a hundred times more, unlength": {io.MultiReader(strings.NewReader(strings.Repeat(exact, 100))), 413},
	} {
		req, _ := http.NewRequest(http.MethodPost, w.url+"/webhooks/testpay", c.body)
		req.Header.Set(signatureHeader, sign("secret", []byte(exact)))
		r, err := tryDo(w.client, req)
		if err != nil && c.status == 413 && strings.Contains(name, "hundred") {
			continue // the server closed while we were still sending
		}
		if err != nil || r.status != c.status {
			t.Errorf("%s: %d %v, want %d", name, r.status, err, c.status)
		}
	}
	if n := w.rows(); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
	if got := w.storedBody(t); got != exact {
		t.Error("a body of the limit was changed")
	}
	if status, _ := raw(t, w, head("x", "Content-Length: 10000000000", "Expect: 100-continue")); status != "413 Request Entity Too Large" {
		t.Errorf("announced and not yet sent: %s", status)
	}
}

func TestCase_A27_BodiesWithoutALengthAreNotEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := `{"id":"1"}`
	if status, _ := raw(t, w, append([]string{head(text, "Transfer-Encoding: chunked")}, chunked(text, 4)...)...); status != "200 OK" || w.storedBody(t) != text {
		t.Errorf("chunked: %s", status)
	}

	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	h2 := &http.Transport{Protocols: &protocols}
	defer h2.CloseIdleConnections()
	req, _ := http.NewRequest(http.MethodPost, w.url+"/webhooks/testpay", io.MultiReader(strings.NewReader(`{"id":"2"}`)))
	req.Header.Set(signatureHeader, sign("secret", []byte(`{"id":"2"}`)))
	resp, err := h2.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 || resp.ProtoMajor != 2 || w.storedBody(t) != `{"id":"2"}` {
		t.Errorf("HTTP/2 without a length: %s %d", resp.Proto, resp.StatusCode)
	}

	before := w.rows()
	keep := strings.Replace(head(text, "Content-Length: 0"), "Connection: close\r\n", "", 1)
	status, tail := raw(t, w, keep+text+"\r\n\r\n")
	if status != "400 Bad Request" || !strings.Contains(tail, "HTTP/1.1 400 Bad Request") {
		t.Errorf("length 0 with a body: %s, then %.60q", status, tail)
	}
	if n := w.rows(); n != before {
		t.Errorf("%d rows were stored of a body that was not announced", n-before)
	}
}

func TestBodiesThatContradictThemselvesAreNeverStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *ingest.Config, _ *ingest.Parts) { c.BodyTimeout = 300 * time.Millisecond })
	text := `{"id":"1"}`
	for name, c := range map[string]struct {
		pieces []string
		want   string
	}{
		"two lengths":           {[]string{head(text, "Content-Length: 10", "Content-Length: 11"), text}, "400 Bad Request"},
		"a negative length":     {[]string{head(text, "Content-Length: -1"), text}, "400 Bad Request"},
		"chunks without an end": {[]string{head(text, "Transfer-Encoding: chunked"), "a\r\n" + text + "\r\n"}, "408 Request Timeout"},
		"a chunk that is short": {[]string{head(text, "Transfer-Encoding: chunked"), "b\r\n" + text + "\r\n0\r\n\r\n"}, "400 Bad Request"},
		"a chunk of no number":  {[]string{head(text, "Transfer-Encoding: chunked"), "zz\r\n" + text + "\r\n0\r\n\r\n"}, "400 Bad Request"},
		"an unknown transfer":   {[]string{head(text, "Transfer-Encoding: gzip"), text}, "501 Not Implemented"},
		"less than announced":   {[]string{head(text, "Content-Length: 20"), text}, "408 Request Timeout"},
		"headers without end":   {[]string{"POST /webhooks/testpay HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-A: "+strings.Repeat("a", 1000)+"\r\n", 200)}, "431 Request Header Fields Too Large"},
		"no HTTP":               {[]string{"hello\r\n\r\n"}, "400 Bad Request"},
	} {
		if status, _ := raw(t, w, c.pieces...); status != c.want {
			t.Errorf("%s: %s, want %s", name, status, c.want)
		}
		if n := w.rows(); n != 0 {
			t.Fatalf("%s: %d rows were stored", name, n)
		}
	}
	// Both: the chunks count (RFC 9112), and the signature is of what was read.
	both := append([]string{head(text, "Content-Length: 3", "Transfer-Encoding: chunked")}, chunked(text, 3)...)
	status, _ := raw(t, w, both...)
	if n := w.rows(); status != "200 OK" || n != 1 || w.storedBody(t) != text {
		t.Errorf("length and chunks: %s, %d rows", status, n)
	}
}

func TestASenderWhoGoesAwayInTheMiddleLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, head(`{"id":"1"}`, "Content-Length: 20")+`{"id":"1"}`)
	conn.Close()
	eventually(t, "the request is over", func() bool { return w.metric(`requests_total{class="4xx",provider="testpay"}`) == 1 })
	if n := w.rows(); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// Slow senders are cut off by the body's own time-out and hold up nobody.
func TestSlowSendersHoldUpNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *ingest.Config, _ *ingest.Parts) {
		c.BodyTimeout, c.HeaderTimeout = 500*time.Millisecond, 700*time.Millisecond
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	answers := make(chan string, 60)
	started := time.Now()
	for i := range 60 {
		go func() {
			conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
			if err != nil {
				answers <- err.Error()
				return
			}
			defer conn.Close()
			text := head("x", "Content-Length: 1000")
			if i%2 == 0 {
				text = "POST /webhooks/testpay HTTP/1.1\r\nHost: x\r\nX-Slow: "
			}
			io.WriteString(conn, text)
			go func() {
				for ctx.Err() == nil {
					if _, err := io.WriteString(conn, "a"); err != nil {
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
			}()
			conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			line, err := bufio.NewReader(conn).ReadString('\n')
			if line == "" && err == io.EOF {
				line = "closed"
			}
			answers <- strings.TrimSpace(line)
		}()
	}
	for n := range 20 {
		at := time.Now()
		w.send(fmt.Sprintf(`{"id":"%d"}`, n))
		if took := time.Since(at); took > 3*time.Second { // of which a second is for what follows
			t.Errorf("a normal request took %s", took)
		}
	}
	counts := map[string]int{}
	for range 60 {
		counts[<-answers]++
	}
	if counts["HTTP/1.1 408 Request Timeout"] < 30 {
		t.Errorf("answers to slow senders: %v", counts)
	}
	if took := time.Since(started); took > 8*time.Second {
		t.Errorf("slow senders were let hang for %s", took)
	}
	if n := w.rows(); n != 20 {
		t.Errorf("%d rows, want 20", n)
	}
}

func TestLargeBodiesOfStrangersDoNotCrowdOutSmallOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *ingest.Config, _ *ingest.Parts) { c.LargeBytes = 2 << 20 })
	var conns []net.Conn
	half := strings.Repeat("x", 900<<10)
	for range 6 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
		go io.WriteString(conn, head(half, "Content-Length: 1000000")+half)
	}
	eventually(t, "the budget is spent", func() bool { return w.metric(`overflow_total{what="memory"}`) >= 1 })
	w.send(`{"id":"small"}`)
	for _, c := range conns {
		c.Close()
	}
	big := `{"id":"big","pad":"` + half + `"}`
	eventually(t, "the budget comes back", func() bool { return w.do(signed(w.url, big)).status == 200 })
}

func TestCase_A1_WhatIsCheckedAndKeptAreTheBytesOfTheSocket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const odd = "{\"id\":\"1\",  \"amount\": 100.10,\t\"url\":\"https:\\/\\/loja.example\"}\r\n"
	w.send(odd)
	if got := query[string](w, `SELECT body FROM webhook_events`); got != odd {
		t.Errorf("kept as %q", got)
	}
	again := signed(w.url, strings.Join(strings.Fields(odd), " "))
	again.Header.Set(signatureHeader, sign("secret", []byte(odd)))
	if r := w.do(again); r.status != 400 || r.body != "signature" {
		t.Errorf("a body that was written anew is answered %d %q", r.status, r.body)
	}
	if n := w.rows(); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

// Before it answers a request that it did not read, the server waits for the
// rest of the body, so that the connection can be used again. A sender who does
// not send it must not hold that up: who is told to come later is told quickly.
func TestAnAnswerToAnUnreadRequestDoesNotWaitForItsBody(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	g := newGate(db)
	w := worldOn(t, db, func(c *ingest.Config, p *ingest.Parts) {
		p.Store, c.Flushers = g, 1
		c.QueueRequests, c.AdmitWait = 1, 100*time.Millisecond
	})
	var wg, slow sync.WaitGroup
	defer wg.Wait()
	defer close(g.open)
	wg.Go(func() { w.do(signed(w.url, `{"id":"held"}`)) })
	<-g.entered
	wg.Go(func() { w.do(signed(w.url, `{"id":"queued"}`)) })
	eventually(t, "the queue is full", func() bool { return w.metric("queue_requests") == 1 })
	for line, status := range map[string]string{
		"POST /webhooks/testpay": "503", "POST /webhooks/nobody": "404", "POST /elsewhere": "404", "POST /webhooks//testpay": "404", "PUT /webhooks/testpay": "405",
	} {
		for _, body := range []string{"Content-Length: 100\r\n\r\n", "Content-Length: 100\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n", "Content-Length: 100\r\nExpect: 100-continue\r\n\r\n"} {
			slow.Go(func() {
				at := time.Now()
				first, _ := raw(t, w, line+" HTTP/1.1\r\nHost: umavez\r\n"+body)
				if took := time.Since(at); !strings.HasPrefix(first, status) || took > 3*time.Second { // of which a second is for what follows
					t.Errorf("%s, %q: %q after %s", line, body, first, took)
				}
			})
		}
	}
	slow.Wait()
}

// A sender whose body is on its way keeps his connection.
func TestWhoIsRefusedUnreadKeepsHisConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn, err := net.Dial("tcp", w.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for n := range 3 {
		if _, err := fmt.Fprintf(conn, "POST /webhooks/nobody HTTP/1.1\r\nHost: umavez\r\nContent-Length: 100\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
		if _, err := conn.Write(bytes.Repeat([]byte("x"), 100)); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(answers, nil)
		if err != nil || r.StatusCode != 404 || r.Close {
			t.Fatalf("answer %d: %+v, %v", n, r, err)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // the pause between two requests has a time of its own
	}
}

// Bodies of usual size are not counted, so their part of the memory is bounded
// by the number of requests alone. A stranger's bodies just above it are.
func TestBodiesOfStrangersThatAreNotLargeAreBoundedTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *ingest.Config, _ *ingest.Parts) { c.LargeBytes = 2 << 20 })
	const strangers = 150
	part := strings.Repeat("x", 60<<10) // and never the rest
	var sent sync.WaitGroup
	for range strangers {
		conn, err := net.Dial("tcp", w.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		sent.Go(func() { io.WriteString(conn, head("x", "Content-Length: 65000")+part) }) //nolint:errcheck // it may be refused
	}
	sent.Wait()
	eventually(t, "those beyond the bound are refused", func() bool { return w.metric(`overflow_total{what="memory"}`) >= strangers-45 })
	w.send(`{"id":"of usual size"}`)
}
