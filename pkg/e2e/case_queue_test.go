package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/umavez/umavez/pkg/postgres/postgrestest"
	"github.com/umavez/umavez/pkg/queue"
	"github.com/umavez/umavez/pkg/queue/queuetest"
)

// beside is a client of the broker without any of the product's settings.
func (s *stack) beside() jetstream.JetStream {
	s.t.Helper()
	nc, err := nats.Connect(s.env["NATS_URL"], nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		s.t.Fatal(err)
	}
	return js
}

// state is what the stream of events and its consumer say.
func (s *stack) state(js jetstream.JetStream) (stream *jetstream.StreamInfo, consumer *jetstream.ConsumerInfo) {
	s.t.Helper()
	str, err := js.Stream(s.t.Context(), queue.StreamWebhooks)
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := str.Consumer(s.t.Context(), queue.ConsumerName)
	if err != nil {
		s.t.Fatal(err)
	}
	return str.CachedInfo(), c.CachedInfo()
}

// tellsPaid sends so many paid events of a gateway, all different, and returns
// their sales.
func (w *testWorld) tellsPaid(g *gateway, n int) []sale {
	w.t.Helper()
	sales := make([]sale, n)
	var next atomic.Int64
	var all sync.WaitGroup
	for i := range sales {
		sales[i] = newSale(g).paid()
		w.api.tells(g, sales[i])
	}
	for range 8 {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				w.take(g, g.body(newHook("paid", "evt_"+sales[i].id, sales[i])))
			}
		})
	}
	all.Wait()
	return sales
}

// wantAllCredited compares all credits of a gateway with its sales.
func (w *testWorld) wantAllCredited(g *gateway, sales []sale) {
	w.t.Helper()
	type row struct {
		ID      string
		Entries string
	}
	got := map[string]string{}
	for _, r := range queryAll[row](w.t, w.db, `
SELECT p.gateway_id, string_agg(l.kind || ' ' || l.amount, ', ' ORDER BY l.kind) FROM ledger_entries l JOIN payments p ON p.id = l.payment_id WHERE p.provider = $1 GROUP BY 1`, g.name) {
		got[r.ID] = r.Entries
	}
	wrong := 0
	for _, s := range sales {
		if got[s.id] != s.credited() {
			if wrong++; wrong < 4 {
				w.t.Errorf("ledger of %s: %q, want %q", s.id, got[s.id], s.credited())
			}
		}
	}
	if wrong > 0 || len(got) != len(sales) {
		w.t.Errorf("%d of %d sales are not credited rightly; %d payments have entries", wrong, len(sales), len(got))
	}
}

// The first processor stands still in the middle of its work until its time is
// over; a second has the copy meanwhile, and is done when the first goes on.
func TestCase_E5_AHandlerThatEndsAfterItsTimeChangesNothing(t *testing.T) {
	t.Parallel()
	s, w := handStack(t)
	s.up(1, 1)
	w.addrs = s.addrs
	g := &asaasGateway
	late := newSale(g).paid()
	w.api.tells(g, late)
	w.api.slow(g, late.id, time.Second)
	w.take(g, g.body(newHook("paid", "evt_"+late.id, late)))
	eventually(t, 10*time.Second, "the first processor asks the gateway", func() bool { return w.api.questions(g, late.id) > 0 })
	s.processors[0].signal(syscall.SIGSTOP)
	stopped := time.Now()
	w.api.slow(g, late.id, 0)
	second := s.processor(1).ready()
	w.wantCredited(g, late)
	took := time.Since(stopped)
	time.Sleep(5*time.Second - took) // AckWait + 1 s
	s.processors[0].signal(syscall.SIGCONT)
	js := s.beside()
	eventually(t, 15*time.Second, "every message is acknowledged", func() bool {
		stream, consumer := s.state(js)
		return stream.State.Msgs == 0 && consumer.NumAckPending == 0
	})
	eventually(t, 10*time.Second, "the first processor works again", func() bool { status, _ := s.processors[0].page("/readyz"); return status == 200 })
	time.Sleep(500 * time.Millisecond)
	w.wantCredited(g, late)
	if e := w.about(g, late.id); len(e) != 1 || e[0].Outcome != "applied" || e[0].Attempts != 0 {
		t.Errorf("%v", e)
	}
	if n := queryOne[int](t, w.db, `SELECT count(*) FROM event_results r JOIN events e ON e.id = r.event_id WHERE e.payment_ref = $1`, late.id); n != 1 {
		t.Errorf("%d results", n)
	}
	verify(t, w.db)
	s.processors[0].stop(syscall.SIGTERM)
	second.stop(syscall.SIGTERM)
}

