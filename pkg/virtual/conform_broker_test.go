package virtual

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/processor"
	"github.com/umavez/umavez/pkg/queue"
	"github.com/umavez/umavez/pkg/queue/queuetest"
)

// The real server has a real clock, so a trace goes by ticks: operations are
// made at the beginning of one, and all that happens by itself is due in the
// middle of one. A machine that is half a tick late ends its trace.
const (
	ringTick       = 600 * time.Millisecond
	ringAckWait    = ringTick * 5 / 2
	ringDuplicates = ringTick * 21 / 2
	ringMaxPending = 6
	ringTicks      = 32
	ringTraces     = 10
	everything     = 100 // more than there is to fetch
)

// ringer is what the model of the broker and a server with pkg/queue before it
// have in common.
type ringer interface {
	publish(n event.Notice) queue.Result
	fetch(most int) []handed
	relay(rows []postgres.Outgoing) int
	loseDomainEvent() // the newest copy of the one with the highest id
	vanish()          // the stream of events
	remake()          // and its consumer
	newConsumer()     // one that knows nothing of the deliveries so far
	restart()
	state() string
	pass(ticks int) (late bool)
}

// handed is a delivery.
type handed struct {
	id      int64
	attempt uint64
	ack     func() error
	nak     func(time.Duration) error
}

// ringTrace makes the operations that r draws and says, tick by tick, what came
// of them. It ends early when the machine is late.
func ringTrace(b ringer, r *rand.Rand, kinds map[string]int) (trace []string) {
	var hands []handed
	due := map[int64]time.Duration{} // by event: when it comes again by itself
	started := time.Duration(-time.Hour)
	said := ""
	say := func(kind, format string, args ...any) {
		kinds[kind]++
		said += kind + fmt.Sprintf(format, args...) + "; "
	}
	fetched := 0
	fetch := func(most int, sorted bool) {
		got := b.fetch(most)
		fetched = len(got)
		if sorted {
			slices.SortFunc(got, func(a, b handed) int { return cmp.Compare(a.id, b.id) })
		}
		for _, h := range got {
			say("deliver", " %d for the %d. time", h.id, h.attempt)
			hands = slices.DeleteFunc(hands, func(o handed) bool { return o.id == h.id && r.IntN(3) > 0 }) // an old one may be settled too
			hands = append(hands, h)
		}
		say("fetch", " %d of %d", len(got), most)
	}
	for ticks := 0; ticks < ringTicks; {
		wait, now := 1, time.Duration(ticks)*ringTick
		switch op := r.IntN(24); op {
		case 0:
			b.restart()
			say("restart", "")
			wait, hands, started = 8, nil, now
		case 1:
			b.vanish()
			say("vanish", " %s", b.publish(notice(1)))
			b.remake()
			hands = nil
		case 2:
			b.newConsumer()
			say("new consumer", "")
			hands = nil
		case 3:
			b.loseDomainEvent()
			say("lose", "")
		case 4, 5, 6, 7:
			if late := now - started - ringDuplicates; late > -ringTick && late < 3*ringTick {
				break // when a server that was started forgets, depends on how long its start took
			}
			var rows []postgres.Outgoing
			first := 1 + r.Int64N(4)
			for id := first; id < first+1+r.Int64N(2); id++ {
				payload, _ := json.Marshal(processor.DomainEvent{PaymentID: id, Seq: 1})
				rows = append(rows, postgres.Outgoing{ID: id, Subject: fmt.Sprintf("payments.paid.gw.pay_%d", id), Payload: payload})
			}
			say("relay", " %d from %d: %d", len(rows), first, b.relay(rows))
		default:
			for range r.IntN(4) {
				id := 1 + r.Int64N(9)
				say("publish", " %d %s", id, b.publish(notice(id)))
			}
		}
		if most := 1 + r.IntN(5); wait == 1 && r.IntN(3) > 0 {
			if together(due, now) {
				most = everything // in any order
			}
			fetch(most, most == everything)
			for _, h := range hands[max(0, len(hands)-fetched):] {
				due[h.id] = now + ringAckWait
			}
		}
		for range r.IntN(4) {
			if len(hands) == 0 {
				break
			}
			i := r.IntN(len(hands))
			h := hands[i]
			hands = slices.Delete(hands, i, i+1)
			delays := []time.Duration{0, ringTick * 3 / 2, ringTick * 11 / 2}
			if d := delays[r.IntN(3)]; r.IntN(2) == 0 {
				say("ack", " %d %v", h.id, h.ack())
				delete(due, h.id)
			} else {
				say("nak", " %d %s %v", h.id, d, h.nak(d))
				if due[h.id] = now + d; d == 0 {
					delete(due, h.id)
				}
			}
		}
		ticks += wait
		if b.pass(wait) {
			return trace
		}
		say("state", " %s", b.state())
		if wait > 1 { // in which order a server that was started finds what is due, is chance
			fetch(everything, true)
			for id := range due {
				due[id] = now + time.Duration(wait)*ringTick + ringAckWait
			}
			for _, h := range hands {
				due[h.id] = now + time.Duration(wait)*ringTick + ringAckWait
			}
		}
		trace, said = append(trace, said), ""
	}
	return trace
}

