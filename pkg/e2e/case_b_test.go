package e2e

import (
	"fmt"
	"sync"
	"testing"
)

func TestCase_B1_FiftyCopiesAtOnceOverTwoIngestsAreCreditedOnce(t *testing.T) {
	w := inWorld(t)
	w.each(func(w *testWorld, g *gateway) {
		s := newSale(g).paid()
		w.api.says(g, "default", s)
		body := g.body(newHook("paid", "evt_"+s.id, s))
		var wg sync.WaitGroup
		go_ := make(chan struct{})
		replies := make([]reply, 50)
		for i := range replies {
			wg.Go(func() {
				<-go_
				replies[i] = w.send(g, body)
			})
		}
		close(go_)
		wg.Wait()
		for i, r := range replies {
			if r.err != nil || r.status != 200 {
				w.t.Errorf("copy %d: %d %q %v", i, r.status, r.body, r.err)
			}
		}
		w.wantCredited(g, s)
		events := w.about(g, s.id)
		if len(events) != 1 || events[0].Deliveries != 50 || events[0].Outcome != "applied" {
			w.t.Errorf("stored as %d events: %+v", len(events), fmt.Sprintf("%.300v", events))
		}
	})
}
