package chaostest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"
)

// processFaults end, stop and slow down processes.
func (w *world) processFaults() []fault {
	var all []fault
	for _, role := range []string{"ingest", "processor", "broker"} {
		var kill, term, pause, freeze []target
		for _, n := range append(append([]*node{}, w.nodes...), w.brokers...) {
			if n.role != role {
				continue
			}
			takes := []string{n.name}
			if role == "broker" {
				takes = append(takes, "brokers") // one at a time, so that a cluster keeps its majority
			}
			kill = append(kill, target{takes, n.endedBy(syscall.SIGKILL)})
			term = append(term, target{takes, n.endedBy(syscall.SIGTERM)})
			pause = append(pause, target{takes, n.stoppedFor(200*time.Millisecond, 2*time.Second)})
			freeze = append(freeze, target{takes, n.stoppedFor(w.as.beyond, w.as.beyond+3*time.Second)})
		}
		all = append(all, fault{role + " killed", kill}, fault{role + " terminated", term},
			fault{role + " stopped for a moment", pause}, fault{role + " stopped beyond every time-out", freeze})
	}
	return append(all,
		fault{"sweeper killed in its pass", []target{{[]string{"sweeper"}, w.sweeperGets(syscall.SIGKILL)}}},
		fault{"sweeper terminated in its pass", []target{{[]string{"sweeper"}, w.sweeperGets(syscall.SIGTERM)}}},
	)
}

// endedBy ends the process with a signal and has it back after a while.
func (n *node) endedBy(sig syscall.Signal) func(context.Context, *rand.Rand) (string, error) {
	return func(ctx context.Context, r *rand.Rand) (string, error) {
		p := n.process()
		if p.Ended() {
			return "", errors.New("it is down already")
		}
		release := n.hold()
		defer release()
		p.Signal(sig)
		select {
		case <-p.Done():
		case <-time.After(20 * time.Second):
			p.Kill() // no excuse: the judge counts what was lost by it
		}
		return fmt.Sprintf("down for %s", last(ctx, r, 0, 1500*time.Millisecond)), nil
	}
}

// stoppedFor stops the process as a hypervisor would, and lets it go on.
func (n *node) stoppedFor(least, most time.Duration) func(context.Context, *rand.Rand) (string, error) {
	return func(ctx context.Context, r *rand.Rand) (string, error) {
		p := n.process()
		if p.Ended() {
			return "", errors.New("it is down already")
		}
		p.Signal(syscall.SIGSTOP)
		defer p.Signal(syscall.SIGCONT)
		return fmt.Sprintf("stopped for %s", last(ctx, r, least, most)), nil
	}
}

// sweeperGets sends a signal to a pass that is under way.
func (w *world) sweeperGets(sig syscall.Signal) func(context.Context, *rand.Rand) (string, error) {
	return func(ctx context.Context, r *rand.Rand) (string, error) {
		for range 500 {
			// Anywhere in the pass, which takes some hundredths of a second.
			last(ctx, r, time.Millisecond, 30*time.Millisecond)
			if w.sweeps.signal(sig) {
				return "a pass under way", nil
			}
			if ctx.Err() != nil {
				break
			}
		}
		return "", errors.New("no pass was under way")
	}
}
