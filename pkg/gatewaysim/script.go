package gatewaysim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// script writes the history of one payment.
type script struct {
	*rand.Rand
	p   *pay
	now time.Time // the gateway's, in whole seconds
	cur state
}

// longestHistory bounds what the gaps of a history may add up to.
const longestHistory = 7 * 24 * time.Hour

func newScript(cfg *Config, index int, pl plan) *script {
	r := newRand(cfg.Seed, streamPayment+uint64(index))
	begin := cfg.Start.Add(-longestHistory - time.Duration(r.Int64N(int64(8*24*time.Hour))))
	owner := fmt.Sprintf("loja-%02d", 1+r.IntN(cfg.Beneficiaries))
	return &script{
		Rand: r, now: begin.Truncate(time.Second),
		p: &pay{
			index: index, acct: pl.acct, kind: pl.kind, currency: "BRL", amount: amount(r),
			beneficiary: owner, reference: fmt.Sprintf("%s:PED-%06d", owner, index+1), oddities: r.Uint64(),
		},
	}
}

// amount is between R$ 5,00 and about R$ 3.000,00, with the cents that have
// broken floating-point code before.
func amount(r *rand.Rand) int64 {
	switch r.IntN(6) {
	case 0:
		return []int64{820, 1999, 10000, 14990, 100010, 5990, 2903, 11530}[r.IntN(8)]
	case 1:
		return (5 + r.Int64N(995)) * 100
	}
	return 500 + r.Int64N(300_000)
}

// wait lets time pass: at least a second, so that the order of steps shows in
// times of one-second resolution.
func (s *script) wait(atMost time.Duration) {
	s.now = s.now.Add(time.Second + time.Duration(s.Int64N(int64(atMost))).Truncate(time.Second))
}

// did adds a step with what is now the state.
func (s *script) did(events ...happening) *step {
	for i := range events {
		events[i].id = s.p.acct.gateway.eventID(s.Rand)
	}
	s.cur.at = s.now
	s.p.steps = append(s.p.steps, step{state: s.cur.copy(), events: events})
	return &s.p.steps[len(s.p.steps)-1]
}

func (s *script) one(in int) bool { return s.IntN(in) == 0 }

func event(typ string) happening { return happening{typ: typ, refund: -1} }

func noise(typ string) happening { return happening{typ: typ, refund: -1, noise: true} }

func (s *script) aboutRefund(typ, was string) happening {
	return happening{typ: typ, refund: len(s.cur.refunds) - 1, was: was}
}

// parts splits a sum into n amounts above zero.
func (s *script) parts(sum int64, n int) []int64 {
	out := make([]int64, 0, n)
	for ; n > 1; n-- {
		part := 1 + s.Int64N(max(1, sum-int64(n)+1)/2+1)
		part = min(part, sum-int64(n)+1)
		out = append(out, part)
		sum -= part
	}
	return append(out, sum)
}
