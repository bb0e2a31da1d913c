package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/payment"
)

// Check is one query that finds rows which break an invariant.
type Check struct {
	Invariant int    // its number in the list of guarantees
	Name      string // what holds
	sql       string // gives (subject text, detail text); $1..$4 are verifyArgs
}

// Violation is one row that breaks an invariant.
type Violation struct {
	Invariant int    `json:"invariant"`
	Check     string `json:"check"`
	Subject   string `json:"subject"`
	Detail    string `json:"detail"`
}

// CheckResult is what one check found.
type CheckResult struct {
	Invariant int           `json:"invariant"`
	Name      string        `json:"name"`
	Count     int64         `json:"violations"`
	Rows      []Violation   `json:"rows,omitempty"` // the first ones
	Took      time.Duration `json:"took_ns"`
}

// VerifyOptions bounds what verify accepts.
type VerifyOptions struct {
	PendingLimit time.Duration // a pending event, or an unsent domain event, older than this is a violation
	BodiesSince  time.Duration // events younger than this must still have their body
	Rows         int           // how many offending rows to return for a check
}

// Checks lists all checks in order.
func Checks() []Check { return checks }

// Verify runs every check in one repeatable-read, read-only snapshot, so that
// it can run beside a system at work and sees one moment of it.
func (db *DB) Verify(ctx context.Context, o VerifyOptions, progress func(CheckResult)) ([]CheckResult, error) {
	var from, to []string
	for _, m := range payment.Moves {
		from, to = append(from, string(m.From)), append(to, string(m.To))
	}
	var results []CheckResult
	tx, err := db.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, classify(err)
	}
	defer rollback(ctx, tx)
	if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil {
		return nil, classify(err)
	}
	for _, c := range checks {
		started := time.Now()
		r := CheckResult{Invariant: c.Invariant, Name: c.Name}
		// Every parameter is named in the outer query, so that a check may use
		// any of them or none.
		sql := `
WITH given AS (SELECT $1::text[] AS moves_from, $2::text[] AS moves_to, $3::interval AS pending_limit, $4::interval AS bodies_since),
moves AS (SELECT NULLIF(f, '') AS from_status, t AS to_status FROM given, unnest(given.moves_from, given.moves_to) AS m (f, t)),
found AS (` + c.sql + `)
SELECT subject, detail, count(*) OVER () FROM found LIMIT $5`
		rows, err := tx.Query(ctx, sql, from, to, o.PendingLimit, o.BodiesSince, max(o.Rows, 1))
		if err != nil {
			return results, fmt.Errorf("check %q: %w", c.Name, classify(err))
		}
		for rows.Next() {
			v := Violation{Invariant: c.Invariant, Check: c.Name}
			if err := rows.Scan(&v.Subject, &v.Detail, &r.Count); err != nil {
				rows.Close()
				return results, fmt.Errorf("check %q: %w", c.Name, classify(err))
			}
			r.Rows = append(r.Rows, v)
		}
		if err := rows.Err(); err != nil {
			return results, fmt.Errorf("check %q: %w", c.Name, classify(err))
		}
		r.Took = time.Since(started)
		results = append(results, r)
		if progress != nil {
			progress(r)
		}
	}
	return results, nil
}