// together says whether several came again by themselves in one tick: which of
// them was first is a matter of microseconds.
func together(due map[int64]time.Duration, now time.Duration) bool {
	in := map[time.Duration]bool{}
	for _, at := range due {
		if tick := at / ringTick; at < now {
			if in[tick] {
				return true
			}
			in[tick] = true
		}
	}
	return false
}

func notice(id int64) event.Notice {
	return event.Notice{ID: id, Provider: conformName, Account: "default", PaymentRef: "pay"}
}

// modelRinger is the model.
type modelRinger struct {
	bell
	t *testing.T
}

func (m modelRinger) publish(n event.Notice) queue.Result { return m.bell.publish(n, "conform") }

func (m modelRinger) fetch(most int) (out []handed) {
	got := m.b.take(most)
	for i, d := range m.deliveries(got) {
		out = append(out, handed{d.EventID, uint64(got[i].delivered), d.Ack, d.Nak})
	}
	return out
}

func (m modelRinger) relay(rows []postgres.Outgoing) int {
	n, err := m.bell.relay(context.Background(), rows)
	if err != nil {
		m.t.Error(err)
	}
	return n
}

func (m modelRinger) loseDomainEvent() {
	highest := -1
	for i, d := range m.b.domains {
		if highest < 0 || d.outbox >= m.b.domains[highest].outbox {
			highest = i
		}
	}
	if highest >= 0 {
		m.b.domains = slices.Delete(m.b.domains, highest, highest+1)
	}
}

func (m modelRinger) vanish()      { m.b.vanish() }
func (m modelRinger) remake()      { m.bell.remake() }
func (m modelRinger) newConsumer() { m.b.newConsumer() }
func (m modelRinger) restart()     { m.b.restart() }

