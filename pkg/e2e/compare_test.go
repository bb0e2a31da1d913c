package e2e

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/postgres"
)

func queryOne[T any](t testing.TB, db *postgres.DB, sql string, args ...any) (v T) {
	t.Helper()
	if err := db.Pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%v in %s", err, sql)
	}
	return v
}

func queryAll[T any](t testing.TB, db *postgres.DB, sql string, args ...any) []T {
	t.Helper()
	rows, err := db.Pool.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%v in %s", err, sql)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	if err != nil {
		t.Fatalf("%v in %s", err, sql)
	}
	return all
}

// compare compares the database with the simulator's truth to the cent, and
// checks every invariant and every promise that was made to a gateway.
func compare(t testing.TB, db *postgres.DB, sim *gatewaysim.Sim, storm gatewaysim.Report) {
	t.Helper()
	compareState(t, db, sim, storm)
	// A forger does not try again when an ingest dies under his request.
	if storm.GivenUp > 0 || storm.ForgedAccepted > 0 || storm.ForgedOdd > storm.Answers["no answer"] {
		t.Errorf("%d authentic webhooks were given up; of the forged ones %d were accepted and %d answered oddly",
			storm.GivenUp, storm.ForgedAccepted, storm.ForgedOdd)
	}
	if n := queryOne[int](t, db, `SELECT count(*) FROM event_results WHERE status = 'dead'`); n > 0 {
		t.Errorf("%d events are dead", n)
	}
}

// compareState is what must hold whatever became of single requests.
func compareState(t testing.TB, db *postgres.DB, sim *gatewaysim.Sim, storm gatewaysim.Report) {
	t.Helper()
	comparePayments(t, db, sim)
	compareBalances(t, db, sim)
	compareAccepted(t, db, storm)
	verify(t, db)
}

// held is what we hold of a payment, in the terms of the truth.
type held struct {
	Status, Currency, Beneficiary             string
	Captured, Refunded, ChargedBack, Fee, Net int64
}

func comparePayments(t testing.TB, db *postgres.DB, sim *gatewaysim.Sim) {
	t.Helper()
	type row struct {
		Gateway, Account, ID string
		held
	}
	ours := map[[3]string]held{}
	for _, r := range queryAll[row](t, db, `
SELECT provider, account, gateway_id, status, COALESCE(currency, ''), COALESCE(beneficiary, ''), COALESCE(captured, 0), refunded, charged_back, fee, net
FROM payments`) {
		ours[[3]string{r.Gateway, r.Account, r.ID}] = r.held
	}
	compared := 0
	for _, p := range sim.Truth() {
		key := [3]string{p.Gateway, p.Account, p.ID}
		got, known := ours[key]
		delete(ours, key)
		if known != p.Heard {
			t.Errorf("payment %v (%s): held %v, heard of %v", key, p.Kind, known, p.Heard)
			continue
		}
		want := held{string(p.Status), p.Currency, p.Beneficiary, p.Captured, p.Refunded, p.ChargedBack, p.Fee, p.Net}
		if p.Captured == 0 { // nobody's money: attributes may be unknown
			want.Currency, want.Beneficiary, want.Net, got.Currency, got.Beneficiary = "", "", got.Net, "", ""
		}
		if known && got != want {
			t.Errorf("payment %v (%s): held %+v, the truth is %+v", key, p.Kind, got, want)
		}
		compared++
	}
	for key := range ours {
		t.Errorf("payment %v is held and does not exist", key)
	}
	if compared == 0 {
		t.Error("no payment was compared")
	}
}

func compareBalances(t testing.TB, db *postgres.DB, sim *gatewaysim.Sim) {
	t.Helper()
	type row struct {
		Owner, Currency string
		Balance         int64
	}
	ours := map[gatewaysim.Owner]int64{}
	for _, r := range queryAll[row](t, db, `SELECT substr(account, 13), currency, balance FROM ledger_balances WHERE account LIKE 'beneficiary:%'`) {
		ours[gatewaysim.Owner{Beneficiary: r.Owner, Currency: r.Currency}] = r.Balance
	}
	truth := sim.Balances()
	for o, want := range truth {
		if ours[o] != want {
			t.Errorf("balance of %v: held %d, the truth is %d", o, ours[o], want)
		}
	}
	for o, n := range ours {
		if _, ok := truth[o]; !ok && n != 0 {
			t.Errorf("balance of %v: held %d, the truth knows no such owner", o, n)
		}
	}
}

// compareAccepted checks that what was answered with success is stored: of the
// deliveries of one event at least one, with its exact bytes.
func compareAccepted(t testing.TB, db *postgres.DB, storm gatewaysim.Report) {
	t.Helper()
	type row struct {
		Sum []byte
		New bool
	}
	stored, repeated := map[string]bool{}, map[string]bool{}
	for _, r := range queryAll[row](t, db, `
SELECT body_sha256, true FROM events UNION ALL SELECT unnest(differing), false FROM event_redeliveries`) {
		if sum := hex.EncodeToString(r.Sum); r.New {
			stored[sum] = true
		} else {
			repeated[sum] = true
		}
	}
	found := map[string]bool{}
	for _, a := range storm.Accepted {
		id, ok := a.Identity, stored[a.BodySHA256]
		if id == "" { // no true event: two without content may share one key
			id, ok = a.BodySHA256, ok || repeated[a.BodySHA256]
		}
		for _, sum := range a.EarlierSHA256 {
			ok = ok || stored[sum]
		}
		key := a.Gateway + " " + a.Account + " " + id
		found[key] = found[key] || ok
	}
	for key, ok := range found {
		if !ok {
			t.Errorf("answered with success and not stored: %.80s", key)
		}
	}
	if len(found) == 0 {
		t.Error("nothing was accepted")
	}
}

// verify fails the test when any invariant is broken.
func verify(t testing.TB, db *postgres.DB) {
	t.Helper()
	results, err := db.Verify(t.Context(), postgres.VerifyOptions{PendingLimit: time.Minute, BodiesSince: time.Hour, Rows: 5}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != len(postgres.Checks()) {
		t.Fatalf("%d checks ran, want %d", len(results), len(postgres.Checks()))
	}
	for _, r := range results {
		for _, v := range r.Rows {
			t.Errorf("invariant %d, %s: %s %s", v.Invariant, v.Check, v.Subject, v.Detail)
		}
	}
}
