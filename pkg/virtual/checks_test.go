package virtual

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/settlement"
)

// The invariants of docs/guarantees.md, on the model's rows. The numbers are
// those of that list.

// committed is called after each commit that wrote something.
func (w *world) committed(t *tx) {
	for _, id := range t.touched {
		w.checkPayment(id)
	}
	if t.settles && len(t.touched) > 0 {
		w.checkLedger()
	}
}

// settled is called when a processor's commit was answered.
func (w *world) settled(t *tx, d settlement.Decision) {
	for _, v := range d.Verdicts {
		code, _, _ := strings.Cut(v.Reason, ":")
		switch {
		case v.Status == event.StatusProcessed:
			w.saw("outcome " + string(v.Outcome))
		case v.Status == event.StatusParked:
			w.saw("parked: " + code)
		default:
			w.saw("settled as " + string(v.Status))
		}
	}
	for _, c := range d.Changes {
		byEvent := map[int64]int{}
		for _, m := range c.Moves {
			byEvent[m.EventID]++
		}
		for _, n := range byEvent {
			if n > 1 {
				w.saw("several steps walked at once")
			}
		}
	}
}

// checkPayment checks what must hold of one payment at every moment.
func (w *world) checkPayment(id int64) {
	s := w.store
	p := s.payments[id]
	from := payment.StatusNone
	for i, m := range s.moves[id] {
		if m.seq != int64(i+1) || m.from != from {
			w.violated("3: payment %d: transition %d from %q is at place %d after %q", id, m.seq, m.from, i+1, from)
		}
		if !payment.Legal(m.from, m.to) {
			w.violated("3: payment %d: %q to %q is no legal move", id, m.from, m.to)
		}
		from = m.to
	}
	if p.Version != int64(len(s.moves[id])) || p.Version > 0 && p.Status != from {
		w.violated("3: payment %d is %q of version %d after %d transitions to %q", id, p.Status, p.Version, len(s.moves[id]), from)
	}
	sums := map[payment.Kind]int64{}
	captures := 0
	unallocated := int64(0)
	for i := range s.entries {
		e := &s.entries[i]
		if e.payment != id {
			continue
		}
		sums[e.kind] += e.amount
		if e.kind == payment.KindCapture {
			captures++
		}
		if strings.HasPrefix(e.credit, "unallocated:") {
			unallocated += e.amount
		}
		if strings.HasPrefix(e.debit, "unallocated:") {
			unallocated -= e.amount
		}
		if e.seq < 1 || e.seq > p.Version {
			w.violated("4: payment %d has an entry of transition %d, which it does not have", id, e.seq)
		}
		w.checkEntry(p, e)
	}
	if captures > 1 {
		w.violated("2: payment %d has %d captures", id, captures)
	}
	if sums[payment.KindCapture] != p.Captured.Value || sums[payment.KindFee] != p.Fee ||
		sums[payment.KindRefund]-sums[payment.KindRefundReversal] != p.Refunded ||
		sums[payment.KindChargeback]-sums[payment.KindChargebackReversal] != p.ChargedBack {
		w.violated("4: payment %d: captured %d, refunded %d, charged back %d, fee %d; its entries say %v", id, p.Captured.Value, p.Refunded, p.ChargedBack, p.Fee, sums)
	}
	if p.Beneficiary != "" && unallocated != 0 {
		w.violated("4: payment %d has an owner and %d unallocated", id, unallocated)
	}
	if p.Refunded < 0 || p.ChargedBack < 0 || p.Refunded+p.ChargedBack > p.Captured.Value {
		w.violated("5: payment %d: refunded %d and charged back %d of %d", id, p.Refunded, p.ChargedBack, p.Captured.Value)
	}
	w.checkMoney(p)
}

