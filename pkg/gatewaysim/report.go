package gatewaysim

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Report is what became of a Run.
type Report struct {
	Seed     uint64 `json:"seed"`
	Payments int    `json:"payments"`
	// Scheduled is the length of the schedule, by kind in ByKind.
	Scheduled int                  `json:"scheduled"`
	ByKind    map[DeliveryKind]int `json:"by_kind"`

	Requests     int `json:"requests"`     // sent, retries included
	Retries      int `json:"retries"`      //
	Acknowledged int `json:"acknowledged"` // authentic deliveries that ended in success
	GivenUp      int `json:"given_up"`     // authentic deliveries that never did
	// Events are those in the acknowledged deliveries, of which some carry
	// several, and RetriedEvents those in the retries.
	Events        int `json:"events"`
	RetriedEvents int `json:"retried_events"`
	Refused       int `json:"refused"` // forged ones answered 400 or 401, as they should
	// Stopped is how often a gateway interrupted a queue; see
	// RunConfig.Contracts.
	Stopped int `json:"queues_stopped"`
	// ForgedAccepted are forged ones that got a success answer: a hole.
	ForgedAccepted int `json:"forged_accepted"`
	// ForgedOdd are forged ones that got any other answer, or none.
	ForgedOdd int `json:"forged_odd"`

	// Answers counts attempts by status, or by "timeout" and "no answer".
	Answers map[string]int `json:"answers"`

	Elapsed         time.Duration `json:"elapsed_ns"`
	EventsPerSecond float64       `json:"events_per_second"` // acknowledged deliveries
	// Latency is from sending to the answer, of attempts that were
	// acknowledged.
	Latency Latency `json:"latency"`

	// Accepted are all acknowledged deliveries: a receiver must have every
	// one of these events.
	Accepted []Accepted `json:"accepted,omitempty"`
}

// Latency is a distribution, in milliseconds.
type Latency struct {
	P50 float64 `json:"p50_ms"`
	P90 float64 `json:"p90_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

// Accepted is one acknowledged delivery.
type Accepted struct {
	Gateway   string       `json:"gateway"`
	Account   string       `json:"account"`
	Kind      DeliveryKind `json:"kind"`
	EventType string       `json:"event_type"`
	EventID   string       `json:"event_id,omitempty"`
	// Identity is shared by deliveries of one event. Of those a receiver keeps
	// one body, and needs to keep no more.
	Identity   string `json:"identity,omitempty"`
	BodySHA256 string `json:"body_sha256"`
	// EarlierSHA256 are bodies of the attempts before, where they differed:
	// the receiver may have stored one of them and lost the answer.
	EarlierSHA256 []string `json:"earlier_sha256,omitempty"`
	Payment       int      `json:"payment"` // index into Truth
}

// Answer is what one attempt got.
type Answer struct {
	Delivery *Delivery
	Try      int // 0 is the first attempt
	Status   int // 0 without an answer
	Err      error
	Latency  time.Duration
	// BodySHA256 is that of what was sent, in hex; of a request that may tell
	// of several events, of the part about the delivery's own.
	BodySHA256 string
}

// tally collects answers; it is safe for concurrent use.
type tally struct {
	mu   sync.Mutex
	r    Report
	hist *hdrhistogram.Histogram // microseconds
	done int                     // deliveries that are through
}

func newTally(s *Sim) *tally {
	t := &tally{hist: hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3)}
	t.r = Report{Seed: s.cfg.Seed, Payments: len(s.payments), Scheduled: len(s.deliveries),
		ByKind: map[DeliveryKind]int{}, Answers: map[string]int{}}
	for i := range s.deliveries {
		t.r.ByKind[s.deliveries[i].Kind]++
	}
	return t
}

func (t *tally) stopped() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.Stopped++
}

func (t *tally) attempt(a Answer) {
	name := strconv.Itoa(a.Status)
	var timeout net.Error
	switch {
	case errors.As(a.Err, &timeout) && timeout.Timeout():
		name = "timeout"
	case a.Err != nil:
		name = "no answer"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.Requests++
	t.r.Answers[name]++
	if a.Try > 0 {
		t.r.Retries++
		t.r.RetriedEvents += a.Delivery.Events()
	}
}

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// settle counts how a delivery ended, and returns how many have ended. The
// bodies are those of its attempts, without repetitions in a row.
func (t *tally) settle(a Answer, bodies [][]byte) int {
	d := a.Delivery
	ok := a.Err == nil && d.Success(a.Status)
	var hash string
	var earlier []string
	if ok && d.Authentic() {
		for i, body := range bodies {
			if hash = hashOf(body); i < len(bodies)-1 {
				earlier = append(earlier, hash)
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done++
	switch {
	case d.Kind == DeliveryLost:
	case !d.Authentic() && a.Err == nil && a.Status >= 200 && a.Status < 300:
		t.r.ForgedAccepted++
	case !d.Authentic() && (a.Status == 400 || a.Status == 401):
		t.r.Refused++
	case !d.Authentic():
		t.r.ForgedOdd++
	case !ok:
		t.r.GivenUp++
	default:
		t.r.Acknowledged++
		t.r.Events += d.Events()
		_ = t.hist.RecordValue(max(1, a.Latency.Microseconds()))
		t.r.Accepted = append(t.r.Accepted, Accepted{
			Gateway: d.Gateway, Account: d.Account, Kind: d.Kind, EventType: d.EventType, EventID: d.EventID,
			Identity: d.Identity, BodySHA256: hash, EarlierSHA256: earlier, Payment: d.Payment,
		})
	}
	return t.done
}

func (t *tally) report(elapsed time.Duration) Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	ms := func(q float64) float64 { return float64(t.hist.ValueAtQuantile(q)) / 1000 }
	t.r.Latency = Latency{P50: ms(50), P90: ms(90), P99: ms(99), Max: float64(t.hist.Max()) / 1000}
	t.r.Elapsed = elapsed
	if elapsed > 0 {
		t.r.EventsPerSecond = float64(t.r.Acknowledged) / elapsed.Seconds()
	}
	return t.r
}
