package processor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
	"github.com/umavez/umavez/pkg/provider"
)

// A thousand batches end badly at every step there is: by an error, a panic, a
// deadline that passes, a cancellation. Four connections are enough for all.
func TestCase_F5_AThousandBatchesThatEndBadlyGiveEveryConnectionBack(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: postgrestest.URL(t), MaxConns: 4,
		LockTimeout: time.Second, StatementTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	w := newWorldOn(t, db, provider.LookupNever)
	w.cfg.TxTimeout, w.cfg.MaxAttempts = time.Second, 1_000_000
	const payments = 600
	var arrivals []event.Arrival
	for i := range payments {
		ref := fmt.Sprint("pay_", i)
		for n, c := range []payment.Claim{paid(ref), refunded(ref, "re_"+ref, 100)} {
			arrivals = append(arrivals, told{says: c, n: n}.arrival())
		}
	}
	stored, err := db.InsertEvents(t.Context(), arrivals)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int64, len(stored))
	for i, s := range stored {
		ids[i] = s.ID
	}
	var mu sync.Mutex
	ended := map[string]map[string]int{} // step -> how -> times
	note := func(step, how string) {
		mu.Lock()
		defer mu.Unlock()
		if ended[step] == nil {
			ended[step] = map[string]int{}
		}
		ended[step][how]++
	}
	db.Hook = func(step string) error {
		switch rand.N(12) {
		case 0:
			note(step, "panic")
			panic("a defect at " + step)
		case 1:
			note(step, "error")
			return errCut
		case 2:
			note(step, "slow")
			time.Sleep(15 * time.Millisecond)
		}
		return nil
	}
	var all sync.WaitGroup
	var panics, rounds int
	for range 8 {
		all.Go(func() {
			for range 125 {
				func() {
					defer func() {
						mu.Lock()
						defer mu.Unlock()
						rounds++
						if recover() != nil {
							panics++
						}
					}()
					within := 2 * time.Second
					if rand.N(5) == 0 { // somewhere in the middle
						within = rand.N(60 * time.Millisecond)
					}
					ctx, cancel := context.WithTimeout(t.Context(), within)
					defer cancel()
					first := rand.N(len(ids) - 4)
					w.Process(ctx, ids[first:first+4])
				}()
			}
		})
	}
	all.Wait()
	for deadline := time.Now().Add(5 * time.Second); db.Pool.Stat().AcquiredConns() > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d connections are still in use", db.Pool.Stat().AcquiredConns(), db.Pool.Stat().MaxConns())
		}
	}
	db.Hook = nil
	t.Logf("%d batches, %d panics, steps that were hit: %v", rounds, panics, ended)
	if rounds != 1000 || panics < 100 || len(ended) < 12 {
		t.Errorf("%d batches, %d panics, %d steps", rounds, panics, len(ended))
	}
	w.cfg.TxTimeout = 5 * time.Second
	for some := range slices.Chunk(ids, 200) {
		w.process(some...)
	}
	if got, want := w.balance("loja"), int64(payments*(1000-30-100)); got != want {
		t.Errorf("balance %d, want %d", got, want)
	}
	w.verify()
}