// checkMoney: the status is what the money says.
func (w *world) checkMoney(p *paymentRow) {
	ok := true
	switch p.Status {
	case payment.StatusPaid:
		ok = p.Captured.Known && p.Refunded == 0 && p.ChargedBack == 0
	case payment.StatusPartiallyRefunded:
		ok = p.Refunded > 0 && p.Refunded < p.Captured.Value && p.ChargedBack == 0
	case payment.StatusRefunded:
		ok = p.Refunded == p.Captured.Value && p.ChargedBack == 0
	case payment.StatusChargedBack:
		ok = p.ChargedBack > 0
	case payment.StatusDisputed:
		ok = p.ChargedBack > 0 || p.Captured.Known && slices.ContainsFunc(p.Details.Disputes, func(d payment.Dispute) bool { return d.State == payment.DisputeClaim })
	default:
		ok = !p.Captured.Known || p.Refunded > 0
	}
	if !ok {
		w.violated("9: payment %d is %s with captured %v, refunded %d, charged back %d", p.ID, p.Status, p.Captured, p.Refunded, p.ChargedBack)
	}
}

// checkEntry: money moves only as the gateway says that it did.
func (w *world) checkEntry(p *paymentRow, e *entryRow) {
	if e.currency != p.Currency {
		w.violated("4: payment %d: an entry in %q", p.ID, e.currency)
	}
	pay := w.gateway.findPay(p.GatewayID)
	if p.Provider != gatewayName || pay == nil || len(pay.truths) == 0 {
		if p.Provider == gatewayName {
			w.violated("money of payment %s, of which the gateway knows nothing", p.GatewayID)
		}
		return
	}
	t := pay.last()
	id := strings.TrimPrefix(e.refID, p.Provider+"/"+p.Account+"/")
	ok := false
	switch e.kind {
	case payment.KindCapture:
		ok = t.paid && e.amount == pay.price
	case payment.KindRefund, payment.KindRefundReversal:
		ok = strings.HasPrefix(id, "total:") && pay.dialect == totals ||
			slices.ContainsFunc(t.refunds, func(r trueRefund) bool {
				return r.id == id && r.amount == e.amount && (e.kind == payment.KindRefund || r.state == payment.RefundFailed)
			})
	case payment.KindChargeback, payment.KindChargebackReversal:
		ok = slices.ContainsFunc(t.disputes, func(d trueDispute) bool {
			return d.id == id && d.amount == e.amount && (e.kind == payment.KindChargeback || d.state == payment.DisputeWon)
		})
	case payment.KindFee:
		ok = slices.ContainsFunc(t.fees, func(f trueFee) bool { return f.id == id && f.amount == e.amount })
	case payment.KindAllocation:
		ok = p.Beneficiary != ""
	}
	if !ok {
		w.violated("payment %d books %s %s of %d, which is not the gateway's truth %+v", p.ID, e.kind, e.refID, e.amount, *t)
	}
	if strings.Contains(e.debit+e.credit, "thief") {
		w.violated("payment %d books to an owner of a forged body", p.ID)
	}
}

// checkLedger checks what must hold of the whole ledger.
func (w *world) checkLedger() {
	s := w.store
	seen := make(map[entryKey]bool, len(s.entries))
	sums := map[balanceKey]int64{}
	total := int64(0)
	for _, e := range s.entries {
		k := entryKey{e.refType, e.refID, e.kind}
		if seen[k] {
			w.violated("2: %s %s has two entries of kind %s", e.refType, e.refID, e.kind)
		}
		seen[k] = true
		for _, side := range []struct {
			account string
			amount  int64
		}{{e.credit, e.amount}, {e.debit, -e.amount}} {
			if _, ok := s.accounts[side.account]; ok {
				total += side.amount
			}
			if strings.HasPrefix(side.account, "beneficiary:") {
				sums[balanceKey{side.account, e.currency}] += side.amount
			}
		}
	}
	if total != 0 {
		w.violated("4: the sum over all accounts is %d", total)
	}
	for k, n := range sums {
		if s.balances[k] != n {
			w.violated("4: balance of %s is kept as %d, its entries say %d", k.account, s.balances[k], n)
		}
	}
}

// checkEnd checks everything once nothing is under way.
func (w *world) checkEnd() {
	s := w.store
	for id := range s.payments {
		w.checkPayment(id)
	}
	w.checkLedger()
	w.checkEvents()
	w.checkOutbox()
	for _, p := range w.gateway.pays {
		w.checkTruth(p)
	}
	if w.real != nil {
		w.real.check()
	}
}

