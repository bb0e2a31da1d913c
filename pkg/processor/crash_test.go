package processor

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
	"github.com/umavez/umavez/pkg/provider"
)

// steps runs one batch that touches every table and notes the steps that the
// transaction passes.
func steps(t *testing.T) (names []string) {
	w := newWorld(t, provider.LookupNever)
	ids := crashBatch(w)
	w.hook(t, func(step string) error {
		names = append(names, step)
		return nil
	})
	w.Process(t.Context(), ids)
	return slices.Compact(names)
}

// crashBatch is one batch with a new payment, money, a refund, and an event
// that has to be parked.
func crashBatch(w *world) []int64 {
	return []int64{w.receive(paid("pay_1")), w.receive(refunded("pay_1", "re_1", 400)), w.receive(refundOnly("pay_2", "re_2", 100))}
}

func (w *world) hook(t *testing.T, h postgres.Hook) {
	w.db.Hook = h
	t.Cleanup(func() { w.db.Hook = nil })
}

func wantAfterCrash(t *testing.T, w *world, ids []int64) {
	t.Helper()
	w.wantEvent(ids[0], event.StatusProcessed, event.OutcomeApplied)
	w.wantEvent(ids[1], event.StatusProcessed, event.OutcomeApplied)
	w.wantEvent(ids[2], event.StatusParked, "")
	w.wantStatus("pay_1", payment.StatusPartiallyRefunded)
	if got, want := w.ledger("pay_1"), []string{"capture 1000", "fee 30", "refund 400"}; !slices.Equal(got, want) {
		t.Errorf("ledger %v, want %v", got, want)
	}
	if got := w.balance("loja"); got != 570 {
		t.Errorf("balance %d, want 570", got)
	}
	w.verify()
}

func TestCase_B19_WorkCutAfterAnyStatementIsDoneOnceOnTheNextDelivery(t *testing.T) {
	t.Parallel()
	all := steps(t)
	if len(all) < 12 {
		t.Fatalf("only %d steps were seen: %v", len(all), all)
	}
	for _, step := range all {
		t.Run("an error after "+step, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, provider.LookupNever)
			ids := crashBatch(w)
			cut := 0
			w.hook(t, func(s string) error {
				if s == step && cut == 0 {
					cut++
					return errCut
				}
				return nil
			})
			w.Process(t.Context(), ids)
			if cut != 1 {
				t.Fatalf("the work was cut %d times", cut)
			}
			w.Process(t.Context(), ids)
			wantAfterCrash(t, w, ids)
		})
		t.Run("the connection killed after "+step, func(t *testing.T) {
			t.Parallel()
			postgrestest.New(t) // the schema exists and is empty
			name := fmt.Sprintf("cut-%s-%d", postgrestest.Schema(t), len(step))
			db, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: postgrestest.URL(t) + "&application_name=" + name, MaxConns: 3})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(db.Close)
			w := newWorldOn(t, db, provider.LookupNever)
			ids := crashBatch(w)
			killed := 0
			db.Hook = func(s string) error {
				if s == step && killed == 0 {
					killed = kill(t, name)
				}
				return nil
			}
			w.Process(t.Context(), ids)
			if outside := strings.HasPrefix(step, "load_") || step == "settle_committed"; killed == 0 && !outside {
				t.Fatal("no connection was killed")
			}
			w.Process(t.Context(), ids)
			w.Process(t.Context(), ids)
			wantAfterCrash(t, w, ids)
		})
	}
}

// kill terminates the backends of an application that are in a transaction.
func kill(t *testing.T, name string) (n int) {
	conn, err := pgx.Connect(t.Context(), postgrestest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), `
SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE application_name = $1 AND state LIKE 'idle in transaction%'`, name).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestCase_B5_WorkersOnOnePaymentWaitAndFindItDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	const copies = 30
	var ids []int64
	for i := range copies {
		ids = append(ids, w.receive(paid("pay_1")), w.receive(refundOnly("pay_1", fmt.Sprintf("re_%d", i%5), 100)))
	}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			// Every worker gets every event, in another order and other batches.
			mine := slices.Clone(ids)
			for i := range mine {
				j := (i*7 + worker*13) % len(mine)
				mine[i], mine[j] = mine[j], mine[i]
			}
			for chunk := range slices.Chunk(mine, 7+worker) {
				w.Process(t.Context(), chunk)
			}
		})
	}
	wg.Wait()
	w.process(ids...)
	w.due()
	got := w.ledger("pay_1")
	slices.Sort(got)
	want := []string{"capture 1000", "fee 30", "refund 100", "refund 100", "refund 100", "refund 100", "refund 100"}
	if !slices.Equal(got, want) {
		t.Errorf("ledger %v, want %v", got, want)
	}
	w.verify()
}

func TestCase_F1_BatchesThatShareRowsInOppositeOrderLoseNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	var wg sync.WaitGroup
	for round := range 200 {
		a, b := fmt.Sprintf("pay_a%d", round), fmt.Sprintf("pay_b%d", round)
		forward := []int64{w.receive(paid(a)), w.receive(paid(b))}
		backward := []int64{w.receive(refunded(b, "re_"+b, 10)), w.receive(refunded(a, "re_"+a, 10))}
		for _, ids := range [][]int64{forward, backward} {
			wg.Go(func() {
				for id, r := range w.Process(t.Context(), ids) {
					if r != Done {
						t.Errorf("event %d: result %v", id, r)
					}
				}
			})
		}
		wg.Wait()
	}
	if got, want := w.balance("loja"), int64(200*2*(1000-30-10)); got != want {
		t.Errorf("balance %d, want %d", got, want)
	}
	w.verify()
}
