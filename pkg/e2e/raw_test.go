package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

// rawRequest is a request on a socket of its own, sent by hand.
type rawRequest struct {
	t    testing.TB
	conn net.Conn
	rest []byte
}

// dialRaw opens a socket to an ingest.
func dialRaw(t testing.TB, addr string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })                 //nolint:errcheck // closed by the peer or here
	conn.SetDeadline(time.Now().Add(20 * time.Second)) //nolint:errcheck // a socket has deadlines
	return conn
}

// head writes the head of a request as gateways do.
func head(path string, h http.Header, more ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: umavez.example\r\n", path)
	for name, values := range h {
		for _, v := range values {
			fmt.Fprintf(&b, "%s: %s\r\n", name, v)
		}
	}
	for _, line := range more {
		b.WriteString(line + "\r\n")
	}
	return b.String() + "\r\n"
}

// beginRaw sends the head of an authentic request, waits until the server asks
// for the body, which proves that the request is in its hands, and sends half.
func beginRaw(t testing.TB, addr string, sim *gatewaysim.Sim, source string, body []byte) *rawRequest {
	t.Helper()
	signed, path, ok := sim.Sign(source, body, time.Now())
	if !ok {
		t.Fatalf("no source %s", source)
	}
	r := &rawRequest{t: t, conn: dialRaw(t, addr), rest: body[len(body)/2:]}
	r.write([]byte(head(signed.Target(path), signed.Header, fmt.Sprintf("Content-Length: %d", len(body)), "Expect: 100-continue")))
	const goOn = "HTTP/1.1 100 Continue\r\n\r\n"
	asked := make([]byte, len(goOn))
	if _, err := io.ReadFull(r.conn, asked); err != nil || string(asked) != goOn {
		t.Fatalf("the server did not ask for the body: %q %v", asked, err)
	}
	r.write(body[:len(body)/2])
	return r
}

func (r *rawRequest) write(b []byte) {
	r.t.Helper()
	writeRaw(r.t, r.conn, b)
}

func writeRaw(t testing.TB, conn net.Conn, b []byte) {
	t.Helper()
	if _, err := conn.Write(b); err != nil {
		t.Errorf("write: %v", err)
	}
}

func (r *rawRequest) finish() { r.write(r.rest) }

// answer reads the answer; status 0 is none.
func (r *rawRequest) answer() (status int, body string) {
	r.t.Helper()
	return readAnswer(r.conn)
}

func readAnswer(conn net.Conn) (status int, body string) {
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close() //nolint:errcheck // read
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, err.Error()
	}
	return resp.StatusCode, string(text)
}
