package chaostest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

// resendDead sends dead events again, as operators do from a gateway's panel.
// It returns how many were taken.
func (w *world) resendDead(ctx context.Context) (taken int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	rows, err := w.db.Pool.Query(ctx, `
SELECT encode(e.body_sha256, 'hex') FROM webhook_events w JOIN events e USING (id) WHERE w.status = 'dead' AND e.type NOT LIKE 'umavez.%' LIMIT 200`)
	if err != nil {
		return 0, err
	}
	var sums []string
	for rows.Next() {
		var sum string
		if err := rows.Scan(&sum); err != nil {
			return 0, err
		}
		sums = append(sums, sum)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return 0, err
	}
	deliveries := w.sim.Deliveries()
	for _, sum := range sums {
		at, ok := w.history.deliveryOf(sum)
		if !ok {
			continue
		}
		if w.send(ctx, &deliveries[at.Delivery], at.Try) {
			taken++
		}
	}
	return taken, nil
}

// send makes one attempt of a delivery and records it.
func (w *world) send(ctx context.Context, d *gatewaysim.Delivery, try int) bool {
	sent := d.Request(time.Now(), try)
	a := gatewaysim.Answer{Delivery: d, Try: try}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(w.gate("", ""), "/")+sent.Target(d.Path), bytes.NewReader(sent.Body))
	if err != nil {
		return false
	}
	req.Header = sent.Header
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close() //nolint:errcheck // read to its end
		a.Status = resp.StatusCode
	}
	a.Err = err
	a.BodySHA256 = sent.SHA256()
	w.history.note(a)
	return err == nil && d.Success(a.Status)
}
