package campaign

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/sweep"
	"github.com/umavez/umavez/pkg/truth"
)

// settle waits until the storm is over and nothing is unfinished, sweeping what
// the broker lost, and compares everything with the truth.
func (p *phase) settle(ctx context.Context, db *postgres.DB) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	select {
	case <-p.over:
	case <-ctx.Done():
		return fmt.Errorf("%s: the storm did not end", p.name)
	}
	if p.failed != nil {
		return fmt.Errorf("%s: storm: %w", p.name, p.failed)
	}
	if err := p.drain(ctx, db); err != nil {
		return err
	}
	compared, err := truth.Compare(ctx, db, p.sim, p.storm)
	if err != nil {
		return err
	}
	for _, difference := range compared.Differences {
		p.c.r.fault("%s: at the end: %s", p.name, difference)
	}
	if compared.Mismatches > 0 {
		if err := truth.Dump(ctx, db, p.logs); err != nil {
			return err
		}
	}
	if p.storm.GivenUp > 0 {
		p.c.r.fault("%s: %d authentic webhooks were never answered with success", p.name, p.storm.GivenUp)
	}
	if err := p.count(ctx, db); err != nil {
		return err
	}
	r := p.c.r
	r.Payments += compared.Payments
	r.Acknowledged += len(p.heard.promises())
	r.Attempts.OK += p.heard.attempts.OK
	r.Attempts.Failed += p.heard.attempts.Failed
	r.Attempts.Unknown += p.heard.attempts.Unknown
	r.Rescued += p.rescued + p.sweptByLoop()
	// The bytes once more, now by the sender's own record, and every invariant.
	if err := p.c.judgePromises(ctx, db, p.heard.promises(), p.name+" at the end"); err != nil {
		return err
	}
	return p.c.verify(ctx, db, time.Minute, p.name+" at the end")
}

// drain sweeps until nothing is unfinished and all domain events are relayed.
func (p *phase) drain(ctx context.Context, db *postgres.DB) error {
	last, err := truth.Settle(ctx, db, truth.Settling{Idle: 3 * time.Second, Look: 100 * time.Millisecond, Rest: 2 * time.Second, Sweep: p.sweep})
	if ctx.Err() != nil {
		return fmt.Errorf("%s: not final in time: %s", p.name, last)
	}
	return err
}

func (p *phase) sweep(ctx context.Context) error {
	cmd := p.command(ctx, "sweeper", "run", "-o", "json", "--older-than", "3s")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	var sum sweep.Summary
	if jsonErr := json.Unmarshal(out, &sum); jsonErr == nil {
		p.rescued += sum.Lost
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil // the queue was away; the next one tries again
	}
	if err != nil {
		return fmt.Errorf("sweeper run: %w: %s", err, said.String())
	}
	return nil
}

// count adds what a settled database holds to the result.
func (p *phase) count(ctx context.Context, db *postgres.DB) error {
	var entries, transitions, dead int
	err := db.Pool.QueryRow(ctx, `
SELECT (SELECT count(*) FROM ledger_entries), (SELECT count(*) FROM payment_transitions), (SELECT count(*) FROM event_results WHERE status = 'dead')`).
		Scan(&entries, &transitions, &dead)
	p.c.r.Entries += entries
	p.c.r.Transitions += transitions
	if dead > 0 {
		p.c.r.fault("%s: %d events are dead", p.name, dead)
	}
	return err
}

// forget drops what a load has left, unless somebody will want to look at it.
func (c *campaign) forget(ctx context.Context, db *postgres.DB, p *phase) error {
	if c.r.Faulty > 0 {
		return nil
	}
	_, err := db.Pool.Exec(ctx, "DROP SCHEMA "+p.name+" CASCADE")
	return err
}

func open(ctx context.Context, url string) (*postgres.DB, error) {
	var cfg postgres.Config
	cfg.DatabaseURL, cfg.MaxConns = url, 2
	return postgres.Open(ctx, cfg)
}
