package chaostest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/umavez/umavez/pkg/failpoint"
	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/queue"
)

// PrefetchConfig says how the death of a processor with full hands is measured.
type PrefetchConfig struct {
	Dir, Programs string
	Seed          uint64
	Rounds        int
	Backlog       int           // events that wait when a processor dies
	AckWait       time.Duration // NATS_ACK_WAIT; 0 is the default
	Say           func(format string, args ...any)
}

// prefetchGrace is what an event may be delayed beyond the ack wait.
const prefetchGrace = 10 * time.Second

// heldAt are the steps at which a processor has a batch in hand and nothing of
// it is committed.
var heldAt = []string{"queue.fetch_answered", "processor.loaded", "processor.looked_up", "postgres.settle_locked", "postgres.settle_committing"}

// PrefetchReport is what was measured; its JSON names are an interface.
type PrefetchReport struct {
	Error   string          `json:"error,omitempty"`
	Seed    uint64          `json:"seed"`
	AckWait float64         `json:"ack_wait_s"`
	Bound   float64         `json:"bound_s"`
	InHand  int             `json:"events_in_hand"`
	Max     float64         `json:"max_delay_s"` // from the kill to final
	Rounds  []PrefetchRound `json:"rounds"`
	Missed  []string        `json:"missed,omitempty"`
	Found   []string        `json:"found,omitempty"`
}

// PrefetchRound is one death.
type PrefetchRound struct {
	Step    string  `json:"step"`
	InHand  int     `json:"in_hand"`
	Backlog int     `json:"backlog"` // events that waited in the stream beside those
	P50     float64 `json:"p50_s"`
	Max     float64 `json:"max_s"`
}

// Prefetch kills a processor that has a full batch in hand for each of its
// workers, under a backlog, and measures when those events become final.
func Prefetch(ctx context.Context, cfg PrefetchConfig) (*PrefetchReport, error) {
	if cfg.Say == nil {
		cfg.Say = func(string, ...any) {}
	}
	if cfg.AckWait == 0 {
		cfg.AckWait = defaultAckWait
	}
	if cfg.Rounds < 1 || cfg.Backlog < 1000 || cfg.Backlog > 50_000 {
		return nil, errors.New("rounds must be at least 1, the backlog from 1000 to 50000 events")
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, err
	}
	r := &PrefetchReport{Seed: cfg.Seed, AckWait: cfg.AckWait.Seconds(), Bound: (cfg.AckWait + prefetchGrace).Seconds()}
	err := measurePrefetch(ctx, cfg, r)
	if err != nil {
		r.Error = err.Error()
	}
	return r, err
}

