package virtual

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/settlement"
)

// held is a payment and its registration as a statement of this moment reads
// them.
func (s *store) held(ref settlement.Ref) (h settlement.Held) {
	h.Payment = payment.Payment{Provider: ref.Provider, Account: ref.Account, GatewayID: ref.GatewayID}
	if id, ok := s.byRef[ref]; ok {
		h.Exists = true
		h.Payment = s.payments[id].read()
	}
	if r, ok := s.regs[ref]; ok {
		h.Registered = &r
	}
	return h
}

// read is a payment as it comes out of its row: details go through JSON, and a
// look that lies in the future is not believed.
func (r *paymentRow) read() payment.Payment {
	p := r.Payment
	text, err := json.Marshal(p.Details)
	if err != nil {
		panic(err)
	}
	p.Details = payment.Details{}
	if len(text) > 2 {
		if err := json.Unmarshal(text, &p.Details); err != nil {
			panic(err)
		}
	}
	if p.ObservedAt.After(time.Now().Add(time.Minute)) {
		p.ObservedAt = time.Time{}
	}
	return p
}

// bodyOf is the body of an event where it is kept.
func (s *store) bodyOf(id int64) bodyRow { return s.bodies[id] }

func (s *store) loaded(id int64) settlement.Work {
	e, w := s.events[id], s.work[id]
	out := settlement.Work{Event: e.Event, State: w.state, Turn: w.turn, Attempts: w.attempts, Parks: w.parks,
		Since: w.since, Reason: w.reason, ReasonSince: w.reasonSince}
	b := s.bodyOf(id)
	out.Event.Body, out.Event.Headers = b.body, b.headers
	if w.reasonSince.IsZero() {
		out.ReasonSince = w.since
	}
	return out
}

// Load implements processor.Store.
func (d db) Load(ctx context.Context, ids []int64) (out settlement.Batch, err error) {
	s := d.s
	if err := s.read(ctx, d.p, "load events"+idLabel(ids)); err != nil {
		return out, err
	}
	wanted := map[int64]bool{}
	keys := map[string]bool{}
	for _, id := range ids {
		if _, ok := s.work[id]; ok {
			wanted[id] = true
			if e := s.events[id]; e.PaymentRef != "" {
				keys[settlement.RefOf(&e.Event).String()] = true
			}
		}
	}
	for id, w := range s.work {
		if w.waiting != "" && keys[w.waiting] {
			wanted[id] = true
		}
	}
	if len(wanted) < len(ids) {
		s.w.saw("redelivery found settled")
	}
	order := make([]int64, 0, len(wanted))
	for id := range wanted {
		order = append(order, id)
	}
	slices.Sort(order)
	for _, id := range order {
		w := s.loaded(id)
		w.Sibling = !slices.Contains(ids, id)
		if w.Sibling {
			s.w.saw("parked sibling came along")
		}
		out.Works = append(out.Works, w)
		out.Now = micro(time.Now())
	}
	if err := s.read(ctx, d.p, "load payments"+idLabel(ids)); err != nil {
		return settlement.Batch{}, err
	}
	out.Held = map[settlement.Ref]settlement.Held{}
	for _, id := range ids {
		if e, ok := s.events[id]; ok && e.PaymentRef != "" {
			ref := settlement.RefOf(&e.Event)
			out.Held[ref] = s.held(ref)
		}
	}
	return out, nil
}

// Held implements processor.Store.
func (d db) Held(ctx context.Context, refs []settlement.Ref) (map[settlement.Ref]settlement.Held, error) {
	if err := d.s.read(ctx, d.p, "held"); err != nil {
		return nil, err
	}
	out := map[settlement.Ref]settlement.Held{}
	for _, ref := range refs {
		out[ref] = d.s.held(ref)
	}
	return out, nil
}

// Referenced implements processor.Store.
func (d db) Referenced(ctx context.Context, provider, account, reference string) ([]string, error) {
	if err := d.s.read(ctx, d.p, "referenced"); err != nil {
		return nil, err
	}
	captured, any := map[string]bool{}, false
	for _, p := range d.s.payments {
		if p.Provider == provider && p.Account == account && p.Reference == reference {
			captured[p.GatewayID] = captured[p.GatewayID] || p.Captured.Known
			any = any || p.Captured.Known
		}
	}
	for ref, r := range d.s.regs {
		if ref.Provider == provider && ref.Account == account && r.Reference == reference {
			captured[ref.GatewayID] = captured[ref.GatewayID] || false
		}
	}
	var ids []string
	for id, c := range captured {
		if c || !any {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids[:min(len(ids), 10)], nil
}

// due is what ClaimDue, and the index behind it, looks for.
func (w *workRow) due() bool { return w.state == event.StatusParked || w.attempts > 0 || w.turn > 1 }