// checkEvents: every event has ended, with a reason, and is applied if and
// only if it moved something.
func (w *world) checkEvents() {
	s := w.store
	caused := map[int64]bool{}
	for _, ms := range s.moves {
		for _, m := range ms {
			caused[m.event] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.events)) {
		e := s.events[id]
		last, ok := s.lastResult(id)
		if _, unfinished := s.work[id]; unfinished || !ok {
			w.violated("1: event %d has no result", id)
			continue
		}
		applied := slices.ContainsFunc(s.results[id], func(r resultRow) bool { return r.outcome == event.OutcomeApplied })
		if applied != caused[id] {
			w.violated("6: event %d is applied: %t, caused something: %t", id, applied, caused[id])
		}
		turns := map[int32]bool{}
		for _, r := range s.results[id] {
			if turns[r.turn] {
				w.violated("6: event %d has two results of turn %d", id, r.turn)
			}
			turns[r.turn] = true
		}
		if last.turn < s.told[id] {
			w.violated("6: event %d was told again for turn %d, and its last result is of turn %d", id, s.told[id], last.turn)
		}
		if last.status != event.StatusProcessed && last.reason == "" {
			w.violated("7: event %d is %s without a reason", id, last.status)
		}
		if last.status == event.StatusDead && !w.mayDie(e) {
			w.violated("event %d %s of %s died: %s", id, e.Type, e.PaymentRef, last.reason)
		}
		if last.status == event.StatusQuarantined && e.Type != "" {
			w.violated("event %d %s of %s is quarantined: %s", id, e.Type, e.PaymentRef, last.reason)
		}
	}
}

// mayDie says which events have nobody who would send them again: forged ones,
// and our own.
func (w *world) mayDie(e *eventRow) bool {
	return strings.HasPrefix(e.DedupeKey, "forged-") || e.Own() || e.Provider != gatewayName
}

func (w *world) checkOutbox() {
	s := w.store
	rows := slices.Clone(s.outbox)
	slices.SortFunc(rows, func(a, b outboxRow) int { return cmp.Or(cmp.Compare(a.payment, b.payment), cmp.Compare(a.seq, b.seq)) })
	n := 0
	for _, ms := range s.moves {
		n += len(ms)
	}
	if n != len(rows) {
		w.violated("8: %d transitions and %d domain events", n, len(rows))
	}
	for i, o := range rows {
		if i > 0 && rows[i-1].payment == o.payment && (rows[i-1].id >= o.id || rows[i-1].seq+1 != o.seq) {
			w.violated("8: domain event %d of payment %d is out of order", o.seq, o.payment)
		}
		if o.relayed.IsZero() || w.broker.applied[o.payment] < o.seq {
			w.violated("8: domain event %d of payment %d was not told", o.seq, o.payment)
		}
	}
}

// checkTruth compares what we hold of a payment with the gateway's truth.
func (w *world) checkTruth(p *pay) {
	heard := slices.ContainsFunc(p.tells, func(t *tell) bool { return t.accepted })
	id, ok := w.store.byRef[p.ref]
	if !ok {
		if heard {
			w.violated("9: %s was told of and is not there", p.ref)
		}
		return
	}
	row := w.store.payments[id]
	if len(p.truths) == 0 || !heard && (w.plan.mode == "never" || row.Version == 0) {
		return
	}
	t := p.last()
	captured := int64(0)
	if t.paid {
		captured = p.price
	}
	want := fmt.Sprintf("%s captured %d refunded %d charged back %d fee %d", t.status(p.price), captured, t.refunded(), t.chargedBack(), t.fee())
	got := fmt.Sprintf("%s captured %d refunded %d charged back %d fee %d", row.Status, row.Captured.Value, row.Refunded, row.ChargedBack, row.Fee)
	if got != want {
		w.violated("9: %s (%s): we hold %q, the truth is %q", p.ref, p.dialect, got, want)
	}
	if reg, ok := w.store.regs[p.ref]; ok && row.Captured.Known && row.Beneficiary != reg.Beneficiary {
		w.violated("4: %s belongs to %q, registered was %q", p.ref, row.Beneficiary, reg.Beneficiary)
	}
}
