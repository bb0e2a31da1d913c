package virtual

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/settlement"
)

// store is the model of pkg/postgres: its tables, what each of its statements
// does to them, and in which order a transaction takes its locks. Committed
// rows are in the maps; what a transaction has written and not committed is a
// list of things to do at its commit, under locks that it holds. Each
// statement reads the committed rows of its own moment, as READ COMMITTED does.
type store struct {
	w      *world
	broken broken

	events   map[int64]*eventRow
	keys     map[eventKey]int64
	bodies   map[int64]bodyRow
	work     map[int64]workRow
	results  map[int64][]resultRow // by turn
	repeats  map[int64]repeatRow
	payments map[int64]*paymentRow
	byRef    map[settlement.Ref]int64
	regs     map[settlement.Ref]settlement.Registration
	moves    map[int64][]moveRow // by payment, in the order of seq
	accounts map[string]string
	entries  []entryRow
	posted   map[entryKey]int // index in entries
	balances map[balanceKey]int64
	outbox   []outboxRow
	told     map[int64]int32      // by event: the turn that its last repeat asked for; no table
	met      map[string]time.Time // processes of the broker

	lastEvent, lastPayment, lastOutbox, lastTuple int64
	changed                                       signal // something may be due by itself
	written                                       signal // there are domain events

	locks map[lockKey]*tx
}

// broken are guarantees that a test takes away, to see that the checks miss
// them, or that another one stands in.
type broken struct {
	unlocked       bool // Settle does not lock payments
	unclaimed      bool // Settle takes events that another has settled
	unkeyed        bool // the ledger's keys are not unique
	torn           bool // entries are committed apart from the rest
	noSweep        bool // the sweeper never runs
	ackFirst       bool // a message is gone when it is delivered
	noRevival      bool // a dead event that is sent again stays dead
	lyingCommit    bool // a commit that was rolled back is reported as done
	unordered      bool // the relay sends in no order
	markedFirst    bool // the relay marks what it has not sent
	earlyRetention bool // bodies of unfinished events are dropped
	driftingSums   bool // a balance is read before its row is locked
	duesTwice      bool // ClaimDue takes rows that others hold
	earlyAnswer    bool // ingest's insert reports success before its commit
	staleTurns     bool // a claim does not ask which turn it was loaded for
}

type eventKey struct{ provider, account, dedupe string }

type eventRow struct {
	event.Event // Body and Headers are in bodies
}

type bodyRow struct {
	body    []byte
	headers []event.Header
	on      time.Time // the day of receipt
}

// workRow is one row version chain of event_work. An update keeps its tuple; a
// row that was deleted and inserted again is another one, which whoever waited
// for the old one does not see.
type workRow struct {
	tuple              int64
	state              event.Status
	turn               int32
	attempts           int
	parks, sweeps      int
	nextAt, since      time.Time
	reason             string
	reasonSince        time.Time // zero: NULL
	lastError, waiting string
}

type resultRow struct {
	turn     int32
	at       time.Time
	status   event.Status
	outcome  event.Outcome
	reason   string
	attempts int
}

type repeatRow struct {
	count     int64
	differing [][32]byte
}

type paymentRow struct {
	payment.Payment // Status is "" only while Version is 0
	createdAt       time.Time
}

type moveRow struct {
	seq      int64
	event    int64
	from, to payment.Status
	reason   string
}

type entryRow struct {
	payment, seq, amount int64
	currency             string
	kind                 payment.Kind
	debit, credit        string
	refType, refID       string
}

type entryKey struct {
	refType, refID string
	kind           payment.Kind
}

type balanceKey struct{ account, currency string }

type outboxRow struct {
	id, payment, seq int64
	subject          string
	payload          []byte
	created, relayed time.Time // relayed is zero while it is not
	again            bool      // it was relayed, and is to be once more; no column
}

func newStore(w *world) *store {
	return &store{
		w: w, events: map[int64]*eventRow{}, keys: map[eventKey]int64{}, bodies: map[int64]bodyRow{}, work: map[int64]workRow{},
		results: map[int64][]resultRow{}, repeats: map[int64]repeatRow{}, payments: map[int64]*paymentRow{}, byRef: map[settlement.Ref]int64{},
		regs: map[settlement.Ref]settlement.Registration{}, moves: map[int64][]moveRow{}, accounts: map[string]string{},
		posted: map[entryKey]int{}, told: map[int64]int32{}, met: map[string]time.Time{}, balances: map[balanceKey]int64{}, locks: map[lockKey]*tx{}, changed: newSignal(), written: newSignal(),
	}
}

