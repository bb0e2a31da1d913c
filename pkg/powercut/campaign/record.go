package campaign

import (
	"sync"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

// Attempts counts what the gateways' side heard.
type Attempts struct {
	OK      int `json:"ok"`      // answered with success: a promise
	Failed  int `json:"failed"`  // answered with anything else: none
	Unknown int `json:"unknown"` // no answer: both are right
}

// record is what the gateways' side knows of its webhooks.
type record struct {
	mu       sync.Mutex
	attempts Attempts
	events   map[string]*told
	answered int // attempts that were answered with success so far
}

// told is one event, as far as the sender is concerned.
type told struct {
	promised bool            // some attempt was answered with success
	sums     map[string]bool // SHA-256 in hex of what was sent of it so far
	empty    bool            // no true event: it may share its key with another one
}

func newRecord() *record { return &record{events: map[string]*told{}} }

func (r *record) of(d *gatewaysim.Delivery, sum string) *told {
	id := d.Identity
	if id == "" {
		id = sum
	}
	key := d.Gateway + " " + d.Account + " " + id
	t := r.events[key]
	if t == nil {
		t = &told{sums: map[string]bool{}, empty: d.Identity == ""}
		r.events[key] = t
	}
	return t
}

// sends is called before an attempt: it may be stored from now on.
func (r *record) sends(d *gatewaysim.Delivery, sum string) {
	if !d.Authentic() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of(d, sum).sums[sum] = true
}

// hears is called after an attempt.
func (r *record) hears(a gatewaysim.Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case a.Err != nil:
		r.attempts.Unknown++
	case a.Delivery.Authentic() && a.Delivery.Success(a.Status):
		r.attempts.OK++
		r.answered++
		r.of(a.Delivery, a.BodySHA256).promised = true
	default:
		r.attempts.Failed++
	}
}

// promise is an event that must be stored with one of some bodies.
type promise struct {
	event string
	sums  []string
	empty bool
}

// promises are all that were made so far.
func (r *record) promises() []promise {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []promise
	for key, t := range r.events {
		if !t.promised {
			continue
		}
		p := promise{event: key, empty: t.empty}
		for sum := range t.sums {
			p.sums = append(p.sums, sum)
		}
		all = append(all, p)
	}
	return all
}

func (r *record) ok() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answered
}
