package campaign

import (
	"context"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

// send runs the storm. An event is tried until it is taken.
func (p *phase) send(ctx context.Context) {
	defer close(p.over)
	p.storm, p.failed = p.sim.Run(ctx, gatewaysim.RunConfig{
		BaseURL:     func(string, string) string { return p.ingestURL },
		Concurrency: 16, Rate: p.c.Rate, Timeout: 6 * time.Second, RetryFor: 10 * time.Minute,
		OnSend: p.heard.sends, OnAnswer: p.heard.hears,
	})
}

// running says whether the storm goes on.
func (p *phase) running() bool {
	select {
	case <-p.over:
		return false
	default:
		return true
	}
}

// load waits until some webhooks were answered with success since the last
// cut, and a moment of chance more. It is false when the storm has ended.
func (p *phase) load(ctx context.Context, since int, most time.Duration) bool {
	until := time.Now().Add(3 * time.Second)
	for p.running() && p.heard.ok() < since+10 && time.Now().Before(until) {
		if !pause(ctx, 5*time.Millisecond) {
			return false
		}
	}
	return pause(ctx, time.Duration(p.c.rng.Int64N(int64(most)))) && p.running()
}

// pause waits, and says whether there is still time.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
