package processor

import (
	"fmt"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
	"github.com/umavez/umavez/pkg/provider"
)

// many is how many rows a batch of these tests shares with another one: so
// many that an order which is not the common one shows in every round.
const many = 30

// inLine lets a batch wait for a row that another transaction holds, and has
// that transaction go on to the rows behind it, in their order. Had the batch
// taken any of those already, the two would wait for each other: a deadlock.
func inLine(t *testing.T, prepare func(w *world) (ids []int64), hold func(n int) string) {
	t.Helper()
	db, waits := postgrestest.Beside(t)
	w := newWorldOn(t, db, provider.LookupNever)
	ids := prepare(w)
	tx, err := postgrestest.New(t).Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // ended below
	// Of two that wait for each other PostgreSQL ends one after a second, and a
	// batch that is ended runs again, unseen: this transaction gives up before.
	if _, err := tx.Exec(t.Context(), `SET LOCAL lock_timeout = '200ms'`); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), hold(0)); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.process(ids...)
	}()
	for deadline := time.Now().Add(5 * time.Second); !waits(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the batch does not wait for the row that another transaction holds")
		}
	}
	for n := 1; n < many; n++ {
		if _, err := tx.Exec(t.Context(), hold(n)); err != nil {
			t.Fatalf("the batch holds a row behind the one that it waits for: %v", err)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	for _, id := range ids {
		w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
	}
	w.verify()
}

// numbered are the names of n rows in the order of their locks.
func numbered(prefix string, n int) string { return fmt.Sprintf("%s_%02d", prefix, n) }

func payingAll(owner func(n int) string) func(w *world) []int64 {
	return func(w *world) (ids []int64) {
		for n := range many {
			c := paid(numbered("pay", n))
			c.Beneficiary = owner(n)
			ids = append(ids, w.receive(c))
		}
		return ids
	}
}

func TestBatchesOfTheSamePaymentsWaitAndDoNotDeadlock(t *testing.T) {
	t.Parallel()
	oneOwner := func(int) string { return "loja" }
	t.Run("while they create them", func(t *testing.T) {
		t.Parallel()
		inLine(t, payingAll(oneOwner), func(n int) string {
			return `INSERT INTO payments (provider, account, gateway_id) VALUES ('gw', 'default', '` + numbered("pay", n) + `')`
		})
	})
	t.Run("while they lock them", func(t *testing.T) {
		t.Parallel()
		inLine(t, func(w *world) []int64 {
			for n := range many {
				w.process(w.receive(pending(numbered("pay", n))))
			}
			return payingAll(oneOwner)(w)
		}, func(n int) string {
			return `SELECT FROM payments WHERE gateway_id = '` + numbered("pay", n) + `' FOR NO KEY UPDATE`
		})
	})
}

func TestBatchesOfTheSameOwnersWaitAndDoNotDeadlock(t *testing.T) {
	t.Parallel()
	owner := func(n int) string { return numbered("loja", n) }
	t.Run("while they make their accounts", func(t *testing.T) {
		t.Parallel()
		inLine(t, payingAll(owner), func(n int) string {
			return `INSERT INTO ledger_accounts (name, kind) VALUES ('beneficiary:` + owner(n) + `', 'beneficiary')`
		})
	})
	t.Run("while they keep their balances", func(t *testing.T) {
		t.Parallel()
		inLine(t, func(w *world) []int64 {
			for n := range many {
				c := paid(numbered("first", n))
				c.Beneficiary = owner(n)
				w.process(w.receive(c))
			}
			return payingAll(owner)(w)
		}, func(n int) string {
			return `UPDATE ledger_balances SET balance = balance WHERE account = 'beneficiary:` + owner(n) + `'`
		})
	})
}
