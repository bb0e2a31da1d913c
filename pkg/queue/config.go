package queue

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// Config is how to reach NATS and what `umavez migrate` makes of its streams.
type Config struct {
	// URL is one address or several, separated by commas. It may hold a
	// password and is never shown.
	URL string `envconfig:"NATS_URL" default:"nats://127.0.0.1:4222"`
	// Creds is a credentials file; "" for none.
	Creds string `envconfig:"NATS_CREDS"`
	// Replicas of both streams: 1 for one server, 3 for a cluster.
	Replicas int `envconfig:"NATS_REPLICAS" default:"1"`
	// MaxBytes bounds the stream of events. When it is full, publishing is
	// refused and the sweeper comes back later.
	MaxBytes int64 `envconfig:"NATS_MAX_BYTES" default:"4294967296"`
	// PaymentsMaxBytes bounds the stream of domain events. When it is full,
	// the oldest go; the outbox still has them.
	PaymentsMaxBytes int64 `envconfig:"NATS_PAYMENTS_MAX_BYTES" default:"4294967296"`
	// Ahead is how many messages may wait for processors before notices are held
	// back: the stream is served in its order, so what is put into it stands
	// before the next event. 0 is the default, and below zero there is no bound.
	Ahead int `envconfig:"PUBLISH_AHEAD" default:"8192"`
	// AckWait is after how long an unfinished delivery goes to another
	// processor: more than a lookup (5 s) and a transaction (5 s) together.
	AckWait time.Duration `envconfig:"NATS_ACK_WAIT" default:"30s"`
	// Name is how this client appears in the server's lists; default umavez.
	Name string `ignored:"true"`
}

// minAckWait only guards against nonsense; whoever knows the time-outs of
// lookup and transaction checks that they fit.
const minAckWait = time.Second

// Validate reports all faults at once. The URL itself is never shown.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.URL == "" {
		fault("NATS_URL is empty; give an address such as nats://127.0.0.1:4222")
	}
	for one := range strings.SplitSeq(c.URL, ",") {
		one = strings.TrimSpace(one)
		if one == "" {
			continue
		}
		if !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		if u, err := url.Parse(one); err != nil || u.Host == "" {
			fault("NATS_URL is not an address such as nats://host:4222")
		}
	}
	if c.Creds != "" {
		if _, err := os.Stat(c.Creds); err != nil {
			fault("NATS_CREDS: the file cannot be read: %w", errors.Unwrap(err))
		}
	}
	if !slices.Contains([]int{1, 3, 5}, c.Replicas) {
		// With two, the loss of one stops both: a majority of two is two.
		fault("NATS_REPLICAS is %d; it must be 1, 3 or 5", c.Replicas)
	}
	if c.MaxBytes < 1<<20 {
		fault("NATS_MAX_BYTES is %d; it must be at least 1048576 (1 MiB)", c.MaxBytes)
	}
	if c.PaymentsMaxBytes < 1<<20 {
		fault("NATS_PAYMENTS_MAX_BYTES is %d; it must be at least 1048576 (1 MiB)", c.PaymentsMaxBytes)
	}
	if c.AckWait < minAckWait {
		fault("NATS_ACK_WAIT is %s; it must be at least %s", c.AckWait, minAckWait)
	}
	return errors.Join(faults...)
}

// places names the hosts and ports of the URL, without user and password.
func (c Config) places() string {
	var found []string
	for one := range strings.SplitSeq(c.URL, ",") {
		if one = strings.TrimSpace(one); !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		if u, err := url.Parse(one); err == nil && u.Host != "" {
			if u.Port() == "" {
				u.Host += ":4222"
			}
			found = append(found, u.Host)
		}
	}
	return strings.Join(found, ", ")
}

// withDefaults fills what was left zero by a caller that has no environment.
func (c Config) withDefaults() Config {
	if c.URL == "" {
		c.URL = "nats://127.0.0.1:4222"
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 4 << 30
	}
	if c.PaymentsMaxBytes == 0 {
		c.PaymentsMaxBytes = 4 << 30
	}
	if c.Ahead == 0 {
		c.Ahead = 8192
	}
	if c.AckWait == 0 {
		c.AckWait = 30 * time.Second
	}
	if c.Name == "" {
		c.Name = "umavez"
	}
	return c
}
