package processor

import (
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/sweep"
)

// registerAs calls register_payment with a currency.
func (w *world) registerAs(ref string, expected int64, currency, beneficiary string) {
	w.t.Helper()
	w.exec(`SELECT register_payment('gw', 'default', $1, $2, $3, $4)`, ref, expected, currency, beneficiary)
}

func TestARegisteredCurrencyOutranksWhatAnEventSaidBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	w.process(w.receive(pending("pay_1"))) // says BRL
	w.registerAs("pay_1", 1000, "USD", "loja")
	w.due()
	id := w.receive(paid("pay_1")) // BRL, the same number
	w.process(id)
	if e := w.event(id); e.Status != "parked" || code(e.Reason) != "currency_mismatch" {
		t.Errorf("event is %+v", e)
	}
	if got := w.ledger("pay_1"); len(got) != 0 {
		t.Errorf("ledger %v, want nothing", got)
	}
	w.verify()
}

func TestALateRegistrationThatContradictsTheCaptureGivesTheMoneyToNobody(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]struct {
		expected int64
		currency string
		reason   string
	}{
		"another amount":   {150000, "BRL", "amount_mismatch"},
		"another currency": {1000, "USD", "currency_mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, provider.LookupNever)
			c := paid("pay_1")
			c.Beneficiary = ""
			w.process(w.receive(c))
			w.registerAs("pay_1", r.expected, r.currency, "loja")
			w.due()
			if got := w.balance("loja"); got != 0 {
				t.Errorf("balance %d, want 0", got)
			}
			var reason string
			if err := w.db.Pool.QueryRow(t.Context(), `SELECT reason FROM event_work`).Scan(&reason); err != nil || code(reason) != r.reason {
				t.Errorf("waits for %q, %v", reason, err)
			}
			w.verify()
		})
	}
}

func TestWhatIsRegisteredIsReadInThePayment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	c := paid("pay_1")
	c.Beneficiary = ""
	w.process(w.receive(c))
	w.exec(`SELECT register_payment('gw', 'default', 'pay_1', p_reference => 'PED-1')`)
	w.exec(`SELECT register_payment('gw', 'default', 'pay_2', p_currency => 'BRL')`)
	w.exec(`SELECT register_payment('gw', 'default', 'pay_2', p_expected => 700, p_reference => 'PED-2')`) // in two steps
	w.due()
	for ref, want := range map[string]string{"pay_1": "PED-1 BRL", "pay_2": "PED-2 BRL 700"} {
		var got string
		if err := w.db.Pool.QueryRow(t.Context(), `SELECT concat_ws(' ', reference, currency, expected) FROM payments WHERE gateway_id = $1`, ref).Scan(&got); err != nil || got != want {
			t.Errorf("payment %s reads %q, want %q, %v", ref, got, want, err)
		}
	}
	w.verify()
}

func TestARegistrationThatSaysNonsenseIsRefusedInWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	for sql, want := range map[string]string{
		`SELECT register_payment('gw', 'default', '')`:             "must not be empty",
		`SELECT register_payment('gw', 'default', NULL)`:           "must not be empty",
		`SELECT register_payment('gw', 'default', 'p', -5, 'BRL')`: "above zero",
		`SELECT register_payment('gw', 'default', 'p', 5)`:         "needs p_currency",
		`SELECT register_payment('gw', 'default', 'p', 5, 'brl')`:  "upper case",
	} {
		if _, err := w.db.Pool.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

func TestARegistrationNeedsNoLookupAndIsNotBuried(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupAlways)
	c := paid("pay_1")
	c.Beneficiary = ""
	w.gateway.says(c)
	w.process(w.receive(c))
	w.gateway.fails(&provider.RetryError{Status: 503})
	refund := w.receive(refundOnly("pay_1", "re_1", 100))
	w.registerAs("pay_1", 1000, "BRL", "loja")
	w.exec(`UPDATE event_work SET since = now() - interval '73 hours', next_at = now() - interval '1 hour' WHERE reason = 'registered'`)
	if n, err := w.db.BuryParked(t.Context(), 72*time.Hour, sweep.Filter{}, 100); n != 0 || err != nil {
		t.Errorf("%d buried, %v", n, err)
	}
	ids, err := w.db.ClaimDue(t.Context(), 10, time.Minute)
	if err != nil || len(ids) != 1 {
		t.Fatalf("%d due, %v", len(ids), err)
	}
	w.process(append(ids, refund)...)
	if got := w.balance("loja"); got != 970 {
		t.Errorf("balance %d, want 970", got)
	}
	w.wantEvent(refund, event.StatusParked, "")
	w.verify()
}

func TestAnApplicationThatKeepsItsTransactionOpenHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	parked := w.receive(refundOnly("pay_1", "re_1", 100))
	w.process(parked)
	tx, err := w.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // it is rolled back on purpose
	if _, err := tx.Exec(t.Context(), `SELECT register_payment('gw', 'default', 'pay_1', p_beneficiary => 'loja')`); err != nil {
		t.Fatal(err)
	}
	mine, other := w.receive(paid("pay_1")), w.receive(paid("pay_2"))
	begin := time.Now()
	w.process(mine, other)
	if took := time.Since(begin); took > 1500*time.Millisecond {
		t.Errorf("the batch was held up for %s", took)
	}
	w.wantEvent(mine, event.StatusProcessed, event.OutcomeApplied)
	w.wantEvent(other, event.StatusProcessed, event.OutcomeApplied)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.due()
	w.wantEvent(parked, event.StatusProcessed, event.OutcomeApplied)
	w.verify()
}

func TestABatchWhoseBalanceWouldWrapIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	large := func(ref string) payment.Claim {
		c := paid(ref)
		c.Captured = payment.Of(5e18)
		return c
	}
	a, b := w.receive(large("pay_1")), w.receive(large("pay_2"))
	w.process(a, b)
	w.wantEvent(a, event.StatusProcessed, event.OutcomeApplied)
	w.wantEvent(b, event.StatusPending, "") // counted as a failure: it does not fit
	if got := w.balance("loja"); got != 5e18-30 {
		t.Errorf("balance %d", got)
	}
	w.verify()
}
