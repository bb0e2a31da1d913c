package gatewaysim

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// unit is what is sent at one instant: a delivery, with its concurrent
// duplicates.
type unit struct {
	key float64 // place in the order
	ds  []Delivery
}

type scheduler struct {
	*rand.Rand
	s     *Sim
	all   []Delivery // the true events in the gateways' time
	units []unit
	sent  []int // units of true events that are not lost
}

// schedule lays all webhooks out.
func (s *Sim) schedule() []Delivery {
	sc := &scheduler{Rand: newRand(s.cfg.Seed, streamSchedule), s: s, all: s.trueEvents()}
	sc.events()
	sc.lose()
	sc.bundle()
	sc.duplicate()
	n := len(sc.all)
	sc.extra(DeliveryForged, count(s.cfg.Shares.WrongSignatures, n))
	sc.extra(DeliveryMalformed, count(s.cfg.Shares.Malformed, n))
	sc.extra(DeliveryTest, count(s.cfg.Shares.Tests, n))
	slices.SortStableFunc(sc.units, func(a, b unit) int { return cmp.Compare(a.key, b.key) })
	total := 0
	for _, u := range sc.units {
		total += len(u.ds)
	}
	all := make([]Delivery, 0, total)
	group := 0
	for _, u := range sc.units {
		if len(u.ds) > 1 {
			group++
		}
		for _, d := range u.ds {
			if len(u.ds) > 1 {
				d.Group = group
			}
			d.Seq = len(all)
			all = append(all, d)
		}
	}
	return all
}

func count(share float64, n int) int { return int(math.Ceil(share * float64(n))) }

// trueEvents are all events of all histories in the gateways' time.
func (s *Sim) trueEvents() []Delivery {
	type place struct {
		at                   int64
		payment, step, event int
	}
	var places []place
	for i, p := range s.payments {
		for j := range p.steps {
			for k := range p.steps[j].events {
				places = append(places, place{p.steps[j].at.Unix(), i, j, k})
			}
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.payment, b.payment), cmp.Compare(a.step, b.step), cmp.Compare(a.event, b.event))
	})
	all := make([]Delivery, len(places))
	for i, pl := range places {
		all[i] = s.delivery(DeliveryFirst, pl.payment, pl.step, pl.event)
	}
	return all
}

func (s *Sim) delivery(kind DeliveryKind, payment, step, event int) Delivery {
	p := s.payments[payment]
	st := &p.steps[step]
	h := &st.events[event]
	return Delivery{
		Kind: kind, Gateway: p.acct.gateway.name(), Account: p.acct.name, Path: p.acct.path,
		Payment: payment, Step: step, EventType: h.typ, EventID: h.id, Identity: p.acct.gateway.identity(p, st, h),
		sim: s, event: event,
	}
}

// events lays out the true events in the configured order.
func (sc *scheduler) events() {
	n := float64(len(sc.all))
	sc.units = make([]unit, 0, 2*len(sc.all))
	for i, d := range sc.all {
		d.variant = sc.Uint64()
		key := float64(i)
		switch cfg := sc.s.cfg; {
		case cfg.Order == OrderReverse:
			key = n - key
		case cfg.Order == OrderShuffle && cfg.Window > 0:
			key += sc.Float64() * float64(cfg.Window)
		case cfg.Order == OrderShuffle:
			key = sc.Float64() * n
		}
		sc.units = append(sc.units, unit{key, []Delivery{d}})
	}
}

// lose takes events out, and finds out what that means for each payment.
func (sc *scheduler) lose() {
	share := sc.s.cfg.Shares.Lost
	gone := make([]bool, len(sc.units))
	for i := range sc.units {
		gone[i] = sc.Float64() < share
		if !gone[i] && !sc.happening(i).noise {
			sc.payment(i).heard = true
		}
	}
	told := map[*pay]int{} // the last step that was told of
	for i := range sc.units {
		d := &sc.units[i].ds[0]
		if p := sc.payment(i); gone[i] || !p.heard {
			d.Kind = DeliveryLost
		} else {
			sc.sent = append(sc.sent, i)
			if !sc.happening(i).noise {
				told[p] = max(told[p], d.Step+1)
			}
		}
	}
	for _, p := range sc.s.payments {
		p.tailLost = told[p] < p.lastTelling()+1
	}
}

func (sc *scheduler) payment(i int) *pay { return sc.s.payments[sc.units[i].ds[0].Payment] }

func (sc *scheduler) happening(i int) *happening {
	d := &sc.units[i].ds[0]
	return &sc.payment(i).steps[d.Step].events[d.event]
}

// lastTelling is the last step with an event that tells something.
func (p *pay) lastTelling() int {
	for i := len(p.steps) - 1; i > 0; i-- {
		if slices.ContainsFunc(p.steps[i].events, func(h happening) bool { return !h.noise }) {
			return i
		}
	}
	return 0
}

// duplicate sends events again: some together with the first, some later.
func (sc *scheduler) duplicate() {
	if len(sc.sent) == 0 {
		return
	}
	n := count(sc.s.cfg.Shares.Duplicates, len(sc.sent))
	together := count(sc.s.cfg.Shares.Concurrent, n)
	end := float64(len(sc.units))
	attempts := map[int]int{}
	for i := range n {
		at := sc.sent[sc.IntN(len(sc.sent))]
		original := &sc.units[at]
		d := original.ds[0]
		attempts[at]++
		d.Attempt, d.variant = attempts[at], sc.Uint64()
		if i < together {
			d.Kind = DeliveryConcurrent
			original.ds = append(original.ds, d)
			continue
		}
		d.Kind = DeliveryDuplicate
		key := original.key + (1-sc.Float64())*max(1, end-original.key)
		sc.units = append(sc.units, unit{key, []Delivery{d}})
	}
}

// extra adds requests that are no true events, made from the bodies of some.
func (sc *scheduler) extra(kind DeliveryKind, n int) {
	all := sc.all
	for tries := 0; n > 0 && len(all) > 0 && tries < 1000+10*len(all); tries++ {
		d := all[sc.IntN(len(all))]
		d.Kind, d.variant, d.Attempt = kind, sc.Uint64(), 500_000+len(sc.units)
		d.EventID, d.Identity = "", ""
		p := sc.s.payments[d.Payment]
		st := &p.steps[d.Step]
		if kind == DeliveryTest {
			if body, _ := p.acct.gateway.test(p, st, &st.events[d.event], d.variant); body == nil {
				continue
			}
		}
		sc.units = append(sc.units, unit{sc.Float64() * float64(len(all)), []Delivery{d}})
		n--
	}
}
