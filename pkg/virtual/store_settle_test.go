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
	"github.com/umavez/umavez/pkg/ledger"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/settlement"
)

// idLabel keeps the labels of two batches apart.
func idLabel(ids []int64) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteByte(' ')
		b.WriteString(strconv.FormatInt(id, 10))
	}
	return b.String()
}

func refused(constraint string) error {
	return fmt.Errorf("%w: %s", postgres.ErrRefusedRow, constraint)
}

// Settle implements processor.Store: pkg/postgres/settle.go, statement by
// statement.
func (d db) Settle(ctx context.Context, events []settlement.Handle, refs []settlement.Ref, decide settlement.Decide) (decided settlement.Decision, err error) {
	slices.SortFunc(events, func(a, b settlement.Handle) int { return cmp.Compare(a.EventID, b.EventID) })
	slices.SortFunc(refs, settlement.Ref.Compare)
	refs = slices.Compact(refs)
	ids := make([]int64, len(events))
	for i, e := range events {
		ids[i] = e.EventID
	}
	label := idLabel(ids)
	t := d.s.begin(ctx, d.p, "settle"+label)
	t.settles = true
	defer t.end(false)
	err = t.at("begin")
	switch {
	case d.p.failed == "" || !strings.Contains(d.p.failed, label):
	case d.p.failed == label+" ":
		t.s.w.saw("batch run again")
	default:
		t.s.w.saw("batch split")
	}
	d.p.failed = ""
	defer func() {
		if err != nil {
			d.p.failed = label + " "
		}
	}()
	if err != nil {
		return decided, err
	}
	t.now = micro(time.Now())
	made, err := t.createPayments(refs)
	if err != nil {
		return decided, err
	}
	held, err := t.lockPayments(refs, made)
	if err != nil {
		return decided, err
	}
	claimed, err := t.claim(events)
	if err != nil {
		return decided, err
	}
	if err := t.at("locked"); err != nil {
		return decided, err
	}
	if len(claimed) < len(events) {
		t.s.w.saw("event claimed by another")
	}
	if len(claimed) == 0 {
		return settlement.Decision{}, t.commit()
	}
	if decided, err = decide(claimed, held); err != nil {
		return settlement.Decision{}, err
	}
	if len(decided.Verdicts) != len(claimed) {
		return settlement.Decision{}, fmt.Errorf("%d events were claimed and %d verdicts given", len(claimed), len(decided.Verdicts))
	}
	if err := t.write(decided); err != nil {
		return settlement.Decision{}, err
	}
	if err := t.commit(); err != nil {
		return settlement.Decision{}, err
	}
	t.s.w.settled(t, decided)
	return decided, nil
}

// createPayments inserts what is missing. Whoever inserts the same name at the
// moment is waited for.
func (t *tx) createPayments(refs []settlement.Ref) (made map[settlement.Ref]*paymentRow, err error) {
	made = map[settlement.Ref]*paymentRow{}
	if len(refs) == 0 {
		return made, nil
	}
	if err := t.at("payments_created"); err != nil {
		return nil, err
	}
	for _, ref := range refs {
		if _, ok := t.s.byRef[ref]; ok {
			continue
		}
		if err := t.lock(lockKey{kind: "payment name", name: ref.String()}); err != nil {
			return nil, err
		}
		if _, ok := t.s.byRef[ref]; ok {
			continue
		}
		t.s.lastPayment++
		row := &paymentRow{Payment: payment.Payment{ID: t.s.lastPayment, Provider: ref.Provider, Account: ref.Account, GatewayID: ref.GatewayID}, createdAt: t.now}
		made[ref] = row
		t.todo(func() {
			t.s.payments[row.ID] = row
			t.s.byRef[ref] = row.ID
		})
	}
	return made, nil
}

// lockPayments locks in the order of ids and reads each row under its lock;
// the registrations are those of the statement's begin.
func (t *tx) lockPayments(refs []settlement.Ref, made map[settlement.Ref]*paymentRow) (map[settlement.Ref]settlement.Held, error) {
	held := map[settlement.Ref]settlement.Held{}
	if len(refs) == 0 {
		return held, nil
	}
	if err := t.at("payments_locked"); err != nil {
		return nil, err
	}
	type wanted struct {
		id  int64
		ref settlement.Ref
	}
	var rows []wanted
	for _, ref := range refs {
		h := t.s.held(ref)
		held[ref] = h
		if row, ok := made[ref]; ok {
			rows = append(rows, wanted{row.ID, ref})
		} else if h.Exists {
			rows = append(rows, wanted{h.Payment.ID, ref})
		}
	}
	if len(rows) != len(refs) {
		return nil, fmt.Errorf("%d payments asked for, %d locked", len(refs), len(rows))
	}
	slices.SortFunc(rows, func(a, b wanted) int { return cmp.Compare(a.id, b.id) })
	for _, r := range rows {
		if !t.s.broken.unlocked {
			if err := t.lock(lockKey{kind: "payment", id: r.id}); err != nil {
				return nil, err
			}
		}
		h := held[r.ref]
		h.Exists = true
		if row, ok := made[r.ref]; ok {
			h.Payment = row.read()
		} else {
			h.Payment = t.s.payments[r.id].read()
		}
		held[r.ref] = h
	}
	return held, nil
}

