//go:build failpoints

package e2e

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/umavez/umavez/pkg/queue"
)

// sentEvents reads what the application would get.
type sentEvents struct {
	js    jetstream.JetStream
	begin uint64 // the last message of the stories before
}

func newSentEvents(t testing.TB, url string) *sentEvents {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return &sentEvents{js: js}
}

// last is the number of the newest message, 0 without a stream.
func (d *sentEvents) last(t testing.TB) uint64 {
	t.Helper()
	stream, err := d.js.Stream(t.Context(), queue.StreamPayments)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}

// mark begins a story.
func (d *sentEvents) mark(t testing.TB) { t.Helper(); d.begin = d.last(t) }

// compareSentEvents checks that every row of the outbox was sent at least
// once, as it is, and those of one payment in their order, repeats left out.
func (w *faultWorld) compareSentEvents(t *testing.T) {
	t.Helper()
	type row struct {
		ID, Payment, Seq int64
		Subject          string
	}
	rows := map[int64]row{}
	for _, r := range queryAll[row](t, w.db, `SELECT id, payment_id, seq, subject FROM outbox`) {
		rows[r.ID] = r
	}
	stream, err := w.domain.js.Stream(t.Context(), queue.StreamPayments)
	if err != nil {
		t.Fatal(err)
	}
	seen, newest := map[int64]bool{}, map[int64]int64{}
	for at := w.domain.begin + 1; at <= stream.CachedInfo().State.LastSeq; at++ {
		m, err := stream.GetMsg(t.Context(), at)
		if err != nil {
			t.Fatalf("domain event %d: %v", at, err)
		}
		id, err := strconv.ParseInt(m.Header.Get(queue.HeaderOutboxID), 10, 64)
		r, ours := rows[id]
		switch {
		case err != nil || !ours || m.Subject != r.Subject:
			t.Errorf("domain event %s with the header %v is none of the outbox", m.Subject, m.Header)
		case !seen[id] && r.Seq != newest[r.Payment]+1:
			t.Errorf("payment %d: domain event %d came after %d", r.Payment, r.Seq, newest[r.Payment])
		}
		if !seen[id] {
			seen[id], newest[r.Payment] = true, r.Seq
		}
	}
	for id, r := range rows {
		if !seen[id] {
			t.Errorf("payment %d: domain event %d (row %d) is marked as sent, and was not", r.Payment, r.Seq, id)
		}
	}
	if len(rows) == 0 {
		t.Error("there was nothing to send")
	}
}

// streams says what the broker has, for a story that does not end.
func (d *sentEvents) streams(t testing.TB) string {
	var all []string
	for _, name := range []string{queue.StreamWebhooks, queue.StreamPayments} {
		stream, err := d.js.Stream(t.Context(), name)
		if err != nil {
			all = append(all, fmt.Sprintf("%s: %v", name, err))
			continue
		}
		state := stream.CachedInfo().State
		all = append(all, fmt.Sprintf("%s: %d messages, last %d, %d consumers", name, state.Msgs, state.LastSeq, state.Consumers))
	}
	return strings.Join(all, "; ")
}
