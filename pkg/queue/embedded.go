package queue

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Embedded is a NATS server in this process, for development, the demo, tests
// and small installations.
type Embedded struct {
	server *server.Server
	// Removed are consumers ("PAYMENTS/shop") of which a power cut had left
	// too little; see removeLeftovers.
	Removed []string
}

// StartEmbedded starts a server with JetStream on disk in dir, reachable from
// this machine only. Port 0 takes a free one. It has no authentication: every
// user of this machine may connect.
func StartEmbedded(dir string, port int) (*Embedded, error) {
	return StartEmbeddedSyncing(dir, port, DefaultSync)
}

// DefaultSync is how often StartEmbedded flushes. The server's own default is
// every two minutes. PostgreSQL is the truth, so a loss costs a sweep, not
// money; ten seconds cost nothing.
const DefaultSync = 10 * time.Second

// StartEmbeddedSyncing is StartEmbedded with a flush to disk every so often, or
// with 0 before each acknowledgement: then a power cut takes nothing that was
// acknowledged, and a publish takes as long as the disk does.
func StartEmbeddedSyncing(dir string, port int, every time.Duration) (*Embedded, error) {
	if dir == "" {
		return nil, errors.New("embedded NATS: the directory is empty")
	}
	removed, err := removeLeftovers(dir, port)
	if err != nil {
		return nil, err
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	o := options(dir)
	o.Port, o.SyncInterval, o.SyncAlways = port, every, every == 0
	s, err := started(o)
	if err != nil {
		return nil, err
	}
	return &Embedded{server: s, Removed: removed}, nil
}

func options(dir string) *server.Options {
	return &server.Options{
		ServerName: "umavez-embedded",
		Host:       "127.0.0.1",
		JetStream:  true,
		StoreDir:   dir,
		// The disk decides; the streams' own limits are configured.
		JetStreamMaxStore: 1 << 40,
		NoSigs:            true, // signals belong to the process around it
		NoLog:             true,
		MaxPayload:        1 << 20,
	}
}

// started is a server that takes connections.
func started(o *server.Options) (*server.Server, error) {
	s, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("embedded NATS: %w", err)
	}
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		s.Shutdown()
		return nil, fmt.Errorf("embedded NATS in %s: not ready after 20 s; is the port taken, or the directory used by another server?", o.StoreDir)
	}
	if !s.JetStreamEnabled() {
		s.Shutdown()
		return nil, fmt.Errorf("embedded NATS in %s: JetStream did not start", o.StoreDir)
	}
	return s, nil
}

// URL is the address for NATS_URL.
func (e *Embedded) URL() string { return e.server.ClientURL() }

// Shutdown ends the server in order and waits for it.
func (e *Embedded) Shutdown() {
	e.server.Shutdown()
	e.server.WaitForShutdown()
}
