package gatewaysim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// RunConfig says where and how to send.
type RunConfig struct {
	// BaseURL is the address of ingest for one account of a gateway, without
	// the path ("http://127.0.0.1:8080"). Required.
	BaseURL func(gateway, account string) string
	// Concurrency is how many senders there are; 0 is 32.
	Concurrency int
	// Rate is how many deliveries a second are begun; 0 is as many as go.
	Rate float64
	// Timeout of one attempt; 0 is 10 s, as the gateways have.
	Timeout time.Duration
	// RetryFor bounds how long an authentic delivery is tried; 0 is 60 s.
	RetryFor time.Duration
	// Contracts keeps each gateway's own time-out, schedule of retries and
	// number of attempts, where its contract says them, and interrupts the
	// queue of an account where the gateway does (Asaas, after 15 failures in a
	// row). Hurry divides the waits of those schedules; 0 is 1.
	Contracts bool
	Hurry     float64
	// ResumeAfter is when an operator puts an interrupted queue on again; what
	// was kept meanwhile is sent in order. 0 is never.
	ResumeAfter time.Duration
	// Progress, when not nil, is called as deliveries end.
	Progress func(done, total int)
	// OnSend, when not nil, is called before every attempt with the SHA-256, in
	// hex, of what a receiver keeps of it, and OnAnswer after it; both by many
	// goroutines.
	OnSend   func(d *Delivery, bodySHA256 string)
	OnAnswer func(Answer)
}

// The wait before a retry: the gateways' schedule, scaled down.
const (
	firstRetry   = 50 * time.Millisecond
	longestRetry = 5 * time.Second
)

// waiting bounds how many deliveries wait for their retry beside the senders.
const waiting = 4096

// Run sends the schedule and returns when every delivery has ended: with the
// answer that it should get, or given up. It publishes each step right before
// the step's first webhook. An error means that the run did not finish; the
// report tells how far it got.
func (s *Sim) Run(ctx context.Context, cfg RunConfig) (Report, error) {
	if cfg.BaseURL == nil {
		return Report{}, errors.New("gatewaysim: RunConfig.BaseURL is not set")
	}
	run := newRun(s, cfg)
	defer run.client.CloseIdleConnections()
	begin := time.Now()
	run.send(ctx)
	run.giveUp()
	report := run.tally.report(time.Since(begin))
	if err := ctx.Err(); err != nil {
		return report, err
	}
	s.PublishAll()
	return report, nil
}

type run struct {
	s       *Sim
	cfg     RunConfig
	client  *http.Client
	limit   *rate.Limiter
	tally   *tally
	retries sync.WaitGroup
	slots   chan struct{}

	queuesMu sync.Mutex
	queues   map[string]*queue // by path, of gateways that interrupt queues
}

