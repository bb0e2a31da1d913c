package e2e

import (
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

// Each gateway by itself: every kind of its histories, on a bad day.
func TestAStormOfEachGatewayEndsInItsTruth(t *testing.T) {
	for _, name := range gatewaysim.AllSources() {
		t.Run(name, func(t *testing.T) {
			sim, err := gatewaysim.New(gatewaysim.Config{
				Seed: 11, Payments: 150, Beneficiaries: 5, Gateways: []string{name},
				Shares: gatewaysim.Shares{Duplicates: 0.3, Concurrent: 0.5, WrongSignatures: 0.03, Malformed: 0.02, Tests: 0.02, Lost: 0.04},
				API:    gatewaysim.API{ServerErrors: 0.002, Stale: 0.01, StaleFor: 300 * time.Millisecond},
			})
			if err != nil {
				t.Fatal(err)
			}
			s := newStack(t, sim).up(1, 1)
			report := s.storm(sim)
			s.settle(30 * time.Second)
			s.reconcile(20 * time.Second)
			compare(t, s.db, sim, report)
			if out, errs, code := run(t, "umavez", s.env, "verify"); code != 0 {
				t.Errorf("umavez verify: code %d\n%s%s", code, out, errs)
			}
		})
	}
}