// claim deletes the work rows, parked ones only where nobody holds them. It
// waits for pending ones and looks at them again then.
func (t *tx) claim(events []settlement.Handle) (map[int64]bool, error) {
	if err := t.at("events_claimed"); err != nil {
		return nil, err
	}
	seen := map[int64]workRow{}
	free := map[int64]bool{}
	for _, h := range events {
		w, ok := t.s.work[h.EventID]
		if !ok {
			continue
		}
		seen[h.EventID] = w
		if k := (lockKey{kind: "work", id: h.EventID}); w.state == event.StatusParked && t.free(k) {
			if err := t.lock(k); err != nil {
				return nil, err
			}
			free[h.EventID] = true
		}
	}
	claimed := map[int64]bool{}
	for _, h := range events {
		id := h.EventID
		w, ok := seen[id]
		if t.s.broken.unclaimed {
			claimed[id] = true
			t.todo(func() { delete(t.s.work, id) })
			continue
		}
		if !ok || w.turn != h.Turn && !t.s.broken.staleTurns || w.state != event.StatusPending && !free[id] {
			continue
		}
		if err := t.lock(lockKey{kind: "work", id: id}); err != nil {
			return nil, err
		}
		now, ok := t.s.work[id]
		if !ok || now.tuple != w.tuple || now.turn != h.Turn && !t.s.broken.staleTurns || now.state != event.StatusPending && !free[id] {
			continue
		}
		claimed[id] = true
		t.todo(func() { delete(t.s.work, id) })
	}
	return claimed, nil
}

func (t *tx) write(d settlement.Decision) error {
	for _, v := range d.Verdicts {
		if err := t.verdict(v); err != nil {
			return err
		}
	}
	if len(d.Changes) > 0 {
		if err := t.changes(d.Changes); err != nil {
			return err
		}
	}
	if len(d.Awaited) > 0 {
		return t.awaited(d.Awaited)
	}
	return nil
}

// clip is the cut that pkg/postgres makes; the texts here are short.
func clip(s string) string { return s[:min(len(s), 300)] }

func (t *tx) verdict(v settlement.Verdict) error {
	turn := max(v.Turn, 1)
	if err := t.s.w.refusesVerdict(t, v); err != nil {
		return err
	}
	if v.Settled() {
		if slices.ContainsFunc(t.s.results[v.EventID], func(r resultRow) bool { return r.turn == turn }) {
			return refused("event_results_pkey")
		}
		row := resultRow{turn, t.now, v.Status, v.Outcome, clip(v.Reason), v.Attempts}
		t.todo(func() { t.s.results[v.EventID] = append(t.s.results[v.EventID], row) })
		return nil
	}
	t.s.lastTuple++
	row := workRow{tuple: t.s.lastTuple, state: v.Status, turn: turn, reason: clip(v.Reason), attempts: v.Attempts, parks: v.Parks,
		nextAt: micro(t.now.Add(v.Delay)), since: micro(v.Since), reasonSince: micro(v.ReasonSince), lastError: clip(v.LastError), waiting: v.WaitingFor}
	if row.since.IsZero() {
		row.since = t.now
	}
	if row.reasonSince.IsZero() {
		row.reasonSince = t.now
	}
	t.dues = true
	t.todo(func() { t.s.work[v.EventID] = row })
	return nil
}