// The server counts deliveries, and a processor that keeps dying makes that
// count high. Attempts are ours: a death is no failure of the event.
func TestCase_E11_AProcessorThatDiesFiftyTimesMakesNoEventDead(t *testing.T) {
	t.Parallel()
	s, w := handStack(t)
	s.env["NATS_ACK_WAIT"], s.env["LOOKUP_TIMEOUT"], s.env["PROCESSOR_TX_TIMEOUT"], s.env["MAX_ATTEMPTS"] = "1s", "400ms", "500ms", "3"
	s.migrate()
	s.up(1, 0)
	w.addrs = s.addrs
	g := &asaasGateway
	sales := w.tellsPaid(g, 300)
	for _, sl := range sales {
		w.api.slow(g, sl.id, 30*time.Millisecond)
	}
	js := s.beside()
	most := uint64(0)
	for i := range 50 {
		p := start(t, s.logs, fmt.Sprint("processor-dying-", i+1), "processor", s.of("processor", "ADMIN_ADDR=off", "PROCESSOR_BATCH=20", "LOOKUP_CONCURRENCY=4"))
		time.Sleep(120*time.Millisecond + rand.N(250*time.Millisecond))
		p.kill()
		_, consumer := s.state(js)
		most = max(most, uint64(consumer.NumRedelivered))
	}
	if n := queryOne[int](t, s.db, `SELECT count(*) FROM event_work WHERE attempts > 0`) + queryOne[int](t, s.db, `SELECT count(*) FROM event_results WHERE attempts > 0 OR status = 'dead'`); n > 0 {
		t.Errorf("%d events count attempts of deaths that were not theirs", n)
	}
	left := queryOne[int](t, s.db, `SELECT count(*) FROM event_work`)
	s.processors = []*process{s.processor(0).ready()}
	s.settle(40 * time.Second)
	w.wantAllCredited(g, sales)
	verify(t, s.db)
	t.Logf("%d events were left after 50 deaths; %d messages at once had been delivered before", left, most)
	if most == 0 {
		t.Error("no death hit a message in hand")
	}
}

func TestCase_E13_AFullStreamLosesNoEvent(t *testing.T) {
	t.Parallel()
	s, w := handStack(t)
	s.env["ASAAS_LOOKUP"] = "never"
	s.up(2, 0)
	w.addrs = s.addrs
	js := s.beside()
	str, err := js.Stream(t.Context(), queue.StreamWebhooks)
	if err != nil {
		t.Fatal(err)
	}
	cfg := str.CachedInfo().Config
	cfg.MaxBytes = 100_000 // about a thousand messages
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	const events = 5000
	sales := w.tellsPaid(&asaasGateway, events)
	eventually(t, 20*time.Second, "every publication has its answer", func() bool {
		sum := 0.0
		for _, p := range s.ingests {
			sum += p.metric("umavez_publish_total")
		}
		return int(sum) == events
	})
	stream, _ := s.state(js)
	pending := queryOne[int](t, s.db, `SELECT count(*) FROM event_work WHERE state = 'pending'`)
	if stream.State.Msgs < 300 || stream.State.Msgs > 2500 || pending != events {
		t.Errorf("%d messages fit, %d events are pending, want all %d", stream.State.Msgs, pending, events)
	}
	s.processors = []*process{s.processor(0).ready(), s.processor(1).ready()}
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		type sums struct{ Processed, Pending int }
		now := queryAll[sums](t, s.db, `SELECT (SELECT count(*) FROM event_results WHERE status = 'processed'), (SELECT count(*) FROM event_work)`)[0]
		if now.Processed+now.Pending != events {
			t.Fatalf("%d processed + %d pending, want %d", now.Processed, now.Pending, events)
		}
		if now.Pending == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d events are pending at the end", now.Pending)
		}
		if stream, _ := s.state(js); stream.State.Msgs < 100 {
			run(t, "sweeper", s.of("sweeper"), "run", "--older-than", "1s") // what does not fit is for the next one
		}
	}
	w.wantAllCredited(&asaasGateway, sales)
	verify(t, s.db)
}

