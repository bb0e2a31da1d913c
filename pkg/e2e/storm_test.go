package e2e

import (
	"syscall"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

// badDay is a simulation of so many payments on a bad day at the gateways.
func badDay(t testing.TB, seed uint64, payments int) *gatewaysim.Sim {
	t.Helper()
	sim, err := gatewaysim.New(gatewaysim.Config{
		Seed: seed, Payments: payments, Beneficiaries: 10,
		Shares: gatewaysim.Shares{Duplicates: 0.3, Concurrent: 0.5, WrongSignatures: 0.02, Malformed: 0.01, Tests: 0.01, Lost: 0.01},
		API: gatewaysim.API{
			Latency: time.Millisecond, Jitter: 2 * time.Millisecond, ServerErrors: 0.002,
			Stale: 0.01, StaleFor: 500 * time.Millisecond,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return sim
}

func TestAStormOverTwoIngestsAndThreeProcessorsEndsInTheTruth(t *testing.T) {
	sim := badDay(t, 1, 600)
	s := newStack(t, sim).up(2, 3)
	report := s.storm(sim)
	s.settle(30 * time.Second)
	s.reconcile(20 * time.Second)
	compare(t, s.db, sim, report)
	if out, errs, code := run(t, "umavez", s.env, "verify"); code != 0 {
		t.Errorf("umavez verify: code %d\n%s%s", code, out, errs)
	}
	for _, p := range s.ingests {
		if p.metric("umavez_ingest_events_total") == 0 {
			t.Errorf("%s took nothing: the storm was not split", p.name)
		}
		if n := p.metric("umavez_ingest_panics_total"); n > 0 {
			t.Errorf("%s recovered %v panics", p.name, n)
		}
	}
	for _, p := range s.processors {
		if p.metric("umavez_events_settled_total") == 0 {
			t.Errorf("%s settled nothing", p.name)
		}
	}
	for _, p := range s.all() {
		p.stop(syscall.SIGTERM)
	}
}

func TestAStormSurvivesTheDeathOfEveryKindOfProcess(t *testing.T) {
	for _, c := range []struct {
		name string
		kill func(s *stack) []act
	}{
		{"a processor", func(s *stack) []act {
			return []act{
				{0.2, func() { s.processors[0].kill() }},
				{0.4, func() { s.processors[0] = s.processor(0) }},
				{0.5, func() { s.processors[1].kill(); s.processors[1] = s.processor(1) }},
				{0.7, func() { s.processors[2].kill(); s.processors[2] = s.processor(2) }},
			}
		}},
		{"an ingest", func(s *stack) []act {
			again := func(i int) func() {
				return func() {
					s.ingests[i].kill()
					s.ingests[i] = s.ingest(i)
					s.ingests[i].ready()
				}
			}
			return []act{{0.2, again(0)}, {0.5, again(1)}, {0.8, again(0)}}
		}},
		{"the broker", func(s *stack) []act {
			again := func() {
				s.broker.Kill()
				time.Sleep(500 * time.Millisecond)
				s.broker.Start()
			}
			return []act{{0.25, again}, {0.6, again}}
		}},
		{"one of each at once", func(s *stack) []act {
			return []act{{0.4, func() {
				s.processors[0].kill()
				s.ingests[0].kill()
				s.broker.Kill()
				s.broker.Start()
				s.ingests[0], s.processors[0] = s.ingest(0), s.processor(0)
				s.ingests[0].ready()
			}}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sim := badDay(t, 7, 600)
			s := newStack(t, sim).up(2, 3)
			report := s.storm(sim, c.kill(s)...)
			s.settle(40 * time.Second)
			s.reconcile(20 * time.Second)
			compare(t, s.db, sim, report)
			t.Logf("%d sweeps", s.sweeps)
		})
	}
}
