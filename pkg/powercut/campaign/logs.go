package campaign

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
)

// sweptByLoop is how many lost events the sweeper's loop put back, by its log.
func (p *phase) sweptByLoop() int { return p.logged("sweeper", "sweep.finished") }

// toldAgain is how many domain events the processors relayed again for a broker
// that had been started, by their logs.
func (p *phase) toldAgain() int {
	return p.logged("processor-1", "outbox.broker_met") + p.logged("processor-2", "outbox.broker_met")
}

// consumersRemoved is how many consumers the broker removed at its starts.
func (p *phase) consumersRemoved() int {
	text, _ := os.ReadFile(filepath.Join(p.logs, "broker.log"))
	return bytes.Count(text, []byte("left too little of the consumer"))
}

// logged sums what the lines of one kind count in a role's log.
func (p *phase) logged(role, event string) (sum int) {
	text, _ := os.ReadFile(filepath.Join(p.logs, role+".log"))
	for line := range bytes.Lines(text) {
		var one struct {
			Event string `json:"event"`
			Lost  int    `json:"lost"`
			Again int    `json:"relayed_again"`
		}
		if json.Unmarshal(line, &one) == nil && one.Event == event {
			sum += one.Lost + one.Again
		}
	}
	return sum
}
