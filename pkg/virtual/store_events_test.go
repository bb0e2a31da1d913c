package virtual

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/settlement"
)

func keyOf(a *event.Arrival) eventKey { return eventKey{a.Provider, a.Account, a.DedupeKey} }

func (k eventKey) compare(o eventKey) int {
	return cmp.Or(strings.Compare(k.provider, o.provider), strings.Compare(k.account, o.account), strings.Compare(k.dedupe, o.dedupe))
}

func (k eventKey) String() string { return k.provider + "/" + k.account + "/" + k.dedupe }

// InsertEvents implements ingest.Store: pkg/postgres/events.go.
func (d db) InsertEvents(ctx context.Context, arrivals []event.Arrival) ([]event.Stored, error) {
	stored := make([]event.Stored, len(arrivals))
	if len(arrivals) == 0 {
		return stored, nil
	}
	order := make([]int, len(arrivals))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return keyOf(&arrivals[a]).compare(keyOf(&arrivals[b])) })
	var firsts, rest, repeats []int
	for _, i := range order {
		if len(firsts) > 0 && keyOf(&arrivals[firsts[len(firsts)-1]]) == keyOf(&arrivals[i]) {
			rest = append(rest, i)
		} else {
			firsts = append(firsts, i)
		}
	}
	fresh, again, err := d.insertNew(ctx, arrivals, firsts)
	if err != nil {
		return stored, err
	}
	for _, i := range firsts {
		if id, ok := fresh[keyOf(&arrivals[i])]; ok {
			stored[i] = event.Stored{ID: id, New: true, Publish: arrivals[i].Settle == ""}
		} else {
			stored[i].Publish = again && arrivals[i].Settle == ""
			repeats = append(repeats, i)
		}
	}
	for _, i := range rest {
		stored[i].ID = fresh[keyOf(&arrivals[i])]
		repeats = append(repeats, i)
	}
	if len(repeats) == 0 {
		return stored, nil
	}
	return stored, d.countRepeats(ctx, arrivals, repeats, stored)
}

func (d db) insertNew(ctx context.Context, arrivals []event.Arrival, firsts []int) (fresh map[eventKey]int64, again bool, err error) {
	label := "insert " + keyOf(&arrivals[firsts[0]]).dedupe
	if d.s.broken.earlyAnswer && d.s.w.sched.chance(0.2) {
		fresh = map[eventKey]int64{}
		for _, i := range firsts {
			if _, ok := d.s.keys[keyOf(&arrivals[i])]; !ok {
				d.s.lastEvent++
				fresh[keyOf(&arrivals[i])] = d.s.lastEvent
			}
		}
		return fresh, false, nil
	}
	tries, err := d.s.alone(ctx, d.p, label, func(t *tx) error {
		fresh = map[eventKey]int64{}
		for _, i := range firsts {
			if d.s.w.refusesArrival(&arrivals[i]) {
				d.s.w.saw("arrival refused by the database")
				return refused("value")
			}
		}
		for _, i := range firsts {
			if err := t.insert(&arrivals[i], fresh); err != nil {
				return err
			}
		}
		return nil
	})
	return fresh, tries > 1, err
}

