package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/truth"
)

// check compares the database with the simulator's truth, and checks every
// invariant.
func (w *world) check(ctx context.Context, sim *gatewaysim.Sim, storm gatewaysim.Report, r *Report) error {
	r.PeakMiB = map[string]float64{"ingest": w.ingest.PeakMiB(), "processor": w.processors[1].PeakMiB()}
	if w.broker != nil {
		r.PeakMiB["broker"] = w.broker.PeakMiB()
	}
	compared, err := truth.Compare(ctx, w.db, sim, storm)
	r.compared(compared)
	if err != nil {
		return err
	}
	c := counting{ctx: ctx, db: w.db, r: r}
	c.counts(storm)
	c.timings()
	if c.err != nil {
		return fmt.Errorf("count what was done: %w", c.err)
	}
	results, err := w.db.Verify(ctx, postgres.VerifyOptions{PendingLimit: time.Minute, BodiesSince: time.Hour, Rows: 10}, nil)
	if err != nil {
		return err
	}
	r.Checks = results
	for _, one := range results {
		r.Violations += one.Count
	}
	return nil
}

// counting reads what the database counted; the first database error ends it.
type counting struct {
	ctx context.Context
	db  *postgres.DB
	r   *Report
	err error
}

func (c *counting) one(sql string, into ...any) {
	if c.err == nil {
		c.err = c.db.Pool.QueryRow(c.ctx, sql).Scan(into...)
	}
}

// counts fills in what the database counted, and compares it with what the
// simulator counted.
func (c *counting) counts(storm gatewaysim.Report) {
	r := c.r
	c.one(`
SELECT COALESCE(jsonb_object_agg(outcome, n), '{}')
FROM (SELECT COALESCE(outcome, status) AS outcome, count(*) AS n FROM webhook_events WHERE type NOT LIKE 'umavez.%' GROUP BY 1) AS counted`, &r.Outcomes)
	c.one(`SELECT count(*), (SELECT COALESCE(sum(count), 0) FROM event_redeliveries) FROM events WHERE type NOT LIKE 'umavez.%'`, &r.EventsStored, &r.Duplicates)
	c.one(`SELECT count(*), (SELECT count(*) FROM payment_transitions), (SELECT count(*) FROM outbox WHERE relayed_at IS NOT NULL) FROM ledger_entries`,
		&r.LedgerEntries, &r.Transitions, &r.Relayed)
	if storm.GivenUp > 0 {
		r.mismatch("%d authentic webhooks were never answered with success", storm.GivenUp)
	}
	if storm.ForgedAccepted > 0 || storm.ForgedOdd > 0 {
		r.mismatch("of the forged webhooks %d were accepted and %d answered oddly", storm.ForgedAccepted, storm.ForgedOdd)
	}
	// Every event that was acknowledged was stored as new or counted as a
	// duplicate. The database may count more: those whose answer was lost.
	if got := r.EventsStored + r.Duplicates; got < storm.Events || got > storm.Events+storm.RetriedEvents {
		r.mismatch("%d events were acknowledged (%d more in retries), and %d are stored or counted as duplicates", storm.Events, storm.RetriedEvents, got)
	}
	if n := r.Outcomes["dead"]; n > 0 {
		r.mismatch("%d events are dead", n)
	}
}

func (c *counting) timings() {
	c.one(`
SELECT COALESCE(extract(epoch FROM percentile_cont(0.5) WITHIN GROUP (ORDER BY r.at - e.received_at)) * 1000, 0)::float8,
       COALESCE(extract(epoch FROM percentile_cont(0.99) WITHIN GROUP (ORDER BY r.at - e.received_at)) * 1000, 0)::float8
FROM events e JOIN event_results r ON r.event_id = e.id WHERE e.type NOT LIKE 'umavez.%' AND r.status = 'processed'`, &c.r.FinalP50, &c.r.FinalP99)
}
