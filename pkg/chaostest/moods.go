package chaostest

import (
	"bytes"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

// mood is how the gateways' APIs behave for a while.
type mood string

// The moods. An answer about another payment, or one that is cut short, is a
// contradiction that must never move money.
const (
	moodCalm    mood = ""
	moodSlow    mood = "slow"      // beyond the time-out of a lookup
	moodTooMany mood = "too_many"  // 429 with Retry-After
	moodErrors  mood = "errors"    // 500 and 503
	moodStale   mood = "stale"     // a replica that lags
	moodOther   mood = "other"     // the answer to another question
	moodTorn    mood = "torn"      // half an answer
	moodUnknown mood = "not_found" // 404 for what exists
)

// moods is the gateways' API with a mood.
type moods struct {
	sim  *gatewaysim.Sim
	next http.Handler
	calm gatewaysim.API // when it has none
	slow time.Duration  // beyond the time-out of a lookup

	mu       sync.Mutex
	mood     mood
	answered map[mood]int      // with a mood, how many
	earlier  map[string][]byte // the newest good answer by kind of question
}

func newMoods(sim *gatewaysim.Sim, calm gatewaysim.API, lookupTimeout time.Duration) *moods {
	return &moods{sim: sim, next: sim.APIHandler(), calm: calm, slow: lookupTimeout + time.Second, answered: map[mood]int{}, earlier: map[string][]byte{}}
}

// set changes the mood; the returned function calms it down.
func (m *moods) set(to mood) (heal func()) {
	put := func(to mood) {
		api := m.calm
		if to == moodStale {
			api.Stale = 1
		}
		m.sim.SetAPI(api)
		m.mu.Lock()
		m.mood = to
		m.mu.Unlock()
	}
	put(to)
	return func() { put(moodCalm) }
}

// counted is how many answers were given in a mood so far.
func (m *moods) counted() map[mood]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.answered)
}

func (m *moods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	now := m.mood
	m.answered[now]++
	m.mu.Unlock()
	switch now {
	case moodSlow:
		select {
		case <-time.After(m.slow):
		case <-r.Context().Done():
			return
		}
	case moodTooMany:
		w.Header().Set("Retry-After", "1")
		http.Error(w, `{"error":"too many requests"}`, http.StatusTooManyRequests)
		return
	case moodErrors:
		http.Error(w, `{"error":"something went wrong"}`, []int{http.StatusInternalServerError, http.StatusServiceUnavailable}[time.Now().UnixNano()%2])
		return
	case moodUnknown:
		http.Error(w, `{"error":"not found"}`, http.StatusNotFound)
		return
	}
	kind := questionKind(r)
	rec := &recorder{header: http.Header{}, status: http.StatusOK}
	m.next.ServeHTTP(rec, r)
	body := rec.body.Bytes()
	m.mu.Lock()
	other := m.earlier[kind]
	if rec.status == http.StatusOK && r.Method == http.MethodGet {
		m.earlier[kind] = bytes.Clone(body)
	}
	m.mu.Unlock()
	switch {
	case now == moodOther && other != nil && r.Method == http.MethodGet && !opaque(r):
		body = other
	case now == moodTorn:
		body = body[:len(body)/2]
	}
	maps.Copy(w.Header(), rec.header)
	w.Header().Del("Content-Length")
	w.WriteHeader(rec.status)
	_, _ = w.Write(body)
}

// opaque says that the answer to a question does not repeat what was asked, so
// that nobody can tell it from another's: PagBank's notification codes.
func opaque(r *http.Request) bool {
	return strings.Contains(r.URL.Path, "/transactions/notifications/")
}

// questionKind is the path without its last part, which is the id, and whose
// account asks: an answer to one such question looks like that to another.
func questionKind(r *http.Request) string {
	path := r.URL.Path
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		path = path[:i]
	}
	return path + " " + r.Header.Get("Authorization") + r.Header.Get("access_token")
}

// recorder keeps an answer back.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
