package virtual

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/processor"
	"github.com/umavez/umavez/pkg/queue"
	"github.com/umavez/umavez/pkg/sweeper"
)

// broker is the model of JetStream as pkg/queue uses it: a work queue that
// holds one message a subject and refuses a second one, delivers a message
// again when it was not acked within its wait, and can lose anything. The
// second stream takes domain events.
type broker struct {
	w       *world
	ackWait time.Duration
	there   bool // the stream exists
	seq     uint64
	queued  map[int64]*message // by event
	changed signal

	process int    // each start of the server is another one
	started signal // there is another process

	ids     map[int64]time.Time // message ids of domain events, and when they were stored
	told    map[domain]int64    // by domain event: the id under which an application has seen it
	applied map[int64]int64     // by payment: the newest seq that one has seen
}

// message is one event's message in the stream.
type message struct {
	seq       uint64
	notice    event.Notice
	visible   time.Time // not delivered before
	delivered int
}

// domain names a domain event as an application does.
type domain struct{ payment, seq int64 }

func newBroker(w *world) *broker {
	return &broker{w: w, ackWait: 30 * time.Second, there: true, queued: map[int64]*message{}, changed: newSignal(),
		process: 1, started: newSignal(), ids: map[int64]time.Time{}, told: map[domain]int64{}, applied: map[int64]int64{}}
}

// put stores a message, if the stream holds none of its event.
func (b *broker) put(n event.Notice) queue.Result {
	if !b.there {
		return queue.Failed
	}
	if _, ok := b.queued[n.ID]; ok {
		return queue.Waiting
	}
	b.seq++
	b.queued[n.ID] = &message{seq: b.seq, notice: n, visible: time.Now()}
	b.changed.ring()
	return queue.Stored
}

// take delivers what can be delivered, oldest first.
func (b *broker) take(most int) []*message {
	now := time.Now()
	var out []*message
	for _, id := range slices.SortedFunc(maps.Keys(b.queued), func(x, y int64) int { return cmp.Compare(b.queued[x].seq, b.queued[y].seq) }) {
		if m := b.queued[id]; len(out) < most && !m.visible.After(now) {
			m.visible = now.Add(b.ackWait)
			m.delivered++
			out = append(out, m)
		}
	}
	return out
}

// ack removes a message; one that was stored again since is another one.
func (b *broker) ack(eventID int64, seq uint64) {
	if m, ok := b.queued[eventID]; ok && m.seq == seq {
		delete(b.queued, eventID)
	}
}

// nak makes a message deliverable after a delay.
func (b *broker) nak(eventID int64, seq uint64, delay time.Duration) {
	if m, ok := b.queued[eventID]; ok && m.seq == seq {
		m.visible = time.Now().Add(delay)
		b.changed.ring()
	}
}

// vanish loses the stream with all its messages.
func (b *broker) vanish() {
	b.there = false
	clear(b.queued)
	b.changed.ring()
}

// restart is the end of the server's process and the begin of another one on
// the same data.
func (b *broker) restart() {
	b.process++
	b.started.ring()
	b.changed.ring()
}

// next is when the first message can be delivered that cannot be now.
func (b *broker) next() (at time.Time, ok bool) {
	for _, m := range b.queued {
		if !ok || m.visible.Before(at) {
			at, ok = m.visible, true
		}
	}
	return at, ok
}

// bell is the broker as one process sees it.
type bell struct {
	b *broker
	p *proc
}

// publish is queue.Conn.Publish: each notice and what became of it.
func (l bell) publish(n event.Notice, from string) queue.Result {
	w := l.b.w
	l.p.step("publish " + from + idLabel([]int64{n.ID}))
	if w.faults.brokerAway && l.p.mortal() {
		w.saw("publish failed")
		return queue.Failed
	}
	if w.sched.chance(w.faults.lostPublish) {
		w.saw("publish lost on the way")
		return queue.Failed
	}
	r := l.b.put(n)
	if r == queue.Waiting {
		w.saw("publish refused while waiting")
	}
	if r == queue.Stored && w.sched.chance(w.faults.lostAnswer) {
		w.saw("publish stored, answer lost")
		return queue.Failed
	}
	return r
}

// Publish implements sweeper.Publish.
func (l bell) Publish(_ context.Context, notices []event.Notice) []sweeper.PublishState {
	states := map[queue.Result]sweeper.PublishState{queue.Stored: sweeper.Stored, queue.Waiting: sweeper.Waiting, queue.Failed: sweeper.Failed}
	out := make([]sweeper.PublishState, len(notices))
	for i, n := range notices {
		out[i] = states[l.publish(n, "sweep")]
		if out[i] == sweeper.Stored && l.b.w.store.work[n.ID].tuple != 0 {
			l.b.w.saw("sweep rescue")
		}
	}
	return out
}

// vanished implements Sweeper.Vanished: a stream that is gone is made again.
func (l bell) vanished(context.Context) (bool, error) {
	l.p.step("check stream")
	w := l.b.w
	if w.faults.brokerAway {
		return false, errors.New("broker away")
	}
	return l.remake(), nil
}

func (l bell) remake() bool {
	if l.b.there {
		return false
	}
	l.b.there = true
	l.b.w.saw("stream made again")
	return true
}