func (m modelRinger) state() string {
	ids := []int64{}
	for id := range m.b.queued {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	domains := []int64{}
	for _, d := range m.b.domains {
		domains = append(domains, d.outbox)
	}
	slices.Sort(domains) // between payments no order is promised
	return fmt.Sprint("events ", ids, " in hand ", m.b.inHand(), " domain events ", domains)
}

func (m modelRinger) pass(ticks int) bool {
	m.p.sleep(time.Duration(ticks)*ringTick, "passes")
	return false
}

func modelRing(t *testing.T, seed uint64, kinds map[string]int) (trace []string) {
	synctest.Test(t, func(*testing.T) {
		w := newWorld(seed)
		w.plan, w.faults = plan{}, faults{}
		w.broker.ackWait, w.broker.duplicates, w.broker.maxPending = ringAckWait, ringDuplicates, ringMaxPending
		go func() {
			defer w.sched.finish()
			trace = ringTrace(modelRinger{bell{w.broker, w.newProc(outside, outside+" conform")}, t}, rand.New(rand.NewPCG(seed, 9)), kinds)
		}()
		w.sched.run()
		if w.violation != "" {
			t.Errorf("seed %d: %s", seed, w.violation)
		}
	})
	return trace
}

// serverRinger is a server and pkg/queue before it.
type serverRinger struct {
	t      *testing.T
	server *queuetest.Server
	conn   *queue.Conn
	js     jetstream.JetStream
	k      *queue.Consumer
	events jetstream.StreamConfig // of the stream that vanishes, and of its consumer
	worker jetstream.ConsumerConfig
	begun  time.Time
	ticks  int
}

func newServerRinger(t *testing.T) *serverRinger {
	s := queuetest.NewServer(t)
	b := &serverRinger{t: t, server: s, conn: queuetest.Connect(t, queue.Config{URL: s.URL(), AckWait: ringAckWait})}
	nc, err := nats.Connect(s.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if b.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	if err := b.conn.WaitConnected(b.ctx()); err != nil {
		t.Fatal(err)
	}
	if err := b.conn.Ensure(b.ctx()); err != nil {
		t.Fatal(err)
	}
	b.events = b.stream(queue.StreamWebhooks).CachedInfo().Config
	c, err := b.js.Consumer(b.ctx(), queue.StreamWebhooks, queue.ConsumerName)
	if err != nil {
		t.Fatal(err)
	}
	b.worker = c.CachedInfo().Config
	b.subscribe()
	stream := b.stream(queue.StreamPayments).CachedInfo().Config
	stream.Duplicates = ringDuplicates
	if _, err := b.js.UpdateStream(b.ctx(), stream); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *serverRinger) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	b.t.Cleanup(cancel)
	return ctx
}

func (b *serverRinger) stream(name string) jetstream.Stream {
	s, err := b.js.Stream(b.ctx(), name)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// maxPending sets how many may be in hand: pkg/queue refuses to work with so
// few, and is told only afterwards.
func (b *serverRinger) maxPending(n int) {
	c, err := b.js.Consumer(b.ctx(), queue.StreamWebhooks, queue.ConsumerName)
	if err != nil {
		b.t.Fatal(err)
	}
	cfg := c.CachedInfo().Config
	cfg.MaxAckPending = n
	if _, err := b.js.UpdateConsumer(b.ctx(), queue.StreamWebhooks, cfg); err != nil {
		b.t.Fatal(err)
	}
}

func (b *serverRinger) subscribe() {
	var err error
	if b.k, err = b.conn.Consumer(b.ctx(), queue.ConsumerConfig{StallAfter: time.Hour}); err != nil {
		b.t.Fatal(err)
	}
	b.maxPending(ringMaxPending)
}

func (b *serverRinger) close() {
	if b.k != nil {
		b.k.Close()
	}
}

func (b *serverRinger) publish(n event.Notice) queue.Result {
	return b.conn.Publish(b.ctx(), []event.Notice{n})[0].Result
}

func (b *serverRinger) fetch(most int) (out []handed) {
	for {
		got, err := b.k.Fetch(b.ctx(), most, 80*time.Millisecond)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, d := range got {
			out = append(out, handed{d.EventID, d.Attempt, d.Ack, d.Nak})
		}
		if most < everything || len(got) == 0 { // a server that is busy may give the rest with the next request
			return out
		}
	}
}

func (b *serverRinger) relay(rows []postgres.Outgoing) int {
	out := make([]queue.Outgoing, len(rows))
	for i, r := range rows {
		out[i] = queue.Outgoing(r)
	}
	n, err := b.conn.Relay(b.ctx(), out)
	if err != nil {
		b.t.Error(err)
	}
	return n
}

// domains are the domain events in the stream: their places, and the outbox ids.
func (b *serverRinger) domains() (seqs []uint64, ids []int64) {
	ids = []int64{}
	s := b.stream(queue.StreamPayments)
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		if m, err := s.GetMsg(b.ctx(), seq); err == nil {
			id, _ := strconv.ParseInt(m.Header.Get(queue.HeaderOutboxID), 10, 64)
			seqs, ids = append(seqs, seq), append(ids, id)
		}
	}
	return seqs, ids
}

func (b *serverRinger) loseDomainEvent() {
	seqs, ids := b.domains()
	highest := -1
	for i := range ids {
		if highest < 0 || ids[i] >= ids[highest] {
			highest = i
		}
	}
	if highest < 0 {
		return
	}
	if err := b.stream(queue.StreamPayments).DeleteMsg(b.ctx(), seqs[highest]); err != nil {
		b.t.Fatal(err)
	}
}

func (b *serverRinger) vanish() {
	b.close()
	if err := b.js.DeleteStream(b.ctx(), queue.StreamWebhooks); err != nil {
		b.t.Fatal(err)
	}
}

// remake does not ask Ensure, which would give the other stream its own window.
func (b *serverRinger) remake() {
	if _, err := b.js.CreateStream(b.ctx(), b.events); err != nil {
		b.t.Fatal(err)
	}
	b.makeConsumer()
}

func (b *serverRinger) makeConsumer() {
	if _, err := b.js.CreateConsumer(b.ctx(), queue.StreamWebhooks, b.worker); err != nil {
		b.t.Fatal(err)
	}
	b.subscribe()
}

func (b *serverRinger) newConsumer() {
	b.close()
	if err := b.js.DeleteConsumer(b.ctx(), queue.StreamWebhooks, queue.ConsumerName); err != nil {
		b.t.Fatal(err)
	}
	b.makeConsumer()
}

func (b *serverRinger) restart() {
	b.close()
	b.maxPending(10_000)
	b.server.Stop()
	b.server.Start()
	if err := b.conn.WaitConnected(b.ctx()); err != nil {
		b.t.Fatal(err)
	}
	queuetest.Eventually(b.t, 10*time.Second, "the client is connected", func() bool {
		_, err := b.js.Stream(b.ctx(), queue.StreamWebhooks)
		return err == nil
	})
	b.subscribe()
}

func (b *serverRinger) state() string {
	info, err := b.stream(queue.StreamWebhooks).Info(b.ctx(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		b.t.Fatal(err)
	}
	ids := []int64{}
	for subject := range info.State.Subjects {
		at, err := queue.ParseSubject(subject)
		if err != nil {
			b.t.Fatal(err)
		}
		ids = append(ids, at.EventID)
	}
	slices.Sort(ids)
	_, inHand, err := b.conn.Lag(b.ctx())
	if err != nil {
		b.t.Fatal(err)
	}
	_, domains := b.domains()
	slices.Sort(domains)
	return fmt.Sprint("events ", ids, " in hand ", inHand, " domain events ", domains)
}

// pass waits for a later tick. It is late when what was asked for in the last
// one took so long that something may have happened by itself.
func (b *serverRinger) pass(ticks int) (late bool) {
	const slack = ringTick * 2 / 5
	if ticks == 1 {
		late = time.Since(b.begun) > time.Duration(b.ticks)*ringTick+slack
	}
	b.ticks += ticks
	next := b.begun.Add(time.Duration(b.ticks) * ringTick)
	late = late || time.Now().After(next)
	time.Sleep(time.Until(next))
	return late
}

// TestTheBrokerIsAsJetStreamIs plays random traces on the model and, all at once,
// on real servers, and compares each answer, each delivery with its count, and
// after each tick what the streams hold and how much is in hand. It takes the
// seconds that a trace takes, and runs beside no other test: they would make it
// late.
func TestTheBrokerIsAsJetStreamIs(t *testing.T) {
	kinds, ops, ticks := map[string]int{}, 0, 0
	var mu sync.Mutex
	var traces sync.WaitGroup
	for seed := uint64(1); seed <= ringTraces; seed++ {
		want := modelRing(t, seed, map[string]int{})
		b := newServerRinger(t)
		traces.Go(func() {
			own := map[string]int{}
			defer b.close()
			b.begun = time.Now()
			got := ringTrace(b, rand.New(rand.NewPCG(seed, 9)), own)
			mu.Lock()
			defer mu.Unlock()
			for i := range got {
				if got[i] != want[i] {
					t.Errorf("seed %d: after\n%s\nthe server says in step %d\n%s\nthe model\n%s", seed, strings.Join(want[max(0, i-12):i], "\n"), i, got[i], want[i])
					return
				}
			}
			ticks += len(got)
			for k, n := range own {
				ops += n
				kinds[k] += n
			}
		})
	}
	traces.Wait()
	t.Logf("%d steps compared, %d operations: %v", ticks, ops, kinds)
	if t.Failed() {
		return
	}
	for _, kind := range []string{"publish", "fetch", "deliver", "ack", "nak", "relay", "restart", "vanish", "new consumer", "lose"} {
		if kinds[kind] == 0 {
			t.Skipf("the machine was late so often that %q was never compared", kind)
		}
	}
}
