package chaostest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// clockFaults set the clock of an ingest wrong by more than signatures may be
// old: what is signed with a time is refused then, and must come again.
func (w *world) clockFaults() []fault {
	var all []fault
	for kind, by := range map[string]time.Duration{"ahead": 6 * time.Minute, "behind": -6 * time.Minute} {
		var targets []target
		for _, n := range w.nodes {
			if n.role != "ingest" {
				continue
			}
			targets = append(targets, target{[]string{n.name}, func(ctx context.Context, r *rand.Rand) (string, error) {
				if err := n.shift(ctx, by); err != nil {
					return "", err
				}
				defer n.shift(context.WithoutCancel(ctx), 0) //nolint:errcheck // one that died has a right clock again
				return fmt.Sprintf("by %s for %s", by, last(ctx, r, time.Second, 3*time.Second)), nil
			}})
		}
		all = append(all, fault{"clock of an ingest " + kind, targets})
	}
	return all
}

func (n *node) shift(ctx context.Context, by time.Duration) error {
	return n.put(ctx, "/failpoints/clock", by.String())
}