// fetch implements processor.Fetch. It returns when there is something, or
// when ctx ends: what the real one does every five seconds in between, nothing,
// takes no time here.
func (l bell) fetch(number string) processor.Fetch {
	return func(ctx context.Context, most int, _ time.Duration) ([]processor.Delivery, error) {
		for {
			l.p.step("fetch " + number)
			w := l.b.w
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if l.remake() {
				_, err := db{w.store, l.p}.RingForAll(ctx)
				if err != nil {
					w.saw("ring for all failed")
				}
				continue
			}
			if !w.faults.brokerAway {
				if got := l.b.take(min(most, 1+w.sched.rng.IntN(6))); len(got) > 0 {
					return l.deliveries(got), nil
				}
			}
			l.await(ctx)
		}
	}
}

// await sleeps until something may have become deliverable.
func (l bell) await(ctx context.Context) {
	wait := 24 * time.Hour
	if at, ok := l.b.next(); ok {
		wait = max(time.Until(at), 0)
	}
	if l.b.w.faults.brokerAway {
		wait = max(wait, 200*time.Millisecond)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-l.b.changed.ch:
	case <-timer.C:
	case <-ctx.Done():
	case <-l.p.killed:
	}
}

func (l bell) deliveries(got []*message) []processor.Delivery {
	w := l.b.w
	out := make([]processor.Delivery, len(got))
	for i, m := range got {
		id, seq := m.notice.ID, m.seq
		if m.delivered > 1 {
			w.saw("message delivered again")
		}
		if w.store.broken.ackFirst {
			delete(l.b.queued, id)
		}
		out[i] = processor.Delivery{
			EventID: id,
			Ack: func() error {
				l.p.step("ack" + idLabel([]int64{id}))
				if w.faults.brokerAway || w.sched.chance(w.faults.lostAck) {
					w.saw("ack lost")
					return nil
				}
				l.b.ack(id, seq)
				return nil
			},
			Nak: func(delay time.Duration) error {
				l.p.step("nak" + idLabel([]int64{id}))
				if w.faults.brokerAway {
					return errors.New("broker away")
				}
				w.saw("message given back")
				l.b.nak(id, seq, delay)
				return nil
			},
		}
	}
	return out
}

// server names the process of the broker that this process is connected to.
func (l bell) server() string {
	if l.b.w.faults.brokerAway {
		return ""
	}
	return fmt.Sprint("server ", l.b.process)
}

// relayAgain is PROCESSOR_RELAY_AGAIN.
const relayAgain = 5 * time.Minute

// meet is what pkg/app's relay does before each batch.
func (l bell) meet(ctx context.Context, met *string) error {
	id := l.server()
	if id == "" || id == *met {
		return nil
	}
	again, _, err := db{l.b.w.store, l.p}.MeetBroker(ctx, id, relayAgain)
	if err != nil {
		l.b.w.saw("broker not met")
		return err
	}
	*met = id
	if again > 0 {
		l.b.w.saw("broker met that was started: domain events are unsent again")
	}
	return nil
}

// duplicates is how long the second stream remembers message ids.
const duplicates = 2 * time.Minute

// relay is queue.Conn.Relay: it stores domain events in their order and says
// how many of the first ones are stored.
func (l bell) relay(ctx context.Context, rows []postgres.Outgoing) (n int, err error) {
	w := l.b.w
	for _, r := range rows {
		l.p.step(fmt.Sprintf("relay %d", r.ID))
		if ctx.Err() != nil || w.faults.brokerAway || w.sched.chance(w.faults.lostPublish) {
			w.saw("relay cut short")
			return n, errors.New("broker away")
		}
		if seen, ok := l.b.ids[r.ID]; ok && time.Since(seen) < duplicates {
			w.saw("domain event known by its id")
		} else {
			l.b.receive(r)
		}
		if w.sched.chance(w.faults.lostAnswer) {
			w.saw("relay answer lost")
			return n, errors.New("no answer")
		}
		n++
	}
	return n, nil
}

// receive is the application's side: it sees each payment's events in order,
// and some of them twice.
func (b *broker) receive(r postgres.Outgoing) {
	var d processor.DomainEvent
	if err := json.Unmarshal(r.Payload, &d); err != nil {
		b.w.violated("domain event %d is not JSON: %v", r.ID, err)
		return
	}
	b.ids[r.ID] = time.Now()
	name := domain{d.PaymentID, d.Seq}
	if id, ok := b.told[name]; ok && id != r.ID {
		b.w.violated("8: payment %d: domain event %d was told under the ids %d and %d", d.PaymentID, d.Seq, id, r.ID)
	}
	b.told[name] = r.ID
	switch seen := b.applied[d.PaymentID]; {
	case d.Seq <= seen:
		b.w.saw("domain event told twice")
		if b.w.store.unsentAgain(r.ID) {
			b.w.saw("domain event told twice: the broker was started meanwhile")
		} else {
			b.w.saw("domain event told twice: sent, and not marked while the broker remembered its id")
		}
	case d.Seq != seen+1:
		b.w.violated("8: payment %d: domain event %d came after %d", d.PaymentID, d.Seq, seen)
	default:
		b.applied[d.PaymentID] = d.Seq
	}
}