// signal wakes whoever waits for a change.
type signal struct{ ch chan struct{} }

func newSignal() signal { return signal{make(chan struct{})} }

func (s *signal) ring() {
	close(s.ch)
	s.ch = make(chan struct{})
}

// micro cuts a time to what the database keeps.
func micro(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.Truncate(time.Microsecond).UTC()
}

func dayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// lockKey names what can be locked: a row, a key that is being inserted, an
// advisory lock.
type lockKey struct {
	kind string
	id   int64
	name string
}

// tx is a transaction under way, or a statement that is one by itself.
type tx struct {
	s        *store
	p        *proc
	ctx      context.Context
	now      time.Time // of its begin, as now() says
	held     []lockKey
	atCommit []func()
	ended    bool
	done     chan struct{}
	waitsFor *tx
	what     string
	numbered bool    // what ends with a number of its own, so that no two labels are alike
	touched  []int64 // payments whose rows it changes
	settles  bool
	dues     bool // what it writes may be due by itself
	tells    bool // it writes domain events
}

// begin touches nothing that others do: its caller may have been woken by a
// timer of the product's own, beside others, and has its turn only after the
// first scheduling point.
func (s *store) begin(ctx context.Context, p *proc, what string) *tx {
	return &tx{s: s, p: p, ctx: ctx, now: micro(time.Now()), done: make(chan struct{}), what: what}
}

// lockTimeout and deadlockTimeout are the server's.
const (
	lockTimeout     = 2 * time.Second
	deadlockTimeout = time.Second
)

var (
	errDeadlock = fmt.Errorf("%w: deadlock", postgres.ErrRetry)
	errLockWait = fmt.Errorf("%w: lock time-out", postgres.ErrRetry)
	errAway     = fmt.Errorf("%w: connection lost", postgres.ErrUnavailable)
)

// at is a scheduling point of a transaction: another one may run here, and a
// fault may befall this one.
func (t *tx) at(label string) error {
	t.p.step(t.what + " " + label)
	if !t.numbered {
		t.numbered = true
		t.p.serial++
		t.what += "#" + strconv.Itoa(t.p.serial)
	}
	return t.spoilt(label)
}

// spoilt draws what befalls a statement.
func (t *tx) spoilt(label string) error {
	f, sch := &t.s.w.faults, t.s.w.sched
	switch {
	case t.ctx.Err() != nil:
		t.s.w.saw("deadline passed in the database")
		return fmt.Errorf("%w: %w", errAway, t.ctx.Err())
	case f.databaseAway && t.p.mortal():
		return errAway
	case sch.chance(f.broken):
		t.s.w.saw("connection lost in a transaction")
		t.note("its connection breaks at " + label)
		return errAway
	case sch.chance(f.deadlock) && !strings.HasPrefix(t.what, "load"):
		t.s.w.saw("deadlock said by the server")
		t.note("deadlock at " + label)
		return errDeadlock
	}
	return nil
}

func (t *tx) note(what string) { t.s.w.sched.say(t.p.name, t.what+": "+what) }

// lock takes a lock, after whoever holds it has ended.
func (t *tx) lock(k lockKey) error {
	var since time.Time
	for {
		holder := t.s.locks[k]
		if holder == t {
			return nil
		}
		if holder == nil {
			t.s.locks[k] = t
			t.held = append(t.held, k)
			return nil
		}
		if since.IsZero() {
			since = time.Now()
			t.s.w.saw("lock wait")
			t.note(fmt.Sprintf("waits for %s %d%s", k.kind, k.id, k.name))
		}
		t.waitsFor = holder
		wait := lockTimeout - time.Since(since)
		if t.circular() {
			wait = min(wait, deadlockTimeout-time.Since(since))
		}
		timer := time.NewTimer(wait)
		select {
		case <-holder.done:
		case <-timer.C:
		case <-t.ctx.Done():
		case <-t.p.killed:
		}
		timer.Stop()
		t.p.step(t.what + " waited")
		circular := !holder.ended && t.circular()
		waited := time.Since(since)
		t.waitsFor = nil
		switch {
		case holder.ended:
		case t.ctx.Err() != nil:
			return errAway
		case circular && waited >= deadlockTimeout:
			t.s.w.saw("deadlock of two transactions")
			return errDeadlock
		case waited >= lockTimeout:
			t.s.w.saw("lock time-out")
			return errLockWait
		}
	}
}

