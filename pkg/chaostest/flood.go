package chaostest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

// flood sends as many webhooks as are asked for, from as little of the machine
// as possible: whole requests are made before, on connections that are kept,
// and only the digits of two ids are written into each. It speaks to loopback
// alone.
type flood struct {
	addr      string
	templates []template
	most      int64         // requests that it may send in its life
	next      atomic.Int64  // the number of the next request
	acked     []atomic.Bool // by number: answered with success
	sent      []atomic.Bool // by number: written to a connection, whole or in part
}

// template is a request whose ids end in digits that are its number's.
type template struct {
	raw []byte
	at  []int // where the digits begin
}

// digits are those of a request's number.
const digits = 10

// floodPrefix marks the ids of events that a flood sends.
const floodPrefix = "evt_f100d"

// newFlood makes templates of webhooks of different owners.
func newFlood(sim *gatewaysim.Sim, addr string, ds []*gatewaysim.Delivery, most int64) (*flood, error) {
	if host, _, err := net.SplitHostPort(addr); err != nil || !net.ParseIP(host).IsLoopback() {
		return nil, fmt.Errorf("%s is not an address of this machine's loopback", addr)
	}
	f := &flood{addr: addr, most: most, acked: make([]atomic.Bool, most), sent: make([]atomic.Bool, most)}
	truth := sim.Truth()
	for _, d := range ds {
		one, ok := templateOf(d, truth[d.Payment].ID, addr)
		if !ok {
			return nil, fmt.Errorf("the webhook of %s has no ids to number", truth[d.Payment].ID)
		}
		f.templates = append(f.templates, one)
	}
	if len(f.templates) == 0 {
		return nil, errors.New("there is no webhook to send")
	}
	return f, nil
}

func templateOf(d *gatewaysim.Delivery, payment, addr string) (t template, ok bool) {
	sent := d.Request(time.Now(), 0)
	zeros := "0000000000"
	numberedEvent := floodPrefix + zeros
	numberedPayment := payment[:len(payment)-digits] + zeros
	body := bytes.ReplaceAll(sent.Body, []byte(d.EventID), []byte(numberedEvent))
	body = bytes.ReplaceAll(body, []byte(payment), []byte(numberedPayment))
	var head bytes.Buffer
	fmt.Fprintf(&head, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", sent.Target(d.Path), addr, len(body))
	for name, values := range sent.Header {
		for _, v := range values {
			fmt.Fprintf(&head, "%s: %s\r\n", name, v)
		}
	}
	head.WriteString("\r\n")
	t.raw = append(head.Bytes(), body...)
	for _, id := range []string{numberedEvent, numberedPayment} {
		found := 0
		for from := 0; ; found++ {
			i := bytes.Index(t.raw[from:], []byte(id))
			if i < 0 {
				break
			}
			t.at = append(t.at, from+i+len(id)-digits)
			from += i + len(id)
		}
		if found == 0 {
			return t, false
		}
	}
	return t, true
}

// number writes a request's number into a buffer that holds the template.
func (t *template) number(buf []byte, n int64) {
	for _, at := range t.at {
		for i, v := at+digits-1, n; i >= at; i-- {
			buf[i] = byte('0' + v%10)
			v /= 10
		}
	}
}

// flow is what came of a flood for a while.
type flow struct {
	Seconds    float64        `json:"seconds"`
	Conns      int            `json:"connections"`
	Wanted     float64        `json:"wanted_per_s"` // 0: as fast as answers come
	Sent       int64          `json:"sent"`
	Withheld   int64          `json:"withheld"` // due, and no connection was free for it
	Accepted   int64          `json:"accepted"`
	Refused    int64          `json:"refused"`            // 503 with Retry-After
	Hasty      int64          `json:"refused_otherwise"`  // any other answer than success
	Broken     int64          `json:"connections_broken"` // no answer, or no connection
	AcceptedMs spread         `json:"accepted_ms"`
	RefusedMs  spread         `json:"refused_ms"`
	Others     map[int]int    `json:"other_statuses,omitempty"`
	BrokenWhy  map[string]int `json:"broken_why,omitempty"`
}

// spread is of latencies in milliseconds.
type spread struct{ P50, P99, P999, Max float64 }

func spreadOf(h *hdrhistogram.Histogram) spread {
	ms := func(us int64) float64 { return float64(us) / 1000 }
	return spread{ms(h.ValueAtQuantile(50)), ms(h.ValueAtQuantile(99)), ms(h.ValueAtQuantile(99.9)), ms(h.Max())}
}

func (f flow) perSecond(n int64) float64 { return float64(n) / max(f.Seconds, 1) }

// run sends for a while on so many connections: rate requests a second whatever
// comes back (open loop), or with rate 0 on each connection the next when the
// last was answered.
func (f *flood) run(ctx context.Context, conns int, rate float64, d time.Duration) flow {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	started := time.Now()
	out := flow{Conns: conns, Wanted: rate, Others: map[int]int{}, BrokenWhy: map[string]int{}}
	tickets := make(chan struct{}, max(1, int(rate/100)))
	var all sync.WaitGroup
	var mu sync.Mutex
	accepted, refused := hdrhistogram.New(1, 60_000_000, 3), hdrhistogram.New(1, 60_000_000, 3)
	for i := range conns {
		all.Go(func() {
			s := sender{f: f, of: i % len(f.templates), accepted: hdrhistogram.New(1, 60_000_000, 2), refused: hdrhistogram.New(1, 60_000_000, 2),
				others: map[int]int{}, brokenWhy: map[string]int{}}
			s.run(ctx, rate > 0, tickets)
			mu.Lock()
			defer mu.Unlock()
			out.Sent += s.sent
			out.Accepted += s.accepted.TotalCount()
			out.Refused += s.refused.TotalCount()
			for status, n := range s.others {
				out.Others[status] += n
				out.Hasty += int64(n)
			}
			for why, n := range s.brokenWhy {
				out.BrokenWhy[why] += n
				out.Broken += int64(n)
			}
			accepted.Merge(s.accepted)
			refused.Merge(s.refused)
		})
	}
	if rate > 0 {
		out.Withheld = pace(ctx, rate, tickets)
	}
	<-ctx.Done()
	out.Seconds = time.Since(started).Seconds()
	all.Wait()
	out.AcceptedMs, out.RefusedMs = spreadOf(accepted), spreadOf(refused)
	return out
}

// pace gives out a ticket whenever a request is due, and counts those for which
// nobody is free.
func pace(ctx context.Context, rate float64, tickets chan<- struct{}) (withheld int64) {
	began := time.Now()
	given := int64(0)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return withheld
		case <-tick.C:
		}
		for due := int64(time.Since(began).Seconds() * rate); given < due; given++ {
			select {
			case tickets <- struct{}{}:
			default:
				withheld++
			}
		}
	}
}

