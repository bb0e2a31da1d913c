package chaostest

import (
	"maps"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

// shape is how a world is laid out, and how its processes are set.
type shape struct {
	ingests, processors int
	settings            map[string]string // of the processes under test, beside where they find each other
	ackWait             time.Duration     // as set
	lookupTimeout       time.Duration     // as set
	beyond              time.Duration     // longer than every time-out that is set
	sim                 gatewaysim.Config // without its seed
	direct              bool              // no proxies: they would take their part of the machine
}

// campaignShape is that of a campaign: short timers, and gateways on a bad day.
func campaignShape(payments int) *shape {
	return &shape{
		ingests: 2, processors: 3, settings: timers, ackWait: ackWait, lookupTimeout: lookupTimeout, beyond: beyondAll,
		sim: gatewaysim.Config{
			Payments: payments, Gateways: gatewaysim.AllSources(), Beneficiaries: 8,
			Shares: gatewaysim.Shares{Duplicates: 0.30, Concurrent: 0.5, WrongSignatures: 0.02, Malformed: 0.005, Tests: 0.005, Lost: 0.015},
			API:    calmAPI,
		},
	}
}

// The defaults of the product's timers that measurements refer to.
const (
	defaultAckWait       = 30 * time.Second
	defaultLookupTimeout = 5 * time.Second
)

// installedShape is a world with every timer as it is installed: what is
// measured there is what an operator gets who sets nothing. more are settings
// beside that.
func installedShape(ingests, processors int, sim gatewaysim.Config, more map[string]string) *shape {
	settings := map[string]string{
		// The disks of a world are small.
		"NATS_MAX_BYTES": timers["NATS_MAX_BYTES"], "NATS_PAYMENTS_MAX_BYTES": timers["NATS_PAYMENTS_MAX_BYTES"],
		"RECONCILE_AFTER": "0s", "LOG_LEVEL": "info",
	}
	maps.Copy(settings, more)
	return &shape{
		ingests: ingests, processors: processors, settings: settings, sim: sim,
		ackWait: defaultAckWait, lookupTimeout: defaultLookupTimeout, beyond: defaultAckWait + 5*time.Second,
	}
}
