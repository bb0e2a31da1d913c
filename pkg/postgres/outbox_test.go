package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
)

// outbox fills the outbox with n domain events of three payments.
func outbox(t *testing.T, db *postgres.DB, n int) {
	t.Helper()
	if _, err := db.Pool.Exec(t.Context(), `
INSERT INTO outbox (payment_id, seq, subject, payload)
SELECT i % 3, i / 3 + 1, 'payments.paid.gw.pay_' || i % 3, '{}' FROM generate_series(0, $1 - 1) i`, n); err != nil {
		t.Fatal(err)
	}
}

func unsent(t *testing.T, db *postgres.DB) (n int) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox WHERE relayed_at IS NULL`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// broker takes what it is sent, up to a number.
type broker struct {
	mu   sync.Mutex
	took []int64
	most int // -1: no limit
}

func (b *broker) send(_ context.Context, out []postgres.Outgoing) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, o := range out {
		if b.most >= 0 && len(b.took) >= b.most {
			return i, errors.New("the broker takes no more")
		}
		b.took = append(b.took, o.ID)
	}
	return len(out), nil
}

func TestTheOutboxIsRelayedInOrderAndOnlyItsAcknowledgedPrefixIsMarked(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	outbox(t, db, 10)
	b := &broker{most: 4}
	n, leading, err := db.RelayOutbox(t.Context(), 100, b.send)
	if n != 4 || !leading || err == nil {
		t.Errorf("relayed %d, leading %t, %v", n, leading, err)
	}
	if got := unsent(t, db); got != 6 {
		t.Errorf("%d unsent, want 6", got)
	}
	b.most = -1
	for range 3 {
		if _, _, err := db.RelayOutbox(t.Context(), 4, b.send); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.IsSorted(b.took) || len(b.took) != 10 || unsent(t, db) != 0 {
		t.Errorf("the broker took %v", b.took)
	}
}

func TestARelayThatIsCutAnywhereSendsAtLeastOnceAndInOrder(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"outbox_read", "outbox_sent", "outbox_marked"} {
		t.Run("after "+step, func(t *testing.T) {
			t.Parallel()
			db := postgrestest.New(t)
			outbox(t, db, 6)
			cut := false
			db.Hook = func(s string) error {
				if s == step && !cut {
					cut = true
					return errors.New("cut here by the test")
				}
				return nil
			}
			t.Cleanup(func() { db.Hook = nil })
			b := &broker{most: -1}
			if _, _, err := db.RelayOutbox(t.Context(), 100, b.send); err == nil {
				t.Fatal("the cut was not reported")
			}
			if _, _, err := db.RelayOutbox(t.Context(), 100, b.send); err != nil {
				t.Fatal(err)
			}
			// Whatever was sent twice, each payment's events keep their order
			// once repeats of what came before are left out.
			var once []int64
			for _, id := range b.took {
				if !slices.Contains(once, id) {
					once = append(once, id)
				}
			}
			if len(once) != 6 || !slices.IsSorted(once) || unsent(t, db) != 0 {
				t.Errorf("the broker took %v", b.took)
			}
		})
	}
}

func TestOnlyOneRelayWorksAtATime(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	outbox(t, db, 3)
	_, leading, err := db.RelayOutbox(t.Context(), 100, func(ctx context.Context, out []postgres.Outgoing) (int, error) {
		n, second, err := db.RelayOutbox(ctx, 100, func(context.Context, []postgres.Outgoing) (int, error) {
			return 0, fmt.Errorf("a second relay was let in")
		})
		if n != 0 || second || err != nil {
			t.Errorf("the second relay: relayed %d, leading %t, %v", n, second, err)
		}
		return len(out), nil
	})
	if err != nil || !leading {
		t.Errorf("the first relay: leading %t, %v", leading, err)
	}
	if unsent(t, db) != 0 {
		t.Error("not everything was relayed")
	}
}

// meet is a relay's meeting with the process of a broker.
func meet(t *testing.T, db *postgres.DB, id string, within time.Duration) (int, bool) {
	t.Helper()
	n, met, err := db.MeetBroker(t.Context(), id, within)
	if err != nil {
		t.Fatal(err)
	}
	return n, met
}

func TestWhatABrokerMayHaveLostIsUnsentOnceForEachOfItsStarts(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	outbox(t, db, 10)
	b := &broker{most: -1}
	if _, met := meet(t, db, "first start", 5*time.Minute); !met {
		t.Error("a broker that nobody has met is known")
	}
	if _, _, err := db.RelayOutbox(t.Context(), 100, b.send); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Pool.Exec(t.Context(), `UPDATE outbox SET relayed_at = now() - interval '1 hour' WHERE id IN (SELECT id FROM outbox ORDER BY id LIMIT 4)`); err != nil {
		t.Fatal(err)
	}
	if n, met := meet(t, db, "first start", 5*time.Minute); n != 0 || met || unsent(t, db) != 0 {
		t.Errorf("the same process: %d unsent, met %t", n, met)
	}
	if n, met := meet(t, db, "second start", 5*time.Minute); n != 6 || !met || unsent(t, db) != 6 {
		t.Errorf("a new process: %d unsent, met %t; want the newest 6", n, met)
	}
	if n, met := meet(t, db, "second start", 5*time.Minute); n != 0 || met {
		t.Errorf("another relay that meets it too: %d unsent, met %t", n, met)
	}
	b.took = nil
	if _, _, err := db.RelayOutbox(t.Context(), 100, b.send); err != nil || !slices.IsSorted(b.took) || len(b.took) != 6 {
		t.Errorf("relayed again: %v, %v", b.took, err)
	}
	n, err := db.RelayAgain(t.Context(), 2*time.Hour)
	if err != nil || n != 10 || unsent(t, db) != 10 {
		t.Errorf("relayed again by hand: %d, %v", n, err)
	}
}

// A relay in the midst of a batch marks it in the end: whoever meets the new
// broker meanwhile waits for that, or the batch would stay marked and lost.
func TestMeetingABrokerWaitsForTheBatchThatIsUnderWay(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	outbox(t, db, 3)
	met := make(chan int, 1)
	n, _, err := db.RelayOutbox(t.Context(), 100, func(ctx context.Context, out []postgres.Outgoing) (int, error) {
		go func() {
			n, _, err := db.MeetBroker(ctx, "started meanwhile", time.Hour)
			if err != nil {
				t.Error(err)
			}
			met <- n
		}()
		select {
		case n := <-met:
			t.Errorf("it did not wait, and unsent %d", n)
		case <-time.After(300 * time.Millisecond):
		}
		return len(out), nil
	})
	if n != 3 || err != nil {
		t.Fatalf("relayed %d, %v", n, err)
	}
	if n := <-met; n != 3 || unsent(t, db) != 3 {
		t.Errorf("%d unsent, want the batch that the old broker took", n)
	}
}

// A broker whose machine is without power for hours, and everything else with
// it, has lost what was relayed just before. That is long ago when it is met.
func TestWhatABrokerLostIsUnsentHoweverLongItWasAway(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	outbox(t, db, 10)
	b := &broker{most: 8}
	meet(t, db, "before", 5*time.Minute)
	if n, _, _ := db.RelayOutbox(t.Context(), 100, b.send); n != 8 {
		t.Fatal(n)
	}
	for _, age := range []struct {
		ids  string
		when string
	}{{"<= 3", "4 hours"}, {"> 3", "3 hours"}} {
		if _, err := db.Pool.Exec(t.Context(), `
