package chaostest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

// attempt is one line of the history: what the load generator sent, and what
// it knows of the outcome.
type attempt struct {
	At       time.Time `json:"at"` // of the answer, or of its absence
	Delivery int       `json:"delivery"`
	Try      int       `json:"try"`
	Gateway  string    `json:"gateway"`
	// Outcome is "ok": answered with the gateway's success; "failed": answered
	// otherwise, so it will be sent again; "unknown": no answer came, and what
	// was sent may be stored or not.
	Outcome string `json:"outcome"`
	SHA256  string `json:"sha256"`
}

// history keeps every attempt on disk, flushed, so that a campaign that dies
// leaves what it knew.
type history struct {
	f     *os.File
	in    chan attempt
	ended chan struct{}
	err   error

	mu     sync.Mutex
	latest time.Time          // of the newest ok
	bodies map[string]attempt // the newest attempt by body
}

func newHistory(path string) (*history, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	h := &history{f: f, in: make(chan attempt, 4096), ended: make(chan struct{}), bodies: map[string]attempt{}}
	go h.write()
	return h, nil
}

// write flushes whatever waits, together.
func (h *history) write() {
	defer close(h.ended)
	w := bufio.NewWriter(h.f)
	enc := json.NewEncoder(w)
	for a := range h.in {
		h.err = errors.Join(h.err, enc.Encode(a))
		for more := true; more; {
			select {
			case a, open := <-h.in:
				if more = open; open {
					h.err = errors.Join(h.err, enc.Encode(a))
				}
			default:
				more = false
			}
		}
		h.err = errors.Join(h.err, w.Flush(), h.f.Sync())
	}
}

// note records an attempt.
func (h *history) note(a gatewaysim.Answer) {
	outcome := "failed"
	switch {
	case a.Err != nil:
		outcome = "unknown"
	case a.Delivery.Success(a.Status):
		outcome = "ok"
	}
	one := attempt{time.Now(), a.Delivery.Seq, a.Try, a.Delivery.Gateway, outcome, a.BodySHA256}
	h.mu.Lock()
	if outcome == "ok" {
		h.latest = one.At
	}
	if a.Delivery.Authentic() {
		h.bodies[one.SHA256] = one
	}
	h.mu.Unlock()
	h.in <- one
}

// deliveryOf is the newest authentic attempt that had a body.
func (h *history) deliveryOf(sha256 string) (attempt, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a, ok := h.bodies[sha256]
	return a, ok
}

// lastOK is when something was accepted most recently.
func (h *history) lastOK() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.latest
}

// close ends the recording; then each may be called.
func (h *history) close() error {
	close(h.in)
	<-h.ended
	return errors.Join(h.err, h.f.Close())
}

// each reads a history back, line by line.
func each(path string, f func(attempt)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // read only
	dec := json.NewDecoder(bufio.NewReader(file))
	for {
		var a attempt
		if err := dec.Decode(&a); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("history: %w", err)
		}
		f(a)
	}
}