// insert is one row of the statement, with its body and its work or result.
func (t *tx) insert(a *event.Arrival, fresh map[eventKey]int64) error {
	k := keyOf(a)
	if _, ok := t.s.keys[k]; ok {
		return nil
	}
	if err := t.lock(lockKey{kind: "event key", name: k.String()}); err != nil {
		return err
	}
	if _, ok := t.s.keys[k]; ok {
		return nil
	}
	t.s.lastEvent++
	id := t.s.lastEvent
	row := &eventRow{a.Event}
	row.ID, row.ReceivedAt, row.OccurredAt = id, t.now, micro(a.OccurredAt)
	row.Body, row.Headers = nil, nil
	body := bodyRow{notNil(a.Body), a.Headers, dayOf(t.now)}
	fresh[k] = id
	t.todo(func() {
		t.s.events[id], t.s.keys[k], t.s.bodies[id] = row, id, body
	})
	if a.Settle != "" {
		result := resultRow{turn: 1, at: t.now, status: a.Settle, reason: a.Reason}
		t.todo(func() { t.s.results[id] = append(t.s.results[id], result) })
		return nil
	}
	work := t.freshWork()
	t.todo(func() { t.s.work[id] = work })
	return nil
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func (t *tx) freshWork() workRow {
	t.s.lastTuple++
	return workRow{tuple: t.s.lastTuple, state: event.StatusPending, turn: 1, nextAt: micro(t.now.Add(5 * time.Minute)), since: t.now}
}

// countRepeats counts duplicates, and puts back to work what they ask for.
func (d db) countRepeats(ctx context.Context, arrivals []event.Arrival, repeats []int, stored []event.Stored) error {
	first := &arrivals[repeats[0]]
	ids := map[eventKey]int64{}
	reopen := map[int64]bool{}
	var revivable []int64
	_, err := d.s.alone(ctx, d.p, "count "+keyOf(first).dedupe, func(t *tx) error {
		clear(ids)
		clear(reopen)
		revivable = nil
		counted := map[int64]repeatRow{}
		for _, i := range repeats {
			a := &arrivals[i]
			id, ok := t.s.keys[keyOf(a)]
			if !ok {
				continue
			}
			ids[keyOf(a)] = id
			reopen[id] = reopen[id] || a.Reopen
			c := counted[id]
			c.count++
			if a.BodySHA256 != t.s.events[id].BodySHA256 && !slices.Contains(c.differing, a.BodySHA256) {
				c.differing = append(c.differing, a.BodySHA256)
			}
			counted[id] = c
		}
		order := slices.Sorted(maps.Keys(counted))
		for _, id := range order {
			_, unfinished := t.s.work[id]
			last, ended := t.s.lastResult(id)
			if !unfinished && ended && (last.status == event.StatusDead || reopen[id] && last.status == event.StatusProcessed) || reopen[id] && unfinished {
				revivable = append(revivable, id)
			}
		}
		for _, id := range order {
			if err := t.lock(lockKey{kind: "redeliveries", id: id}); err != nil {
				return err
			}
			more := counted[id]
			t.todo(func() {
				r := t.s.repeats[id]
				r.count += more.count
				for _, sum := range more.differing {
					if !slices.Contains(r.differing, sum) && len(r.differing) < 16 {
						r.differing = append(r.differing, sum)
					}
				}
				t.s.repeats[id] = r
			})
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := d.restoreBodies(ctx, arrivals, repeats, ids, revivable); err != nil {
		return err
	}
	revived, err := d.revive(ctx, revivable, reopen)
	for _, i := range repeats {
		id, ok := ids[keyOf(&arrivals[i])]
		switch {
		case !ok:
			err = errors.Join(err, errors.New("an event vanished while its duplicate was received"))
		case err != nil && slices.Contains(revivable, id):
		default:
			stored[i].ID = id
			if slices.Contains(revived, id) {
				stored[i].Publish = true
				revived = slices.DeleteFunc(revived, func(r int64) bool { return r == id })
			}
		}
	}
	return err
}

func (d db) restoreBodies(ctx context.Context, arrivals []event.Arrival, repeats []int, ids map[eventKey]int64, revivable []int64) error {
	if len(revivable) == 0 {
		return nil
	}
	given := map[int64]*event.Arrival{}
	for _, i := range repeats {
		if id := ids[keyOf(&arrivals[i])]; slices.Contains(revivable, id) {
			given[id] = &arrivals[i]
		}
	}
	_, err := d.s.alone(ctx, d.p, "restore bodies"+idLabel(revivable), func(t *tx) error {
		for _, id := range revivable {
			e, ok := t.s.events[id]
			if _, kept := t.s.bodies[id]; !ok || kept || e.BodySHA256 != given[id].BodySHA256 {
				continue
			}
			t.s.w.saw("body restored by a resend")
			body := bodyRow{notNil(given[id].Body), nil, dayOf(e.ReceivedAt)}
			t.todo(func() { t.s.bodies[id] = body })
		}
		return nil
	})
	return err
}

// revive runs three statements under advisory locks, as pkg/postgres does.
func (d db) revive(ctx context.Context, ids []int64, reopen map[int64]bool) (revived []int64, err error) {
	if len(ids) == 0 || d.s.broken.noRevival {
		return nil, nil
	}
	slices.Sort(ids)
	_, err = d.s.alone(ctx, d.p, "revive"+idLabel(ids), func(t *tx) error {
		revived = nil
		for _, id := range ids {
			if err := t.lock(lockKey{kind: "revival", id: id}); err != nil {
				return err
			}
		}
		if err := t.at("told again"); err != nil {
			return err
		}
		told := map[int64]bool{}
		for _, id := range ids {
			w, ok := t.s.work[id]
			if !ok || !reopen[id] {
				continue
			}
			if err := t.lock(lockKey{kind: "work", id: id}); err != nil {
				return err
			}
			if now, ok := t.s.work[id]; !ok || now.tuple != w.tuple {
				continue
			}
			told[id] = true
			t.s.w.saw("told again while unfinished")
			t.update(id, func(w *workRow) {
				w.turn++
				t.s.told[id] = w.turn
				w.since, w.nextAt, w.reasonSince = t.now, t.now, t.now
				w.parks, w.state = 0, event.StatusParked
				if w.reason == "" {
					w.reason = "told_again: the gateway sent it again while it was unfinished"
				}
			})
		}
		if err := t.at("revived"); err != nil {
			return err
		}
		for _, id := range ids {
			last, ended := t.s.lastResult(id)
			if _, unfinished := t.s.work[id]; unfinished || !ended || last.status != event.StatusDead && !(reopen[id] && last.status == event.StatusProcessed) {
				continue
			}
			if err := t.lock(lockKey{kind: "work", id: id}); err != nil {
				return err
			}
			t.dues = true
			row := t.freshWork()
			row.turn, row.nextAt = last.turn+1, micro(t.now.Add(2*time.Second))
			revived = append(revived, id)
			t.s.w.saw("revival of a " + string(last.status) + " event")
			t.todo(func() { t.s.work[id], t.s.told[id] = row, row.turn })
		}
		if err := t.at("revivals_checked"); err != nil {
			return err
		}
		for _, id := range ids {
			if _, ok := t.s.events[id]; !ok {
				return errors.New("an event was forgotten while it was resent")
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return revived, nil
}

// register is register_payment, called by an application in a transaction of
// its own.
func (d db) register(ctx context.Context, ref settlement.Ref, r settlement.Registration) error {
	return d.s.once(ctx, d.p, "register "+ref.String(), func(t *tx) error {
		if err := t.lock(lockKey{kind: "registration", name: ref.String()}); err != nil {
			return err
		}
		merged := t.s.regs[ref]
		if !merged.Expected.Known {
			merged.Expected = r.Expected
		}
		for _, f := range []struct {
			held *string
			said string
		}{{&merged.Currency, r.Currency}, {&merged.Beneficiary, r.Beneficiary}, {&merged.Reference, r.Reference}} {
			if *f.held == "" {
				*f.held = f.said
			}
		}
		t.todo(func() { t.s.regs[ref] = merged })
		t.s.lastEvent++
		id := t.s.lastEvent
		key := eventKey{ref.Provider, ref.Account, fmt.Sprintf("umavez/registered/%d", id)}
		row := &eventRow{event.Event{ID: id, Provider: ref.Provider, Account: ref.Account, DedupeKey: key.dedupe, Type: event.TypeRegistered,
			PaymentRef: ref.GatewayID, ReceivedAt: t.now, BodySHA256: sha256.Sum256(nil), Secret: "application"}}
		t.dues = true
		work := t.freshWork()
		work.state, work.reason, work.nextAt, work.waiting = event.StatusParked, "registered", t.now, ref.String()
		t.todo(func() { t.s.events[id], t.s.keys[key], t.s.work[id] = row, id, work })
		if err := t.at("ring"); err != nil {
			return err
		}
		for _, other := range t.s.workIDs() {
			w := t.s.work[other]
			if w.waiting != ref.String() || w.state != event.StatusParked {
				continue
			}
			if err := t.lock(lockKey{kind: "work", id: other}); err != nil {
				return err
			}
			if now, ok := t.s.work[other]; ok && now.tuple == w.tuple && now.state == event.StatusParked {
				t.update(other, func(w *workRow) { w.nextAt = t.now })
				if w.reason != "" && strings.HasPrefix(w.reason, "payment_unknown") {
					t.s.w.saw("unknown payment registered while it was waited for")
				}
			}
		}
		return nil
	})
}

var errVanished = fmt.Errorf("%w: stream is gone", postgres.ErrUnavailable)
