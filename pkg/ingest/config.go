package ingest

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// GatewayTimeout is the shortest time that a known gateway waits for an
// answer; a later answer counts as a failure.
const GatewayTimeout = 10 * time.Second

// Config are the bounds of receiving. All have defaults that fit 1 KiB
// webhooks of a few thousand a second.
type Config struct {
	Addr string `envconfig:"INGEST_ADDR" default:":8080"` // host:port of the public listener

	// TrustedProxies are our own proxies' addresses and networks, separated by
	// commas: what they say of the sender in X-Forwarded-For is believed.
	TrustedProxies string `envconfig:"INGEST_TRUSTED_PROXIES"`
	// ClientVerifiedHeader is the header by which a trusted proxy says that it
	// has verified a client certificate, like "X-Client-Verify: SUCCESS".
	ClientVerifiedHeader string `envconfig:"INGEST_CLIENT_VERIFIED_HEADER"`
	// The TLS files make the listener speak TLS itself; they are read again as
	// they change. With a client CA, client certificates are verified.
	TLSCertFile     string `envconfig:"INGEST_TLS_CERT_FILE"`
	TLSKeyFile      string `envconfig:"INGEST_TLS_KEY_FILE"`
	TLSClientCAFile string `envconfig:"INGEST_TLS_CLIENT_CA_FILE"`

	BodyLimit   int64 `envconfig:"INGEST_BODY_LIMIT" default:"1048576"`  // bytes, before and after decompression
	HeaderLimit int   `envconfig:"INGEST_HEADER_LIMIT" default:"131072"` // bytes of request line and headers

	HeaderTimeout time.Duration `envconfig:"INGEST_HEADER_TIMEOUT" default:"5s"` // to send the headers
	BodyTimeout   time.Duration `envconfig:"INGEST_BODY_TIMEOUT" default:"3s"`   // to send the body after them
	WriteTimeout  time.Duration `envconfig:"INGEST_WRITE_TIMEOUT" default:"10s"` // from the headers to the end of the answer
	IdleTimeout   time.Duration `envconfig:"INGEST_IDLE_TIMEOUT" default:"2m"`   // of a kept connection

	// RequestDeadline runs from the end of the headers; later than that the
	// answer is 503. CommitTimeout is the batch's own.
	RequestDeadline time.Duration `envconfig:"INGEST_REQUEST_DEADLINE" default:"5s"`
	CommitTimeout   time.Duration `envconfig:"INGEST_COMMIT_TIMEOUT" default:"4500ms"`
	// RetryAfter is what a 503 asks for, in whole seconds.
	RetryAfter time.Duration `envconfig:"INGEST_RETRY_AFTER" default:"2s"`
	// DrainTimeout is for what is in hand at a stop; it must fit into the
	// pod's grace period together with the preStop wait.
	DrainTimeout time.Duration `envconfig:"INGEST_DRAIN_TIMEOUT" default:"15s"`

	BatchRows  int   `envconfig:"INGEST_BATCH_ROWS" default:"256"`      // events of one statement
	BatchBytes int64 `envconfig:"INGEST_BATCH_BYTES" default:"4194304"` // their bodies
	Flushers   int   `envconfig:"INGEST_FLUSHERS" default:"2"`          // statements at once; each takes a connection

	QueueRequests int   `envconfig:"INGEST_QUEUE_REQUESTS" default:"4096"` // verified and waiting; more are answered 503
	QueueBytes    int64 `envconfig:"INGEST_QUEUE_BYTES" default:"67108864"`
	// QueueWait is the longest that the queue may make a request wait, as far
	// as that can be told from the pace of the database: when there is more,
	// requests are answered 503, unread. A longer queue would store no more, and
	// let its requests come too late.
	QueueWait time.Duration `envconfig:"INGEST_QUEUE_WAIT" default:"1s"`
	// AdmitWait is how long a request may wait, unread, for the queue to have
	// room before it is answered 503: a burst is stored instead of refused, and
	// a flood costs little, since its senders wait. Zero refuses at once.
	AdmitWait time.Duration `envconfig:"INGEST_ADMIT_WAIT" default:"500ms"`
	// LargeBytes bounds the memory of bodies beyond their first 8 KiB, so
	// that large bodies of strangers cannot crowd out webhooks of usual size.
	LargeBytes int64 `envconfig:"INGEST_LARGE_BYTES" default:"67108864"`
	// MaxRequests are in hand at once, verified or not.
	MaxRequests int `envconfig:"INGEST_MAX_REQUESTS" default:"8192"`
	// EventsPerRequest bounds batch gateways: a request of more events is
	// stored whole, as one quarantined event.
	EventsPerRequest int `envconfig:"INGEST_EVENTS_PER_REQUEST" default:"1000"`
}

