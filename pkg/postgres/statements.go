package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/ledger"
	"github.com/umavez/umavez/pkg/money"
	"github.com/umavez/umavez/pkg/payment"
)

// statements is an ordered list of named statements of one transaction.
type statements []statement

type statement struct {
	step string
	sql  string
	args []any
	rows func(pgx.Rows) error // nil: no rows expected
}

func (s *statements) add(step, sql string, args ...any) { s.query(step, sql, nil, args...) }

func (s *statements) query(step, sql string, rows func(pgx.Rows) error, args ...any) {
	*s = append(*s, statement{step, sql, args, rows})
}

// run sends all statements in one round trip. When a test wants to cut between
// two, it sends the same statements one by one.
func (db *DB) run(ctx context.Context, tx pgx.Tx, list statements) error {
	if db.stepwise() {
		for _, s := range list {
			if err := sendAll(ctx, tx, statements{s}); err != nil {
				return err
			}
			if err := db.at(ctx, s.step, ""); err != nil {
				return err
			}
		}
		return nil
	}
	return sendAll(ctx, tx, list)
}

func sendAll(ctx context.Context, tx pgx.Tx, list statements) error {
	batch := &pgx.Batch{}
	for _, s := range list {
		q := batch.Queue(s.sql, s.args...)
		if s.rows != nil {
			q.Query(s.rows)
		}
	}
	return tx.SendBatch(ctx, batch).Close()
}

// column is one column of rows, as an array parameter.
func column[R, V any](rows []R, get func(R) V) []V {
	out := make([]V, len(rows))
	for i, r := range rows {
		out[i] = get(r)
	}
	return out
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func minorOrNull(m payment.Minor) *int64 {
	if !m.Known {
		return nil
	}
	return &m.Value
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

type balance struct {
	account, currency string
	amount            int64
}

// sumBalances adds up what a batch does to the accounts whose balance is
// kept, sorted so that concurrent batches lock them in one order.
// A sum beyond 64 bits is an error: the batch is split, and what is left over
// is refused by the database.
func sumBalances(entries []posted) ([]balance, error) {
	sums := map[[2]string]int64{}
	var failed error
	add := func(account ledger.Account, currency string, amount int64) {
		if account.Kind != ledger.KindBeneficiary {
			return
		}
		k := [2]string{account.Name, currency}
		sum, err := money.Add(sums[k], amount)
		if err != nil {
			failed = fmt.Errorf("balance of %s: %w", account.Name, err)
		}
		sums[k] = sum
	}
	for _, p := range entries {
		add(p.entry.Credit, p.entry.Currency, p.entry.Amount)
		add(p.entry.Debit, p.entry.Currency, -p.entry.Amount)
	}
	out := make([]balance, 0, len(sums))
	for k, amount := range sums {
		out = append(out, balance{k[0], k[1], amount})
	}
	slices.SortFunc(out, func(a, b balance) int {
		return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.currency, b.currency))
	})
	return out, failed
}
