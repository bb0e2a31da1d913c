package chaostest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/umavez/umavez/pkg/failpoint"
)

// pointFaults arm failpoints of the processes under test: the step is chosen
// by chance, the moment by the load.
func (w *world) pointFaults() []fault {
	var all []fault
	actions := map[string]string{
		"crash": "crash", "panic": "panic", "error": "error", "lost connection": "lost", "deadlock": "deadlock",
		"serialization failure": "serialization", "delay": "delay:900ms", "delay beyond every time-out": "delay:" + w.as.beyond.String(),
	}
	for _, role := range []string{"ingest", "processor"} {
		for name, action := range actions {
			var targets []target
			for _, n := range w.nodes {
				if n.role == role {
					targets = append(targets, target{[]string{n.name}, n.reached(action)})
				}
			}
			all = append(all, fault{role + " at a step: " + name, targets})
		}
	}
	// Where it is not known whether something was committed.
	for _, one := range []struct{ kind, role, spec string }{
		{"processor: committed, and the answer lost", "processor", "postgres.settle_committed=lost*1"},
		{"processor: not committed, and the answer lost", "processor", "postgres.settle_committing=lost*1"},
		{"processor: the answer of a commit comes too late", "processor", "postgres.settle_committed=delay:" + beyondAll.String() + "*1"},
		{"ingest: stored, and the answer lost", "ingest", "postgres.insert_answered=lost*1"},
		{"relay: marked, and the answer lost", "processor", "postgres.outbox_committed=lost*1"},
	} {
		var targets []target
		for _, n := range w.nodes {
			if n.role == one.role {
				targets = append(targets, target{[]string{n.name}, func(ctx context.Context, _ *rand.Rand) (string, error) {
					heal, err := n.arm(ctx, one.spec)
					if err != nil {
						return "", err
					}
					defer heal()
					return one.spec, n.awaitFired(ctx, 5*time.Second)
				}})
			}
		}
		all = append(all, fault{one.kind, targets})
	}
	return append(all,
		fault{"events fail until they are dead", []target{{[]string{"poison"}, w.poison}}},
		fault{"gateways resend dead events", []target{{[]string{"resend"}, func(ctx context.Context, _ *rand.Rand) (string, error) {
			n, err := w.resendDead(ctx)
			if n == 0 && err == nil {
				err = errors.New("no event is dead")
			}
			return fmt.Sprintf("%d events", n), err
		}}}},
	)
}

// pointsOf are the steps that a role passes and at which an action makes sense.
func pointsOf(role, action string) (names []string) {
	action, _, _ = strings.Cut(action, ":")
	for _, p := range failpoint.Points() {
		name := p.Name
		at := map[string][]string{
			"ingest":    {"ingest.", "queue.publish", "postgres.insert", "postgres.redeliveries", "postgres.rev", "postgres.bodies", "postgres.events_told", "postgres.events_revived", "postgres.rejections"},
			"processor": {"processor.", "relay.", "queue.", "postgres."},
		}[role]
		for _, prefix := range at {
			if strings.HasPrefix(name, prefix) && slices.Contains(p.Actions(), action) {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// reached arms several steps of a process for one time each, and waits until
// one of them is reached.
func (n *node) reached(action string) func(context.Context, *rand.Rand) (string, error) {
	return func(ctx context.Context, r *rand.Rand) (string, error) {
		names := pointsOf(n.role, action)
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		var spec []string
		for _, name := range names[:min(12, len(names))] {
			spec = append(spec, name+"="+action+"*1")
		}
		p := n.process()
		heal, err := n.arm(ctx, strings.Join(spec, ";"))
		if err != nil {
			return "", err
		}
		defer heal()
		if action == "crash" || action == "panic" {
			select {
			case <-p.Done():
				return p.LastWords(), nil
			case <-ctx.Done():
			case <-time.After(3 * time.Second):
			}
			if action == "crash" {
				return "", errors.New("no step was reached")
			}
		}
		if err := n.awaitFired(ctx, 3*time.Second); err != nil {
			return "", err
		}
		fired, err := n.fired(ctx)
		if err != nil {
			return "", err
		}
		last(ctx, r, 0, 500*time.Millisecond)
		return strings.Join(fired, ", "), nil
	}
}

// arm replaces what is armed in a process; the returned function disarms it.
func (n *node) arm(ctx context.Context, spec string) (heal func(), err error) {
	if err := n.put(ctx, "/failpoints", spec); err != nil {
		return nil, err
	}
	// A process that died meanwhile came back with nothing armed.
	return func() { _ = n.put(context.WithoutCancel(ctx), "/failpoints", "") }, nil
}

// fired are the steps at which something happened since they were armed.
func (n *node) fired(ctx context.Context) (names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.admin+"/failpoints", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	var state struct {
		Fired map[string]map[string]int64 `json:"fired"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&state); err != nil {
		return nil, err
	}
	for name := range state.Fired {
		names = append(names, name)
	}
	return names, nil
}

func (n *node) awaitFired(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		if names, err := n.fired(ctx); err == nil && len(names) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("no step was reached")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// poison makes processing fail for as long as it takes some events to die of
// it.
func (w *world) poison(ctx context.Context, _ *rand.Rand) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 26*time.Second)
	defer cancel()
	armed := 0
	for ctx.Err() == nil {
		for _, n := range w.nodes {
			if n.role != "processor" {
				continue
			}
			// Again and again: another fault may have armed something else.
			if heal, err := n.arm(ctx, "postgres.settle_locked=error@0.8"); err == nil {
				defer heal()
				armed++
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	if armed == 0 {
		return "", errors.New("no processor could be armed")
	}
	return "four of five settlements, for 26s", nil
}

// someNode is one of a role, by chance.
func (w *world) someNode(r *rand.Rand, role string) *node {
	var all []*node
	for _, n := range w.nodes {
		if n.role == role {
			all = append(all, n)
		}
	}
	return all[r.IntN(len(all))]
}
