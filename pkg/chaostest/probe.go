package chaostest

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

// probe is one new event whose way is timed.
type probe struct {
	Gateway  string    `json:"gateway"`
	Event    int64     `json:"event_id"`         // 0: never accepted
	Sent     float64   `json:"sent_after_s"`     // the first attempt, since everything was healed
	Accepted float64   `json:"accepted_after_s"` // from the first attempt to the success
	Tries    int       `json:"tries"`
	Final    float64   `json:"final_after_s"`    // from acceptance; see watch
	Waited   []string  `json:"waited,omitempty"` // what its row said on the way: state and reason
	sums     [][]byte  // of the bodies that were sent
	at       time.Time // of the success, by our clock
}

// The pace of probes.
const (
	probeAcceptance = 30 * time.Second       // how long a gateway keeps trying
	probeAgain      = 100 * time.Millisecond // between its attempts
	probeFinality   = 75 * time.Second       // how long a probe is waited for
	probeLook       = 25 * time.Millisecond  // between looks at the database
	attemptTimeout  = 10 * time.Second       // the shortest of any gateway
)

// probes sends deliveries at a rate, each until it is accepted, and watches
// them become final. healed is what their times count from.
func (w *world) probes(ctx context.Context, ds []*gatewaysim.Delivery, rate float64, healed time.Time) []*probe {
	all := make([]*probe, len(ds))
	accepted := make(chan *probe, len(ds))
	// What was stored before is no probe of these.
	var base int64
	for w.db.Pool.QueryRow(ctx, `SELECT COALESCE(max(id), 0) FROM events`).Scan(&base) != nil && wait(ctx, 20*time.Millisecond) {
		continue
	}
	var sending sync.WaitGroup
	tick := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer tick.Stop()
	watched := make(chan struct{})
	go func() { defer close(watched); w.watchProbes(ctx, base, accepted) }()
	for i, d := range ds {
		p := &probe{Gateway: d.Gateway}
		all[i] = p
		sending.Go(func() {
			p.Sent = time.Since(healed).Seconds()
			if w.deliver(ctx, d, p) {
				accepted <- p
			}
		})
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	sending.Wait()
	close(accepted)
	<-watched
	return all
}

// deliver tries as a gateway does, at any ingest, until one says success.
func (w *world) deliver(ctx context.Context, d *gatewaysim.Delivery, p *probe) bool {
	ctx, cancel := context.WithTimeout(ctx, probeAcceptance)
	defer cancel()
	d.Publish()
	first := time.Now()
	for try := 0; ; try++ {
		sent := d.Request(time.Now(), try)
		if sum, err := hex.DecodeString(sent.SHA256()); err == nil {
			p.sums = append(p.sums, sum)
		}
		p.Tries++
		status, err := post(ctx, strings.TrimRight(w.gate("", ""), "/")+sent.Target(d.Path), sent)
		if err == nil && d.Success(status) {
			p.at = time.Now()
			p.Accepted = p.at.Sub(first).Seconds()
			return true
		}
		if !wait(ctx, probeAgain) {
			return false
		}
	}
}

func post(ctx context.Context, url string, sent gatewaysim.Sent) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(sent.Body))
	if err != nil {
		return 0, err
	}
	req.Header = sent.Header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// watchProbes looks at accepted probes until each is final or has been waited
// for long enough. What it notes is the database's clock when the result was
// seen, less the time of receipt in the event's row: never less than it took,
// and more by one look at most.
func (w *world) watchProbes(ctx context.Context, base int64, accepted <-chan *probe) {
	waiting := map[string]*probe{} // by the sum of a body
	open := true
	for open || len(waiting) > 0 {
		for more := true; more && open; {
			select {
			case p, ok := <-accepted:
				if open = ok; ok {
					for _, sum := range p.sums {
						waiting[string(sum)] = p
					}
				}
			default:
				more = false
			}
		}
		if len(waiting) > 0 {
			_ = w.look(ctx, base, waiting) // a database that is away is looked at again
		}
		for sum, p := range waiting {
			if p.Final > 0 || time.Since(p.at) > probeFinality {
				delete(waiting, sum)
			}
		}
		if !wait(ctx, probeLook) {
			return
		}
	}
}

func (w *world) look(ctx context.Context, base int64, waiting map[string]*probe) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	sums := make([][]byte, 0, len(waiting))
	for sum := range waiting {
		sums = append(sums, []byte(sum))
	}
	rows, err := w.db.Pool.Query(ctx, `
SELECT e.id, e.body_sha256, extract(epoch FROM clock_timestamp() - e.received_at)::float8, EXISTS (SELECT FROM event_results r WHERE r.event_id = e.id),
       COALESCE(w.state, ''), COALESCE(w.reason, w.last_error, '')
FROM events e LEFT JOIN event_work w ON w.event_id = e.id
WHERE e.id > $1 AND e.body_sha256 = ANY($2)`, base, sums)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var sum []byte
		var took float64
		var final bool
		var state, reason string
		if err := rows.Scan(&id, &sum, &took, &final, &state, &reason); err != nil {
			return err
		}
		p := waiting[string(sum)]
		p.Event = id
		if final {
			if p.Final == 0 {
				p.Final = took
			}
			continue
		}
		says := state
		if reason != "" {
			says += ": " + reason
		}
		if n := len(p.Waited); state != "" && (n == 0 || !strings.HasSuffix(p.Waited[n-1], " "+says)) && n < 12 {
			p.Waited = append(p.Waited, fmt.Sprintf("%.1fs %s", took, says))
		}
	}
	return rows.Err()
}
