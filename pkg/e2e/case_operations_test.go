package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/app"
	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/queue"
)

// rotation is what a load balancer knows: which ingests are ready.
type rotation struct {
	s     *stack
	ready []atomic.Bool
	next  atomic.Uint64
}

func (r *rotation) watch(ctx context.Context, i int) {
	for ctx.Err() == nil {
		status, _ := r.s.ingests[i].page("/readyz")
		r.ready[i].Store(status == http.StatusOK)
		time.Sleep(50 * time.Millisecond)
	}
}

// pick is a ready ingest, another one with each call.
func (r *rotation) pick() string {
	for {
		if i := int(r.next.Add(1)) % len(r.ready); r.ready[i].Load() {
			return r.s.addrs[i]
		}
	}
}

func TestCase_G1_TenIngestsShrinkToTwoAndNoRequestIsLost(t *testing.T) {
	t.Parallel()
	const pods, left, rate = 10, 2, 500
	sim := badDay(t, 31, 10)
	s := newStack(t, sim)
	s.env["SHUTDOWN_DELAY"], s.env["DATABASE_MAX_CONNS"] = "1s", "3"
	s.up(pods, 0)
	balancer := &rotation{s: s, ready: make([]atomic.Bool, pods)}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var watchers, senders sync.WaitGroup
	for i := range pods {
		balancer.ready[i].Store(true)
		watchers.Go(func() { balancer.watch(ctx, i) })
	}
	client := &http.Client{Timeout: 8 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
	defer client.CloseIdleConnections()
	var sent, bad atomic.Int64
	begun := time.Now()
	stopping := make(chan struct{})
	for sender := range 16 {
		senders.Go(func() {
			tick := time.NewTicker(16 * time.Second / rate)
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-stopping:
					return
				case <-tick.C:
				}
				body := asaasBody(fmt.Sprintf("evt_g1_%d_%d", sender, n), "pay_g1")
				signed, path, _ := sim.Sign("asaas", body, time.Now())
				addr := balancer.pick()
				req, _ := http.NewRequest(http.MethodPost, "http://"+addr+path, bytes.NewReader(body))
				req.Header = signed.Header
				resp, err := client.Do(req)
				sent.Add(1)
				if err != nil || resp.StatusCode != http.StatusOK {
					if bad.Add(1) < 5 {
						t.Errorf("request %d of sender %d to %s: %v %v", n, sender, addr, resp, err)
					}
				}
				if err == nil {
					resp.Body.Close() //nolint:errcheck // two letters
				}
			}
		})
	}
	time.Sleep(500 * time.Millisecond)
	var stops sync.WaitGroup
	for i := left; i < pods; i++ {
		stops.Go(func() { s.ingests[i].stop(syscall.SIGTERM) })
		time.Sleep(400 * time.Millisecond)
	}
	stops.Wait()
	time.Sleep(300 * time.Millisecond)
	for limit := time.Now().Add(time.Minute); sent.Load() < 1000 && time.Now().Before(limit); {
		time.Sleep(50 * time.Millisecond) // a busy machine sends fewer a second
	}
	close(stopping)
	senders.Wait()
	took := time.Since(begun)
	stop()
	watchers.Wait()
	stored := queryOne[int64](t, s.db, `SELECT count(*) FROM events`)
	t.Logf("%d requests in %s, %.0f a second", sent.Load(), took, float64(sent.Load())/took.Seconds())
	if bad.Load() > 0 || stored != sent.Load() || sent.Load() < 1000 {
		t.Errorf("%d sent, %d refused or answered with an error, %d stored", sent.Load(), bad.Load(), stored)
	}
}

// givenBack takes what no processor is there for and was delivered before, and
// says how long that took to come again: 0 when there was none. What comes with
// a delay, as after a failure, comes within three seconds.
func (s *stack) givenBack(js jetstream.JetStream) (took time.Duration) {
	s.t.Helper()
	_, info := s.state(js)
	if info.NumAckPending == 0 {
		return 0
	}
	begun := time.Now()
	consumer, err := js.Consumer(s.t.Context(), queue.StreamWebhooks, queue.ConsumerName)
	if err != nil {
		s.t.Fatal(err)
	}
	var all []jetstream.Msg
	for again := 0; again < info.NumAckPending && time.Since(begun) < 10*time.Second; {
		batch, err := consumer.Fetch(info.NumAckPending, jetstream.FetchMaxWait(2*time.Second))
		if err != nil {
			s.t.Fatal(err)
		}
		for m := range batch.Messages() {
			if meta, err := m.Metadata(); err == nil && meta.NumDelivered > 1 {
				again++
			}
			all = append(all, m)
		}
	}
	took = max(time.Since(begun), time.Nanosecond)
	for _, m := range all {
		if err := m.Nak(); err != nil {
			s.t.Error(err)
		}
	}
	return took
}

