package queue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/queue"
	"github.com/umavez/umavez/pkg/queue/queuetest"
)

func TestStreamsOfOthersAreFoundAndOwnOnesRemoved(t *testing.T) {
	t.Parallel()
	conn := queuetest.NewServer(t).Connect(t)
	if who, err := conn.Occupied(t.Context()); err != nil || who != "" {
		t.Fatalf("an empty account is occupied by %q, %v", who, err)
	}
	if err := conn.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	who, err := conn.Occupied(t.Context())
	if err != nil || !strings.Contains(who, "stream WEBHOOKS (messages 0, consumers 1)") || !strings.Contains(who, "stream PAYMENTS") {
		t.Errorf("it is occupied by %q, %v", who, err)
	}
	for range 2 { // twice is harmless
		if err := conn.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if who, err := conn.Occupied(t.Context()); err != nil || who != "" {
		t.Errorf("after removing it is occupied by %q, %v", who, err)
	}
}

func TestABrokerThatIsAwayIsNamedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	conn, err := queue.Connect(t.Context(), queue.Config{URL: "nats://me:canary@127.0.0.1:1"}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	err = conn.Ensure(ctx)
	if !errors.Is(err, queue.ErrUnavailable) || !strings.Contains(err.Error(), "cannot reach NATS at 127.0.0.1:1") || strings.Contains(err.Error(), "canary") {
		t.Errorf("%v", err)
	}
}
