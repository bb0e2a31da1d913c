package chaostest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/postgres"
)

// OverloadConfig says how an overload is played.
type OverloadConfig struct {
	Dir, Programs string // as in Config; the programs are those that are released
	Seed          uint64
	For           time.Duration // of the overload
	Times         float64       // the peak
	Conns         int           // of the overload, at most
	Say           func(format string, args ...any)
}

// The bounds that are guarded.
const (
	overloadKept    = 0.8              // of the peak's accepted a second
	overloadQuick   = 2 * time.Second  // within which 99 of 100 refusals are answered, as gateways ask for an answer,
	overloadSlowest = 5 * time.Second  // and every one
	overloadAfter   = 30 * time.Second // until new events are accepted and final as before
	overloadSlower  = 2.0              // as before: p99 within so much of it,
	overloadResolve = 0.1              // or within so many seconds of it, which is how exactly this machine can tell
	overloadMiB     = 64               // growth of ingest from the first half of the overload to its end
	sweepEvery      = 5 * time.Minute  // as installed
	mostFlood       = 20_000_000       // requests in one measurement, whatever is asked for
)

// Overload finds the most webhooks that are accepted a second, offers many
// times of that for a while, and checks what is kept, refused, lost and left.
func Overload(ctx context.Context, cfg OverloadConfig) (*OverloadReport, error) {
	if cfg.Say == nil {
		cfg.Say = func(string, ...any) {}
	}
	if cfg.For < time.Second || cfg.For > time.Hour || cfg.Times <= 1 || cfg.Conns < 1 || cfg.Conns > 20_000 {
		return nil, errors.New("the overload must take from 1 s to 1 h, be of more than once the peak, and have up to 20000 connections")
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, err
	}
	r := &OverloadReport{Seed: cfg.Seed, Times: cfg.Times}
	err := measureOverload(ctx, cfg, r)
	if err != nil {
		r.Error = err.Error()
	}
	return r, err
}

