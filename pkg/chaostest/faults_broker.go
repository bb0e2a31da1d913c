package chaostest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/umavez/umavez/pkg/queue"
)

// brokerFaults take away what the broker had promised to keep. Nothing of it
// may cost more than time.
func (w *world) brokerFaults() []fault {
	one := []string{"brokers", "stream"}
	all := []fault{
		{"broker: stream of webhooks deleted", []target{{one, w.streamGoes(func(ctx context.Context) error { return w.js.DeleteStream(ctx, queue.StreamWebhooks) })}}},
		{"broker: messages purged", []target{{one, w.streamGoes(func(ctx context.Context) error {
			s, err := w.js.Stream(ctx, queue.StreamWebhooks)
			if err != nil {
				return err
			}
			return s.Purge(ctx)
		})}}},
		{"broker: consumer deleted", []target{{one, w.streamGoes(func(ctx context.Context) error {
			return w.js.DeleteConsumer(ctx, queue.StreamWebhooks, queue.ConsumerName)
		})}}},
	}
	if len(w.brokers) == 1 {
		b := w.brokers[0]
		all = append(all, fault{"broker: whole directory deleted", []target{{[]string{b.name, "brokers", "stream"}, func(ctx context.Context, r *rand.Rand) (string, error) {
			p := b.process()
			if p.Ended() {
				return "", errors.New("it is down already")
			}
			release := b.hold()
			defer release()
			p.Kill()
			w.reader.forget()
			if err := os.RemoveAll(b.storeDir()); err != nil {
				return "", err
			}
			return fmt.Sprintf("and down for %s", last(ctx, r, 0, time.Second)), nil
		}}}})
	} else {
		all = append(all, fault{"broker: the stream's leader killed", []target{{[]string{"brokers", "stream"}, func(ctx context.Context, r *rand.Rand) (string, error) {
			leader, err := w.leader(ctx)
			if err != nil {
				return "", err
			}
			return leader.endedBy(syscall.SIGKILL)(ctx, r)
		}}}})
	}
	if dir := w.disks["broker"]; dir != "" {
		names := []string{"brokers", "stream"}
		for _, b := range w.brokers {
			names = append(names, b.name)
		}
		all = append(all, fault{"broker: disk full", []target{{names, func(ctx context.Context, r *rand.Rand) (string, error) {
			free, err := fill(dir)
			if err != nil {
				return "", err
			}
			d := last(ctx, r, 2*time.Second, 6*time.Second)
			free()
			// A server that could not write stays so until it is restarted,
			// which is what an operator does when there is room again.
			for _, b := range w.brokers {
				if _, err := b.endedBy(syscall.SIGTERM)(ctx, r); err != nil {
					return "", err
				}
			}
			return fmt.Sprintf("for %s, and restarted", d), nil
		}}}})
	}
	return all
}

// streamGoes does something to the stream, through whatever works at the time.
func (w *world) streamGoes(do func(context.Context) error) func(context.Context, *rand.Rand) (string, error) {
	return func(ctx context.Context, r *rand.Rand) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		return "once", do(ctx)
	}
}

func (w *world) leader(ctx context.Context) (*node, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	s, err := w.js.Stream(ctx, queue.StreamWebhooks)
	if err != nil {
		return nil, err
	}
	if c := s.CachedInfo().Cluster; c != nil {
		for _, b := range w.brokers {
			if b.name == c.Leader {
				return b, nil
			}
		}
	}
	return nil, errors.New("the stream has no leader")
}

// storeDir is where a broker keeps its streams.
func (n *node) storeDir() string {
	for i, a := range n.spec.Args {
		if a == "--dir" {
			return n.spec.Args[i+1]
		}
	}
	return ""
}