// mounted is a directory on a file system of so many bytes.
func mounted(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("CI has to run this as root: it mounts a small file system")
		}
		t.Skip("only root may mount a small file system; CI does")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
				t.Errorf("umount: %v %s", err, out)
			}
			t.Logf("umount: %v %s", err, out)
		}
	})
	return dir
}

// fill takes whatever space a file system has left.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it is full
	for _, size := range []int{1 << 20, 1 << 12, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
}

func TestCase_E15_ABrokerWhoseDiskIsFullHoldsUpNoAnswer(t *testing.T) {
	t.Parallel()
	dir := mounted(t, "24m")
	s, w := handStack(t)
	s.broker = queuetest.NewProcessIn(t, dir+"/nats")
	s.env["NATS_URL"] = s.broker.URL()
	s.migrate()
	s.up(2, 0)
	w.addrs = s.addrs
	g := &asaasGateway
	failed := func() (sum float64) {
		for _, p := range s.ingests {
			sum += p.labelled("umavez_publish_total", `result="failed"`)
		}
		return sum
	}
	sales := w.tellsPaid(g, 100)
	eventually(t, 10*time.Second, "they are published", func() bool { return s.published() >= 100 })
	if n := failed(); n != 0 {
		t.Fatalf("%v publications failed with space on the disk", n)
	}
	fill(t, dir+"/filler")
	var slowest time.Duration
	for range 10 {
		begun := time.Now()
		sales = append(sales, w.tellsPaid(g, 60)...) // each is wanted a 200
		slowest = max(slowest, time.Since(begun))
		if failed() > 0 && len(sales) > 400 {
			break
		}
	}
	eventually(t, 20*time.Second, "publications fail", func() bool { return failed() > 0 })
	if n := queryOne[int](t, w.db, `SELECT count(*) FROM event_work WHERE state = 'pending'`); n != len(sales) {
		t.Errorf("%d events are pending, want %d", n, len(sales))
	}
	t.Logf("%v of %d publications failed on the full disk; the slowest sixty answers took %s", failed(), len(sales), slowest)
	if slowest > 5*time.Second {
		t.Errorf("sixty answers took %s", slowest)
	}
	if err := os.Remove(dir + "/filler"); err != nil {
		t.Fatal(err)
	}
	// A server that met its full disk may have turned JetStream off until it is
	// started again; that is for its operator.
	js := s.beside()
	if _, err := js.Publish(t.Context(), "webhooks.asaas.default.none.999999999", nil); err != nil {
		t.Logf("after space returned the server says: %v; it is started again", err)
		s.broker.Kill()
		s.broker.Start()
	}
	s.processors = []*process{s.processor(0).ready()}
	s.settle(60 * time.Second)
	w.wantAllCredited(g, sales)
	verify(t, w.db)
}

// published is how many publications have their answer.
func (s *stack) published() (n int) {
	for _, p := range s.ingests {
		n += int(p.metric("umavez_publish_total"))
	}
	return n
}

// The broker acknowledged, and after a power cut its disk is that of a moment
// before: what it had flushed is two minutes old, by default.
func TestCase_E17_ABrokerThatForgotWhatItAcknowledgedLosesNoEvent(t *testing.T) {
	t.Parallel()
	s, w := handStack(t)
	s.up(1, 0)
	w.addrs = s.addrs
	g := &asaasGateway
	old := w.tellsPaid(g, 20)
	eventually(t, 10*time.Second, "they are published", func() bool { return s.published() == 20 })
	s.broker.Stop()
	snapshot := t.TempDir() + "/disk"
	if out, err := exec.Command("cp", "-a", s.broker.Dir(), snapshot).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	s.broker.Start()
	acknowledged := func() int { return int(s.ingests[0].labelled("umavez_publish_total", `result="published"`)) }
	before := acknowledged()
	var fresh []sale
	eventually(t, 30*time.Second, "the broker acknowledges again", func() bool {
		fresh = append(fresh, w.tellsPaid(g, 1)...)
		return acknowledged() > before
	})
	before = acknowledged()
	fresh = append(fresh, w.tellsPaid(g, 50)...)
	eventually(t, 20*time.Second, "the broker has acknowledged them", func() bool { return acknowledged() >= before+50 })
	s.broker.Kill()
	if err := os.RemoveAll(s.broker.Dir()); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", snapshot, s.broker.Dir()).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	s.broker.Start()
	js := s.beside()
	if stream, _ := s.state(js); stream.State.Msgs > 20 {
		t.Fatalf("the broker still has %d messages: nothing was forgotten", stream.State.Msgs)
	}
	s.processors = []*process{s.processor(0).ready()}
	eventually(t, 15*time.Second, "what the broker has is processed", func() bool { return queryOne[int](t, w.db, `SELECT count(*) FROM event_results`) >= 20 })
	if n := queryOne[int](t, w.db, `SELECT count(*) FROM event_work WHERE state = 'pending'`); n == 0 {
		t.Error("nothing was left to find")
	}
	eventually(t, 10*time.Second, "what was forgotten is old enough for the sweep", func() bool {
		return queryOne[int](t, w.db, `SELECT count(*) FROM event_work w JOIN events e ON e.id = w.event_id
WHERE w.state = 'pending' AND e.received_at > now() - interval '1 second'`) == 0
	})
	if sum := s.sweep("--older-than", "1s"); sum.Lost == 0 {
		t.Errorf("%+v", sum)
	}
	s.settle(20 * time.Second)
	w.wantAllCredited(g, append(old, fresh...))
	verify(t, w.db)
}

