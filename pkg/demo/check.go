package demo

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/postgres"
)

// check compares the database with the simulator's truth, and checks every
// invariant.
func (w *world) check(ctx context.Context, sim *gatewaysim.Sim, storm gatewaysim.Report, r *Report) error {
	r.PeakMiB = map[string]float64{"ingest": w.ingest.peakMiB(), "processor": w.processors[1].peakMiB()}
	if w.broker != nil {
		r.PeakMiB["broker"] = w.broker.peakMiB()
	}
	c := comparison{ctx: ctx, db: w.db, r: r}
	c.payments(sim)
	c.balances(sim)
	c.accepted(storm)
	c.counts(storm)
	c.timings()
	if c.err != nil {
		return fmt.Errorf("compare with the truth: %w", c.err)
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

// comparison gathers differences; the first database error ends it.
type comparison struct {
	ctx context.Context
	db  *postgres.DB
	r   *Report
	err error
}

func (c *comparison) query(sql string, scan func(row func(...any) error) error, args ...any) {
	if c.err != nil {
		return
	}
	rows, err := c.db.Pool.Query(c.ctx, sql, args...)
	if err != nil {
		c.err = err
		return
	}
	defer rows.Close()
	for rows.Next() {
		if c.err = scan(rows.Scan); c.err != nil {
			return
		}
	}
	c.err = rows.Err()
}

func (c *comparison) one(sql string, into ...any) {
	if c.err == nil {
		c.err = c.db.Pool.QueryRow(c.ctx, sql).Scan(into...)
	}
}

// known is what we hold of a payment, in the terms of the truth.
type known struct {
	Status                                    string
	Currency, Beneficiary                     string
	Captured, Refunded, ChargedBack, Fee, Net int64
}

func (c *comparison) payments(sim *gatewaysim.Sim) {
	held := map[[3]string]known{}
	c.query(`
SELECT provider, account, gateway_id, status, COALESCE(currency, ''), COALESCE(beneficiary, ''),
       COALESCE(captured, 0), refunded, charged_back, fee, net
FROM payments`, func(row func(...any) error) error {
		var key [3]string
		var k known
		err := row(&key[0], &key[1], &key[2], &k.Status, &k.Currency, &k.Beneficiary, &k.Captured, &k.Refunded, &k.ChargedBack, &k.Fee, &k.Net)
		held[key] = k
		return err
	})
	for _, p := range sim.Truth() {
		key := [3]string{p.Gateway, p.Account, p.ID}
		got, ok := held[key]
		delete(held, key)
		if !p.Heard {
			c.r.Unheard++
			if ok {
				c.r.mismatch("payment %s %s: nothing was sent about it, and we hold it", p.Gateway, p.ID)
			}
			continue
		}
		c.r.Payments++
		if !ok {
			c.r.mismatch("payment %s %s (%s): we never heard of it", p.Gateway, p.ID, p.Kind)
			continue
		}
		want := known{string(p.Status), p.Currency, p.Beneficiary, p.Captured, p.Refunded, p.ChargedBack, p.Fee, p.Net}
		if p.Captured == 0 { // what nobody paid has no owner's money; attributes may be unknown
			want.Currency, want.Beneficiary, want.Net, got.Currency, got.Beneficiary = "", "", got.Net, "", ""
		}
		c.r.Statuses[got.Status]++
		if got != want {
			c.r.mismatch("payment %s %s (%s): we hold %+v, the truth is %+v", p.Gateway, p.ID, p.Kind, got, want)
		}
	}
	for key := range held {
		c.r.mismatch("payment %s %s: we hold it, and it does not exist", key[0], key[2])
	}
}

func (c *comparison) balances(sim *gatewaysim.Sim) {
	held := map[gatewaysim.Owner]int64{}
	c.query(`SELECT substr(account, 13), currency, balance FROM ledger_balances WHERE account LIKE 'beneficiary:%'`, func(row func(...any) error) error {
		var o gatewaysim.Owner
		var n int64
		err := row(&o.Beneficiary, &o.Currency, &n)
		held[o] = n
		return err
	})
	for o, want := range sim.Balances() {
		c.r.Beneficiaries++
		if held[o] != want {
			c.r.mismatch("balance of %s in %s: we hold %d, the truth is %d", o.Beneficiary, o.Currency, held[o], want)
		}
		delete(held, o)
	}
	for o, n := range held {
		if n != 0 {
			c.r.mismatch("balance of %s in %s: we hold %d, the truth knows no such owner", o.Beneficiary, o.Currency, n)
		}
	}
}

// accepted checks that every event that was answered with success is stored:
// of the deliveries of one event, at least one with its exact bytes.
func (c *comparison) accepted(storm gatewaysim.Report) {
	stored, repeated := map[string]bool{}, map[string]bool{}
	c.query(`SELECT encode(body_sha256, 'hex') FROM events`, func(row func(...any) error) error {
		var sum string
		err := row(&sum)
		stored[sum] = true
		return err
	})
	// A body without content (a test, an empty one) may share its key with an
	// earlier one; then its hash is kept with the redeliveries.
	c.query(`SELECT encode(unnest(differing), 'hex') FROM event_redeliveries`, func(row func(...any) error) error {
		var sum string
		err := row(&sum)
		repeated[sum] = true
		return err
	})
	found := map[string]bool{}
	for _, a := range storm.Accepted {
		id := a.Identity
		if id == "" {
			id = a.BodySHA256
			stored[id] = stored[id] || repeated[id]
		}
		if _, err := hex.DecodeString(a.BodySHA256); err != nil {
			c.r.mismatch("an acknowledged delivery has no SHA-256")
		}
		// A retry may have a new envelope: then the body of an attempt whose
		// answer was lost is the stored one.
		key := a.Gateway + " " + a.Account + " " + id
		found[key] = found[key] || stored[a.BodySHA256] || slices.ContainsFunc(a.EarlierSHA256, func(sum string) bool { return stored[sum] })
	}
	for id, ok := range found {
		c.r.EventsAcknowledged++
		if !ok {
			c.r.mismatch("event %.80s: answered with success and not stored", id)
		}
	}
}

// counts fills in what the database counted, and compares it with what the
// simulator counted.
func (c *comparison) counts(storm gatewaysim.Report) {
	r := c.r
	c.query(`
SELECT COALESCE(outcome, status), count(*) FROM webhook_events WHERE type NOT LIKE 'umavez.%' GROUP BY 1`, func(row func(...any) error) error {
		var outcome string
		var n int
		err := row(&outcome, &n)
		r.Outcomes[outcome] = n
		return err
	})
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

func (c *comparison) timings() {
	c.one(`
SELECT COALESCE(extract(epoch FROM percentile_cont(0.5) WITHIN GROUP (ORDER BY r.at - e.received_at)) * 1000, 0)::float8,
       COALESCE(extract(epoch FROM percentile_cont(0.99) WITHIN GROUP (ORDER BY r.at - e.received_at)) * 1000, 0)::float8
FROM events e JOIN event_results r ON r.event_id = e.id WHERE e.type NOT LIKE 'umavez.%' AND r.status = 'processed'`, &c.r.FinalP50, &c.r.FinalP99)
}
