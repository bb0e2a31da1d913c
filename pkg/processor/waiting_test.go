package processor

import (
	"context"
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/payment"
	"github.com/umavez/umavez/pkg/provider"
	"github.com/umavez/umavez/pkg/settlement"
)

func TestAnEventThatWasRevivedSinceItWasLoadedIsNotSettledByTheOldTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	body := []byte(`[{"GatewayID":"pay_1","Facts":[{"Kind":"refund","ID":"re_1","Amount":{"Value":1,"Known":true},"Refund":"succeeded"}]}]`)
	id := w.receiveAs("once", "pay_1", body)
	loaded, err := w.db.Load(t.Context(), []int64{id})
	if err != nil {
		t.Fatal(err)
	}
	for range w.cfg.MaxAttempts { // meanwhile it dies elsewhere, and is resent
		if _, err := w.db.Fail(t.Context(), settlement.Handle{EventID: id, Turn: 1}, "test", 0, w.cfg.MaxAttempts); err != nil {
			t.Fatal(err)
		}
	}
	w.wantEvent(id, event.StatusDead, "")
	w.receiveAs("once", "pay_1", body)
	_, err = w.db.Settle(t.Context(), []settlement.Handle{loaded.Works[0].Handle()}, nil,
		func(map[int64]bool, map[settlement.Ref]settlement.Held) (settlement.Decision, error) {
			t.Error("the new turn was claimed by the old one's handle")
			return settlement.Decision{}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	w.process(id)
	w.wantEvent(id, event.StatusParked, "")
	w.process(w.receive(paid("pay_1")), id)
	w.due()
	w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
	w.verify()
}

func TestTheLimitOfAContradictionCountsNothingElseThatWasWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupAlways)
	w.gateway.says(paid("pay_1"))
	w.process(w.receive(paid("pay_1")))
	w.gateway.fails(&provider.RetryError{Status: 503})
	id := w.receive(refundOnly("pay_1", "re_1", 400))
	w.process(id)
	w.exec(`UPDATE event_work SET since = now() - interval '20 minutes', reason_since = now() - interval '20 minutes'`)
	w.gateway.fails(nil) // back, and not yet showing the refund
	w.process(id)
	if e := w.event(id); e.Status != "parked" || code(e.Reason) != string(payment.NeedAgreement) {
		t.Fatalf("event is %+v", e)
	}
	w.gateway.says(refunded("pay_1", "re_1", 400))
	w.process(id)
	w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
	w.verify()
}

func TestAContradictionThatIsGivenUpIsListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupAlways)
	w.gateway.says(paid("pay_1"))
	w.process(w.receive(paid("pay_1")))
	id := w.receive(refundOnly("pay_1", "re_1", 400))
	w.process(id)
	w.exec(`UPDATE event_work SET reason_since = now() - interval '20 minutes'`)
	w.process(id)
	if e := w.event(id); e.Outcome != "stale" || code(e.Reason) != "disagrees" {
		t.Errorf("event is %+v", e)
	}
	w.verify()
}

func TestAWaitDoesNotGrowWithThePaymentsTraffic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupAlways)
	w.gateway.says(paid("pay_1"))
	w.process(w.receive(paid("pay_1")))
	id := w.receive(refundOnly("pay_1", "re_1", 400))
	w.process(id)
	for range 6 {
		w.process(w.receive(pending("pay_1")))
	}
	var parks int
	var soon bool
	if err := w.db.Pool.QueryRow(t.Context(), `SELECT parks, next_at < now() + interval '1 minute' FROM event_work WHERE event_id = $1`, id).Scan(&parks, &soon); err != nil {
		t.Fatal(err)
	}
	if parks != 0 || !soon {
		t.Errorf("parked %d times, due soon: %t", parks, soon)
	}
}

