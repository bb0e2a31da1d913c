// Package sweeper finds what got stuck and rings the bell for it again: events
// whose message was never published or was lost by the broker, and parked ones
// whose time has come. Any number of sweepers at once is harmless: the server
// refuses to queue an event that is queued, and settling is claimed in the
// database.
package sweeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/failpoint"
	"github.com/umavez/umavez/pkg/sweep"
)

// Config is the sweeper's settings.
type Config struct {
	Every     time.Duration `envconfig:"SWEEP_EVERY" default:"5m"`     // of the loop
	Limit     int           `envconfig:"SWEEP_LIMIT" default:"200000"` // rows a pass, at most
	ParkLimit time.Duration `envconfig:"PARK_LIMIT" default:"72h"`
	// BodyRetention is how long the exact bytes of events are kept, and
	// KeyRetention their keys, so that a late resend is known.
	BodyRetention time.Duration `envconfig:"BODY_RETENTION" default:"720h"`
	KeyRetention  time.Duration `envconfig:"KEY_RETENTION" default:"9600h"`
	// ReconcileAfter: unsettled payments not seen for so long are looked up;
	// 0 turns reconciliation off. ReconcileWithin bounds how old they may be.
	ReconcileAfter  time.Duration `envconfig:"RECONCILE_AFTER" default:"1h"`
	ReconcileWithin time.Duration `envconfig:"RECONCILE_WITHIN" default:"720h"`
	ReconcileAll    bool          `envconfig:"RECONCILE_ALL" default:"false"` // also payments that look settled
}

// Validate reports all faults at once.
func (c Config) Validate() error {
	var faults []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"SWEEP_EVERY", c.Every}, {"PARK_LIMIT", c.ParkLimit}, {"RECONCILE_WITHIN", c.ReconcileWithin}} {
		if d.value <= 0 {
			faults = append(faults, fmt.Errorf("%s must be above zero", d.name))
		}
	}
	if c.Limit < 1 {
		faults = append(faults, errors.New("SWEEP_LIMIT must be at least 1"))
	}
	// An unfinished event needs its body, and gateways resend for 30 days.
	if c.BodyRetention < c.ParkLimit+24*time.Hour {
		faults = append(faults, fmt.Errorf("BODY_RETENTION (%s) must be at least a day longer than PARK_LIMIT (%s)", c.BodyRetention, c.ParkLimit))
	}
	if c.KeyRetention < minKeyRetention || c.KeyRetention < c.BodyRetention {
		faults = append(faults, fmt.Errorf("KEY_RETENTION (%s) must be at least %s, since gateways resend for 30 days, and not below BODY_RETENTION", c.KeyRetention, minKeyRetention))
	}
	if c.ReconcileAfter < 0 {
		faults = append(faults, errors.New("RECONCILE_AFTER must not be negative; 0 turns reconciliation off"))
	}
	return errors.Join(faults...)
}

const minKeyRetention = 45 * 24 * time.Hour

// Store is the storage that the sweeper needs.
type Store interface {
	DuePage(ctx context.Context, f sweep.Filter, after sweep.Cursor, limit int) ([]sweep.Row, error)
	MarkSwept(ctx context.Context, rows []sweep.Row) error
	BuryParked(ctx context.Context, limit time.Duration, f sweep.Filter, most int) (int, error)
	CountParkedOver(ctx context.Context, limit time.Duration, f sweep.Filter) (int, error)
	Reconcile(ctx context.Context, f sweep.Filter, r sweep.Reconcile, after int64, limit int) (entered []event.Notice, last int64, err error)
	EnsurePartitions(ctx context.Context) error
	DropBodies(ctx context.Context, keep time.Duration) (days int, err error)
	ForgetEvents(ctx context.Context, keep time.Duration, most int) (int, error)
}

// PublishState is what the queue said to one notice.
type PublishState int

// The states: stored now, in the queue already, or not known to be stored.
const (
	Stored PublishState = iota
	Waiting
	Failed
)