// The consumer is deleted under load, twice. Processors make it again as it
// was, and neither more of them nor more connections come of it.
func TestCase_E21_TheDurableIsMadeAgainWithTheSameSettings(t *testing.T) {
	t.Parallel()
	s, w := handStack(t)
	s.up(1, 3)
	w.addrs = s.addrs
	g := &asaasGateway
	js := s.beside()
	_, before := s.state(js)
	var sales []sale
	for range 2 {
		sales = append(sales, w.tellsPaid(g, 200)...)
		if err := js.DeleteConsumer(t.Context(), queue.StreamWebhooks, queue.ConsumerName); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			t.Fatal(err)
		}
		sales = append(sales, w.tellsPaid(g, 200)...)
		eventually(t, 20*time.Second, "the consumer is there again", func() bool {
			_, err := js.Consumer(t.Context(), queue.StreamWebhooks, queue.ConsumerName)
			return err == nil
		})
	}
	s.settle(40 * time.Second)
	_, after := s.state(js)
	before.Config.Metadata, after.Config.Metadata = nil, nil
	if fmt.Sprintf("%+v", before.Config) != fmt.Sprintf("%+v", after.Config) {
		t.Errorf("it was\n%+v and is\n%+v", before.Config, after.Config)
	}
	w.wantAllCredited(g, sales)
	verify(t, w.db)
	for _, p := range s.processors {
		if p.ended() {
			t.Errorf("%s ended", p.name)
		}
	}
}

func TestCase_G5_WithoutItsConsumerTheGaugesSayNothingAndTheBudgetHolds(t *testing.T) {
	t.Parallel()
	cluster, db := postgrestest.ClusterDB(t)
	w := &testWorld{world: &world{db: db, api: newFakeAPI(t), log: &logBuffer{}}, t: t}
	s := newStackOn(t, w.api, worldSettings, db, cluster.URL(""))
	s.up(1, 2)
	w.addrs = s.addrs
	js := s.beside()
	g := &asaasGateway
	budget := 1*4 + 2*4 // by the formula of the README: DATABASE_MAX_CONNS is 4
	connections := func() int {
		return queryOne[int](t, w.db, `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'umavez' AND pid <> ALL (SELECT pg_backend_pid())`) - int(w.db.Pool.Stat().TotalConns()) + 1
	}
	most := 0
	var sales []sale
	for range 4 {
		_ = js.DeleteConsumer(t.Context(), queue.StreamWebhooks, queue.ConsumerName)
		sales = append(sales, w.tellsPaid(g, 100)...)
		most = max(most, connections())
		// The scaler's measure: never more than there is, unknown while unknown.
		for _, p := range s.all() {
			if lag := p.metric("umavez_queue_pending") + p.metric("umavez_queue_ack_pending"); lag > float64(len(sales)) {
				t.Errorf("%s says that %v messages wait; %d events were sent in all", p.name, lag, len(sales))
			}
		}
	}
	s.settle(40 * time.Second)
	if most > budget || most == 0 {
		t.Errorf("%d connections, the budget is %d", most, budget)
	}
	w.wantAllCredited(g, sales)
}
