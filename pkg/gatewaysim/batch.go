package gatewaysim

// batcher is a gateway that may tell of several events in one request. What
// its body method gives is one of them.
type batcher interface {
	// batch makes the body of a request of the bodies of its events.
	batch(events [][]byte) []byte
	// part is what a receiver keeps of a body that tells of one event at most.
	part(body []byte) []byte
}

// rider is an event that travels in another one's request, besides being sent
// by itself.
type rider struct{ payment, step, event int }

// bundle puts further events into a quarter of the requests of gateways that
// do so: of the same account, earlier in the gateway's time, so that a kept
// order stays one. None of them is lost, or is of a payment of which nothing
// is heard.
func (sc *scheduler) bundle() {
	earlier := map[*account][]int{}
	for _, i := range sc.sent {
		d, acct := &sc.units[i].ds[0], sc.payment(i).acct
		if _, ok := acct.gateway.(batcher); !ok {
			continue
		}
		if n := len(earlier[acct]); n > 0 && sc.IntN(4) == 0 {
			for range 1 + sc.IntN(3) {
				o := &sc.units[earlier[acct][sc.IntN(n)]].ds[0]
				d.riders = append(d.riders, rider{o.Payment, o.Step, o.event})
			}
		}
		earlier[acct] = append(earlier[acct], i)
	}
}

// together are the bodies of all events of the request; the delivery's own
// stands anywhere among them.
func (d *Delivery) together(own []byte) [][]byte {
	all := make([][]byte, 0, len(d.riders)+1)
	at := (d.Payment + d.Step) % (len(d.riders) + 1)
	for i, r := range d.riders {
		if i == at {
			all = append(all, own)
		}
		p := d.sim.payments[r.payment]
		all = append(all, p.acct.gateway.body(p, &p.steps[r.step], &p.steps[r.step].events[r.event], 0))
	}
	if at == len(d.riders) {
		all = append(all, own)
	}
	return all
}

// Events is how many events a receiver finds in the delivery's request.
func (d *Delivery) Events() int {
	if d.Identity == "" { // what is no true event carries no others
		return 1
	}
	return 1 + len(d.riders)
}

// Publish makes true for the API what a delivery tells of. Run does it right
// before the delivery is sent.
func (d *Delivery) Publish() {
	d.sim.Publish(d.Payment, d.Step)
	for _, r := range d.riders {
		d.sim.Publish(r.payment, r.step)
	}
}

// kept is what a receiver keeps of a request for the delivery's own event.
func (s *Sent) kept() []byte {
	if s.Part != nil {
		return s.Part
	}
	return s.Body
}