func measurePrefetch(ctx context.Context, cfg PrefetchConfig, r *PrefetchReport) error {
	settings := map[string]string{"NATS_ACK_WAIT": cfg.AckWait.String(), "LOG_LEVEL": "warn"}
	if cfg.AckWait < defaultAckWait { // they have to fit below it
		for _, name := range []string{"LOOKUP_TIMEOUT", "PROCESSOR_TX_TIMEOUT"} {
			settings[name] = timers[name]
		}
	}
	as := installedShape(1, 3, gatewaysim.Config{
		Payments: cfg.Rounds*cfg.Backlog + 1000, Gateways: []string{"asaas", "stripe", "pagpolar"}, Beneficiaries: 8, Order: gatewaysim.OrderKeep,
		API: gatewaysim.API{Latency: time.Millisecond},
	}, settings)
	as.direct = true
	w, err := startWorld(ctx, Config{Dir: cfg.Dir, Programs: cfg.Programs, Say: cfg.Say}, Act{Brokers: 1, shape: as}, cfg.Seed, 0)
	defer w.stop()
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	var feed []*gatewaysim.Delivery
	seen := map[int]bool{}
	ds := w.sim.Deliveries()
	for i := range ds {
		if d := &ds[i]; d.Kind == gatewaysim.DeliveryFirst && !seen[d.Payment] && d.Events() == 1 {
			seen[d.Payment] = true
			feed = append(feed, d)
		}
	}
	chance := rand.New(rand.NewPCG(cfg.Seed, 0x70726566))
	for i := range cfg.Rounds {
		n := min(cfg.Backlog, len(feed))
		round, err := w.dieWithFullHands(ctx, cfg, heldAt[(i+int(cfg.Seed))%len(heldAt)], feed[:n], chance)
		feed = feed[n:]
		if err != nil {
			return fmt.Errorf("round %d: %w", i+1, err)
		}
		cfg.Say("killed at %-27s %d events in hand, %d waiting: delayed %.1f s in the middle, %.1f s at most", round.Step+":", round.InHand, round.Backlog, round.P50, round.Max)
		r.Rounds = append(r.Rounds, round)
		r.InHand += round.InHand
		if r.Max = max(r.Max, round.Max); round.Max > r.Bound {
			r.Missed = append(r.Missed, fmt.Sprintf("killed at %s, it delayed an event by %.1f s", round.Step, round.Max))
		}
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
	return nil
}

// dieWithFullHands is one round: the processors rest while a backlog comes in,
// one of them takes all that it can and stands still, the others come back to
// work the backlog off, and it is killed.
func (w *world) dieWithFullHands(ctx context.Context, cfg PrefetchConfig, step string, ds []*gatewaysim.Delivery, chance *rand.Rand) (round PrefetchRound, err error) {
	round.Step = step
	var processors []*node
	for _, n := range w.nodes {
		if n.role == "processor" {
			processors = append(processors, n)
		}
	}
	chance.Shuffle(len(processors), func(i, j int) { processors[i], processors[j] = processors[j], processors[i] })
	victim, others := processors[0], processors[1:]
	var release []func()
	for _, n := range processors {
		release = append(release, n.hold())
		n.process().Stop(20 * time.Second)
	}
	back := func() {
		for _, f := range release {
			f()
		}
	}
	defer back()
	if err := w.pile(ctx, ds); err != nil {
		return round, err
	}
	// Two workers: each reaches the step once, and stays there.
	env := victim.spec.Env
	victim.spec.Env = append(slices.Clone(env), failpoint.Environment+"="+step+"=delay:10m")
	release[0]()
	held, backlog, err := w.awaitFullHands(ctx, 2*defaultBatch)
	victim.spec.Env = env
	if err != nil {
		return round, err
	}
	round.InHand, round.Backlog = len(held), backlog
	for _, f := range release[1:] {
		f()
	}
	for _, n := range others {
		if err := w.awaitNode(ctx, n); err != nil {
			return round, err
		}
	}
	time.Sleep(time.Duration(chance.IntN(1000)) * time.Millisecond)
	var killed time.Time
	victim.process().Signal(syscall.SIGKILL)
	if err := w.db.Pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&killed); err != nil {
		return round, err
	}
	if left := w.drainWork(ctx, cfg.AckWait+4*prefetchGrace); left > 0 {
		return round, fmt.Errorf("%d events are not final %s after the kill", left, cfg.AckWait+4*prefetchGrace)
	}
	delays, err := w.delays(ctx, held, killed)
	if err != nil {
		return round, err
	}
	round.P50, round.Max = quantile(delays, 0.5), quantile(delays, 1)
	return round, nil
}

// defaultBatch is what a worker takes at once, as installed.
const defaultBatch = 200