// With a wait of 30 s for acknowledgements, a message that a stopped processor
// kept in its hands would show.
func TestCase_G2_TwoHundredStopsAtRandomMomentsLeaveNoMessageInHand(t *testing.T) {
	t.Parallel()
	s, w := handStack(t)
	s.env["NATS_ACK_WAIT"], s.env["PROCESSOR_BATCH"] = "30s", "10"
	s.migrate()
	s.up(1, 0)
	w.addrs = s.addrs
	g := &asaasGateway
	js := s.beside()
	var sales []sale
	rounds, returned, waited := 200, 0, time.Duration(0)
	for round := range rounds {
		if round%10 == 0 {
			more := w.tellsPaid(g, 40)
			for _, sl := range more {
				w.api.slow(g, sl.id, rand.N(10*time.Millisecond))
			}
			sales = append(sales, more...)
		}
		ctx, stop := context.WithCancel(context.Background())
		var role *app.Processor
		var err error
		withSettings(s.of("processor", "SOURCES=asaas"), func() { role, err = app.NewProcessor(ctx, zap.NewNop(), prometheus.NewRegistry()) })
		if err != nil {
			t.Fatal(err)
		}
		var parts sync.WaitGroup
		for _, p := range role.Parts() {
			parts.Go(func() {
				if err := p.Run(ctx); err != nil {
					t.Errorf("%s: %v", p.Name, err)
				}
			})
		}
		time.Sleep(rand.N(40 * time.Millisecond))
		stop()
		parts.Wait()
		role.Close()
		if took := s.givenBack(js); took > 8*time.Second {
			t.Fatalf("after stop %d a message was in hand for %s", round+1, took)
		} else if took > 0 {
			returned++
			waited = max(waited, took)
		}
	}
	t.Logf("of %d stops %d gave messages back, which came again within %s; %d of %d events were settled between them", rounds, returned, waited,
		queryOne[int](t, w.db, `SELECT count(*) FROM event_results`), len(sales))
	s.processors = []*process{s.processor(0).ready()}
	s.settle(20 * time.Second) // less than the wait
	w.wantAllCredited(g, sales)
	verify(t, w.db)
}

// The bell is gone and nothing else: no error is raised anywhere, and only an
// age can tell. 300 s is where the runbook begins to look.
func TestCase_G7_EventsThatNobodyPublishesShowByTheirAge(t *testing.T) {
	t.Parallel()
	s, w := handStack(t)
	s.up(1, 1)
	w.addrs = s.addrs
	s.broker.Kill()
	g := &asaasGateway
	sales := w.tellsPaid(g, 5)
	if n := s.ingests[0].labelled("umavez_ingest_requests_total", `class="5xx"`); n != 0 {
		t.Errorf("%v answers were errors", n)
	}
	// Five minutes pass.
	if _, err := w.db.Pool.Exec(t.Context(), `UPDATE event_work SET since = now() - interval '5 minutes'`); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.all() {
		eventually(t, 25*time.Second, p.name+" shows the age", func() bool { return p.metric("umavez_oldest_pending_seconds") >= 300 })
		if status, _ := p.page("/healthz"); status != http.StatusOK {
			t.Errorf("%s is not alive without its broker", p.name)
		}
	}
	s.broker.Start()
	s.settle(30 * time.Second)
	w.wantAllCredited(g, sales)
}

func TestCase_G9_OneWebhookInFifteenIsLostAndReconciliationFindsEveryState(t *testing.T) {
	t.Parallel()
	sim, err := gatewaysim.New(gatewaysim.Config{
		Seed: 41, Payments: 240, Beneficiaries: 10, Shares: gatewaysim.Shares{Lost: 1.0 / 15},
		API: gatewaysim.API{Latency: time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := newStack(t, sim)
	// What came is believed, so that what did not come is missing.
	for _, name := range []string{"STRIPE", "ASAAS"} {
		s.env[name+"_LOOKUP"] = "in_doubt"
	}
	s.up(2, 2)
	report := s.storm(sim)
	s.settle(30 * time.Second)
	behind := 0
	for _, p := range sim.Truth() {
		if p.Heard && string(p.Status) != queryOne[string](t, s.db, `SELECT COALESCE((SELECT status FROM payments WHERE provider = $1 AND account = $2 AND gateway_id = $3), '')`, p.Gateway, p.Account, p.ID) {
			behind++
		}
	}
	if behind == 0 {
		t.Error("no payment was behind: nothing of note was lost")
	}
	begun := time.Now()
	s.reconcile(30 * time.Second)
	t.Logf("%d payments were behind after the storm; all were at their state %s after reconciliation began", behind, time.Since(begun).Round(time.Millisecond))
	compare(t, s.db, sim, report)
}
