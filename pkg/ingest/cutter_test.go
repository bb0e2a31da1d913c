package ingest_test

import (
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
)

// cutter is a TCP proxy to a database that breaks connections after so many
// bytes of the server's answers.
type cutter struct {
	port   int
	left   atomic.Int64 // negative: no limit
	cuts   atomic.Int64
	target string
}

func newCutter(t *testing.T, host string, port uint16) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{port: l.Addr().(*net.TCPAddr).Port, target: host}
	c.left.Store(-1)
	network, address := "tcp", net.JoinHostPort(host, strconv.Itoa(int(port)))
	if len(host) > 0 && host[0] == '/' {
		network, address = "unix", host+"/.s.PGSQL."+strconv.Itoa(int(port))
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial(network, address)
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				io.Copy(server, client) //nolint:errcheck // an end is an end
				server.Close()
			}()
			go c.pass(client, server)
		}
	}()
	return c
}

// after lets so many bytes of answers through; -1 lets all.
func (c *cutter) after(bytes int64) { c.left.Store(bytes) }

func (c *cutter) pass(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	buf := make([]byte, 4096)
	for {
		n, err := server.Read(buf)
		if left := c.left.Load(); left >= 0 {
			if int64(n) > left {
				client.Write(buf[:left])
				c.cuts.Add(1)
				return
			}
			c.left.Add(-int64(n))
		}
		if _, werr := client.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}