func TestAGatewayThatAsksForASecondIsAskedAgainSoon(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupAlways)
	w.gateway.says(paid("pay_1"))
	w.gateway.fails(&provider.RetryError{Status: 429, After: time.Second})
	first, second := w.receive(paid("pay_1")), w.receive(paid("pay_2"))
	w.process(first) // it says how long
	for range 6 {
		w.process(second) // and is not asked meanwhile
	}
	var soon int
	if err := w.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM event_work WHERE next_at < now() + interval '6 seconds'`).Scan(&soon); err != nil || soon != 2 {
		t.Errorf("%d of 2 events are tried again soon, %v", soon, err)
	}
}

func TestALookFromAFutureThatWasAWrongClockOutranksNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupAlways)
	w.gateway.says(paid("pay_1"))
	w.process(w.receive(paid("pay_1")))
	w.exec(`UPDATE payments SET observed_at = now() + interval '4 days'`)
	w.gateway.says(refunded("pay_1", "re_1", 400))
	id := w.receive(refundOnly("pay_1", "re_1", 400))
	w.process(id)
	w.wantEvent(id, event.StatusProcessed, event.OutcomeApplied)
	w.verify()
}

func TestAnEventIsResentWhileItIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	body := []byte("[]")
	arrivals := []event.Arrival{{Event: event.Event{Provider: "gw", Account: "default", DedupeKey: "old", Type: "test",
		PaymentRef: "pay_1", Body: body, BodySHA256: sha256.Sum256(body), Secret: "1"}}}
	stored, err := w.db.InsertEvents(t.Context(), arrivals)
	if err != nil {
		t.Fatal(err)
	}
	id := stored[0].ID
	for range 3 {
		if _, err := w.db.Fail(t.Context(), settlement.Handle{EventID: id, Turn: 1}, "test", time.Second, 3); err != nil {
			t.Fatal(err)
		}
	}
	w.exec(`UPDATE events SET received_at = received_at - interval '500 days'`)
	tx, err := w.db.Pool.Begin(t.Context()) // holds the sweeper up between its look and its delete
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM events FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	forgotten := make(chan error, 1)
	go func() {
		_, err := w.db.ForgetEvents(context.WithoutCancel(t.Context()), 400*24*time.Hour, 1000)
		forgotten <- err
	}()
	resent := make(chan error, 1)
	var again []event.Stored
	time.AfterFunc(100*time.Millisecond, func() {
		var err error
		again, err = w.db.InsertEvents(context.WithoutCancel(t.Context()), arrivals)
		resent <- err
	})
	time.AfterFunc(300*time.Millisecond, func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	if err := <-forgotten; err != nil {
		t.Logf("the sweeper: %v", err)
	}
	// Either it was refused, and the gateway sends it again, or it is there.
	if err := <-resent; err == nil {
		var there int
		if err := w.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM events e JOIN event_work w ON w.event_id = e.id WHERE e.id = $1`, again[0].ID).Scan(&there); err != nil {
			t.Fatal(err)
		}
		if there != 1 {
			t.Error("the resend was answered with success and is not there")
		}
	}
	w.exec(`DELETE FROM event_redeliveries d WHERE NOT EXISTS (SELECT FROM events e WHERE e.id = d.event_id)`)
	w.verify()
}

func TestForgottenEventsAreNoViolation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	w.receive(paid("pay_0")) // old and unfinished
	w.process(w.receive(paid("pay_1")))
	w.exec(`UPDATE events SET received_at = received_at - interval '500 days'`)
	w.exec(`DELETE FROM event_bodies`)
	if n, err := w.db.ForgetEvents(t.Context(), 400*24*time.Hour, 1000); n != 1 || err != nil {
		t.Errorf("%d forgotten, %v", n, err)
	}
	w.verify()
}

func TestAnEventThatWaitsBeyondTheLimitIsDeadWithItsReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t, provider.LookupNever)
	id := w.receive(refundOnly("pay_1", "re_1", 100))
	w.process(id)
	w.exec(`UPDATE event_work SET since = now() - $1::interval`, w.cfg.ParkLimit-time.Minute)
	w.process(id)
	w.wantEvent(id, event.StatusParked, "")
	w.exec(`UPDATE event_work SET since = now() - $1::interval`, w.cfg.ParkLimit+time.Minute)
	w.process(id)
	w.wantEvent(id, event.StatusDead, "")
	if e := w.event(id); !strings.HasPrefix(e.Reason, "parked for too long: "+string(payment.NeedCapturedAmount)) {
		t.Errorf("its reason is %q", e.Reason)
	}
	w.verify()
}
