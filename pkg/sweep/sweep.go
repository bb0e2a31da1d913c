// Package sweep holds what the sweeper and its storage say to each other: which
// events a pass looks at, what it found, and what it did.
package sweep

import (
	"time"

	"github.com/umavez/umavez/pkg/event"
)

// Filter narrows a pass.
type Filter struct {
	Provider  string        // "" is all
	OlderThan time.Duration // 0: what is due; else pending events at least this old, due or not
}

// Cursor is the key of the last row of a page; the zero Cursor is the start.
type Cursor struct {
	NextAt  time.Time
	EventID int64
}

// Row is an unfinished event that is due.
type Row struct {
	Notice            event.Notice
	NextAt            time.Time
	Type              string
	State             event.Status
	Reason            string
	Attempts, Sweeps  int
	Turn              int // 1, and one more for each revival
	Since, ReceivedAt time.Time
}

// ComesByItself says whether processors take the row at its time without being
// rung for. The storage has the same condition in SQL; a test holds the two in
// step.
func (r Row) ComesByItself() bool {
	return r.State == event.StatusParked || r.Attempts > 0 || r.Turn > 1
}

// Reconcile says which payments are to be looked up again.
type Reconcile struct {
	After   time.Duration // not seen for so long
	Within  time.Duration // and first heard of within this time
	All     bool          // also those that look settled
	Sources []string      // "<provider>/<account>" of the sources that can look up
}

// Summary is what one pass did, or with a dry run would have done.
type Summary struct {
	DryRun     bool           `json:"dry_run"`
	Looked     int            `json:"looked_at"`         // rows that were due
	Lost       int            `json:"lost"`              // pending rows put back on the queue
	Due        int            `json:"due"`               // parked or failed rows put back on the queue
	Waiting    int            `json:"waiting"`           // still in the queue, refused by the server
	Failed     int            `json:"failed"`            // could not be published; next pass tries again
	Dead       int            `json:"dead"`              // parked for too long
	Reconciled int            `json:"reconciled"`        // payments entered for a lookup
	Days       int            `json:"body_days_dropped"` // days whose bodies were dropped
	Forgotten  int            `json:"events_forgotten"`  // settled events beyond KEY_RETENTION
	Reasons    map[string]int `json:"reasons"`           // why the due rows wait
	// Parked are the events that wait for their time, by reason; a dry run
	// tells, and only where it was asked for by a person.
	Parked []Parked      `json:"parked,omitempty"`
	Took   time.Duration `json:"took_ns"`
}

// Parked is how many events wait for one reason and are not due.
type Parked struct {
	Reason string    `json:"reason"`
	Events int       `json:"events"`
	NextAt time.Time `json:"next_at"` // when the first of them is due
}
