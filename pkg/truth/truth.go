// Package truth compares what umavez holds with what the simulator of gateways
// knows to be true: every payment to the cent, every beneficiary's balance,
// and every event that was answered with success.
package truth

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/postgres"
)

// Result is what a comparison found.
type Result struct {
	Payments           int            // heard of, and compared
	Unheard            int            // all of whose webhooks were lost
	Beneficiaries      int            // whose balances were compared
	EventsAcknowledged int            // different events among the acknowledged deliveries
	Statuses           map[string]int // of payments
	Mismatches         int
	Differences        []string // the first ones, in words
}

// shown bounds the list of differences.
const shown = 50

// Mismatch adds a difference.
func (r *Result) Mismatch(format string, args ...any) {
	r.Mismatches++
	if len(r.Differences) < shown {
		r.Differences = append(r.Differences, fmt.Sprintf(format, args...))
	}
}

// Compare compares a database in which everything is final with the
// simulation, and with the report of its run. An error is the database's.
func Compare(ctx context.Context, db *postgres.DB, sim *gatewaysim.Sim, storm gatewaysim.Report) (Result, error) {
	r := Result{Statuses: map[string]int{}}
	c := comparison{ctx: ctx, db: db, r: &r}
	c.payments(sim)
	c.balances(sim)
	c.accepted(storm)
	if c.err != nil {
		return r, fmt.Errorf("compare with the truth: %w", c.err)
	}
	return r, nil
}

// comparison gathers differences; the first database error ends it.
type comparison struct {
	ctx context.Context
	db  *postgres.DB
	r   *Result
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
				c.r.Mismatch("payment %s %s: nothing was sent about it, and we hold it", p.Gateway, p.ID)
			}
			continue
		}
		c.r.Payments++
		if !ok {
			c.r.Mismatch("payment %s %s (%s): we never heard of it", p.Gateway, p.ID, p.Kind)
			continue
		}
		want := known{string(p.Status), p.Currency, p.Beneficiary, p.Captured, p.Refunded, p.ChargedBack, p.Fee, p.Net}
		if p.Captured == 0 { // what nobody paid has no owner's money; attributes may be unknown
			want.Currency, want.Beneficiary, want.Net, got.Currency, got.Beneficiary = "", "", got.Net, "", ""
		}
		c.r.Statuses[got.Status]++
		if got != want {
			c.r.Mismatch("payment %s %s (%s): we hold %+v, the truth is %+v", p.Gateway, p.ID, p.Kind, got, want)
		}
	}
	for key := range held {
		c.r.Mismatch("payment %s %s: we hold it, and it does not exist", key[0], key[2])
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
			c.r.Mismatch("balance of %s in %s: we hold %d, the truth is %d", o.Beneficiary, o.Currency, held[o], want)
		}
		delete(held, o)
	}
	for o, n := range held {
		if n != 0 {
			c.r.Mismatch("balance of %s in %s: we hold %d, the truth knows no such owner", o.Beneficiary, o.Currency, n)
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
			c.r.Mismatch("an acknowledged delivery has no SHA-256")
		}
		// A retry may have a new envelope: then the body of an attempt whose
		// answer was lost is the stored one.
		key := a.Gateway + " " + a.Account + " " + id
		found[key] = found[key] || stored[a.BodySHA256] || slices.ContainsFunc(a.EarlierSHA256, func(sum string) bool { return stored[sum] })
	}
	for id, ok := range found {
		c.r.EventsAcknowledged++
		if !ok {
			c.r.Mismatch("event %.80s: answered with success and not stored", id)
		}
	}
}
