package chaostest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/truth"
)

// Run plays a campaign. The report says what was found, also when an error
// says that the campaign could not be played to its end.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Say == nil {
		cfg.Say = func(string, ...any) {}
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, err
	}
	r := newReport(cfg)
	started := time.Now()
	for i, act := range cfg.Acts {
		if err := playAct(ctx, cfg, act, cfg.Seed+uint64(i), cfg.For/time.Duration(len(cfg.Acts)), r); err != nil {
			r.Error = fmt.Sprintf("act %d: %v", i+1, err)
			break
		}
		if r.Violations > 0 {
			break // its logs are still there
		}
	}
	r.Seconds = time.Since(started).Seconds()
	if r.Error == "" && cfg.Demanding {
		r.demand()
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

// playAct is one world from its start to its judgement.
func playAct(ctx context.Context, cfg Config, act Act, seed uint64, d time.Duration, r *Report) error {
	w, err := startWorld(ctx, cfg, act, seed, d)
	defer w.stop()
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	cfg.Say("act with %d broker(s), seed %d: %d payments, %d webhooks, %s of load and faults; logs in %s",
		act.Brokers, seed, len(w.sim.Truth()), len(w.sim.Deliveries()), d, w.logs)
	idle, err := w.holdings(ctx)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(w.logs, "faults.jsonl"))
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // a log
	n := newNemesis(seed, w.deck(), log)
	watch := newWatch(w)

	background, stopBackground := context.WithCancel(ctx)
	defer stopBackground()
	go w.sweeps.loop(background, 4*time.Second, 10*time.Second)
	watched := make(chan struct{})
	go func() { defer close(watched); watch.run(background) }()
	type stormed struct {
		report gatewaysim.Report
		err    error
	}
	storm := make(chan stormed, 1)
	go func() {
		rep, err := w.sim.Run(ctx, gatewaysim.RunConfig{
			BaseURL: w.gate, Concurrency: 64, Rate: cfg.Rate, RetryFor: d + 10*time.Minute, OnAnswer: w.history.note,
		})
		storm <- stormed{rep, err}
	}()

	playing, stopPlaying := context.WithTimeout(ctx, d)
	defer stopPlaying()
	played := make(chan struct{})
	go func() { defer close(played); n.run(playing, cfg.Lanes) }()
	w.calms(playing, n, r)
	<-played
	cfg.Say("  the nemesis rests; waiting for the load to end and for everything to become final")
	var done stormed
	select {
	case done = <-storm:
	case <-time.After(5 * time.Minute):
		return errors.New("the gateways did not get their webhooks delivered within 5 minutes after everything was healed")
	}
	if done.err != nil {
		return fmt.Errorf("storm: %w", done.err)
	}
	settleErr := w.settle(ctx)
	stopBackground()
	<-watched
	r.take(n, w, watch)
	if settleErr != nil {
		r.violation("progress", "%v", settleErr)
	}
	if err := w.judge(ctx, done.report, idle, settleErr == nil, r); err != nil {
		return fmt.Errorf("judge: %w", err)
	}
	if r.Violations > 0 {
		if err := truth.Dump(ctx, w.db, w.logs); err != nil {
			return err
		}
		cfg.Say("  what is in the database was written to %s", w.logs)
	}
	cfg.Say("  %d faults of %d kinds so far, %d violations", r.FaultsTotal, len(r.Faults), r.Violations)
	return nil
}

// deck is every fault that this world knows.
func (w *world) deck() []fault {
	all := w.processFaults()
	for _, more := range [][]fault{w.networkFaults(), w.brokerFaults(), w.postgresFaults(), w.apiFaults(), w.pointFaults(), w.clockFaults()} {
		all = append(all, more...)
	}
	return all
}

// The rhythm of calms, and what is demanded in one.
const (
	calmEvery   = 75 * time.Second
	calmWindow  = 4 * time.Second
	calmPending = ackWait + 10*time.Second // what is in a dead processor's hands comes back after ackWait
)

// calms lets everything heal now and then, and looks whether what comes in
// then becomes final.
func (w *world) calms(ctx context.Context, n *nemesis, r *Report) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(calmEvery):
		}
		goOn := n.calm()
		if ctx.Err() == nil {
			if err := w.calm(ctx, r); err != nil && ctx.Err() == nil {
				r.violation("progress", "%v", err)
			}
		}
		goOn()
	}
}

func (w *world) calm(ctx context.Context, r *Report) error {
	if err := w.awaitReady(ctx, 45*time.Second); err != nil {
		return fmt.Errorf("everything was healed, and %w", err)
	}
	var from, to time.Time
	if err := w.db.Pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&from); err != nil {
		return err
	}
	wait(ctx, calmWindow)
	if err := w.db.Pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&to); err != nil {
		return err
	}
	if since := time.Since(w.history.lastOK()); since > calmWindow {
		return fmt.Errorf("everything was healed, and no webhook was accepted for %s", since)
	}
	for deadline := time.Now().Add(calmPending); ; {
		var pending, received int
		var p99 *float64
		err := w.db.Pool.QueryRow(ctx, `
SELECT count(*), count(*) FILTER (WHERE w.state = 'pending'),
       percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM r.at - e.received_at))
FROM events e LEFT JOIN event_work w ON w.event_id = e.id LEFT JOIN event_results r ON r.event_id = e.id
WHERE e.received_at BETWEEN $1 AND $2`, from, to).Scan(&received, &pending, &p99)
		if err != nil {
			return err
		}
		if pending == 0 {
			if p99 != nil {
				r.calm(received, *p99)
			}
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("everything was healed, and %d of %d events that came in then are pending after %s", pending, received, calmPending)
		}
		if !wait(ctx, 200*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// awaitReady waits until every process says that it is.
func (w *world) awaitReady(ctx context.Context, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		var err error
		for _, n := range append(append([]*node{}, w.nodes...), w.brokers...) {
			err = errors.Join(err, n.ready(ctx))
		}
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s: %w", limit, err)
		}
		if !wait(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