// pile sends all that is given and waits until it is in the stream.
func (w *world) pile(ctx context.Context, ds []*gatewaysim.Delivery) error {
	work := make(chan *gatewaysim.Delivery)
	failed := make(chan string, 64)
	for range cap(failed) {
		go func() {
			why := ""
			for d := range work {
				if p := new(probe); !w.deliver(ctx, d, p) {
					why = "a webhook of " + d.Gateway + " was not accepted"
				}
			}
			failed <- why
		}()
	}
	for _, d := range ds {
		work <- d
	}
	close(work)
	for range cap(failed) {
		if why := <-failed; why != "" {
			return errors.New(why)
		}
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		s, err := w.js.Stream(ctx, queue.StreamWebhooks)
		if err == nil && int(s.CachedInfo().State.Msgs) >= len(ds) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the backlog is not in the stream after 30 s (%w)", err)
		}
		if !wait(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// awaitFullHands waits until so many messages are delivered and not settled,
// for a while without a change, and reads which events they are of.
func (w *world) awaitFullHands(ctx context.Context, want int) (events []int64, backlog int, err error) {
	s, err := w.js.Stream(ctx, queue.StreamWebhooks)
	if err != nil {
		return nil, 0, err
	}
	same, info := 0, (*jetstream.ConsumerInfo)(nil)
	for deadline := time.Now().Add(30 * time.Second); same < 5; {
		c, err := s.Consumer(ctx, queue.ConsumerName)
		if err != nil {
			return nil, 0, err
		}
		if info = c.CachedInfo(); info.NumAckPending == want {
			same++
		} else {
			same = 0
		}
		if time.Now().After(deadline) {
			return nil, 0, fmt.Errorf("the processor has %d events in hand after 30 s; %d are wanted", info.NumAckPending, want)
		}
		if !wait(ctx, 100*time.Millisecond) {
			return nil, 0, ctx.Err()
		}
	}
	// Of a work queue, what is there up to the newest delivery is in hand.
	state, err := s.Info(ctx)
	if err != nil {
		return nil, 0, err
	}
	for seq := state.State.FirstSeq; seq <= info.Delivered.Stream; seq++ {
		m, err := s.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		at, err := queue.ParseSubject(m.Subject)
		if err != nil {
			return nil, 0, err
		}
		events = append(events, at.EventID)
	}
	if len(events) != want {
		return nil, 0, fmt.Errorf("%d events are in hand, and %d in the stream up to the newest delivery", want, len(events))
	}
	return events, int(info.NumPending), nil
}

func (w *world) awaitNode(ctx context.Context, n *node) error {
	for deadline := time.Now().Add(30 * time.Second); ; {
		err := n.ready(ctx)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return err
		}
		if !wait(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// delays are from a moment to the results of events, sorted, in seconds.
func (w *world) delays(ctx context.Context, events []int64, from time.Time) (all []float64, err error) {
	rows, err := w.db.Pool.Query(ctx, `
SELECT extract(epoch FROM min(at) - $2)::float8 FROM event_results WHERE event_id = ANY($1) GROUP BY event_id ORDER BY 1`, events, from)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s float64
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if len(all) != len(events) {
		return nil, fmt.Errorf("%d of %d events have a result", len(all), len(events))
	}
	if all[0] < 0 {
		return nil, errors.New("an event was final before the kill, so it was not in its hands")
	}
	return all, nil
}

// OK says whether the requirement holds.
func (r *PrefetchReport) OK() bool {
	return r.Error == "" && len(r.Missed) == 0 && len(r.Found) == 0 && r.InHand > 0
}

// WriteJSON writes the report to a file.
func (r *PrefetchReport) WriteJSON(path string) error { return writeJSON(path, r) }

// Markdown writes the report for people.
func (r *PrefetchReport) Markdown(out io.Writer) {
	fmt.Fprintf(out, "A processor was killed %d times with %d events in its hands in all, under a backlog. The longest delay of one of them was **%.1f s** (ack wait %.0f s, bound %.0f s).\n\n",
		len(r.Rounds), r.InHand, r.Max, r.AckWait, r.Bound)
	fmt.Fprint(out, "| killed at | in hand | backlog | p50 | at most |\n|---|---|---|---|---|\n")
	for _, x := range r.Rounds {
		fmt.Fprintf(out, "| `%s` | %d | %d | %.1f s | %.1f s |\n", x.Step, x.InHand, x.Backlog, x.P50, x.Max)
	}
	var lines []string
	if r.Error != "" {
		lines = append(lines, "it did not come to its end: "+r.Error)
	}
	lines = append(append(lines, r.Missed...), r.Found...)
	if len(lines) > 0 {
		fmt.Fprintf(out, "\n- %s\n", strings.Join(lines, "\n- "))
	}
}
