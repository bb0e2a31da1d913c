package postgres_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/umavez/umavez/pkg/event"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/postgres/postgrestest"
	"github.com/umavez/umavez/pkg/sweep"
)

// bloating is a database at work.
type bloating struct {
	t  *testing.T
	db *postgres.DB
	n  int
}

// work receives and settles so many events, as the daemons do: a row of
// event_work comes and goes for each. It returns how long the 99th of a
// hundred batches of a hundred took to be received.
func (b *bloating) work(events int) (p99 time.Duration) {
	b.t.Helper()
	var took []time.Duration
	for done := 0; done < events; done += 100 {
		batch := make([]event.Arrival, 100)
		for i := range batch {
			b.n++
			body := fmt.Appendf(nil, `{"id":%d}`, b.n)
			batch[i] = event.Arrival{Event: event.Event{Provider: "gw", Account: "default", DedupeKey: fmt.Sprint(b.n), Type: "t",
				PaymentRef: fmt.Sprint("pay_", b.n), ProviderEventID: fmt.Sprint("evt_", b.n), Body: body, BodySHA256: sha256.Sum256(body), Secret: "1"}}
		}
		begun := time.Now()
		if _, err := b.db.InsertEvents(b.t.Context(), batch); err != nil {
			b.t.Fatal(err)
		}
		took = append(took, time.Since(begun))
		// Under a snapshot that is held for long their time has come before they
		// can be forgotten: the worst for the sweeper, which looks for what is
		// due first.
		if _, err := b.db.Pool.Exec(b.t.Context(), `UPDATE event_work SET next_at = now() - interval '1 minute'`); err != nil {
			b.t.Fatal(err)
		}
		if _, err := b.db.Pool.Exec(b.t.Context(), `
WITH gone AS (DELETE FROM event_work RETURNING event_id)
INSERT INTO event_results (event_id, status, outcome) SELECT event_id, 'processed', 'applied' FROM gone`); err != nil {
			b.t.Fatal(err)
		}
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// reads is how many pages a query needs, at best of three.
func (b *bloating) reads(sql string) (pages int) {
	b.t.Helper()
	pages = 1 << 30
	for range 3 {
		rows, err := b.db.Pool.Query(b.t.Context(), `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) `+sql)
		if err != nil {
			b.t.Fatal(err)
		}
		plan, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[[]struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}])
		if err != nil {
			b.t.Fatal(err)
		}
		pages = min(pages, plan[0].Plan.Hit+plan[0].Plan.Read)
	}
	return pages
}

func (b *bloating) dueTook() time.Duration {
	b.t.Helper()
	best := time.Hour
	for range 3 {
		begun := time.Now()
		if _, err := b.db.DuePage(b.t.Context(), sweep.Filter{}, sweep.Cursor{}, 1000); err != nil {
			b.t.Fatal(err)
		}
		if _, err := b.db.ClaimDue(b.t.Context(), 200, time.Second); err != nil {
			b.t.Fatal(err)
		}
		if _, err := b.db.Backlog(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		best = min(best, time.Since(begun))
	}
	return best
}

// A snapshot that is held open keeps the rows that are gone. What is asked
// every second, and what a webhook waits for, must not pay for them; the
// sweeper's look and the gauges may, within bounds. Half an hour at 500 events
// a second is `make bloat`.
func TestCase_F9_ASnapshotHeldOpenSlowsNoWebhook(t *testing.T) {
	t.Parallel()
	cluster, db := postgrestest.ClusterDB(t)
	events := sized(t, "BLOAT_EVENTS", 20_000)
	b := &bloating{t: t, db: db}
	// What processors look for every second.
	const claim = `SELECT event_id FROM event_work WHERE next_at <= now() AND (state = 'parked' OR attempts > 0 OR turn > 1) ORDER BY next_at LIMIT 200`
	before := b.work(10_000)
	beforeDue, beforePages := b.dueTook(), b.reads(claim)

	holder, err := pgx.Connect(t.Context(), cluster.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(context.Background()) //nolint:errcheck // a test
	if _, err := holder.Exec(t.Context(), `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM event_work`); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	b.work(events)
	held := time.Since(begun)
	during := b.work(10_000)
	duringDue, duringPages := b.dueTook(), b.reads(claim)
	var size, dead int64
	if err := db.Pool.QueryRow(t.Context(), `SELECT pg_total_relation_size('event_work'), pg_stat_get_dead_tuples('event_work'::regclass)`).Scan(&size, &dead); err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Pool.Exec(t.Context(), `VACUUM event_work`); err != nil {
		t.Fatal(err)
	}
	after := b.work(10_000)
	afterDue, afterPages := b.dueTook(), b.reads(claim)
	t.Logf("snapshot held over %d events, %s; event_work had %.1f MB, %d dead rows", events, held.Round(time.Second), float64(size)/1e6, dead)
	t.Logf("p99 of receiving a hundred: before %s, during %s, after %s", before, during, after)
	t.Logf("due page, claim and gauges: before %s, during %s, after %s", beforeDue, duringDue, afterDue)
	t.Logf("pages of the claim: before %d, during %d, after %d", beforePages, duringPages, afterPages)

	if during > 3*before+20*time.Millisecond {
		t.Errorf("receiving took %s at p99 before and %s while a snapshot was held", before, during)
	}
	if duringPages > beforePages+10 || afterPages > beforePages+10 {
		t.Errorf("the claim of every second read %d pages before, %d while a snapshot was held, %d after", beforePages, duringPages, afterPages)
	}
	// A look at the dead rows costs about a microsecond each.
	if most := 10*beforeDue + 250*time.Millisecond + time.Duration(events)*3*time.Microsecond; duringDue > most {
		t.Errorf("the look for what is due took %s, more than %s", duringDue, most)
	}
	if afterDue > 5*beforeDue+50*time.Millisecond {
		t.Errorf("the look for what is due took %s before and %s after vacuum", beforeDue, afterDue)
	}
}
