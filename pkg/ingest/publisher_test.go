package ingest_test

import (
	"testing"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/ingest"
)

// stuckBell is a publisher that breaks its promise not to block.
type stuckBell struct{ released chan struct{} }

func (b stuckBell) Offer(event.Notice) bool {
	<-b.released
	return true
}

func TestTheAnswerDoesNotWaitForThePublisher(t *testing.T) {
	t.Parallel()
	b := stuckBell{make(chan struct{})}
	w := newWorld(t, func(_ *ingest.Config, p *ingest.Parts) { p.Publisher = b })
	t.Cleanup(func() { close(b.released) })
	w.send(`{"id":"1","payment":"pay_1"}`)
	if n := w.rows(); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}