// Publish puts notices on the queue and says what became of each.
type Publish func(ctx context.Context, notices []event.Notice) []PublishState

// Sweeper makes passes.
type Sweeper struct {
	cfg     Config
	store   Store
	publish Publish
	sources []string // those that can look up, "<provider>/<account>"
	log     *zap.Logger

	// Progress is told how many rows a pass has looked at so far.
	Progress func(looked int)
	// Vanished says, before a pass that is no dry run, whether the queue was
	// lost whole; then everything pending is rung for, due or not.
	Vanished func(context.Context) (bool, error)
}

// New builds a Sweeper.
func New(cfg Config, store Store, publish Publish, canLookup []string, log *zap.Logger) *Sweeper {
	return &Sweeper{cfg: cfg, store: store, publish: publish, sources: canLookup, log: log, Progress: func(int) {},
		Vanished: func(context.Context) (bool, error) { return false, nil }}
}

// Publish puts notices on the queue outside of a pass.
func (s *Sweeper) Publish(ctx context.Context, notices []event.Notice) []PublishState {
	return s.publish(ctx, notices)
}

// pageSize is how many rows are read, published and marked together.
const pageSize = 1000

// ErrQueue: whole pages could not be published; the pass ended early.
var ErrQueue = errors.New("the queue takes nothing")

// Pass makes one pass. A pass that is cut short has done part of its work and
// harmed nothing; the summary says how far it came.
func (s *Sweeper) Pass(ctx context.Context, f sweep.Filter, dryRun bool) (sum sweep.Summary, err error) {
	started := time.Now()
	sum = sweep.Summary{DryRun: dryRun, Reasons: map[string]int{}}
	defer func() {
		sum.Took = time.Since(started)
		if !dryRun {
			s.log.Info("sweep.finished", zap.Int("looked", sum.Looked), zap.Int("lost", sum.Lost), zap.Int("due", sum.Due),
				zap.Int("waiting", sum.Waiting), zap.Int("failed", sum.Failed), zap.Int("dead", sum.Dead),
				zap.Int("reconciled", sum.Reconciled), zap.Int("days_dropped", sum.Days), zap.Int("forgotten", sum.Forgotten), zap.Duration("duration", sum.Took), zap.Error(err))
		}
	}()
	if !dryRun {
		vanished, lookErr := s.Vanished(ctx)
		if lookErr != nil {
			err = fmt.Errorf("%w: %w", ErrQueue, lookErr)
		}
		if vanished {
			s.log.Warn("sweep.everything", zap.String("reason", "the stream had vanished and was made again"))
			f.OlderThan = time.Second
		}
	}
	// Ringing comes first, and one part that fails does not stop the others.
	err = errors.Join(err, s.ringAll(ctx, f, dryRun, &sum))
	err = errors.Join(err, s.bury(ctx, f, dryRun, &sum))
	if dryRun {
		return sum, err
	}
	return sum, errors.Join(err, s.reconcile(ctx, f, &sum), s.retain(ctx, &sum))
}

// ringAll pages through what is due.
func (s *Sweeper) ringAll(ctx context.Context, f sweep.Filter, dryRun bool, sum *sweep.Summary) error {
	var after sweep.Cursor
	for sum.Looked < s.cfg.Limit {
		page, err := s.store.DuePage(ctx, f, after, min(pageSize, s.cfg.Limit-sum.Looked))
		if err != nil || len(page) == 0 {
			return err
		}
		last := page[len(page)-1]
		after = sweep.Cursor{NextAt: last.NextAt, EventID: last.Notice.ID}
		sum.Looked += len(page)
		if err := failpoint.At(ctx, "sweeper.page_read"); err != nil {
			return err
		}
		if err := s.ring(ctx, page, dryRun, sum); err != nil {
			return err
		}
		s.Progress(sum.Looked)
	}
	return nil
}