// sender is one connection's life.
type sender struct {
	f                 *flood
	of                int
	sent              int64
	accepted, refused *hdrhistogram.Histogram
	others            map[int]int
	brokenWhy         map[string]int
}

func (s *sender) run(ctx context.Context, paced bool, tickets <-chan struct{}) {
	t := &s.f.templates[s.of]
	buf := bytes.Clone(t.raw)
	var conn net.Conn
	var r *bufio.Reader
	defer func() {
		if conn != nil {
			_ = conn.Close()
		}
	}()
	for {
		if paced {
			select {
			case <-ctx.Done():
				return
			case <-tickets:
			}
		} else if ctx.Err() != nil {
			return
		}
		n := s.f.next.Add(1) - 1
		if n >= s.f.most {
			return
		}
		began := time.Now()
		if conn == nil {
			var err error
			if conn, err = net.DialTimeout("tcp", s.f.addr, 5*time.Second); err != nil {
				s.broken("connect", err)
				conn = nil
				if !wait(ctx, 10*time.Millisecond) {
					return
				}
				continue
			}
			r = bufio.NewReaderSize(conn, 1024)
		}
		t.number(buf, n)
		s.sent++
		s.f.sent[n].Store(true)
		status, retry, again, err := exchange(conn, r, buf)
		took := time.Since(began).Microseconds()
		switch {
		case err != nil:
			s.broken("answer", err)
		case status == 200:
			s.f.acked[n].Store(true)
			_ = s.accepted.RecordValue(took)
		case status == 503 && retry:
			_ = s.refused.RecordValue(took)
		default:
			s.others[status]++
		}
		if err != nil || !again {
			_ = conn.Close()
			conn = nil
		}
	}
}

func (s *sender) broken(at string, err error) {
	why := at + ": other"
	var ne net.Error
	switch {
	case errors.As(err, &ne) && ne.Timeout():
		why = at + ": time-out"
	case errors.Is(err, io.EOF):
		why = at + ": closed"
	}
	s.brokenWhy[why]++
}

var (
	retryAfter = []byte("Retry-After:")
	length     = []byte("Content-Length:")
	closes     = []byte("Connection: close")
)

// exchange sends one request and reads its answer.
func exchange(conn net.Conn, r *bufio.Reader, request []byte) (status int, retry, again bool, err error) {
	if err = conn.SetDeadline(time.Now().Add(attemptTimeout)); err != nil {
		return 0, false, false, err
	}
	if _, err = conn.Write(request); err != nil {
		return 0, false, false, err
	}
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, false, false, err
	}
	if len(line) < 12 {
		return 0, false, false, errors.New("no status line")
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, false, false, err
	}
	again = true
	body := 0
	for {
		if line, err = r.ReadSlice('\n'); err != nil {
			return status, retry, false, err
		}
		switch line = bytes.TrimSpace(line); {
		case len(line) == 0:
			_, err = r.Discard(body)
			return status, retry, again, err
		case bytes.HasPrefix(line, retryAfter):
			retry = true
		case bytes.HasPrefix(line, length):
			if body, err = strconv.Atoi(string(bytes.TrimSpace(line[len(length):]))); err != nil {
				return status, retry, false, err
			}
		case bytes.Equal(line, closes):
			again = false
		}
	}
}
