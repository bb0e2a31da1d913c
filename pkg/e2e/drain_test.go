package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// stops are the signals by which an orchestrator or a person ends a process.
var stops = []os.Signal{syscall.SIGTERM, os.Interrupt}

// A request is in hand from the moment that the server has read its head,
// whether it still sends its body or waits for its commit. One whose head
// comes later is closed without an answer, by net/http: SHUTDOWN_DELAY is for
// those, see the next test.
func TestAnIngestThatIsStoppedAnswersEveryRequestInHand(t *testing.T) {
	for _, signal := range stops {
		t.Run(signal.String(), func(t *testing.T) {
			sim := badDay(t, 3, 60)
			s := newStack(t, sim).up(1, 0)
			const each = 10
			// Some are in the middle of their bodies ...
			var half []*rawRequest
			for i := range each {
				half = append(half, beginRaw(t, s.addrs[0], sim, "asaas", asaasBody(fmt.Sprint("evt_half_", i), fmt.Sprint("pay_half_", i))))
			}
			// ... and some wait for a commit, which a lock holds up.
			tx, err := s.db.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // committed below
			if _, err := tx.Exec(t.Context(), `LOCK TABLE event_bodies IN ACCESS EXCLUSIVE MODE`); err != nil {
				t.Fatal(err)
			}
			var waiting []*rawRequest
			for i := range each {
				r := beginRaw(t, s.addrs[0], sim, "pagpolar", []byte(fmt.Sprintf(`{"event":"TRANSACTION_CREATED","id":"a","data":{"transaction":{"id":"w%d"}}}`, i)))
				r.finish()
				waiting = append(waiting, r)
			}
			eventually(t, 5*time.Second, "a commit waits for the lock", func() bool {
				return queryOne[bool](t, s.db, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'event_bodies'::regclass)`)
			})
			s.ingests[0].signal(signal)
			eventually(t, 5*time.Second, "the listener is closed", func() bool {
				resp, err := http.Get("http://" + s.addrs[0] + "/")
				if err == nil {
					resp.Body.Close() //nolint:errcheck // only whether there is one
				}
				return err != nil
			})
			for _, r := range half {
				r.finish()
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			for i, r := range append(half, waiting...) {
				if status, body := r.answer(); status != 200 {
					t.Errorf("request %d in hand at the stop: %d %q", i, status, body)
				}
			}
			if code := s.ingests[0].wait(20 * time.Second); code != 0 {
				t.Errorf("ended with code %d", code)
			}
			if n := queryOne[int](t, s.db, `SELECT count(*) FROM events`); n != 2*each {
				t.Errorf("%d events stored, want %d", n, 2*each)
			}
		})
	}
}

// What a load balancer does in a rolling release: it stops sending when the
// pod is not ready, and the pod goes on for SHUTDOWN_DELAY.
func TestARollingReleaseOfIngestCostsNoRequest(t *testing.T) {
	sim := badDay(t, 4, 60)
	s := newStack(t, sim)
	s.env["SHUTDOWN_DELAY"] = "1s"
	s.up(2, 0)
	var inRotation [2]atomic.Bool
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var mu sync.Mutex
	watch := func(i int) {
		mu.Lock()
		p := s.ingests[i]
		mu.Unlock()
		status, _ := p.page("/readyz")
		inRotation[i].Store(status == 200)
	}
	for i := range 2 {
		watch(i)
		all.Go(func() {
			for ctx.Err() == nil {
				watch(i)
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	var sent, bad atomic.Int64
	client := &http.Client{Timeout: 8 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer client.CloseIdleConnections()
	for sender := range 8 {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				i := n % 2
				if !inRotation[i].Load() {
					i = 1 - i
				}
				body := asaasBody(fmt.Sprintf("evt_roll_%d_%d", sender, n), "pay_roll")
				signed, path, _ := sim.Sign("asaas", body, time.Now())
				req, _ := http.NewRequest(http.MethodPost, "http://"+s.addrs[i]+path, bytes.NewReader(body))
				req.Header = signed.Header
				resp, err := client.Do(req)
				sent.Add(1)
				if err != nil || resp.StatusCode != 200 {
					bad.Add(1)
					t.Errorf("request %d of sender %d to ingest %d: %v %v", n, sender, i+1, resp, err)
				}
				if err == nil {
					resp.Body.Close() //nolint:errcheck // the body is two letters
				}
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	for i := range 2 {
		time.Sleep(400 * time.Millisecond)
		s.ingests[i].stop(stops[i])
		next := s.ingest(i).ready()
		mu.Lock()
		s.ingests[i] = next
		mu.Unlock()
	}
	time.Sleep(400 * time.Millisecond)
	stop()
	all.Wait()
	stored := queryOne[int64](t, s.db, `SELECT count(*) FROM events`)
	if sent.Load() < 500 || bad.Load() > 0 || stored != sent.Load() {
		t.Errorf("%d sent, %d without success, %d stored", sent.Load(), bad.Load(), stored)
	}
}

// With the usual wait of 30 s for acknowledgements, whatever a stopped
// processor left unsettled would not be final in time.
func TestProcessorsThatAreStoppedLeaveNothingBehind(t *testing.T) {
	for _, signal := range stops {
		t.Run(signal.String(), func(t *testing.T) {
			sim := badDay(t, 5, 200)
			s := newStack(t, sim)
			s.env["NATS_ACK_WAIT"] = "30s"
			s.migrate()
			s.up(2, 3)
			report := s.storm(sim, act{0.3, func() {
				for _, p := range s.processors {
					p.signal(signal)
				}
				for i, p := range s.processors {
					if code := p.wait(20 * time.Second); code != 0 {
						t.Errorf("%s ended with code %d", p.name, code)
					}
					s.processors[i] = s.processor(i)
				}
			}})
			s.settle(15 * time.Second)
			s.reconcile(20 * time.Second)
			compare(t, s.db, sim, report)
		})
	}
}

func asaasBody(event, payment string) []byte {
	return []byte(`{"id":"` + event + `","event":"PAYMENT_CREATED","dateCreated":"2026-01-02 10:00:00","payment":{"object":"payment","id":"` + payment +
		`","value":10.00,"netValue":9.00,"status":"PENDING"}}`)
}