// retain prepares the days to come and drops what is older than it is kept.
func (s *Sweeper) retain(ctx context.Context, sum *sweep.Summary) (err error) {
	if err := s.store.EnsurePartitions(ctx); err != nil {
		return err
	}
	if sum.Days, err = s.store.DropBodies(ctx, s.cfg.BodyRetention); err != nil {
		return err
	}
	for sum.Forgotten < s.cfg.Limit {
		n, err := s.store.ForgetEvents(ctx, s.cfg.KeyRetention, pageSize)
		if err != nil || n == 0 {
			return err
		}
		sum.Forgotten += n
	}
	return nil
}

func (s *Sweeper) bury(ctx context.Context, f sweep.Filter, dryRun bool, sum *sweep.Summary) (err error) {
	if dryRun {
		sum.Dead, err = s.store.CountParkedOver(ctx, s.cfg.ParkLimit, f)
		return err
	}
	for sum.Dead < s.cfg.Limit {
		n, err := s.store.BuryParked(ctx, s.cfg.ParkLimit, f, pageSize)
		if err != nil || n == 0 {
			return err
		}
		sum.Dead += n
	}
	return nil
}

// ring publishes one page, then marks what the queue holds now. In this order
// a crash between the two costs one refused publish, and no event.
func (s *Sweeper) ring(ctx context.Context, page []sweep.Row, dryRun bool, sum *sweep.Summary) error {
	notices := make([]event.Notice, len(page))
	for i, r := range page {
		notices[i] = r.Notice
		if r.Reason != "" {
			code, _, _ := strings.Cut(r.Reason, ":")
			sum.Reasons[code]++
		}
	}
	states := make([]PublishState, len(page))
	if !dryRun {
		states = s.publish(ctx, notices)
		if err := failpoint.At(ctx, "sweeper.published"); err != nil {
			return err
		}
	}
	var swept []sweep.Row
	failed := 0
	for i, r := range page {
		switch {
		case states[i] == Failed:
			failed++
			continue
		case states[i] == Waiting:
			sum.Waiting++
			if r.ComesByItself() {
				// Its message is in somebody's hands, who parked it a moment ago
				// and will ack; pushed back now, it would wait for nothing.
				continue
			}
		case r.ComesByItself():
			sum.Due++
		default:
			sum.Lost++
		}
		swept = append(swept, r)
	}
	sum.Failed += failed
	if dryRun {
		return nil
	}
	if len(swept) > 0 {
		if err := s.store.MarkSwept(ctx, swept); err != nil {
			return err
		}
		if err := failpoint.At(ctx, "sweeper.marked"); err != nil {
			return err
		}
	}
	if failed == len(page) {
		return fmt.Errorf("%w: %d of %d publishes failed; is NATS_URL right, and is the stream full?", ErrQueue, failed, len(page))
	}
	return nil
}

func (s *Sweeper) reconcile(ctx context.Context, f sweep.Filter, sum *sweep.Summary) error {
	if s.cfg.ReconcileAfter <= 0 || len(s.sources) == 0 {
		return nil
	}
	r := sweep.Reconcile{After: s.cfg.ReconcileAfter, Within: s.cfg.ReconcileWithin, All: s.cfg.ReconcileAll, Sources: s.sources}
	for after := int64(0); sum.Reconciled < s.cfg.Limit; {
		notices, last, err := s.store.Reconcile(ctx, f, r, after, pageSize)
		if err != nil || last == 0 {
			return err
		}
		after = last
		sum.Reconciled += len(notices)
		if err := failpoint.At(ctx, "sweeper.reconciled"); err != nil {
			return err
		}
		s.publish(ctx, notices) // what fails is due in five minutes
	}
	return nil
}

// Loop makes passes until ctx ends, the first one at once.
func (s *Sweeper) Loop(ctx context.Context) error {
	for {
		if _, err := s.Pass(ctx, sweep.Filter{}, false); err != nil && ctx.Err() == nil {
			s.log.Error("sweep.failed", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.cfg.Every):
		}
	}
}
