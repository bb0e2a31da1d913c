package gatewaysim

import (
	"net/http"
	"time"
)

// DeliveryKind says what a delivery is for.
type DeliveryKind string

// The kinds of delivery.
const (
	DeliveryFirst      DeliveryKind = "first"
	DeliveryDuplicate  DeliveryKind = "duplicate"            // sent again later
	DeliveryConcurrent DeliveryKind = "concurrent_duplicate" // sent together with the first
	DeliveryForged     DeliveryKind = "wrong_signature"
	DeliveryMalformed  DeliveryKind = "malformed" // authentic, cannot be read
	DeliveryTest       DeliveryKind = "test"      // marked as a test, or without content
	DeliveryLost       DeliveryKind = "lost"      // not to be sent
)

// Delivery is one webhook of the schedule.
type Delivery struct {
	Seq       int // place in the schedule
	Kind      DeliveryKind
	Gateway   string
	Account   string
	Path      string // "/webhooks/stripe"
	Payment   int    // index into Truth
	Step      int    // of the payment's history
	EventType string
	EventID   string // the gateway's; "" where it has none, or for other bodies
	// Identity is equal for deliveries of the same event, in the gateway's
	// own terms. "" for what is no true event.
	Identity string
	// Attempt counts the deliveries of one event, from 0.
	Attempt int
	// Group is above 0 for deliveries that are sent at the same instant; they
	// follow each other in the schedule.
	Group int

	sim     *Sim
	event   int // of the step
	variant uint64
	riders  []rider // further events in the same request
}

// Authentic says whether the gateway itself would send this.
func (d *Delivery) Authentic() bool { return d.Kind != DeliveryForged }

// Sent is one request of a gateway.
type Sent struct {
	// Suffix is what the gateway appends to the path of Delivery.Path, with
	// its slash: "/pix". Query is raw, without the question mark.
	Suffix, Query string
	Header        http.Header
	Body          []byte
	// Part is the part of Body that is about the delivery's own event, where a
	// request may tell of several; nil when it is all of Body.
	Part []byte
}

// SHA256 is that of the body, in hex; of a request that may tell of several
// events, of the part about the delivery's own.
func (s *Sent) SHA256() string { return hashOf(s.kept()) }

// contentType is that of a request whose gateway sets none.
const contentType = "application/json; charset=utf-8"

// Target is the path with suffix and query.
func (s *Sent) Target(path string) string {
	path += s.Suffix
	if s.Query != "" {
		path += "?" + s.Query
	}
	return path
}

// Request gives the delivery as sent at now. try counts the gateway's retries
// of this delivery: the envelopes of PagPolar's true events change with each,
// and so does Stripe's signature, through now.
func (d *Delivery) Request(now time.Time, try int) Sent {
	p := d.sim.payments[d.Payment]
	g, c := p.acct.gateway, &p.acct.Credentials
	st := &p.steps[d.Step]
	attempt := d.Attempt
	if d.Identity != "" { // what is no true event has nothing but its bytes to be known by
		attempt += 1000 * try
	}
	body := g.body(p, st, &st.events[d.event], attempt)
	b, batches := g.(batcher)
	part := body
	if batches {
		body = b.batch(d.together(body))
	}
	var marks http.Header
	switch d.Kind {
	case DeliveryForged:
		return complete(g.forge(c, body, now, d.variant))
	case DeliveryMalformed:
		body = g.malformed(p, body, d.variant)
	case DeliveryTest:
		body, marks = g.test(p, st, &st.events[d.event], d.variant)
	}
	sent := complete(g.sign(c, body, now, d.variant))
	for name, values := range marks {
		sent.Header[name] = values
	}
	if batches {
		if sent.Part = part; d.Identity == "" {
			sent.Part = b.part(body)
		}
	}
	return sent
}

func complete(s Sent) Sent {
	if s.Header.Get("Content-Type") == "" {
		s.Header.Set("Content-Type", contentType)
	}
	return s
}

// Success says whether the gateway takes an answer as received: any 2xx at
// Stripe, exactly 200 at the others.
func (d *Delivery) Success(status int) bool { return gateways[d.Gateway].success(status) }

// publication is how much of a payment's history is true for the API.
type publication struct {
	steps int32 // so many
	at    int64 // Unix nanoseconds of the last change
}

// Publish makes a payment's history true up to a step, counted from 0. Run
// does it right before a step's webhook is sent.
func (s *Sim) Publish(payment, step int) {
	pl := &s.places[payment]
	for {
		old := pl.Load()
		if old != nil && int(old.steps) > step {
			return
		}
		if pl.CompareAndSwap(old, &publication{int32(step + 1), time.Now().UnixNano()}) {
			return
		}
	}
}

// PublishAll makes all histories true to their end.
func (s *Sim) PublishAll() {
	for i, p := range s.payments {
		s.Publish(i, len(p.steps)-1)
	}
}

// Sign gives the request with which the gateway of a source ("stripe",
// "asaas/loja2") would send a body now, and the path it would send it to. ok
// is false for a source that the simulation does not have.
func (s *Sim) Sign(source string, body []byte, now time.Time) (sent Sent, path string, ok bool) {
	for _, a := range s.accounts {
		if a.source == source {
			return complete(a.gateway.sign(&a.Credentials, body, now, 0)), a.path, true
		}
	}
	return Sent{}, "", false
}
