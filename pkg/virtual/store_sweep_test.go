package virtual

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/sweep"
)

func (s *store) row(id int64) sweep.Row {
	e, w := s.events[id], s.work[id]
	r := sweep.Row{Notice: noticeOf(&e.Event), NextAt: w.nextAt, Type: e.Type, State: w.state, Reason: w.reason,
		Attempts: w.attempts, Sweeps: w.sweeps, Turn: int(w.turn), Since: w.since, ReceivedAt: e.ReceivedAt}
	if r.Reason == "" {
		r.Reason = w.lastError
	}
	return r
}

func noticeOf(e *event.Event) event.Notice {
	return event.Notice{ID: e.ID, Provider: e.Provider, Account: e.Account, PaymentRef: e.PaymentRef}
}

// DuePage implements sweeper.Store.
func (d db) DuePage(ctx context.Context, f sweep.Filter, after sweep.Cursor, limit int) (page []sweep.Row, err error) {
	if err := d.s.read(ctx, d.p, "due page"); err != nil {
		return nil, err
	}
	now := micro(time.Now())
	for _, id := range d.s.workIDs() {
		r := d.s.row(id)
		if f.Provider != "" && r.Notice.Provider != f.Provider {
			continue
		}
		due := !r.NextAt.After(now)
		if f.OlderThan > 0 {
			if id > after.EventID && (due || r.State == event.StatusPending && r.Attempts == 0 && !r.ReceivedAt.After(now.Add(-f.OlderThan))) {
				page = append(page, r)
			}
		} else if due && cmp.Or(r.NextAt.Compare(micro(after.NextAt)), cmp.Compare(id, after.EventID)) > 0 {
			page = append(page, r)
		}
	}
	if f.OlderThan == 0 {
		slices.SortStableFunc(page, func(a, b sweep.Row) int { return a.NextAt.Compare(b.NextAt) })
	}
	return page[:min(len(page), limit)], nil
}

// MarkSwept implements sweeper.Store.
func (d db) MarkSwept(ctx context.Context, rows []sweep.Row) error {
	_, err := d.s.alone(ctx, d.p, "mark swept", func(t *tx) error {
		// The plan's order of the rows is nobody's promise.
		t.s.w.sched.rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		for _, r := range rows {
			id := r.Notice.ID
			w, ok := t.s.work[id]
			if !ok || !w.nextAt.Equal(r.NextAt) {
				continue
			}
			if err := t.lock(lockKey{kind: "work", id: id}); err != nil {
				return err
			}
			now, ok := t.s.work[id]
			if !ok || now.tuple != w.tuple || !now.nextAt.Equal(r.NextAt) {
				continue
			}
			delay := 30 * time.Second
			if !now.due() {
				delay = min(5*time.Minute<<min(now.sweeps, 10), 6*time.Hour)
			}
			t.update(id, func(w *workRow) {
				w.sweeps++
				w.nextAt = micro(t.now.Add(delay))
			})
		}
		return nil
	})
	return err
}

// RingForAll makes everything pending due: the stream was lost.
func (d db) RingForAll(ctx context.Context) (n int, err error) {
	err = d.s.once(ctx, d.p, "ring for all", func(t *tx) error {
		n = 0
		for _, id := range t.s.workIDs() {
			w := t.s.work[id]
			if w.state != event.StatusPending || w.attempts != 0 || !w.nextAt.After(t.now) {
				continue
			}
			if err := t.lock(lockKey{kind: "work", id: id}); err != nil {
				return err
			}
			if now, ok := t.s.work[id]; !ok || now.tuple != w.tuple || now.state != event.StatusPending || now.attempts != 0 {
				continue
			}
			n++
			t.update(id, func(w *workRow) {
				if w.nextAt.After(t.now) {
					w.nextAt = t.now
				}
			})
		}
		return nil
	})
	return n, err
}

func (s *store) buriable(id int64, limit time.Duration, f sweep.Filter, now time.Time) bool {
	w := s.work[id]
	return w.state == event.StatusParked && w.reason != "registered" && !w.since.After(now.Add(-limit)) &&
		(f.Provider == "" || s.events[id].Provider == f.Provider)
}

// BuryParked implements sweeper.Store.
func (d db) BuryParked(ctx context.Context, limit time.Duration, f sweep.Filter, most int) (n int, err error) {
	err = d.s.once(ctx, d.p, "bury parked", func(t *tx) error {
		n = 0
		for _, id := range t.s.workIDs() {
			k := lockKey{kind: "work", id: id}
			if n == most || !t.s.buriable(id, limit, f, t.now) || !t.free(k) {
				continue
			}
			if err := t.lock(k); err != nil {
				return err
			}
			n++
			w := t.s.work[id]
			row := resultRow{w.turn, t.now, event.StatusDead, "", "parked for too long: " + w.reason, w.attempts}
			t.todo(func() {
				delete(t.s.work, id)
				t.s.results[id] = append(t.s.results[id], row)
			})
		}
		return nil
	})
	if n > 0 && err == nil {
		d.s.w.saw("dead by PARK_LIMIT")
	}
	return n, err
}

