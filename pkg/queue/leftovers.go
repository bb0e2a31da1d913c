package queue

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// removeLeftovers removes what a power cut left of consumers that the server
// does not recover, and names them ("PAYMENTS/shop").
//
// The server keeps a consumer in three files and syncs none at once. Where the
// settings are lost, or those of its stream, or the place is torn, it starts
// without the consumer and leaves the rest. Whoever makes the consumer then
// gets the place of before, however far it lies beyond the messages that are
// left, so that new ones are never delivered; or, with a torn place, an error
// for ever. Without the rest it is a new consumer: everything that the stream
// holds is delivered, and known events are known again.
//
// What the server recovers is asked of the server itself, which is started for
// that without a port: when clients can reach it they make consumers at once.
// It costs a second start, and only where there are consumers.
func removeLeftovers(dir string, port int) (removed []string, err error) {
	found, err := filepath.Glob(filepath.Join(dir, server.JetStreamStoreDir, "*", "streams", "*", "obs", "*"))
	if err != nil || len(found) == 0 || taken(port) {
		return nil, err
	}
	known, err := recovered(dir)
	if err != nil {
		return nil, err
	}
	for _, path := range found {
		name := filepath.Base(filepath.Dir(filepath.Dir(path))) + "/" + filepath.Base(path)
		if slices.Contains(known, name) {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return removed, fmt.Errorf("remains of the consumer %s: %w", name, err)
		}
		removed = append(removed, name)
	}
	return removed, nil
}

// taken says whether somebody listens, who may be a server on the same
// directory.
func taken(port int) bool {
	if port <= 0 {
		return false
	}
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return true
	}
	return l.Close() != nil
}

// recovered are the consumers that a server has after its start in dir.
func recovered(dir string) (names []string, err error) {
	o := options(dir)
	o.DontListen = true
	s, err := started(o)
	if err != nil {
		return nil, err
	}
	defer func() {
		s.Shutdown()
		s.WaitForShutdown()
	}()
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		return nil, fmt.Errorf("ask what was recovered: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	streams := js.StreamNames(ctx)
	for stream := range streams.Name() {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", stream, err)
		}
		consumers := s.ConsumerNames(ctx)
		for consumer := range consumers.Name() {
			names = append(names, stream+"/"+consumer)
		}
		if err := consumers.Err(); err != nil {
			return nil, fmt.Errorf("consumers of %s: %w", stream, err)
		}
	}
	if err := streams.Err(); err != nil {
		return nil, fmt.Errorf("ask what was recovered: %w", err)
	}
	return names, nil
}