// Validate reports all faults at once.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if _, _, err := net.SplitHostPort(c.Addr); err != nil {
		fault("INGEST_ADDR is not host:port, for example :8080")
	}
	if _, err := newSenders(c); err != nil {
		faults = append(faults, err)
	}
	if _, err := newTLS(c); err != nil {
		faults = append(faults, err)
	}
	for _, p := range []struct {
		name  string
		value int64
		least int64
	}{
		{"INGEST_BODY_LIMIT", c.BodyLimit, 1024}, {"INGEST_HEADER_LIMIT", int64(c.HeaderLimit), 4096},
		{"INGEST_BATCH_ROWS", int64(c.BatchRows), 1}, {"INGEST_BATCH_BYTES", c.BatchBytes, 1},
		{"INGEST_FLUSHERS", int64(c.Flushers), 1}, {"INGEST_QUEUE_REQUESTS", int64(c.QueueRequests), 1},
		{"INGEST_MAX_REQUESTS", int64(c.MaxRequests), 1}, {"INGEST_EVENTS_PER_REQUEST", int64(c.EventsPerRequest), 1},
	} {
		if p.value < p.least {
			fault("%s is %d and must be at least %d", p.name, p.value, p.least)
		}
	}
	if c.QueueBytes < c.BodyLimit {
		fault("INGEST_QUEUE_BYTES (%d) must hold one body of INGEST_BODY_LIMIT (%d)", c.QueueBytes, c.BodyLimit)
	}
	if c.LargeBytes < 2*c.BodyLimit {
		fault("INGEST_LARGE_BYTES (%d) must hold a compressed and a plain body of INGEST_BODY_LIMIT (%d)", c.LargeBytes, c.BodyLimit)
	}
	if c.BatchRows > 10000 {
		fault("INGEST_BATCH_ROWS is %d; above 10000 a statement gains nothing and holds its locks too long", c.BatchRows)
	}
	for _, p := range []struct {
		name  string
		value time.Duration
	}{
		{"INGEST_HEADER_TIMEOUT", c.HeaderTimeout}, {"INGEST_BODY_TIMEOUT", c.BodyTimeout},
		{"INGEST_IDLE_TIMEOUT", c.IdleTimeout}, {"INGEST_COMMIT_TIMEOUT", c.CommitTimeout},
		{"INGEST_DRAIN_TIMEOUT", c.DrainTimeout}, {"INGEST_QUEUE_WAIT", c.QueueWait},
	} {
		if p.value <= 0 {
			fault("%s is %s and must be above zero: without it one sender could hold us for ever", p.name, p.value)
		}
	}
	if c.RetryAfter < time.Second {
		fault("INGEST_RETRY_AFTER is %s and must be at least 1s, since it is sent in whole seconds", c.RetryAfter)
	}
	order := []struct {
		name  string
		value time.Duration
	}{
		{"INGEST_COMMIT_TIMEOUT", c.CommitTimeout}, {"INGEST_REQUEST_DEADLINE", c.RequestDeadline},
		{"the gateways' own time-out", GatewayTimeout},
	}
	faults = append(faults, inOrder(order...)...)
	if c.AdmitWait < 0 {
		fault("INGEST_ADMIT_WAIT is %s and must not be below zero", c.AdmitWait)
	}
	if c.AdmitWait+c.BodyTimeout >= c.RequestDeadline {
		fault("INGEST_ADMIT_WAIT (%s) and INGEST_BODY_TIMEOUT (%s) must together be below INGEST_REQUEST_DEADLINE (%s)", c.AdmitWait, c.BodyTimeout, c.RequestDeadline)
	}
	if c.WriteTimeout <= c.RequestDeadline {
		fault("INGEST_WRITE_TIMEOUT (%s) must be above INGEST_REQUEST_DEADLINE (%s), or a late 503 could not be sent", c.WriteTimeout, c.RequestDeadline)
	}
	if c.DrainTimeout <= c.RequestDeadline {
		fault("INGEST_DRAIN_TIMEOUT (%s) must be above INGEST_REQUEST_DEADLINE (%s)", c.DrainTimeout, c.RequestDeadline)
	}
	return errors.Join(faults...)
}

// ValidateDatabase checks what this room and the database's settings must
// agree on: statement < commit < request, and a connection for each flusher.
func (c Config) ValidateDatabase(statementTimeout time.Duration, maxConns int32) error {
	faults := inOrder([]named{
		{"DATABASE_STATEMENT_TIMEOUT", statementTimeout}, {"INGEST_COMMIT_TIMEOUT", c.CommitTimeout},
	}...)
	if statementTimeout <= 0 {
		faults = append(faults, errors.New("DATABASE_STATEMENT_TIMEOUT must be above zero for ingest"))
	}
	if maxConns > 0 && int64(c.Flushers) > int64(maxConns) {
		faults = append(faults, fmt.Errorf("INGEST_FLUSHERS (%d) must not be above DATABASE_MAX_CONNS (%d): each flusher uses a connection", c.Flushers, maxConns))
	}
	return errors.Join(faults...)
}

type named = struct {
	name  string
	value time.Duration
}

func inOrder(list ...named) (faults []error) {
	for i := 1; i < len(list); i++ {
		if a, b := list[i-1], list[i]; a.value >= b.value {
			faults = append(faults, fmt.Errorf("%s (%s) must be below %s (%s)", a.name, a.value, b.name, b.value))
		}
	}
	return faults
}
