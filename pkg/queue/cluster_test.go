package queue_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/queue"
	"github.com/umavez/umavez/pkg/queue/queuetest"
)

// The leader is killed again and again while events and domain events are
// published. What was called stored, or waiting, is in the stream; all else
// was called failed, stays pending in its row and goes in later.
func TestCase_E2_WhatWasCalledStoredIsInTheStreamWhicheverLeaderDied(t *testing.T) {
	c := queuetest.NewCluster(t)
	conn, js := c.Connect(t), c.Client(t)
	c.Whole(js)

	const rounds, batch = 2, 400
	pending := map[int64]bool{}  // rows that nobody may call published
	promised := map[int64]bool{} // rows of which the server said that it has them
	relayed, outgoing := 0, outbox(rounds*batch, 7)
	for round := range rounds {
		victim := c.Leader(js, []string{queue.StreamWebhooks, queue.StreamPayments}[round%2])
		dead := make(chan struct{})
		time.AfterFunc(20*time.Millisecond, func() { victim.Kill(); close(dead) })
		from := int64(round*batch + 1)
		for first := from; first < from+batch; first += 50 {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			for _, p := range conn.Publish(ctx, notices(first, first+49)) {
				promised[p.Notice.ID], pending[p.Notice.ID] = p.Result != queue.Failed, p.Result == queue.Failed
			}
			n, _ := conn.Relay(ctx, outgoing[relayed:min(relayed+50, len(outgoing))])
			cancel()
			relayed += n
		}
		<-dead
		victim.Start()
		c.Whole(js)
		wantMessages(t, js, promised)
	}
	failed := 0
	for _, p := range pending {
		if p {
			failed++
		}
	}
	t.Logf("%d of %d events and %d of %d domain events were called stored while leaders died", len(pending)-failed, len(pending), relayed, len(outgoing))

	// The sweeper and the relay come again.
	queuetest.Eventually(t, 30*time.Second, "every event is in the stream", func() bool {
		var again []event.Notice
		for id := range pending {
			if pending[id] {
				again = append(again, notice(id))
			}
		}
		for _, p := range conn.Publish(t.Context(), again) {
			promised[p.Notice.ID], pending[p.Notice.ID] = p.Result != queue.Failed, p.Result == queue.Failed
		}
		return len(again) == 0
	})
	wantMessages(t, js, promised)
	queuetest.Eventually(t, 30*time.Second, "every domain event is relayed", func() bool {
		n, _ := conn.Relay(t.Context(), outgoing[relayed:])
		relayed += n
		return relayed == len(outgoing)
	})
	ids := read(t, js)
	inOrder(t, ids, len(outgoing), 7)
	for _, row := range outgoing {
		if !slices.Contains(ids, row.ID) {
			t.Errorf("domain event %d was called relayed and is not in the stream", row.ID)
		}
	}

	// Nothing is delivered less than once.
	k := consumer(t, conn, queue.ConsumerConfig{})
	seen := map[int64]bool{}
	queuetest.Eventually(t, 30*time.Second, "every event is delivered", func() bool {
		got, _ := k.Fetch(t.Context(), 500, time.Second)
		for _, d := range got {
			seen[d.EventID] = true
			if err := d.Ack(); err != nil {
				t.Error(err)
			}
		}
		return len(seen) == rounds*batch
	})
}

// wantMessages fails the test for each promised event that has no message.
func wantMessages(t *testing.T, js jetstream.JetStream, promised map[int64]bool) {
	t.Helper()
	stream, err := js.Stream(t.Context(), queue.StreamWebhooks)
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter("webhooks.>"))
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for id, p := range promised {
		if _, ok := info.State.Subjects[queue.Subject(notice(id))]; p && !ok {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d events were called stored or waiting and are not in the stream", lost)
	}
}

// A publish whose answer was lost is repeated under the same id by some
// clients, and called a duplicate by a leader that never kept it. Ours has no
// id to be called so, whatever an application does beside it.
func TestCase_E2_NoPublicationCanBeTakenForADuplicate(t *testing.T) {
	t.Parallel()
	_, conn, js := world(t, queue.Config{})
	mustStore(t, conn, notices(1, 20)...)
	stream, err := js.Stream(t.Context(), queue.StreamWebhooks)
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= 20; seq++ {
		m, err := stream.GetMsg(context.Background(), seq)
		if err != nil {
			t.Fatal(err)
		}
		if id := m.Header.Get(jetstream.MsgIDHeader); id != "" {
			t.Errorf("message %d has the id %q", seq, id)
		}
	}
}

// A header whose name only ends like that of the id is no id, neither on a
// domain event nor on what a person publishes again by hand.
func TestCase_E3_AHeaderThatOnlyResemblesTheIDIsNone(t *testing.T) {
	t.Parallel()
	_, conn, js := world(t, queue.Config{})
	for _, name := range []string{"Orig-Nats-Msg-Id", "X-Nats-Msg-Id", "nats-msg-id-old"} {
		if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "payments.paid.asaas.p1", Header: nats.Header{name: {"41"}}, Data: []byte(`{"id":0}`)}); err != nil {
			t.Fatal(err)
		}
	}
	rows := []queue.Outgoing{{ID: 41, Subject: "payments.paid.asaas.p1", Payload: []byte(`{"id":41}`)}}
	for range 2 { // the second is our own duplicate
		if n, err := conn.Relay(t.Context(), rows); err != nil || n != 1 {
			t.Fatalf("%d relayed, %v", n, err)
		}
	}
	stream, err := js.Stream(t.Context(), queue.StreamPayments)
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Msgs; n != 4 {
		t.Errorf("%d messages, want the three of a stranger and one of ours", n)
	}
	// On the stream of events an event's own subject is what tells it apart.
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: queue.Subject(notice(1)), Header: nats.Header{"Orig-Nats-Msg-Id": {"2"}}}); err != nil {
		t.Fatal(err)
	}
	for _, p := range conn.Publish(t.Context(), notices(1, 2)) {
		if want := map[int64]queue.Result{1: queue.Waiting, 2: queue.Stored}[p.Notice.ID]; p.Result != want {
			t.Errorf("event %d: %s, want %s", p.Notice.ID, p.Result, want)
		}
	}
}
