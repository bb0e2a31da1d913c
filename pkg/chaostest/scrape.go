package chaostest

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// scraped adds up the counters of processes that come and go. What a process
// counted since its last scrape is lost with it, so sums are lower bounds.
type scraped struct {
	cancel context.CancelFunc
	ended  chan struct{}

	mu   sync.Mutex
	last map[string]map[string]float64 // by process and its start: newest values
	sums map[string]float64            // of processes that are gone
}

// startScraping reads all processes' metrics every second.
func startScraping(w *world) *scraped {
	ctx, cancel := context.WithCancel(context.Background())
	s := &scraped{cancel: cancel, ended: make(chan struct{}), last: map[string]map[string]float64{}, sums: map[string]float64{}}
	go func() {
		defer close(s.ended)
		for ctx.Err() == nil {
			for _, n := range w.nodes {
				values, err := scrape(ctx, n.admin)
				if err != nil {
					continue
				}
				s.take(n.name, values)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}()
	return s
}

// take replaces a process's values; a counter that fell is that of a new
// process under the name.
func (s *scraped) take(name string, values map[string]float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.last[name]
	if before["process_start_time_seconds"] != values["process_start_time_seconds"] {
		for k, v := range before {
			s.sums[k] += v
		}
	}
	s.last[name] = values
}

func (s *scraped) stop() {
	s.cancel()
	<-s.ended
}

// counters are the sums over all processes so far, by metric name without its
// labels, and by name and label values ("umavez_events_settled_total/stale").
func (s *scraped) counters() map[string]float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(s.sums)
	for _, values := range s.last {
		for k, v := range values {
			all[k] += v
		}
	}
	return all
}

// scrape reads one process's metrics: each under its name alone, summed, and
// under name/value for the labels outcome, result and reason.
func scrape(ctx context.Context, admin string) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	text, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(strings.TrimSpace(line), ' ')
		if at < 0 {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
		if err != nil {
			continue
		}
		name, labels, _ := strings.Cut(line[:at], "{")
		values[name] += v
		for _, label := range []string{"outcome", "result", "reason", "state"} {
			if _, rest, ok := strings.Cut(labels, label+`="`); ok {
				value, _, _ := strings.Cut(rest, `"`)
				values[name+"/"+value] += v
			}
		}
	}
	return values, nil
}
