//go:build failpoints

package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/failpoint"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
	"github.com/umavez/umavez/pkg/settlement"
)

// What is injected is classified by the rules for what the server and the
// connection say. Before the commit was sent and after it was answered, a lost
// answer is the same to the caller: nobody knows.
func TestInjectedErrorsAreClassifiedLikeRealOnes(t *testing.T) {
	db := postgrestest.New(t)
	t.Cleanup(failpoint.Reset)
	all := []error{postgres.ErrRetry, postgres.ErrUnknownOutcome, postgres.ErrUnavailable, postgres.ErrRefusedRow}
	for spec, want := range map[string]error{
		"settle_begun=lost":               postgres.ErrUnavailable,
		"payments_locked=lost":            postgres.ErrUnavailable,
		"payments_locked=deadlock":        postgres.ErrRetry,
		"payments_locked=serialization":   postgres.ErrRetry,
		"payments_locked=error":           failpoint.ErrInjected,
		"settle_committing=deadlock":      postgres.ErrRetry,
		"settle_committing=serialization": postgres.ErrRetry,
		"settle_committing=lost":          postgres.ErrUnknownOutcome,
		"settle_committed=lost":           postgres.ErrUnknownOutcome,
	} {
		failpoint.Reset()
		if err := failpoint.Arm("postgres." + spec); err != nil {
			t.Fatal(err)
		}
		ref := settlement.Ref{Provider: "gw", Account: "default", GatewayID: spec}
		_, err := db.Settle(t.Context(), nil, []settlement.Ref{ref}, nil)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", spec, err, want)
		}
		for _, other := range all {
			if other != want && errors.Is(err, other) {
				t.Errorf("%s: %v is also %v", spec, err, other)
			}
		}
		stored := scan[bool](t, db, `SELECT EXISTS (SELECT FROM payments WHERE gateway_id = '`+spec+`')`)
		if committed := spec == "settle_committed=lost"; stored != committed {
			t.Errorf("%s: the transaction took effect: %t", spec, stored)
		}
	}
}

// An insert whose answer was lost is sent again and finds what it stored.
func TestALostAnswerOfAnInsertIsAskedForAgain(t *testing.T) {
	db := postgrestest.New(t)
	t.Cleanup(failpoint.Reset)
	failpoint.Reset()
	if err := failpoint.Arm("postgres.insert_answered=lost*1"); err != nil {
		t.Fatal(err)
	}
	stored := insert(t, db, arrival("a"))
	if stored[0].ID == 0 || !stored[0].Publish {
		t.Errorf("stored: %+v", stored[0])
	}
	if hits := failpoint.Now().Hits["postgres.insert_answered"]; hits != 2 {
		t.Errorf("%d tries", hits)
	}
}

func TestADelayIsLongerThanTheCallersPatience(t *testing.T) {
	db := postgrestest.New(t)
	t.Cleanup(failpoint.Reset)
	failpoint.Reset()
	if err := failpoint.Arm("postgres.held_asked=delay:80ms"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	started := time.Now()
	if _, err := db.Held(ctx, nil); !errors.Is(err, postgres.ErrUnavailable) || time.Since(started) < 80*time.Millisecond {
		t.Errorf("%v after %s", err, time.Since(started))
	}
}
