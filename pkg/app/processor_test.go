package app

import (
	"errors"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/processor"
	"github.com/umavez/umavez/pkg/queue"
	"github.com/umavez/umavez/pkg/queue/queuetest"
)

func TestNothingIsRelayedToABrokerThatWasNotMet(t *testing.T) {
	conn := queuetest.New(t)
	p := &Processor{Base: &Base{Queue: conn}, cfg: processor.Config{RelayAgain: 5 * time.Minute}}
	rows := []postgres.Outgoing{{ID: 1, Subject: "payments.paid.gw.pay_1", Payload: []byte("{}")}}
	for _, met := range []string{"", "an earlier start"} {
		if n, err := p.sendTo(met)(t.Context(), rows); n != 0 || !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("met %q: %d were relayed, %v", met, n, err)
		}
	}
	if n, err := p.sendTo(conn.Broker())(t.Context(), rows); n != 1 || err != nil {
		t.Errorf("the broker that was met: %d, %v", n, err)
	}
	p.cfg.RelayAgain = 0 // then brokers are not met at all
	if n, err := p.sendTo("")(t.Context(), rows); n != 1 || err != nil {
		t.Errorf("without meetings: %d, %v", n, err)
	}
}