// circular says whether a chain of waits comes back to this transaction. It may
// also end in a circle of others.
func (t *tx) circular() bool {
	met := map[*tx]bool{}
	for o := t.waitsFor; o != nil && !met[o]; o = o.waitsFor {
		if o == t {
			return true
		}
		met[o] = true
	}
	return false
}

// free says whether a lock could be had at once: SKIP LOCKED.
func (t *tx) free(k lockKey) bool {
	holder := t.s.locks[k]
	if holder != nil && holder != t {
		t.s.w.saw("row skipped because it is locked")
		return false
	}
	return true
}

// end commits or rolls back and gives the locks back. The rollback of a
// process that died may come late: its server session ends when the server
// hears of it.
func (t *tx) end(commit bool) {
	if t.ended {
		return
	}
	if !commit && t.p.dead && len(t.held) > 0 && t.s.w.sched.chance(t.s.w.faults.orphan) {
		t.s.w.saw("locks of a dead process held on")
		w, d := t.s.w, t.s.w.sched.below(16*time.Second)
		w.goWorld("orphan of "+t.p.name, func(world *proc) {
			world.sleep(d, "orphan of "+t.p.name+" "+t.what)
			t.release()
		})
		return
	}
	if commit {
		for _, do := range t.atCommit {
			do()
		}
	}
	t.release()
	if commit && len(t.atCommit) > 0 {
		if t.dues {
			t.s.changed.ring()
		}
		if t.tells {
			t.s.written.ring()
		}
		t.s.w.committed(t)
	}
}

func (t *tx) release() {
	t.ended = true
	for _, k := range t.held {
		delete(t.s.locks, k)
	}
	close(t.done)
}

// commit ends the transaction well, or draws how its answer is lost.
func (t *tx) commit() error {
	if err := t.at("commit"); err != nil {
		t.end(false)
		return err
	}
	w := t.s.w
	if len(t.atCommit) > 0 && w.sched.chance(w.faults.unknown) {
		done := w.sched.chance(0.5)
		if done {
			w.saw("commit unknown, done")
		} else {
			w.saw("commit unknown, not done")
		}
		t.note(fmt.Sprintf("its commit is sent, no answer comes; done: %t", done))
		t.end(done)
		w.orDies(t.p, "commit")
		if t.s.broken.lyingCommit {
			return nil
		}
		return postgres.ErrUnknownOutcome
	}
	t.end(true)
	w.orDies(t.p, "commit")
	return nil
}

// todo notes what the commit does.
func (t *tx) todo(do func()) { t.atCommit = append(t.atCommit, do) }

// alone runs one statement that is its own transaction, again when the
// connection broke, as postgres.autocommitted does.
func (s *store) alone(ctx context.Context, p *proc, what string, statement func(t *tx) error) (tries int, err error) {
	for tries = 1; ; tries++ {
		err = s.once(ctx, p, what, statement)
		if err == nil || tries == 4 || !errors.Is(err, postgres.ErrRetry) && !errors.Is(err, postgres.ErrUnavailable) && !errors.Is(err, postgres.ErrUnknownOutcome) {
			return tries, err
		}
		w := s.w
		w.saw("statement sent again")
		p.sleep(time.Duration(tries)*(2*time.Millisecond+w.sched.below(8*time.Millisecond)), what)
		if ctx.Err() != nil {
			return tries, err
		}
	}
}

// once runs one statement that is its own transaction.
func (s *store) once(ctx context.Context, p *proc, what string, statement func(t *tx) error) error {
	t := s.begin(ctx, p, what)
	defer t.end(false)
	if err := t.at(""); err != nil {
		return err
	}
	t.now = micro(time.Now())
	if err := statement(t); err != nil {
		return err
	}
	return t.commit()
}

// read is a scheduling point of a statement that only reads.
func (s *store) read(ctx context.Context, p *proc, what string) error {
	t := s.begin(ctx, p, what)
	defer t.end(false)
	return t.at("")
}

// workIDs are the ids of unfinished events, in order.
func (s *store) workIDs() []int64 { return slices.Sorted(maps.Keys(s.work)) }

// lastResult is the result of an event's last turn.
func (s *store) lastResult(id int64) (resultRow, bool) {
	rs := s.results[id]
	if len(rs) == 0 {
		return resultRow{}, false
	}
	return slices.MaxFunc(rs, func(a, b resultRow) int { return cmp.Compare(a.turn, b.turn) }), true
}

// db is the store as one process sees it. It is postgres.DB's part that the
// rooms ask for.
type db struct {
	s *store
	p *proc
}
