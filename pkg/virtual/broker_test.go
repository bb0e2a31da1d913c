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
	w          *world
	ackWait    time.Duration
	maxPending int  // so many may be in hand; only what was delivered before comes then
	there      bool // the stream exists
	seq        uint64
	queued     map[int64]*message // by event
	naks       int
	changed    signal

	process int    // each start of the server is another one
	started signal // there is another process

	duplicates time.Duration        // how long the second stream remembers message ids
	domains    []stored             // what it holds, in order
	ids        map[int64]remembered // by outbox id
	told       map[domain]int64     // by domain event: the id under which an application has seen it
	applied    map[int64]int64      // by payment: the newest seq that one has seen
}

// message is one event's message in the stream.
type message struct {
	seq       uint64
	notice    event.Notice
	visible   time.Time // not delivered before
	waits     time.Time // the end of the ack wait of its last delivery
	nak       int       // of several that were given back at one instant, the first comes first
	delivered int
}

// domain names a domain event as an application does.
type domain struct{ payment, seq int64 }

// stored is a message of a domain event.
type stored struct {
	seq    uint64
	outbox int64
	at     time.Time
}

// remembered is a message whose id is known until then.
type remembered struct {
	stored
	until time.Time
}

func newBroker(w *world) *broker {
	return &broker{w: w, ackWait: 30 * time.Second, maxPending: 10_000, duplicates: 2 * time.Minute, there: true, queued: map[int64]*message{}, changed: newSignal(),
		process: 1, started: newSignal(), ids: map[int64]remembered{}, told: map[domain]int64{}, applied: map[int64]int64{}}
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

// inHand is how many were delivered and not acknowledged.
func (b *broker) inHand() (n int) {
	for _, m := range b.queued {
		if m.delivered > 0 {
			n++
		}
	}
	return n
}

// take delivers what can be delivered: what was delivered before in the order in
// which it became due, and then, while not too many are in hand, the oldest.
func (b *broker) take(most int) []*message {
	now, inHand := time.Now(), b.inHand()
	var out []*message
	for _, m := range slices.SortedFunc(maps.Values(b.queued), func(x, y *message) int {
		switch {
		case x.delivered == 0 && y.delivered == 0:
			return cmp.Compare(x.seq, y.seq)
		case x.delivered == 0:
			return 1
		case y.delivered == 0:
			return -1
		}
		return cmp.Or(x.visible.Compare(y.visible), cmp.Compare(x.nak, y.nak), cmp.Compare(x.seq, y.seq))
	}) {
		if m.delivered == 0 && inHand >= b.maxPending {
			break
		}
		if len(out) < most && !m.visible.After(now) {
			if m.delivered == 0 {
				inHand++
			}
			m.waits, m.nak = now.Add(b.ackWait), 0
			m.visible = m.waits
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
	m, ok := b.queued[eventID]
	if !ok || m.seq != seq || delay == 0 && !m.visible.After(time.Now()) {
		return // it is gone, another one, or due already
	}
	m.visible, m.nak = time.Now().Add(delay), 0
	if delay == 0 {
		b.naks++
		m.nak = b.naks
	}
	b.changed.ring()
}

// newConsumer makes the consumer anew: it delivers everything.
func (b *broker) newConsumer() {
	for _, m := range b.queued {
		m.visible, m.delivered, m.nak = time.Now(), 0, 0
	}
	b.changed.ring()
}

// vanish loses the stream with all its messages.
func (b *broker) vanish() {
	b.there = false
	clear(b.queued)
	b.changed.ring()
}

// restart is the end of the server's process and the begin of another one on
// the same data. It learns the ids of the window from the messages that it
// finds, and forgets none of them before it has been there for a window. What
// was given back at once is due when its ack wait is over.
func (b *broker) restart() {
	b.process++
	for id, known := range b.ids {
		if time.Since(known.at) < b.duplicates && slices.Contains(b.domains, known.stored) {
			b.ids[id] = remembered{known.stored, time.Now().Add(b.duplicates)}
		} else {
			delete(b.ids, id)
		}
	}
	for _, m := range b.queued {
		if m.nak > 0 && m.delivered > 0 {
			m.visible, m.nak = m.waits, 0
		}
	}
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
		known, ok := l.b.ids[r.ID]
		ok = ok && time.Now().Before(known.until)
		if ok && slices.Contains(l.b.domains, known.stored) {
			w.saw("domain event known by its id")
		} else { // what is known and not there is sent once more, under an id of its own
			l.b.store(r.ID, !ok)
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

// store keeps a domain event, and remembers its id.
func (b *broker) store(outbox int64, remember bool) {
	b.seq++
	s := stored{b.seq, outbox, time.Now()}
	b.domains = append(b.domains, s)
	if remember {
		b.ids[outbox] = remembered{s, s.at.Add(b.duplicates)}
	}
}

// receive is the application's side: it sees each payment's events in order,
// and some of them twice.
func (b *broker) receive(r postgres.Outgoing) {
	var d processor.DomainEvent
	if err := json.Unmarshal(r.Payload, &d); err != nil {
		b.w.violated("domain event %d is not JSON: %v", r.ID, err)
		return
	}
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
