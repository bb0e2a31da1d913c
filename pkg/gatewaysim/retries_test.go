package gatewaysim_test

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

// ordered is which deliveries were taken, in the order of their answers.
type ordered struct {
	mu  sync.Mutex
	seq []int
}

func (o *ordered) answer(a gatewaysim.Answer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if a.Status == http.StatusOK {
		o.seq = append(o.seq, a.Delivery.Seq)
	}
}

func TestCase_D12_AsaasInterruptsItsQueueAfterFifteenFailuresAndLaterSendsAllOfItInOrder(t *testing.T) {
	t.Parallel()
	sim, err := gatewaysim.New(gatewaysim.Config{Seed: 5, Payments: 80, Gateways: []string{"asaas"}, Order: gatewaysim.OrderKeep})
	if err != nil {
		t.Fatal(err)
	}
	var order ordered
	in := &ingest{before: func(w http.ResponseWriter, n int) bool {
		if n > 15 {
			return false
		}
		w.WriteHeader(http.StatusNoContent) // which is no success for Asaas
		return true
	}}
	report := run(t, sim, in, gatewaysim.RunConfig{Contracts: true, Hurry: 1e6, ResumeAfter: 300 * time.Millisecond, Concurrency: 1, OnAnswer: order.answer})
	if report.Stopped != 1 || report.GivenUp != 0 || report.Acknowledged != len(sim.Deliveries()) {
		t.Errorf("stopped %d times, %d of %d acknowledged, %d given up", report.Stopped, report.Acknowledged, len(sim.Deliveries()), report.GivenUp)
	}
	if !slices.IsSorted(order.seq) {
		t.Errorf("what was kept did not come in order: %v", order.seq)
	}
}

func TestAnInterruptedQueueThatNobodyPutsOnAgainKeepsItsEvents(t *testing.T) {
	t.Parallel()
	sim, err := gatewaysim.New(gatewaysim.Config{Seed: 5, Payments: 80, Gateways: []string{"asaas", "stripe"}})
	if err != nil {
		t.Fatal(err)
	}
	in := &ingest{before: func(w http.ResponseWriter, _ int) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}}
	report := run(t, sim, in, gatewaysim.RunConfig{Contracts: true, Hurry: 1e6, RetryFor: 200 * time.Millisecond})
	if report.Stopped != 1 || report.Acknowledged != 0 || report.GivenUp != len(sim.Deliveries()) {
		t.Errorf("stopped %d times, %d acknowledged, %d of %d given up", report.Stopped, report.Acknowledged, report.GivenUp, len(sim.Deliveries()))
	}
	asaas := 0
	for _, d := range sim.Deliveries() {
		if d.Gateway == "asaas" {
			asaas++
		}
	}
	if sent := report.Answers["503"]; sent >= len(sim.Deliveries())-asaas+15*15 && sent > 2000 {
		t.Errorf("%d requests: an interrupted queue goes on sending", sent)
	}
}

func TestAGatewayWaitsForAnAnswerAsLongAsItsContractSays(t *testing.T) {
	t.Parallel()
	sim, err := gatewaysim.New(gatewaysim.Config{Seed: 5, Payments: 1, Gateways: []string{"stripe"}})
	if err != nil {
		t.Fatal(err)
	}
	in := &ingest{before: func(_ http.ResponseWriter, n int) bool {
		if n == 1 {
			time.Sleep(400 * time.Millisecond)
		}
		return false
	}}
	// Stripe's contract does not say; the run's own time-out stands in.
	report := run(t, sim, in, gatewaysim.RunConfig{Contracts: true, Timeout: 150 * time.Millisecond})
	if report.Answers["timeout"] != 1 || report.GivenUp != 0 {
		t.Errorf("%v, %d given up", report.Answers, report.GivenUp)
	}
}