func measureOverload(ctx context.Context, cfg OverloadConfig, r *OverloadReport) error {
	as := installedShape(1, 2, gatewaysim.Config{
		Payments: 4000, Gateways: []string{"asaas"}, Beneficiaries: 16, Order: gatewaysim.OrderKeep,
		API: gatewaysim.API{Latency: time.Millisecond},
	}, map[string]string{
		// A gateway's own rate limit would bound what is processed, and not
		// umavez: it is asked only when something is in doubt.
		"ASAAS_LOOKUP":   "in_doubt",
		"NATS_MAX_BYTES": strconv.Itoa(512 << 20), "LOG_LEVEL": "warn",
	})
	as.direct = true
	w, err := startWorld(ctx, Config{Dir: cfg.Dir, Programs: cfg.Programs, Say: cfg.Say}, Act{Brokers: 1, shape: as}, cfg.Seed, 0)
	defer w.stop()
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	paid, feed := w.floodable()
	f, err := newFlood(w.sim, strings.TrimPrefix(w.gates[0], "http://"), paid, mostFlood)
	if err != nil {
		return err
	}
	ingest := w.nodes[0].process()
	memory := watchMemory(ingest.PID())
	defer memory.stop()

	standBack()
	cfg.Say("a rest first: new events one by one")
	r.Before = w.pulse(ctx, &feed)
	cfg.Say("  %s", r.Before)
	best := 0.0
	for _, conns := range []int{16, 64, 256, 1024} {
		step := f.run(ctx, conns, 0, 6*time.Second)
		r.Steps = append(r.Steps, step)
		cfg.Say("peak: %4d connections, %.0f accepted/s, p99 %.0f ms", conns, step.perSecond(step.Accepted), step.AcceptedMs.P99)
		best = max(best, step.perSecond(step.Accepted))
	}
	r.Peak = best
	if left := w.drainWork(ctx, 3*time.Minute); left > 0 {
		return fmt.Errorf("%d events of the search for the peak are not final after 3 minutes", left)
	}
	memory.mark("start")
	r.StartMiB = memory.now()
	bg, stop := context.WithCancel(ctx)
	defer stop()
	go w.sweeps.loop(bg, sweepEvery, 0)
	wanted := min(cfg.Times*best, float64(mostFlood)/2/cfg.For.Seconds())
	cfg.Say("overload: %.0f requests/s on %d connections for %s", wanted, cfg.Conns, cfg.For)
	half := time.AfterFunc(cfg.For/2, func() { memory.mark("half") })
	defer half.Stop()
	r.Overload = f.run(ctx, cfg.Conns, wanted, cfg.For)
	r.PeakMiB, r.EndMiB = memory.peakSince("start"), memory.now()
	r.HalfPeakMiB = memory.peakBetween("start", "half")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	cfg.Say("  %s", r.overload())
	if err := w.db.Pool.QueryRow(ctx, `SELECT count(*) FROM event_work`).Scan(&r.Backlog); err != nil {
		return err
	}
	ended := time.Now()
	cfg.Say("  %d events wait to be processed as it ends", r.Backlog)
	w.restore(ctx, cfg, r, ended, &feed)
	if values, err := scrape(ctx, w.nodes[0].admin); err == nil {
		r.LeftToSweeper = int(values["umavez_publish_total/overflowed"])
	}
	// What found no place in the publisher's line waits for a pass of the
	// sweeper, and the longest for a whole pause between two.
	r.Left = w.drainWork(ctx, sweepEvery+5*time.Minute)
	r.DrainSeconds = time.Since(ended).Seconds()
	if r.Left > 0 {
		r.Found = append(r.Found, fmt.Sprintf("%d events are not final %.0f s after the overload", r.Left, r.DrainSeconds))
	}
	r.LastMiB = memory.now()
	if w.nodes[0].process() != ingest {
		r.Found = append(r.Found, "ingest ended and was started again")
	}
	if err := f.judge(ctx, w.db, r); err != nil {
		return err
	}
	results, err := w.db.Verify(ctx, postgres.VerifyOptions{PendingLimit: time.Minute, BodiesSince: 24 * time.Hour, Rows: 10}, nil)
	if err != nil {
		return err
	}
	for _, one := range results {
		for _, v := range one.Rows {
			r.Found = append(r.Found, fmt.Sprintf("invariant %d, %s: %s %s", v.Invariant, v.Check, v.Subject, v.Detail))
		}
	}
	r.finish()
	return nil
}

// restore measures new events until they are as before, or time is up.
func (w *world) restore(ctx context.Context, cfg OverloadConfig, r *OverloadReport, ended time.Time, feed *[]*gatewaysim.Delivery) {
	for {
		began := time.Since(ended).Seconds()
		r.After = w.pulse(ctx, feed)
		cfg.Say("  from %.1f s after the overload: %s", began, r.After)
		if r.RestoredAfter = began; r.After.asBefore(r.Before) {
			r.Restored = began <= overloadAfter.Seconds()
			return
		}
		if time.Since(ended) > overloadAfter || ctx.Err() != nil {
			return
		}
	}
}

// pulse sends new events one after the other.
func (w *world) pulse(ctx context.Context, feed *[]*gatewaysim.Delivery) pulse {
	const events, rate = 100, 20
	n := min(events, len(*feed))
	ds := (*feed)[:n]
	*feed = (*feed)[n:]
	var p pulse
	var accepted, final []float64
	for _, one := range w.probes(ctx, ds, rate, time.Now()) {
		p.Events++
		if one.at.IsZero() || one.Final == 0 {
			p.Missing++
			continue
		}
		accepted, final = append(accepted, one.Accepted), append(final, one.Final)
	}
	slices.Sort(accepted)
	slices.Sort(final)
	p.AcceptedP99, p.FinalP50, p.FinalP99 = quantile(accepted, 0.99), quantile(final, 0.5), quantile(final, 0.99)
	return p
}

