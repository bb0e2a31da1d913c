package e2e

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/app"
	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/queue"
)

// A consumer of another name, or one that is made anew, reads everything that
// the stream still has from the beginning. All of it was settled long ago.
func TestCase_E23_AHundredThousandOldMessagesAreCheapNoOps(t *testing.T) {
	t.Parallel()
	s, _ := handStack(t)
	const messages = 100_000
	if _, err := s.db.Pool.Exec(t.Context(), `SET statement_timeout = 0`); err != nil {
		t.Fatal(err)
	}
	ids := queryAll[struct{ ID int64 }](t, s.db, `
WITH old AS (
  INSERT INTO events (provider, account, dedupe_key, type, payment_ref, secret, body_sha256)
  SELECT 'asaas', 'default', n::text, 'PAYMENT_CONFIRMED', 'pay_' || n, '1', sha256('') FROM generate_series(1, 100000) n RETURNING id
), results AS (
  INSERT INTO event_results (event_id, status, outcome) SELECT id, 'processed', 'repeated' FROM old
), bodies AS (
  INSERT INTO event_bodies (received_on, event_id, body) SELECT (now() AT TIME ZONE 'UTC')::date, id, '' FROM old
)
SELECT id FROM old`)
	var conn *queue.Conn
	withSettings(s.env, func() {
		role, err := app.NewSweeper(t.Context(), zap.NewNop(), prometheus.NewRegistry(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(role.Close)
		conn = role.Queue
	})
	notices := make([]event.Notice, messages)
	for i, r := range ids {
		notices[i] = event.Notice{ID: r.ID, Provider: "asaas", Account: "default", PaymentRef: "pay_old"}
	}
	for _, p := range conn.Publish(t.Context(), notices) {
		if p.Result != queue.Stored {
			t.Fatalf("%s %v", p.Result, p.Err)
		}
	}
	js := s.beside()
	if err := js.DeleteConsumer(t.Context(), queue.StreamWebhooks, queue.ConsumerName); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	s.processor(0).ready()
	eventually(t, 90*time.Second, "every message is acknowledged", func() bool {
		stream, err := js.Stream(t.Context(), queue.StreamWebhooks)
		return err == nil && stream.CachedInfo().State.Msgs == 0
	})
	took := time.Since(begun)
	t.Logf("%d old messages in %s, %.0f a second with one worker", messages, took.Round(time.Millisecond), messages/took.Seconds())
	if n := queryOne[int](t, s.db, `SELECT count(*) FROM event_results`) + queryOne[int](t, s.db, `SELECT count(*) FROM payments`); n != messages {
		t.Errorf("%d results and payments, want %d and none", n, messages)
	}
	if took > 60*time.Second {
		t.Errorf("they took %s", took)
	}

}