func newRun(s *Sim, cfg RunConfig) *run {
	if cfg.Concurrency <= 0 {
		cfg.Concurrency = 32
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.RetryFor <= 0 {
		cfg.RetryFor = 60 * time.Second
	}
	if cfg.Hurry <= 0 {
		cfg.Hurry = 1
	}
	limit := rate.NewLimiter(rate.Inf, 0)
	if cfg.Rate > 0 {
		limit = rate.NewLimiter(rate.Limit(cfg.Rate), max(1, int(cfg.Rate/20)))
	}
	transport := &http.Transport{
		MaxIdleConns: 0, MaxIdleConnsPerHost: 2*cfg.Concurrency + 64, IdleConnTimeout: 90 * time.Second, DisableCompression: true,
	}
	return &run{
		s: s, cfg: cfg, limit: limit, tally: newTally(s), slots: make(chan struct{}, waiting), queues: map[string]*queue{},
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// send hands the schedule to the senders, unit by unit. When the order is to
// be kept, a payment always has the same sender.
func (r *run) send(ctx context.Context) {
	queues := make([]chan []*Delivery, r.cfg.Concurrency)
	keep := r.s.cfg.Order == OrderKeep
	for i := range queues {
		if i == 0 || keep {
			queues[i] = make(chan []*Delivery, 16)
		} else {
			queues[i] = queues[0]
		}
	}
	var senders sync.WaitGroup
	for i := range queues {
		senders.Go(func() {
			for unit := range queues[i] {
				r.unit(ctx, unit, !keep)
			}
		})
	}
	r.feed(ctx, queues)
	closed := map[chan []*Delivery]bool{}
	for _, q := range queues {
		if !closed[q] {
			close(q)
			closed[q] = true
		}
	}
	senders.Wait()
	r.retries.Wait()
}

func (r *run) feed(ctx context.Context, queues []chan []*Delivery) {
	all := r.s.deliveries
	for i := 0; i < len(all); {
		j := i + 1
		for j < len(all) && all[i].Group > 0 && all[j].Group == all[i].Group {
			j++
		}
		unit := make([]*Delivery, 0, j-i)
		for k := i; k < j; k++ {
			unit = append(unit, &all[k])
		}
		i = j
		if all[i-1].Kind != DeliveryLost {
			if r.limit.WaitN(ctx, min(len(unit), max(1, r.limit.Burst()))) != nil {
				return
			}
		}
		select {
		case queues[unit[0].Payment%len(queues)] <- unit:
		case <-ctx.Done():
			return
		}
	}
}

// unit sends deliveries at the same instant.
func (r *run) unit(ctx context.Context, ds []*Delivery, later bool) {
	for _, d := range ds {
		switch d.Kind {
		case DeliveryFirst, DeliveryLost:
			d.Publish()
		}
	}
	if len(ds) == 1 {
		r.deliver(ctx, ds[0], later)
		return
	}
	start := make(chan struct{})
	var all sync.WaitGroup
	for _, d := range ds {
		all.Go(func() {
			<-start
			r.deliver(ctx, d, later)
		})
	}
	close(start)
	all.Wait()
}

// deliver makes the first attempt; what has to be tried again waits beside
// the senders, so that one failure does not hold up the others.
func (r *run) deliver(ctx context.Context, d *Delivery, later bool) {
	if d.Kind == DeliveryLost {
		r.ended(Answer{Delivery: d}, nil)
		return
	}
	q := r.queueOf(d)
	if q.hold(held{d: d}) {
		return
	}
	begin := time.Now()
	a, body := r.attempt(ctx, d, 0)
	bodies := [][]byte{body}
	ok := a.Err == nil && d.Success(a.Status)
	q.note(ctx, ok)
	if !d.Authentic() || ok {
		r.ended(a, bodies)
		return
	}
	if later {
		select {
		case r.slots <- struct{}{}:
			r.retries.Go(func() {
				defer func() { <-r.slots }()
				r.retry(ctx, d, begin, a, bodies)
			})
			return
		default:
		}
	}
	r.retry(ctx, d, begin, a, bodies)
}

func (r *run) retry(ctx context.Context, d *Delivery, begin time.Time, a Answer, bodies [][]byte) {
	quick, q := firstRetry, r.queueOf(d)
	for try := 1; ; try++ {
		wait := r.wait(d.Gateway, try, quick)
		if n := r.policy(d.Gateway).attempts; time.Since(begin)+wait > r.cfg.RetryFor || n > 0 && try >= n {
			break
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		quick = min(2*quick, longestRetry)
		if q.hold(held{d, try, bodies}) {
			return
		}
		var body []byte
		a, body = r.attempt(ctx, d, try)
		bodies = appendOther(bodies, body)
		ok := a.Err == nil && d.Success(a.Status)
		q.note(ctx, ok)
		if ok {
			r.ended(a, bodies)
			return
		}
	}
	// Its last attempt may be what interrupted the queue: then it is kept too.
	if !q.hold(held{d, a.Try + 1, bodies}) {
		r.ended(a, bodies)
	}
}

// appendOther keeps the bodies of a delivery that differ.
func appendOther(bodies [][]byte, body []byte) [][]byte {
	if n := len(bodies); n > 0 && bytes.Equal(body, bodies[n-1]) {
		return bodies
	}
	return append(bodies, body)
}

func (r *run) ended(a Answer, bodies [][]byte) {
	done := r.tally.settle(a, bodies)
	if r.cfg.Progress != nil {
		r.cfg.Progress(done, len(r.s.deliveries))
	}
}

// attempt sends once. Signing happens here, at the time of sending.
func (r *run) attempt(ctx context.Context, d *Delivery, try int) (Answer, []byte) {
	timeout := r.policy(d.Gateway).timeout
	if timeout == 0 {
		timeout = r.cfg.Timeout
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	begin := time.Now()
	sent := d.Request(begin, try)
	a := Answer{Delivery: d, Try: try}
	if r.cfg.OnSend != nil {
		r.cfg.OnSend(d, hashOf(sent.kept()))
	}
	a.Status, a.Err = r.post(limited, strings.TrimRight(r.cfg.BaseURL(d.Gateway, d.Account), "/")+sent.Target(d.Path), sent)
	a.Latency = time.Since(begin)
	if ctx.Err() == nil {
		r.tally.attempt(a)
	}
	body := sent.kept()
	if r.cfg.OnAnswer != nil {
		a.BodySHA256 = hashOf(body)
		r.cfg.OnAnswer(a)
	}
	return a, body
}

func (r *run) post(ctx context.Context, url string, sent Sent) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(sent.Body))
	if err != nil {
		return 0, err
	}
	req.Header = sent.Header
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	// Read to the end, so that the connection is used again.
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)); err != nil {
		return 0, err
	}
	return resp.StatusCode, nil
}
