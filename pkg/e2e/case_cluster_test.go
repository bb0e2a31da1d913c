package e2e

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/queue"
	"github.com/umavez/umavez/pkg/queue/queuetest"
)

// clustered puts a stack on a cluster of three brokers.
func (s *stack) clustered() *queuetest.Cluster {
	s.t.Helper()
	c := queuetest.NewCluster(s.t)
	s.env["NATS_URL"], s.env["NATS_REPLICAS"] = c.URL(), "3"
	s.migrate()
	return c
}

// ledgerSums is the whole ledger in one line.
func (s *stack) ledgerSums() string {
	return queryOne[string](s.t, s.db, `
SELECT COALESCE(string_agg(kind || ' ' || n || ' ' || total, ', ' ORDER BY kind), 'empty')
FROM (SELECT kind, count(*) AS n, sum(amount) AS total FROM ledger_entries GROUP BY kind) k`)
}

func TestCase_E7_ARollingUpdateOfTheBrokersUnderLoadChangesNoSum(t *testing.T) {
	t.Parallel()
	sim := badDay(t, 21, 300)
	s := newStack(t, sim)
	c := s.clustered()
	js := c.Client(t)
	s.up(2, 2)
	roll := func(i int) func() {
		return func() {
			c.Servers[i].Stop()
			time.Sleep(300 * time.Millisecond)
			c.Servers[i].Start()
			c.Whole(js)
		}
	}
	report := s.storm(sim, act{0.1, roll(0)}, act{0.35, roll(1)}, act{0.6, roll(2)})
	s.settle(60 * time.Second)
	s.reconcile(30 * time.Second)
	compare(t, s.db, sim, report)

	// Once more, idle: what was acknowledged may come again and changes nothing.
	before := s.ledgerSums()
	for i := range c.Servers {
		roll(i)()
	}
	events := queryOne[int](t, s.db, `SELECT count(*) FROM events`)
	s.replays(0, "--status", "processed", "--limit", fmt.Sprint(events), "--rows", "0", "--wait", "60s")
	s.settle(30 * time.Second)
	if after := s.ledgerSums(); after != before || before == "empty" {
		t.Errorf("the ledger was %s and is %s", before, after)
	}
	verify(t, s.db)
	for _, p := range s.all() {
		p.stop(syscall.SIGTERM)
	}
}

// Of 200 events every tenth can never be settled. The cluster loses the stream
// and its leaders meanwhile: the list of the dead is a table.
func TestCase_E9_DeadEventsAreAllInOurTableWhateverTheStreamHas(t *testing.T) {
	t.Parallel()
	s, w := handStack(t)
	c := s.clustered()
	js := c.Client(t)
	s.env["MAX_ATTEMPTS"] = "2"
	s.up(1, 0)
	w.addrs = s.addrs
	g := &asaasGateway
	// A defect beyond the gateways' reach: these entries are refused.
	if _, err := w.db.Pool.Exec(t.Context(), `
CREATE OR REPLACE FUNCTION refuse_tenth() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF (SELECT gateway_id FROM payments WHERE id = NEW.payment_id) LIKE '%0' THEN RAISE check_violation USING MESSAGE = 'refused by the test', CONSTRAINT = 'tenth'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER refuse_tenth BEFORE INSERT ON ledger_entries FOR EACH ROW EXECUTE FUNCTION refuse_tenth()`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := w.db.Pool.Exec(context.Background(), `DROP TRIGGER refuse_tenth ON ledger_entries; DROP FUNCTION refuse_tenth()`); err != nil {
			t.Error(err)
		}
	})
	const events = 200
	for i := range events {
		sl := saleOf(g, fmt.Sprintf("pay_tenth%03d", i)).paid()
		w.api.tells(g, sl)
		w.take(g, g.body(newHook("paid", "evt_"+sl.id, sl)))
	}
	s.processors = []*process{s.processor(0).ready(), s.processor(1).ready()}
	eventually(t, 30*time.Second, "some are settled", func() bool { return queryOne[int](t, s.db, `SELECT count(*) FROM event_results`) > 50 })
	c.Leader(js, queue.StreamWebhooks).Kill()
	eventually(t, 30*time.Second, "the stream is emptied", func() bool {
		stream, err := js.Stream(t.Context(), queue.StreamWebhooks)
		return err == nil && stream.Purge(t.Context()) == nil
	})
	for _, server := range c.Servers {
		server.Start()
	}
	eventually(t, 90*time.Second, "every event is settled", func() bool {
		if queryOne[int](t, s.db, `SELECT count(*) FROM event_work WHERE state = 'pending' AND attempts = 0`) > 0 {
			s.sweep("--older-than", "1s")
		}
		return queryOne[int](t, s.db, `SELECT count(*) FROM event_work`) == 0
	})
	dead := queryOne[int](t, s.db, `SELECT count(*) FROM set_aside_events WHERE status = 'dead' AND payment_ref LIKE '%0' AND attempts = 2 AND reason LIKE 'gave up after repeated failures:%'`)
	others := queryOne[int](t, s.db, `SELECT count(*) FROM event_results WHERE status = 'dead'`) - dead
	credited := queryOne[int](t, s.db, `SELECT count(*) FROM ledger_entries WHERE kind = 'capture'`)
	if dead != events/10 || others != 0 || credited != events-events/10 {
		t.Errorf("%d of the %d poison events are dead, %d others are, %d payments are credited", dead, events/10, others, credited)
	}
	verify(t, s.db)
	for _, p := range s.all() {
		p.stop(syscall.SIGTERM)
	}
}