func (t *tx) changes(changes []settlement.Change) error {
	if err := t.at("transitions_written"); err != nil {
		return err
	}
	for _, c := range changes {
		next := int64(1)
		if old := t.s.moves[c.Payment.ID]; len(old) > 0 {
			next = old[len(old)-1].seq + 1
		}
		for _, m := range c.Moves {
			tr := m.Transition
			if tr.Seq < next {
				return refused("payment_transitions_pkey")
			}
			row := moveRow{tr.Seq, m.EventID, tr.From, tr.To, tr.Reason}
			t.todo(func() { t.s.moves[c.Payment.ID] = append(t.s.moves[c.Payment.ID], row) })
		}
		p := c.Payment
		if p.Refunded < 0 || p.ChargedBack < 0 || p.Fee < 0 || p.Captured.Known && p.Captured.Value <= 0 || p.Refunded+p.ChargedBack > p.Captured.Value {
			return refused("payments_amounts")
		}
		if p.Captured.Known && p.Currency == "" {
			return refused("payments_captured_has_currency")
		}
		t.touched = append(t.touched, p.ID)
		t.todo(func() {
			row := t.s.payments[p.ID]
			p.StatusAt, p.PaidAt, p.ObservedAt = micro(p.StatusAt), micro(p.PaidAt), micro(p.ObservedAt)
			p.Registered = false // not kept in the row
			row.Payment = p
			if p.Version > 0 && p.Status == payment.StatusNone {
				row.Status = payment.StatusPending
			}
		})
	}
	if err := t.at("payments_written"); err != nil {
		return err
	}
	if err := t.book(changes); err != nil {
		return err
	}
	for _, c := range changes {
		for _, m := range c.Moves {
			t.tells = true
			t.s.lastOutbox++
			row := outboxRow{id: t.s.lastOutbox, payment: c.Payment.ID, seq: m.Transition.Seq, subject: m.Subject, payload: m.Payload, created: t.now}
			t.todo(func() {
				t.s.outbox = append(t.s.outbox, row)
				slices.SortFunc(t.s.outbox, func(a, b outboxRow) int { return cmp.Compare(a.id, b.id) })
			})
		}
	}
	return t.keepBalances(changes)
}

