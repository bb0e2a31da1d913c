package chaostest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
	"github.com/umavez/umavez/pkg/postgres"
	"github.com/umavez/umavez/pkg/truth"
)

// judge looks for harm after everything has become final; where it has not,
// which is a violation by itself, the end is not compared with the truth.
func (w *world) judge(ctx context.Context, storm gatewaysim.Report, idle map[string]holding, final bool, r *Report) error {
	if err := w.history.close(); err != nil {
		return err
	}
	if final {
		compared, err := truth.Compare(ctx, w.db, w.sim, storm)
		if err != nil {
			return err
		}
		r.Payments += compared.Payments
		for _, d := range compared.Differences {
			r.violation("truth", "%s", d)
		}
		if n := compared.Mismatches - len(compared.Differences); n > 0 {
			r.violation("truth", "and %d more differences", n)
		}
	}
	results, err := w.db.Verify(ctx, postgres.VerifyOptions{PendingLimit: time.Minute, BodiesSince: 24 * time.Hour, Rows: 10}, nil)
	if err != nil {
		return err
	}
	for _, one := range results {
		for _, v := range one.Rows {
			r.violation("verify", "invariant %d, %s: %s %s", v.Invariant, v.Check, v.Subject, v.Detail)
		}
	}
	if storm.GivenUp > 0 {
		r.violation("history", "%d authentic webhooks were never answered with success", storm.GivenUp)
	}
	if storm.ForgedAccepted > 0 {
		r.violation("history", "%d forged webhooks were accepted", storm.ForgedAccepted)
	}
	return errors.Join(w.judgeHistory(ctx, storm, r), w.judgeReader(ctx, r), w.judgeHoldings(ctx, idle, r), w.judgeLogs(r))
}

// judgeHistory checks that what is stored was attempted, and that the load
// generator's history and its report agree on what was acknowledged.
// That what was acknowledged is stored, truth.Compare checks.
func (w *world) judgeHistory(ctx context.Context, storm gatewaysim.Report, r *Report) error {
	attempted := map[string]bool{}
	acknowledged := map[int]bool{}
	deliveries := w.sim.Deliveries()
	err := each(filepath.Join(w.logs, "history.jsonl"), func(a attempt) {
		attempted[a.SHA256] = true
		r.Attempts[a.Outcome]++
		if a.Outcome == "ok" && deliveries[a.Delivery].Authentic() {
			acknowledged[a.Delivery] = true
		}
	})
	if err != nil {
		return err
	}
	if len(acknowledged) != storm.Acknowledged {
		r.violation("history", "the history has %d acknowledged deliveries, the report %d", len(acknowledged), storm.Acknowledged)
	}
	// A request of several events is remembered by its own event alone.
	rows, err := w.db.Pool.Query(ctx, `SELECT id, provider, encode(body_sha256, 'hex') FROM events WHERE type NOT LIKE 'umavez.%' AND provider <> 'efi'`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var provider, sum string
		if err := rows.Scan(&id, &provider, &sum); err != nil {
			return err
		}
		r.Events++
		if !attempted[sum] {
			r.violation("history", "event %d of %s is stored with a body that nobody sent", id, provider)
		}
	}
	return rows.Err()
}

// judgeReader compares what an application heard with the outbox.
func (w *world) judgeReader(ctx context.Context, r *Report) error {
	w.reader.mu.Lock()
	defer w.reader.mu.Unlock()
	r.DomainEvents += w.reader.total
	r.DomainCopies += w.reader.copies
	if w.reader.broken {
		return nil // the broker's own loss; the outbox has them all
	}
	for _, g := range w.reader.gaps {
		r.violation("domain events", "payment %d: %d came after %d", g.Payment, g.Came, g.After)
	}
	rows, err := w.db.Pool.Query(ctx, `SELECT payment_id, max(seq) FROM outbox GROUP BY payment_id`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var payment, seq int64
		if err := rows.Scan(&payment, &seq); err != nil {
			return err
		}
		if heard := w.reader.newest[payment]; heard < seq {
			r.violation("domain events", "payment %d: the application heard up to %d of %d", payment, heard, seq)
		}
	}
	return rows.Err()
}

