package processor

import (
	"errors"
	"fmt"
	"time"

	"github.com/umavez/umavez/pkg/lookup"
)

// Config is the processor's settings. Zero values are not usable; envconfig
// fills the defaults.
type Config struct {
	Lookup lookup.Config

	Batch   int `envconfig:"PROCESSOR_BATCH" default:"200"` // events a transaction, at most
	Workers int `envconfig:"PROCESSOR_WORKERS" default:"2"` // batches under way; each uses one connection
	// MaxAttempts failures of processing make an event dead. A gateway that
	// does not answer is no failure of the event.
	MaxAttempts int `envconfig:"MAX_ATTEMPTS" default:"8"`
	// ParkLimit is how long an event may wait for what it needs.
	ParkLimit time.Duration `envconfig:"PARK_LIMIT" default:"72h"`
	// AgreeLimit is how long a lookup may contradict an event before the
	// lookup is taken at its word.
	AgreeLimit time.Duration `envconfig:"AGREE_LIMIT" default:"15m"`
	// UnknownPayment is "create", or "park": events of payments that the
	// application has not registered wait for it.
	UnknownPayment string `envconfig:"UNKNOWN_PAYMENT" default:"create"`

	TxTimeout  time.Duration `envconfig:"PROCESSOR_TX_TIMEOUT" default:"5s"` // one transaction, or one read
	AckWait    time.Duration `envconfig:"NATS_ACK_WAIT" default:"30s"`       // the queue's; checked, not set here
	DueEvery   time.Duration `envconfig:"PROCESSOR_DUE_EVERY" default:"1s"`  // looking for parked events that are due
	RelayEvery time.Duration `envconfig:"PROCESSOR_RELAY_EVERY" default:"1s"`
	// RelayAgain is how far back, from what was relayed last, domain events are
	// relayed again when a broker was started: longer than its sync_interval (2
	// minutes unless it is set), since what it acknowledged and had not flushed
	// is lost by a power cut.
	// Applications see some twice. 0 never does.
	RelayAgain time.Duration `envconfig:"PROCESSOR_RELAY_AGAIN" default:"5m"`
}

// Validate reports all faults at once.
func (c Config) Validate() error {
	faults := []error{c.Lookup.Validate()}
	for name, n := range map[string]int{"PROCESSOR_BATCH": c.Batch, "PROCESSOR_WORKERS": c.Workers, "MAX_ATTEMPTS": c.MaxAttempts} {
		if n < 1 {
			faults = append(faults, fmt.Errorf("%s must be at least 1", name))
		}
	}
	for name, d := range map[string]time.Duration{"PARK_LIMIT": c.ParkLimit, "AGREE_LIMIT": c.AgreeLimit, "PROCESSOR_TX_TIMEOUT": c.TxTimeout,
		"PROCESSOR_DUE_EVERY": c.DueEvery, "PROCESSOR_RELAY_EVERY": c.RelayEvery} {
		if d <= 0 {
			faults = append(faults, fmt.Errorf("%s must be above zero", name))
		}
	}
	if c.RelayAgain < 0 {
		faults = append(faults, errors.New("PROCESSOR_RELAY_AGAIN must not be negative; 0 turns it off"))
	}
	if c.UnknownPayment != "create" && c.UnknownPayment != "park" {
		faults = append(faults, errors.New("UNKNOWN_PAYMENT must be create or park"))
	}
	if c.Lookup.Timeout+c.TxTimeout >= c.AckWait {
		faults = append(faults, fmt.Errorf("LOOKUP_TIMEOUT (%s) + PROCESSOR_TX_TIMEOUT (%s) must be below NATS_ACK_WAIT (%s), or a batch is delivered again while it is worked on",
			c.Lookup.Timeout, c.TxTimeout, c.AckWait))
	}
	return errors.Join(faults...)
}
