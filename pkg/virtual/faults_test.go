package virtual

import (
	"testing"
)

// TestEachBrokenGuaranteeIsFound takes one guarantee away from the models at a
// time. The schedules must find a violation within a bounded number of seeds.
func TestEachBrokenGuaranteeIsFound(t *testing.T) {
	if testing.Short() && slower > 1 {
		t.Skip("a long search, in which the race detector finds nothing that it does not find elsewhere")
	}
	t.Parallel()
	for name, b := range map[string]broken{
		"payments are not locked":                           {unlocked: true},
		"events are not claimed":                            {unclaimed: true},
		"entries are committed apart":                       {torn: true},
		"nobody sweeps":                                     {noSweep: true},
		"a dead event that is resent stays dead":            {noRevival: true},
		"a commit that was rolled back is reported as done": {lyingCommit: true},
		"the relay sends in no order":                       {unordered: true},
		"the relay marks before it sends":                   {markedFirst: true},
		"balances are read before their lock":               {driftingSums: true},
		"ingest answers before its commit":                  {earlyAnswer: true},
		"the claim does not ask for the turn":               {staleTurns: true},
		"neither payments are locked nor events claimed":    {unlocked: true, unclaimed: true, unkeyed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= mostSeeds; seed++ {
				if o := play(t, seed, options{broken: b}); o.violation != "" {
					t.Logf("found by schedule %d: %s", seed, o.violation)
					return
				}
			}
			t.Errorf("no violation in %d schedules", mostSeeds)
		})
	}
}

// mostSeeds bounds the search for a fault that is there on purpose.
const mostSeeds = 5000

// TestWhatAnotherGuaranteeStandsInFor takes away what has a second line behind
// it: nothing may break.
func TestWhatAnotherGuaranteeStandsInFor(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]broken{
		"messages are gone when delivered": {ackFirst: true},
		"due events are taken twice":       {duesTwice: true},
		"the ledger has no unique keys":    {unkeyed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= 60; seed++ {
				if o := play(t, seed, options{broken: b}); o.violation != "" {
					t.Fatalf("schedule %d: %s", seed, o.violation)
				}
			}
		})
	}
}
