package chaostest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// apiFaults put the gateways' APIs in a mood.
func (w *world) apiFaults() []fault {
	var all []fault
	for kind, to := range map[string]mood{
		"slower than a lookup may be": moodSlow, "429": moodTooMany, "5xx": moodErrors, "a replica that lags": moodStale,
		"answers about another payment": moodOther, "answers cut short": moodTorn, "404 for what exists": moodUnknown,
	} {
		all = append(all, fault{"gateway API: " + kind, []target{{[]string{"api"}, func(ctx context.Context, r *rand.Rand) (string, error) {
			before := w.moods.counted()[to]
			heal := w.moods.set(to)
			defer heal()
			d := last(ctx, r, time.Second, 4*time.Second)
			n := w.moods.counted()[to] - before
			if n == 0 {
				return "", fmt.Errorf("nobody asked within %s", d)
			}
			return fmt.Sprintf("%d answers in %s", n, d), nil
		}}}})
	}
	return all
}
