package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/umavez/umavez/pkg/queue"
	"github.com/umavez/umavez/pkg/queue/queuetest"
)

// outbox makes rows of several payments, taking turns.
func outbox(rows, payments int) (out []queue.Outgoing) {
	for i := range rows {
		out = append(out, queue.Outgoing{
			ID:      int64(i + 1),
			Subject: fmt.Sprintf("payments.%s.asaas.p%d", []string{"paid", "refunded"}[i/payments%2], i%payments),
			Payload: fmt.Appendf(nil, `{"id":%d}`, i+1),
		})
	}
	return out
}

// read returns the outbox ids of the stream PAYMENTS in its order.
func read(t *testing.T, js jetstream.JetStream) (ids []int64) {
	t.Helper()
	stream, err := js.Stream(t.Context(), queue.StreamPayments)
	if err != nil {
		t.Fatal(err)
	}
	last := stream.CachedInfo().State.LastSeq
	for seq := uint64(1); seq <= last; seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		id, err := strconv.ParseInt(m.Header.Get(queue.HeaderOutboxID), 10, 64)
		if err != nil || string(m.Data) != fmt.Sprintf(`{"id":%d}`, id) {
			t.Fatalf("message %d: header %v, data %s", seq, m.Header, m.Data)
		}
		ids = append(ids, id)
	}
	return ids
}

// inOrder fails unless the first copies of each payment's rows are in order.
func inOrder(t *testing.T, ids []int64, rows, payments int) {
	t.Helper()
	seen := map[int64]bool{}
	last := map[int64]int64{}
	for _, id := range ids {
		payment := (id - 1) % int64(payments)
		if !seen[id] && id < last[payment] {
			t.Errorf("row %d of payment %d came after row %d", id, payment, last[payment])
		}
		seen[id] = true
		last[payment] = max(last[payment], id)
	}
	if len(seen) != rows {
		t.Errorf("%d of %d rows are there", len(seen), rows)
	}
}

func TestRelayKeepsTheOrderOfEachPayment(t *testing.T) {
	t.Parallel()
	for _, payments := range []int{1, 3, 500} {
		t.Run(fmt.Sprint(payments, " payments"), func(t *testing.T) {
			t.Parallel()
			_, conn, js := world(t, queue.Config{})
			rows := outbox(1000, payments)
			n, err := conn.Relay(t.Context(), rows)
			if err != nil || n != len(rows) {
				t.Fatalf("%d relayed, %v", n, err)
			}
			ids := read(t, js)
			inOrder(t, ids, len(rows), payments)
			if len(ids) != len(rows) {
				t.Errorf("%d messages for %d rows", len(ids), len(rows))
			}
		})
	}
}

func TestRelayingAgainMakesNoSecondCopyWithinTheWindow(t *testing.T) {
	t.Parallel()
	_, conn, js := world(t, queue.Config{})
	rows := outbox(50, 5)
	for range 3 {
		if n, err := conn.Relay(t.Context(), rows); err != nil || n != 50 {
			t.Fatalf("%d relayed, %v", n, err)
		}
	}
	if ids := read(t, js); len(ids) != 50 {
		t.Errorf("%d messages", len(ids))
	}
}

func TestRelayStopsAtTheFirstFailure(t *testing.T) {
	t.Parallel()
	_, conn, js := world(t, queue.Config{})
	rows := outbox(10, 2)
	rows[4].Subject = "webhooks.not.a.domain.event"
	n, err := conn.Relay(t.Context(), rows)
	if err == nil || n != 4 {
		t.Fatalf("%d relayed, %v", n, err)
	}
	if ids := read(t, js); len(ids) != 4 {
		t.Errorf("%d messages: something behind the failure went out", len(ids))
	}
	rows[4] = outbox(10, 2)[4]
	if n, err := conn.Relay(t.Context(), rows[4:]); err != nil || n != 6 {
		t.Fatalf("%d relayed, %v", n, err)
	}
	inOrder(t, read(t, js), 10, 2)
}

func TestRelayThroughServerRestartsLosesAndReordersNothing(t *testing.T) {
	t.Parallel()
	s, conn, _ := world(t, queue.Config{})
	rows := outbox(3000, 7)
	restarted := make(chan struct{})
	go func() {
		defer close(restarted)
		for range 2 {
			time.Sleep(30 * time.Millisecond)
			s.Stop()
			s.Start()
		}
	}()
	for done, begin := 0, time.Now(); done < len(rows); {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		n, err := conn.Relay(ctx, rows[done:min(done+200, len(rows))])
		cancel()
		done += n
		if err != nil {
			if time.Since(begin) > time.Minute {
				t.Fatalf("%d of %d relayed: %v", done, len(rows), err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	<-restarted
	_, js := raw(t, s.URL())
	inOrder(t, read(t, js), len(rows), 7)
}

func TestRelayWithoutServerSaysUnavailable(t *testing.T) {
	t.Parallel()
	s, conn, _ := world(t, queue.Config{})
	s.Stop()
	queuetest.Eventually(t, 5*time.Second, "disconnected", func() bool { return !conn.Connected() })
	if n, err := conn.Relay(t.Context(), outbox(5, 5)); n != 0 || !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("%d relayed, %v", n, err)
	}
}

// A failure is told at once: whoever waits here holds the relay's lock, and
// has to mark what was sent before.
func TestRelayReturnsAsSoonAsARowFails(t *testing.T) {
	t.Parallel()
	for _, payments := range []int{1, 2, 50} {
		_, conn, js := world(t, queue.Config{})
		if err := js.DeleteStream(t.Context(), queue.StreamPayments); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		begun := time.Now()
		n, err := conn.Relay(ctx, outbox(50, payments))
		cancel()
		if took := time.Since(begun); n != 0 || err == nil || took > 3*time.Second {
			t.Errorf("%d payments: %d relayed, %v, after %s", payments, n, err, took)
		}
	}
}

// The broker refuses the first of two events of a payment, and would take the
// second: it must not be there alone.
func TestAPaymentsNextEventWaitsUntilTheOneBeforeItIsStored(t *testing.T) {
	t.Parallel()
	_, conn, js := world(t, queue.Config{})
	stream, err := js.Stream(t.Context(), queue.StreamPayments)
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.MaxMsgSize = 1024
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	rows := outbox(2, 1)
	rows[0].Payload = fmt.Appendf(nil, `{"id":1,"pad":%q}`, strings.Repeat("x", 2048))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if n, err := conn.Relay(ctx, rows); n != 0 || err == nil || ctx.Err() != nil {
		t.Errorf("%d relayed, %v, out of time: %v", n, err, ctx.Err())
	}
	if ids := read(t, js); len(ids) != 0 {
		t.Errorf("rows %v went out before the first one was stored", ids)
	}
}