// holding is what a process holds.
type holding struct{ goroutines, files, mib float64 }

// holdings reads what every process under test holds now.
func (w *world) holdings(ctx context.Context) (map[string]holding, error) {
	all := map[string]holding{}
	for _, n := range w.nodes {
		v, err := scrape(ctx, n.admin)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n.name, err)
		}
		all[n.name] = holding{v["go_goroutines"], v["process_open_fds"], v["process_resident_memory_bytes"] / (1 << 20)}
	}
	return all, nil
}

// What a process may hold more than when it was idle and new: pools that are
// warm, and connections that are kept alive.
const (
	moreGoroutines = 60
	moreFiles      = 40
	mostMiB        = 200
)

func (w *world) judgeHoldings(ctx context.Context, idle map[string]holding, r *Report) error {
	var faults []string
	for deadline := time.Now().Add(90 * time.Second); ; {
		now, err := w.holdings(ctx)
		if err != nil {
			return err
		}
		faults = nil
		for name, h := range now {
			before := idle[name]
			if h.goroutines > before.goroutines+moreGoroutines || h.files > before.files+moreFiles || h.mib > mostMiB {
				faults = append(faults, fmt.Sprintf("%s holds %.0f goroutines (%.0f when new), %.0f files (%.0f), %.0f MiB", name, h.goroutines, before.goroutines, h.files, before.files, h.mib))
			}
			r.PeakMiB = max(r.PeakMiB, h.mib)
		}
		if len(faults) == 0 || time.Now().After(deadline) {
			break
		}
		if !wait(ctx, time.Second) {
			return ctx.Err()
		}
	}
	for _, f := range faults {
		r.violation("resources", "%s", f)
	}
	var connections int
	if err := w.db.Pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND state LIKE 'idle in transaction%'`).Scan(&connections); err != nil {
		return err
	}
	if connections > 0 {
		r.violation("resources", "%d connections are left in a transaction", connections)
	}
	return nil
}

// personal are data that the simulator puts into bodies and that no log may
// show: addresses of mail, tax numbers, and the like.
var personal = regexp.MustCompile(`[a-zA-Z0-9._-]+@[a-zA-Z0-9-]+\.[a-z]{2,}|\b\d{3}\.\d{3}\.\d{3}-\d{2}\b`)

// judgeLogs looks for secrets and personal data in every log.
func (w *world) judgeLogs(r *Report) error {
	var secrets []string
	for _, source := range w.sim.Sources() {
		c, _ := w.sim.Credentials(source)
		secrets = append(append(secrets, c.WebhookSecrets...), c.APIKey)
	}
	if _, rest, ok := strings.Cut(w.pg.URL(""), ":"); ok {
		_, rest, _ = strings.Cut(rest, ":")
		password, _, _ := strings.Cut(rest, "@")
		secrets = append(secrets, password)
	}
	logs, err := filepath.Glob(filepath.Join(w.logs, "*.log"))
	if err != nil {
		return err
	}
	looked := 0
	for _, path := range logs {
		if filepath.Base(path) == "postgres.log" {
			continue // the server's own, which quotes what it refuses
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		looked++
		for _, s := range secrets {
			if len(s) >= 8 && bytes.Contains(text, []byte(s)) {
				r.violation("logs", "%s shows a secret", filepath.Base(path))
			}
		}
		if found := personal.Find(text); found != nil {
			r.violation("logs", "%s shows a personal datum (%d characters)", filepath.Base(path), len(found))
		}
	}
	if looked < 6 {
		return fmt.Errorf("only %d logs were found", looked)
	}
	return nil
}
