package processor

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
	"github.com/umavez/umavez/pkg/provider"
)

// tampers break each check of verify on purpose. A check that nothing here can
// trip would be no check.
var tampers = map[string]string{
	"every stored body is the body that was received":                                   `UPDATE event_bodies SET body = body || 'x' WHERE event_id = (SELECT min(event_id) FROM event_bodies)`,
	"every event within the retention has its body":                                     `DELETE FROM event_bodies WHERE event_id = (SELECT min(event_id) FROM event_bodies)`,
	"every event is either unfinished or has a result of its last turn":                 `DELETE FROM event_work WHERE state = 'parked'`,
	"nothing is unfinished or settled that was never received":                          `INSERT INTO event_results (event_id, status, reason) VALUES (987654321, 'ignored', 'x')`,
	"one entry for each reference and kind":                                             `ALTER TABLE ledger_entries DROP CONSTRAINT ledger_entries_once; INSERT INTO ledger_entries (payment_id, transition_seq, amount, currency, kind, debit_account, credit_account, reference_type, reference_id) SELECT payment_id, transition_seq, amount, currency, kind, debit_account, credit_account, reference_type, reference_id FROM ledger_entries WHERE kind = 'refund'`,
	"at most one capture for each payment":                                              `DROP INDEX ledger_entries_one_capture; INSERT INTO ledger_entries (payment_id, transition_seq, amount, currency, kind, debit_account, credit_account, reference_type, reference_id) SELECT payment_id, transition_seq, amount, currency, kind, debit_account, credit_account, reference_type, reference_id || 'x' FROM ledger_entries WHERE kind = 'capture' LIMIT 1`,
	"transitions follow each other without gaps":                                        `DELETE FROM payment_transitions WHERE seq = 1 AND payment_id = (SELECT payment_id FROM payment_transitions WHERE seq = 2 LIMIT 1)`,
	"every transition is a legal move":                                                  `UPDATE payment_transitions SET to_status = 'expired' WHERE from_status = 'paid'`,
	"a payment stands where its last transition ended":                                  `UPDATE payments SET version = version + 1 WHERE status = 'paid'`,
	"a payment's amounts are the sums of its entries":                                   `UPDATE payments SET fee = fee + 1 WHERE status = 'paid'`,
	"every entry touches the accounts that its kind and its payment say":                `UPDATE ledger_entries SET debit_account = credit_account, credit_account = debit_account WHERE kind = 'capture' AND id = (SELECT min(id) FROM ledger_entries WHERE kind = 'capture')`,
	"no money of a payment with an owner is left unallocated":                           `INSERT INTO ledger_accounts VALUES ('unallocated:gw', 'unallocated'); UPDATE ledger_entries SET credit_account = 'unallocated:gw' WHERE kind = 'capture' AND id = (SELECT min(id) FROM ledger_entries WHERE kind = 'capture')`,
	"captured money goes to the owner that was registered":                              `UPDATE payments SET beneficiary = NULL WHERE status = 'paid'; INSERT INTO payment_registrations (provider, account, gateway_id, beneficiary) SELECT provider, account, gateway_id, 'loja' FROM payments WHERE status = 'paid'`,
	"the sum over all accounts is zero":                                                 `UPDATE ledger_entries SET credit_account = 'beneficiary:nobody' WHERE id = (SELECT min(id) FROM ledger_entries)`,
	"kept balances equal the sums of the entries":                                       `UPDATE ledger_balances SET balance = balance + 1`,
	"refunds and chargebacks do not exceed what was captured":                           `ALTER TABLE payments DROP CONSTRAINT payments_amounts; UPDATE payments SET refunded = captured + 1 WHERE status = 'partially_refunded'`,
	"an event is applied if and only if it caused a transition":                         `UPDATE event_results SET outcome = 'repeated' WHERE outcome = 'applied'`,
	"nothing stays pending beyond the limit":                                            `UPDATE event_work SET state = 'pending', since = now() - interval '2 hours' WHERE state = 'parked'`,
	"every parked, quarantined and dead event has a reason":                             `ALTER TABLE event_work DROP CONSTRAINT event_work_parked_has_reason; UPDATE event_work SET reason = NULL WHERE state = 'parked'`,
	"every transition has its domain event":                                             `DELETE FROM outbox WHERE id = (SELECT min(id) FROM outbox)`,
	"domain events are relayed within the limit":                                        `UPDATE outbox SET relayed_at = NULL, created_at = now() - interval '2 hours' WHERE id = (SELECT max(id) FROM outbox)`,
	"domain events of a payment are in the order of its transitions, and relayed in it": `UPDATE outbox SET relayed_at = NULL WHERE seq = 1`,
	"a payment's status is what its money says":                                         `UPDATE payments SET status = 'refunded' WHERE status = 'paid'`,
}

func TestVerifyFindsWhateverIsBrokenOnPurpose(t *testing.T) {
	t.Parallel()
	for _, check := range postgres.Checks() {
		t.Run(check.Name, func(t *testing.T) {
			t.Parallel()
			sql, ok := tampers[check.Name]
			if !ok {
				t.Fatal("nothing here breaks this check")
			}
			db := ownSchema(t)
			w := newWorldOn(t, db, provider.LookupNever)
			w.process(w.receive(paid("pay_1")), w.receive(pending("pay_2")), w.receive(refunded("pay_3", "re_1", 100)))
			w.process(w.receive(refundOnly("pay_4", "re_4", 100)), w.receive(disputed("pay_1x", payment.DisputeOpen, start)))
			w.exec(`UPDATE outbox SET relayed_at = now()`)
			w.verify()
			tx, err := db.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica; `+sql); err != nil {
				t.Fatalf("tamper: %v", err)
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			results, err := db.Verify(t.Context(), postgres.VerifyOptions{PendingLimit: time.Hour, BodiesSince: time.Hour, Rows: 3}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				if r.Name == check.Name && (r.Count == 0 || len(r.Rows) == 0 || r.Rows[0].Subject == "" || r.Rows[0].Detail == "") {
					t.Errorf("not found: %+v", r)
				}
			}
		})
	}
}

// ownSchema is a migrated schema that a test may deface; it is dropped.
func ownSchema(t *testing.T) *postgres.DB {
	t.Helper()
	name := fmt.Sprintf("defaced_%d", received.Add(1))
	admin, err := pgx.Connect(t.Context(), postgrestest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	schema := postgrestest.Schema(t) + "_" + name
	if _, err := admin.Exec(t.Context(), "CREATE SCHEMA "+schema); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(postgrestest.URL(t))
	if err != nil {
		t.Fatal("the test database has no URL")
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	db, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: u.String(), MaxConns: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		db.Close()
		if _, err := admin.Exec(context.Background(), "DROP SCHEMA "+schema+" CASCADE"); err != nil {
			t.Error(err)
		}
		_ = admin.Close(context.Background())
	})
	if _, err := db.Migrate(t.Context(), false, nil); err != nil {
		t.Fatal(err)
	}
	return db
}

func TestTheLedgerRefusesToBeChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	w.process(w.receive(paid("pay_1")))
	for _, sql := range []string{`UPDATE ledger_entries SET amount = 1`, `DELETE FROM ledger_entries`, `TRUNCATE ledger_entries`} {
		if _, err := w.db.Pool.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "immutable") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	w.verify()
}
