package truth

import (
	"context"
	"fmt"
	"time"

	"github.com/umavez/umavez/pkg/postgres"
)

// Unsettled is what is not final yet.
type Unsettled struct {
	Events  int    // unfinished
	Idle    int    // of them pending for longer than Settling.Idle: a sweep's business
	Unsent  int    // domain events that are not relayed
	Reasons string // why events wait
}

func (u Unsettled) String() string {
	return fmt.Sprintf("%d events unfinished (%s), %d domain events unsent", u.Events, u.Reasons, u.Unsent)
}

// Settling says how to wait until all is final.
type Settling struct {
	Idle time.Duration // how long an event may be pending before it is swept
	Look time.Duration // the pause between two looks
	Rest time.Duration // the least time between two sweeps
	// Sweep sweeps, as on-call does after an incident; an error ends the wait.
	Sweep func(context.Context) error
	// Waiting is told what each look found; nil for nobody.
	Waiting func(Unsettled)
}

// Settle waits until nothing is unfinished and all domain events are relayed,
// and sweeps meanwhile. When ctx ends it gives its error and what it saw last.
func Settle(ctx context.Context, db *postgres.DB, s Settling) (last Unsettled, err error) {
	var swept time.Time
	for {
		now := Unsettled{}
		err := db.Pool.QueryRow(ctx, `
SELECT count(*), count(*) FILTER (WHERE w.state = 'pending' AND e.received_at < now() - $1::interval),
       (SELECT count(*) FROM outbox WHERE relayed_at IS NULL),
       COALESCE(string_agg(DISTINCT w.state || ' ' || COALESCE(w.reason, w.last_error, ''), ', '), '')
FROM event_work w JOIN events e ON e.id = w.event_id`, s.Idle).Scan(&now.Events, &now.Idle, &now.Unsent, &now.Reasons)
		switch {
		case ctx.Err() != nil:
			return last, ctx.Err()
		case err != nil:
			return last, fmt.Errorf("waiting until all is final: %w", err)
		}
		if last = now; s.Waiting != nil {
			s.Waiting(now)
		}
		if now.Events == 0 && now.Unsent == 0 {
			return last, nil
		}
		if now.Idle > 0 && time.Since(swept) >= s.Rest {
			swept = time.Now()
			if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
				return last, err
			}
		}
		select {
		case <-ctx.Done():
			return last, ctx.Err()
		case <-time.After(s.Look):
		}
	}
}