// floodable gives webhooks of paid payments of different owners to make
// requests of, and others to probe with.
func (w *world) floodable() (paid, feed []*gatewaysim.Delivery) {
	truth := w.sim.Truth()
	owners, used := map[string]bool{}, map[int]bool{}
	ds := w.sim.Deliveries()
	for i := range ds {
		d := &ds[i]
		if owner := truth[d.Payment].Beneficiary; d.Kind == gatewaysim.DeliveryFirst && !owners[owner] && (d.EventType == "PAYMENT_CONFIRMED" || d.EventType == "PAYMENT_RECEIVED") {
			owners[owner], used[d.Payment] = true, true
			paid = append(paid, d)
		}
	}
	for i := range ds {
		if d := &ds[i]; d.Kind == gatewaysim.DeliveryFirst && !used[d.Payment] {
			used[d.Payment] = true
			feed = append(feed, d)
		}
	}
	return paid, feed
}

// drainWork waits until nothing is unfinished and returns what is.
func (w *world) drainWork(ctx context.Context, limit time.Duration) (left int) {
	for deadline := time.Now().Add(limit); ; {
		if err := w.db.Pool.QueryRow(ctx, `SELECT count(*) FROM event_work`).Scan(&left); err == nil && left == 0 || time.Now().After(deadline) {
			return left
		}
		if !wait(ctx, 250*time.Millisecond) {
			return left
		}
	}
}

// judge compares what was answered with success with what is stored, event by
// event.
func (f *flood) judge(ctx context.Context, db *postgres.DB, r *OverloadReport) error {
	rows, err := db.Pool.Query(ctx, `SELECT provider_event_id FROM events WHERE provider_event_id LIKE $1`, floodPrefix+"%")
	if err != nil {
		return err
	}
	defer rows.Close()
	stored := make([]bool, f.next.Load())
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return err
		}
		n, err := strconv.ParseInt(strings.TrimPrefix(id, floodPrefix), 10, 64)
		if err != nil || n >= int64(len(stored)) || n < 0 || !f.sent[n].Load() {
			r.Found = append(r.Found, "an event is stored that nobody sent: "+id)
			continue
		}
		stored[n] = true
		r.Stored++
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for n := range stored {
		if n < len(f.acked) && f.acked[n].Load() {
			r.Acknowledged++
			if !stored[n] {
				r.Lost++
			}
		}
	}
	var unapplied int
	if err := db.Pool.QueryRow(ctx, `
SELECT count(*) FROM events e LEFT JOIN event_results r ON r.event_id = e.id
WHERE e.provider_event_id LIKE $1 AND r.outcome IS DISTINCT FROM 'applied'`, floodPrefix+"%").Scan(&unapplied); err != nil {
		return err
	}
	if unapplied > 0 {
		r.Found = append(r.Found, fmt.Sprintf("%d of the overload's events moved no money", unapplied))
	}
	return nil
}

// memoryWatch reads how much memory a process has resident.
type memoryWatch struct {
	pid   int
	quit  chan struct{}
	mu    sync.Mutex
	read  []float64 // MiB
	marks map[string]int
}

func watchMemory(pid int) *memoryWatch {
	m := &memoryWatch{pid: pid, quit: make(chan struct{}), marks: map[string]int{}}
	go func() {
		for {
			m.now()
			select {
			case <-m.quit:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	return m
}

func (m *memoryWatch) stop() { close(m.quit) }

// now reads it once more.
func (m *memoryWatch) now() (mib float64) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(m.pid), "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kib); err == nil {
			mib = kib / 1024
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read = append(m.read, mib)
	return mib
}

func (m *memoryWatch) mark(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.marks[name] = len(m.read)
}

func (m *memoryWatch) peakSince(name string) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Max(append([]float64{0}, m.read[m.marks[name]:]...))
}

func (m *memoryWatch) peakBetween(from, to string) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Max(append([]float64{0}, m.read[m.marks[from]:max(m.marks[from], m.marks[to])]...))
}