// book writes accounts and entries; their keys are those of the ledger.
func (t *tx) book(changes []settlement.Change) error {
	kinds := map[string]string{}
	for e := range entriesOf(changes) {
		kinds[e.Debit.Name], kinds[e.Credit.Name] = e.Debit.Kind, e.Credit.Kind
	}
	if len(kinds) == 0 {
		return nil
	}
	if err := t.at("accounts_written"); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		if _, ok := t.s.accounts[name]; ok {
			continue
		}
		if err := t.lock(lockKey{kind: "account", name: name}); err != nil {
			return err
		}
		kind := kinds[name]
		t.todo(func() { t.s.accounts[name] = kind })
	}
	if err := t.at("entries_written"); err != nil {
		return err
	}
	for _, c := range changes {
		for _, m := range c.Moves {
			for _, e := range m.Entries {
				if err := t.enter(c.Payment.ID, e); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func entriesOf(changes []settlement.Change) func(func(ledger.Entry) bool) {
	return func(yield func(ledger.Entry) bool) {
		for _, c := range changes {
			for _, m := range c.Moves {
				for _, e := range m.Entries {
					if !yield(e) {
						return
					}
				}
			}
		}
	}
}

func (t *tx) enter(paymentID int64, e ledger.Entry) error {
	k := entryKey{e.ReferenceType, e.ReferenceID, e.Kind}
	if !t.s.broken.unkeyed {
		if err := t.lock(lockKey{kind: "entry", name: k.refType + "|" + k.refID + "|" + string(k.kind)}); err != nil {
			return err
		}
		if _, ok := t.s.posted[k]; ok {
			return refused("ledger_entries_once")
		}
		if e.Kind == payment.KindCapture {
			if err := t.lock(lockKey{kind: "capture", id: paymentID}); err != nil {
				return err
			}
			for _, old := range t.s.entries {
				if old.payment == paymentID && old.kind == payment.KindCapture {
					return refused("ledger_entries_one_capture")
				}
			}
		}
	}
	row := entryRow{paymentID, e.Seq, e.Amount, e.Currency, e.Kind, e.Debit.Name, e.Credit.Name, e.ReferenceType, e.ReferenceID}
	enter := func() {
		t.s.posted[k] = len(t.s.entries)
		t.s.entries = append(t.s.entries, row)
	}
	if t.s.broken.torn {
		enter()
		return nil
	}
	t.todo(enter)
	return nil
}

// keepBalances adds to the owners' balances, in the order of accounts.
func (t *tx) keepBalances(changes []settlement.Change) error {
	sums := map[balanceKey]int64{}
	for e := range entriesOf(changes) {
		if e.Credit.Kind == ledger.KindBeneficiary {
			sums[balanceKey{e.Credit.Name, e.Currency}] += e.Amount
		}
		if e.Debit.Kind == ledger.KindBeneficiary {
			sums[balanceKey{e.Debit.Name, e.Currency}] -= e.Amount
		}
	}
	if len(sums) == 0 {
		return nil
	}
	if err := t.at("balances_written"); err != nil {
		return err
	}
	keys := slices.SortedFunc(maps.Keys(sums), func(a, b balanceKey) int {
		return cmp.Or(strings.Compare(a.account, b.account), strings.Compare(a.currency, b.currency))
	})
	for _, k := range keys {
		before := t.s.balances[k]
		if err := t.lock(lockKey{kind: "balance", name: k.account + " " + k.currency}); err != nil {
			return err
		}
		if t.s.broken.driftingSums {
			t.todo(func() { t.s.balances[k] = before + sums[k] })
			continue
		}
		t.todo(func() { t.s.balances[k] += sums[k] })
	}
	return nil
}

func (t *tx) awaited(keys []string) error {
	if err := t.at("awaited_rung"); err != nil {
		return err
	}
	for _, id := range t.s.workIDs() {
		w, k := t.s.work[id], lockKey{kind: "work", id: id}
		if w.state == event.StatusParked && slices.Contains(keys, w.waiting) && w.nextAt.After(t.now) && t.free(k) {
			if err := t.lock(k); err != nil {
				return err
			}
			t.update(id, func(w *workRow) { w.nextAt = t.now })
		}
	}
	return nil
}

// update changes a work row at the commit.
func (t *tx) update(id int64, change func(*workRow)) {
	t.dues = true
	t.todo(func() {
		w, ok := t.s.work[id]
		if ok {
			change(&w)
			t.s.work[id] = w
		}
	})
}

// Fail implements processor.Store: two statements, each its own transaction.
func (d db) Fail(ctx context.Context, h settlement.Handle, lastError string, backoff time.Duration, most int) (dead bool, err error) {
	attempts := 0
	id := h.EventID
	err = d.s.once(ctx, d.p, "fail"+idLabel([]int64{id}), func(t *tx) error {
		w, ok := t.s.work[id]
		if !ok || w.turn != h.Turn {
			return nil
		}
		if err := t.lock(lockKey{kind: "work", id: id}); err != nil {
			return err
		}
		now, ok := t.s.work[id]
		if !ok || now.tuple != w.tuple || now.turn != h.Turn {
			return nil
		}
		attempts = now.attempts + 1
		t.update(id, func(w *workRow) {
			w.attempts, w.lastError, w.nextAt = attempts, clip(lastError), micro(t.now.Add(backoff))
		})
		return nil
	})
	if err != nil || attempts < most {
		return false, err
	}
	err = d.s.once(ctx, d.p, "bury"+idLabel([]int64{id}), func(t *tx) error {
		dead = false
		w, ok := t.s.work[id]
		if !ok || w.turn != h.Turn || w.attempts < most {
			return nil
		}
		if err := t.lock(lockKey{kind: "work", id: id}); err != nil {
			return err
		}
		now, ok := t.s.work[id]
		if !ok || now.tuple != w.tuple || now.turn != h.Turn || now.attempts < most {
			return nil
		}
		dead = true
		row := resultRow{now.turn, t.now, event.StatusDead, "", clip("gave up after repeated failures: " + lastError), now.attempts}
		t.todo(func() {
			delete(t.s.work, id)
			t.s.results[id] = append(t.s.results[id], row)
		})
		return nil
	})
	if err == nil && dead {
		d.s.w.saw("dead by MAX_ATTEMPTS")
	}
	return dead && err == nil, err
}

// ClaimDue implements processor.Store.
func (d db) ClaimDue(ctx context.Context, limit int, lease time.Duration) (ids []int64, err error) {
	err = d.s.once(ctx, d.p, "claim due", func(t *tx) error {
		ids = nil
		all := t.s.workIDs()
		slices.SortStableFunc(all, func(a, b int64) int { return t.s.work[a].nextAt.Compare(t.s.work[b].nextAt) })
		for _, id := range all {
			w, k := t.s.work[id], lockKey{kind: "work", id: id}
			if len(ids) == limit || w.nextAt.After(t.now) || !w.due() {
				continue
			}
			if t.s.broken.duesTwice {
				ids = append(ids, id)
				continue
			}
			if !t.free(k) {
				continue
			}
			if err := t.lock(k); err != nil {
				return err
			}
			ids = append(ids, id)
			t.update(id, func(w *workRow) { w.nextAt = micro(t.now.Add(lease)) })
		}
		slices.Sort(ids)
		return nil
	})
	if errors.Is(err, postgres.ErrUnknownOutcome) {
		return nil, err
	}
	if len(ids) > 0 && err == nil {
		d.s.w.saw("due event taken from the database")
	}
	return ids, err
}