UPDATE outbox o SET relayed_at = now() - $1::interval FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM outbox) r
WHERE o.id = r.id AND o.relayed_at IS NOT NULL AND r.n `+age.ids, age.when); err != nil {
			t.Fatal(err)
		}
	}
	if n, met := meet(t, db, "after", 5*time.Minute); n != 5 || !met || unsent(t, db) != 7 {
		t.Errorf("%d unsent, met %t; want the 5 that were relayed last", n, met)
	}
}

// Two pieces and a bit, as after busy minutes; one statement for all of them
// would run out of its time, and the relay would stand still until they are
// forgotten.
func TestManyDomainEventsAreUnsentInPiecesAndACallThatFailsMidwayIsGoneOnWith(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	const all = 12_000
	outbox(t, db, all)
	if _, err := db.Pool.Exec(t.Context(), `UPDATE outbox SET relayed_at = now() - interval '2 hours'`); err != nil {
		t.Fatal(err)
	}
	pieces := 0
	db.Hook = func(step string) error {
		if step == "relay_again_committing" {
			if pieces++; pieces == 2 {
				return errors.New("the process dies")
			}
		}
		return nil
	}
	t.Cleanup(func() { db.Hook = nil })
	if n, met, err := db.MeetBroker(t.Context(), "new", 5*time.Minute); err == nil || met || n != 5000 {
		t.Errorf("%d unsent, met %t, %v; want one piece of 5000 and an error", n, met, err)
	}
	if n, met := meet(t, db, "new", 5*time.Minute); n != all-5000 || !met || unsent(t, db) != all {
		t.Errorf("%d unsent, met %t; want the rest", n, met)
	}
	if n, err := db.RelayAgain(t.Context(), 5*time.Minute); n != 0 || err != nil {
		t.Errorf("%d unsent twice, %v", n, err)
	}
}
