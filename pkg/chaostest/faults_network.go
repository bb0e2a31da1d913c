package chaostest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// networkFaults hit the connections between any two.
func (w *world) networkFaults() []fault {
	kinds := []struct {
		kind string
		hit  func(*link, context.Context, *rand.Rand) (string, error)
	}{
		{"connection cut and refused", func(k *link, ctx context.Context, r *rand.Rand) (string, error) {
			defer k.cut()()
			return fmt.Sprintf("for %s", last(ctx, r, 50*time.Millisecond, 3*time.Second)), nil
		}},
		{"connections reset", func(k *link, ctx context.Context, r *rand.Rand) (string, error) {
			return k.poisoned(ctx, r, "reset_peer", side(r), `"timeout":0`, 50*time.Millisecond, time.Second)
		}},
		{"black hole", func(k *link, ctx context.Context, r *rand.Rand) (string, error) {
			heal, err := k.poison("timeout", "upstream", `"timeout":0`)
			if err != nil {
				return "", err
			}
			defer heal()
			return fmt.Sprintf("for %s", last(ctx, r, time.Second, 7*time.Second)), nil
		}},
		{"half open: answers get lost", func(k *link, ctx context.Context, r *rand.Rand) (string, error) {
			return k.poisoned(ctx, r, "timeout", "downstream", `"timeout":0`, time.Second, 5*time.Second)
		}},
		{"slow drip", func(k *link, ctx context.Context, r *rand.Rand) (string, error) {
			return k.poisoned(ctx, r, "slicer", side(r), fmt.Sprintf(`"average_size":%d,"size_variation":3,"delay":%d`, 8+r.IntN(40), 2000+r.IntN(8000)), time.Second, 4*time.Second)
		}},
		{"narrow", func(k *link, ctx context.Context, r *rand.Rand) (string, error) {
			return k.poisoned(ctx, r, "bandwidth", side(r), `"rate":2`, time.Second, 4*time.Second)
		}},
		{"cut after some bytes", func(k *link, ctx context.Context, r *rand.Rand) (string, error) {
			return k.poisoned(ctx, r, "limit_data", side(r), fmt.Sprintf(`"bytes":%d`, 1+r.IntN(6000)), 200*time.Millisecond, 3*time.Second)
		}},
		{"late", func(k *link, ctx context.Context, r *rand.Rand) (string, error) {
			return k.poisoned(ctx, r, "latency", side(r), fmt.Sprintf(`"latency":%d,"jitter":200`, 100+r.IntN(900)), time.Second, 4*time.Second)
		}},
	}
	ends := []string{"postgres", "broker", "api", "gateways"}
	var all []fault
	for _, kind := range kinds {
		// Each kind once a deck for the servers, and once for the rest, which
		// hurts less.
		groups := [2][]target{}
		for _, k := range w.links.all {
			for i, end := range ends {
				if strings.Contains(k.name, "/"+end) && !(strings.HasPrefix(k.name, "ingest") && end == "api") {
					groups[i/2] = append(groups[i/2], target{[]string{k.name}, func(ctx context.Context, r *rand.Rand) (string, error) { return kind.hit(k, ctx, r) }})
				}
			}
		}
		all = append(all, fault{"network to the servers: " + kind.kind, groups[0]}, fault{"network to the gateways: " + kind.kind, groups[1]})
	}
	return all
}

// side is a direction of a connection.
func side(r *rand.Rand) string { return []string{"upstream", "downstream"}[r.IntN(2)] }

// poisoned puts a toxic on a link for a while.
func (k *link) poisoned(ctx context.Context, r *rand.Rand, kind, stream, attributes string, least, most time.Duration) (string, error) {
	heal, err := k.poison(kind, stream, attributes)
	if err != nil {
		return "", err
	}
	defer heal()
	return fmt.Sprintf("%s {%s} for %s", stream, attributes, last(ctx, r, least, most)), nil
}
