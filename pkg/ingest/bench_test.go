package ingest_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	vegeta "github.com/tsenart/vegeta/v12/lib"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/ingest"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
)

// texts makes signed requests of about 1 KB, each with an id of its own.
type texts struct {
	pad string
	n   atomic.Int64
}

func newTexts() *texts {
	noise := make([]byte, 450)
	rand.Read(noise)
	return &texts{pad: hex.EncodeToString(noise)}
}

func (x *texts) next() []byte {
	n := x.n.Add(1)
	return fmt.Appendf(nil, `{"id":"evt_%016x","type":"payment.paid","payment":"pay_%d","pad":"%s"}`, uint64(n)*0x9E3779B97F4A7C15, n, x.pad)
}

// quiet is an ingest without HTTP, with a pool of its own size.
func quiet(b *testing.B, conns int32, change func(*ingest.Config)) (*ingest.Ingest, func()) {
	b.Helper()
	postgrestest.New(b)
	db, err := postgres.Open(b.Context(), postgres.Config{DatabaseURL: postgrestest.URL(b), MaxConns: conns})
	if err != nil {
		b.Fatal(err)
	}
	c := defaults()
	change(&c)
	in := ingest.New(c, parts(db, &bell{deaf: true}))
	in.Start()
	return in, func() { in.Close(); db.Close() }
}

// rate sends n requests by 256 senders and returns events a second.
func rate(b *testing.B, n int, send func(body []byte) int) float64 {
	b.Helper()
	x := newTexts()
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	started := time.Now()
	for range 256 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if status := send(x.next()); status != 200 {
					b.Errorf("answer %d", status)
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(n) / time.Since(started).Seconds()
}

func direct(in *ingest.Ingest) func([]byte) int {
	return func(body []byte) int {
		req := httptest.NewRequest(http.MethodPost, "/webhooks/testpay", bytes.NewReader(body))
		req.Header.Set(signatureHeader, sign("secret", body))
		rec := httptest.NewRecorder()
		in.ServeHTTP(rec, req)
		return rec.Code
	}
}

// BenchmarkStore compares, in one run and through the same handler, group
// commit with one statement a request at the best size of its pool.
//
//	go test -run '^$' -bench BenchmarkStore -benchtime 1x ./pkg/ingest
func BenchmarkStore(b *testing.B) {
	const requests = 6000
	warmly := func(in *ingest.Ingest, n int) float64 {
		rate(b, n/5, direct(in))
		return rate(b, n, direct(in))
	}
	var group, single, overHTTP float64
	best := 0
	for b.Loop() {
		for _, conns := range []int{4, 8, 16, 32, 64} {
			in, done := quiet(b, int32(conns), func(c *ingest.Config) { c.BatchRows, c.Flushers = 1, conns })
			r := warmly(in, requests)
			done()
			b.Logf("one insert a request, %2d connections: %6.0f events/s", conns, r)
			if r > single {
				single, best = r, conns
			}
		}
		in, done := quiet(b, 4, func(*ingest.Config) {})
		for range 3 { // as the best of several, like the other side
			group = max(group, warmly(in, 2*requests))
		}
		b.Logf("group commit, 2 flushers:             %6.0f events/s", group)

		server := httptest.NewServer(in)
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
		overHTTP = max(overHTTP, rate(b, 2*requests, func(body []byte) int {
			req, _ := http.NewRequest(http.MethodPost, server.URL+"/webhooks/testpay", bytes.NewReader(body))
			req.Header.Set(signatureHeader, sign("secret", body))
			r, err := tryDo(client, req)
			if err != nil {
				return 0
			}
			return r.status
		}))
		b.Logf("group commit, over HTTP:              %6.0f events/s, client included", overHTTP)
		client.CloseIdleConnections()
		server.Close()
		done()
	}
	b.ReportMetric(group, "group_events/s")
	b.ReportMetric(single, "single_events/s")
	b.ReportMetric(float64(best), "single_conns")
	b.ReportMetric(group/single, "ratio")
	b.ReportMetric(overHTTP, "http_events/s")
	if group < 3*single {
		b.Errorf("group commit is %.1f times as fast as single inserts, want 3", group/single)
	}
}

// BenchmarkAck measures the time to an answer at 1,000 events a second that
// come whether or not earlier ones were answered (open loop).
func BenchmarkAck(b *testing.B) {
	w := newWorld(b)
	x := newTexts()
	target := func(t *vegeta.Target) error {
		body := x.next()
		t.Method, t.URL, t.Body = http.MethodPost, w.url+"/webhooks/testpay", body
		t.Header = http.Header{signatureHeader: {sign("secret", body)}}
		return nil
	}
	for b.Loop() {
		attack := func(name string, d time.Duration) *hdrhistogram.Histogram {
			h := hdrhistogram.New(1, int64(time.Minute), 3)
			attacker := vegeta.NewAttacker(vegeta.Workers(64), vegeta.MaxWorkers(2000), vegeta.Timeout(10*time.Second))
			failures := map[string]int{}
			for r := range attacker.Attack(target, vegeta.Rate{Freq: 1000, Per: time.Second}, d, name) {
				if r.Code != 200 {
					failures[fmt.Sprint(r.Code, " ", r.Error)]++
				}
				h.RecordValue(int64(r.Latency)) //nolint:errcheck // at most the time-out, which fits
			}
			if len(failures) > 0 {
				b.Errorf("%s: %v", name, failures)
			}
			return h
		}
		attack("warm-up", time.Second)
		h := attack("measured", 5*time.Second)
		for _, q := range []float64{50, 90, 99, 99.9} {
			b.ReportMetric(float64(h.ValueAtQuantile(q))/1e6, strings.ReplaceAll(fmt.Sprintf("p%v_ms", q), ".", "_"))
		}
		if p99 := time.Duration(h.ValueAtQuantile(99)); p99 > 15*time.Millisecond {
			b.Logf("p99 is %s; the target is 15ms on a machine that does nothing else", p99)
		}
	}
}

// BenchmarkHandler is everything but the database: read, verify, key, queue,
// answer.
func BenchmarkHandler(b *testing.B) {
	c := defaults()
	p := parts(nil, &bell{deaf: true})
	p.Store, p.RecordRejections = instant{}, nil
	in := ingest.New(c, p)
	in.Start()
	defer in.Close()
	x := newTexts()
	send := direct(in)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if status := send(x.next()); status != 200 {
				b.Errorf("answer %d", status)
			}
		}
	})
}

// instant is a store that costs nothing, to see what the handler costs.
type instant struct{}

func (instant) InsertEvents(_ context.Context, arrivals []event.Arrival) ([]event.Stored, error) {
	stored := make([]event.Stored, len(arrivals))
	for i := range stored {
		stored[i] = event.Stored{ID: 1, New: true, Publish: true}
	}
	return stored, nil
}
