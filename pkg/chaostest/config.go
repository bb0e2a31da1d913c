package chaostest

import (
	"errors"
	"fmt"
	"time"
)

// Config says how a campaign is played.
type Config struct {
	Dir      string        // of the report and the logs of processes; created
	Programs string        // directory with umavez and sweeper, built with the tag failpoints
	Seed     uint64        // of the simulator and the nemesis
	For      time.Duration // of load and faults, over all acts
	Acts     []Act         // share the time equally
	Rate     float64       // webhooks a second
	Lanes    int           // faults at once, at most
	// Demanding makes what did not occur a failure; a short form cannot show
	// every kind.
	Demanding bool
	Say       func(format string, args ...any) // a line for a person
}

// Act is one world.
type Act struct {
	Brokers int // 1, or 3 for a cluster

	shape *shape // nil: that of a campaign
}

// Validate names the first thing that cannot be right.
func (c Config) Validate() error {
	switch {
	case c.Dir == "" || c.Programs == "":
		return errors.New("the directories are not set")
	case c.For < 10*time.Second:
		return fmt.Errorf("a campaign of %s is too short to break anything", c.For)
	case c.For > 12*time.Hour:
		return fmt.Errorf("a campaign of %s does not end", c.For)
	case len(c.Acts) == 0 || c.Rate <= 0 || c.Rate > 1000 || c.Lanes < 1 || c.Lanes > 32:
		return errors.New("acts, rate (to 1000) and lanes (to 32) must be above zero")
	}
	return nil
}

// The timers of the processes under test. They are shorter than the defaults,
// in the same proportions, so that a fault beyond every time-out fits into
// seconds; each process checks at its start that they fit together.
const (
	ackWait       = 8 * time.Second
	lookupTimeout = 2 * time.Second
	// beyondAll is longer than every time-out of the processes under test.
	beyondAll = 12 * time.Second
)

var timers = map[string]string{
	"NATS_ACK_WAIT":              ackWait.String(),
	"LOOKUP_TIMEOUT":             lookupTimeout.String(),
	"LOOKUP_BREAK_FOR":           "3s",
	"PROCESSOR_TX_TIMEOUT":       "4s",
	"DATABASE_STATEMENT_TIMEOUT": "3s",
	"DATABASE_LOCK_TIMEOUT":      "1500ms",
	"INGEST_COMMIT_TIMEOUT":      "3500ms",
	"INGEST_REQUEST_DEADLINE":    "4s",
	"INGEST_DRAIN_TIMEOUT":       "6s",
	"MAX_ATTEMPTS":               "3",
	"PROCESSOR_WORKERS":          "2",
	"PROCESSOR_BATCH":            "50",
	"NATS_MAX_BYTES":             "67108864",
	"NATS_PAYMENTS_MAX_BYTES":    "134217728",
	"RECONCILE_AFTER":            "0s", // on purpose and once, at the end
	"LOG_LEVEL":                  "info",
}
