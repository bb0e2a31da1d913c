package ingest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/umavez/umavez/pkg/provider"
)

// Rejection is a group of refused requests of one source for one reason, for
// the list that on-call reads.
type Rejection struct {
	Provider, Account string
	Reason            string
	Detail            string // how many, how large
}

const (
	rejectionsKept    = 256             // groups between two writes; more are only counted
	rejectionsEvery   = time.Second     // between two writes
	rejectionsTimeout = 2 * time.Second // of one write
)

// rejections gathers refused requests and writes them in the background, so
// that forgers cost us a counter and neither a statement nor a wait.
type rejections struct {
	record  func(context.Context, []Rejection) error
	metrics *metrics
	log     *zap.Logger

	mu     sync.Mutex
	groups map[rejectionGroup]*rejectionCount

	stop chan struct{}
	wg   sync.WaitGroup
}

type rejectionGroup struct {
	provider, account string
	reason            provider.Reason
}

type rejectionCount struct {
	n, smallest, largest int
	why                  string // of the first one, where the gateway can say
}

func (r *rejections) start() {
	r.wg.Add(1)
	go func() {
		defer r.wg.Done()
		tick := time.NewTicker(rejectionsEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.write()
			case <-r.stop:
				r.write()
				return
			}
		}
	}()
}

// close writes what is left.
func (r *rejections) close() {
	close(r.stop)
	r.wg.Wait()
}

// add counts a refused request. why is asked for the first of a group only,
// so that forgers cost no more than that.
func (r *rejections) add(src source, reason provider.Reason, bodyBytes int, why func() string) {
	r.metrics.reject(src.name, reason)
	group := rejectionGroup{src.name, src.account, reason}
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.groups[group]
	if !ok {
		if len(r.groups) >= rejectionsKept {
			r.metrics.unrecorded.Inc()
			return
		}
		c = &rejectionCount{smallest: bodyBytes, why: why()}
		r.groups[group] = c
	}
	c.n++
	c.smallest, c.largest = min(c.smallest, bodyBytes), max(c.largest, bodyBytes)
}

func (r *rejections) write() {
	groups := r.taken()
	if len(groups) == 0 {
		return
	}
	list := make([]Rejection, 0, len(groups))
	for g, c := range groups {
		list = append(list, Rejection{g.provider, g.account, string(g.reason), c.detail()})
	}
	ctx, cancel := context.WithTimeout(context.Background(), rejectionsTimeout)
	defer cancel()
	if err := r.record(ctx, list); err != nil {
		r.metrics.unrecorded.Add(float64(len(list)))
		r.log.Warn("rejections.unrecorded", zap.Int("groups", len(list)), zap.Error(err))
	}
}

// taken empties the gathering and returns what was in it; a map that others
// still write to never leaves the lock.
func (r *rejections) taken() map[rejectionGroup]*rejectionCount {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.groups) == 0 {
		return nil
	}
	groups := r.groups
	r.groups = map[rejectionGroup]*rejectionCount{}
	return groups
}

func (c *rejectionCount) detail() string {
	text := fmt.Sprintf("%d requests, bodies of %d to %d bytes", c.n, c.smallest, c.largest)
	if c.n == 1 {
		text = fmt.Sprintf("1 request, a body of %d bytes", c.largest)
	}
	return text + c.why
}

// longestWhy bounds what strangers may have written in it.
const longestWhy = 600

// explain lists the texts of which none has the digest that was sent, so that
// on-call sees which of them the sender should have signed, or did.
func explain(src source, req provider.Request, reason provider.Reason) (why string) {
	defer func() {
		if recover() != nil { // it is for people only; nothing depends on it
			why = ""
		}
	}()
	e, ok := provider.As[provider.Explainer](src.Provider)
	if !ok || reason != provider.ReasonMismatch {
		return ""
	}
	for _, s := range e.Explain(req) {
		matched := "no secret matches"
		if s.Secret != "" {
			matched = "secret " + s.Secret + " matches, but this form is not accepted"
		}
		why += fmt.Sprintf("; %s, %+q: %s", s.Name, s.Text, matched)
	}
	return why[:min(len(why), longestWhy)]
}