// CountParkedOver implements sweeper.Store.
func (d db) CountParkedOver(ctx context.Context, limit time.Duration, f sweep.Filter) (n int, err error) {
	if err := d.s.read(ctx, d.p, "count parked"); err != nil {
		return 0, err
	}
	for id := range d.s.work {
		if d.s.buriable(id, limit, f, micro(time.Now())) {
			n++
		}
	}
	return n, nil
}

// Reconcile implements sweeper.Store.
func (d db) Reconcile(ctx context.Context, f sweep.Filter, r sweep.Reconcile, after int64, limit int) (entered []event.Notice, last int64, err error) {
	err = d.s.once(ctx, d.p, "reconcile", func(t *tx) error {
		entered, last = nil, 0
		ids := slices.Sorted(maps.Keys(t.s.payments))
		n := 0
		for _, id := range ids {
			p := t.s.payments[id]
			seen := p.ObservedAt
			if seen.IsZero() {
				seen = p.createdAt
			}
			if n == limit || id <= after || seen.After(t.now.Add(-r.After)) || p.createdAt.Before(t.now.Add(-r.Within)) ||
				!r.All && !unsettled(p.Status) || f.Provider != "" && p.Provider != f.Provider ||
				!slices.Contains(r.Sources, p.Provider+"/"+p.Account) {
				continue
			}
			n++
			last = id
			notice, err := t.enterReconciliation(p, seen)
			if err != nil {
				return err
			}
			if notice.ID != 0 {
				entered = append(entered, notice)
			}
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	if len(entered) > 0 {
		d.s.w.saw("reconciliation entered")
	}
	return entered, last, nil
}

func (t *tx) enterReconciliation(p *paymentRow, seen time.Time) (n event.Notice, err error) {
	k := eventKey{p.Provider, p.Account, fmt.Sprintf("umavez/reconcile/%d/%s/%s", p.ID, epoch(seen), t.now.Format("20060102"))}
	if _, ok := t.s.keys[k]; ok {
		return n, nil
	}
	if err := t.lock(lockKey{kind: "event key", name: k.String()}); err != nil {
		return n, err
	}
	if _, ok := t.s.keys[k]; ok {
		return n, nil
	}
	t.s.lastEvent++
	id := t.s.lastEvent
	row := &eventRow{event.Event{ID: id, Provider: p.Provider, Account: p.Account, DedupeKey: k.dedupe, Type: event.TypeReconcile,
		PaymentRef: p.GatewayID, ReceivedAt: t.now, BodySHA256: sha256.Sum256(nil), Secret: "sweeper"}}
	work := t.freshWork()
	t.todo(func() { t.s.events[id], t.s.keys[k], t.s.work[id] = row, id, work })
	return noticeOf(&row.Event), nil
}

// epoch is what PostgreSQL writes for extract(epoch FROM ...).
func epoch(t time.Time) string {
	return strconv.FormatInt(t.Unix(), 10) + fmt.Sprintf(".%06d", t.Nanosecond()/1000)
}

func unsettled(s payment.Status) bool {
	switch s {
	case payment.StatusNone, payment.StatusPending, payment.StatusAuthorized, payment.StatusDisputed:
		return true
	}
	return false
}

// EnsurePartitions implements sweeper.Store; the model has no partitions.
func (d db) EnsurePartitions(ctx context.Context) error {
	return d.s.read(ctx, d.p, "ensure partitions")
}

// DropBodies implements sweeper.Store. The days that it counts are those of
// which it dropped a body.
func (d db) DropBodies(ctx context.Context, keep time.Duration) (days int, err error) {
	err = d.s.once(ctx, d.p, "drop bodies", func(t *tx) error {
		before := dayOf(t.now.Add(-keep))
		if last := dayOf(t.now).AddDate(0, 0, -4); last.Before(before) {
			before = last
		}
		if !t.s.broken.earlyRetention {
			for id := range t.s.work {
				if day := dayOf(t.s.events[id].ReceivedAt); day.Before(before) {
					before = day
				}
			}
		}
		dropped := map[time.Time]bool{}
		for id, b := range t.s.bodies {
			if day := b.on; day.Before(before) {
				dropped[day] = true
				t.todo(func() { delete(t.s.bodies, id) })
			}
		}
		days = len(dropped)
		return nil
	})
	if days > 0 && err == nil {
		d.s.w.saw("bodies dropped by retention")
	}
	return days, err
}

// ForgetEvents implements sweeper.Store.
func (d db) ForgetEvents(ctx context.Context, keep time.Duration, most int) (n int, err error) {
	err = d.s.once(ctx, d.p, "forget events", func(t *tx) error {
		n = 0
		var old []int64
		ids := slices.Sorted(maps.Keys(t.s.events))
		for _, id := range ids[:min(len(ids), most)] {
			if _, unfinished := t.s.work[id]; !unfinished && t.s.events[id].ReceivedAt.Before(t.now.Add(-keep)) {
				old = append(old, id)
			}
		}
		for _, id := range old {
			if err := t.lock(lockKey{kind: "revival", id: id}); err != nil {
				return err
			}
		}
		if len(old) > 0 {
			if err := t.at("forget"); err != nil {
				return err
			}
		}
		for _, id := range old {
			if _, unfinished := t.s.work[id]; unfinished {
				continue
			}
			n++
			t.todo(func() { t.s.forget(id) })
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if n > 0 {
		d.s.w.saw("keys forgotten by retention")
	}
	return n, nil
}

func (s *store) forget(id int64) {
	e := s.events[id]
	delete(s.keys, eventKey{e.Provider, e.Account, e.DedupeKey})
	delete(s.events, id)
	delete(s.results, id)
	delete(s.repeats, id)
}

// relayed marks domain events as sent.
func (s *store) relayed(sent []postgres.Outgoing, at time.Time) {
	for i := range s.outbox {
		if slices.ContainsFunc(sent, func(o postgres.Outgoing) bool { return o.ID == s.outbox[i].id }) {
			s.outbox[i].relayed = at
		}
	}
}

// unsentAgain says whether a domain event was marked and is unsent again.
func (s *store) unsentAgain(id int64) bool {
	return slices.ContainsFunc(s.outbox, func(o outboxRow) bool { return o.id == id && o.again })
}

// RelayOutbox is pkg/postgres's: one relay at a time.
func (d db) RelayOutbox(ctx context.Context, limit int, send func(context.Context, []postgres.Outgoing) (int, error)) (relayed int, leading bool, err error) {
	t := d.s.begin(ctx, d.p, "relay")
	defer t.end(false)
	if err := t.at("lead"); err != nil {
		return 0, false, err
	}
	t.now = micro(time.Now())
	lead := lockKey{kind: "outbox"}
	if holder := t.s.locks[lead]; holder != nil {
		t.s.w.saw("relay found another one leading")
		return 0, false, t.commit()
	}
	if err := t.lock(lead); err != nil {
		return 0, false, err
	}
	if err := t.at("unsent"); err != nil {
		return 0, true, err
	}
	var out []postgres.Outgoing
	for _, o := range t.s.outbox {
		if o.relayed.IsZero() && len(out) < limit {
			out = append(out, postgres.Outgoing{ID: o.id, Subject: o.subject, Payload: o.payload})
		}
	}
	if len(out) == 0 {
		return 0, true, t.commit()
	}
	if t.s.broken.unordered {
		t.s.w.sched.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	}
	if t.s.broken.markedFirst {
		t.todo(func() { t.s.relayed(out, t.now) })
		if err := t.commit(); err != nil {
			return 0, true, err
		}
		_, sendErr := send(ctx, out)
		return len(out), true, sendErr
	}
	sent, sendErr := send(ctx, out)
	if sent == 0 {
		return 0, true, errors.Join(sendErr, t.commit())
	}
	if err := t.at("mark"); err != nil {
		return 0, true, err
	}
	t.todo(func() { t.s.relayed(out[:sent], t.now) })
	if err := t.commit(); err != nil {
		return 0, true, err
	}
	return sent, true, sendErr
}

// MeetBroker is pkg/postgres's: what was relayed within the last while is
// unsent again when no relay has met this process of the broker before.
func (d db) MeetBroker(ctx context.Context, server string, within time.Duration) (unsent int, met bool, err error) {
	const tries = 4
	for n := 1; ; n++ {
		err = d.s.once(ctx, d.p, "meet "+server, func(t *tx) error {
			unsent, met = 0, false
			if err := t.lock(lockKey{kind: "outbox"}); err != nil {
				return err
			}
			if err := t.at("met"); err != nil {
				return err
			}
			if _, ok := t.s.met[server]; ok {
				return nil
			}
			met, t.tells = true, true
			for _, o := range t.s.outbox {
				if o.relayed.After(t.now.Add(-within)) {
					unsent++
				}
			}
			t.todo(func() {
				t.s.met[server] = t.now
				maps.DeleteFunc(t.s.met, func(_ string, at time.Time) bool { return at.Before(t.now.Add(-400 * 24 * time.Hour)) })
				for i := range t.s.outbox {
					if o := &t.s.outbox[i]; o.relayed.After(t.now.Add(-within)) {
						o.relayed, o.again = time.Time{}, true
					}
				}
			})
			return nil
		})
		if err == nil {
			return unsent, met, nil
		}
		if n == tries || !errors.Is(err, postgres.ErrRetry) && !errors.Is(err, postgres.ErrUnavailable) {
			return 0, false, err
		}
		d.p.sleep(time.Duration(n)*(2*time.Millisecond+d.s.w.sched.below(8*time.Millisecond)), "meet "+server)
		if ctx.Err() != nil {
			return 0, false, err
		}
	}
}
