package e2e

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// domainEvents is what the stream of domain events holds of a broker now; nil
// while it has no such stream.
func domainEvents(t *testing.T, url string) (bodies []string) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		return nil
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "PAYMENTS")
	if err != nil {
		return nil
	}
	state := stream.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq && state.Msgs > 0; seq++ {
		msg, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, string(msg.Data))
	}
	return bodies
}

// The broker acknowledges before it flushes, so that a power cut can take what
// is marked as relayed. An application that had not read it yet must be told
// all the same. In this test the broker forgets everything, which is the worst
// that a cut was seen to do.
func TestDomainEventsThatTheBrokerLostAreToldAgain(t *testing.T) {
	s, w := handStack(t)
	s.up(1, 2)
	w.addrs = s.addrs
	for range 3 {
		for _, g := range gateways {
			one := newSale(g).paid()
			w.api.tells(g, one)
			w.take(g, g.body(newHook("paid", "evt_"+one.id, one)))
		}
	}
	s.settle(20 * time.Second)
	before := domainEvents(t, s.broker.URL())
	if len(before) < len(gateways) {
		t.Fatalf("only %d domain events were told", len(before))
	}
	s.broker.Kill()
	s.broker.Forget()
	s.broker.Start()
	var after []string
	told := func() bool {
		s.settle(20 * time.Second)
		after = domainEvents(t, s.broker.URL())
		return len(after) >= len(before)
	}
	eventually(t, 30*time.Second, "what was relayed and lost is relayed again", told)
	seen := map[string]bool{}
	for _, body := range after {
		seen[body] = true
	}
	for _, body := range before {
		if !seen[body] {
			t.Errorf("never told again: %s", body)
		}
	}
	verify(t, s.db)
}
