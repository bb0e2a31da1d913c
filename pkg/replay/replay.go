// Package replay runs stored events through the processor again, on purpose:
// after an adapter was repaired, after an incident, or beside a debugger. It
// gives a settled event another turn, as a resend from the gateway's panel
// does, and needs neither the gateway nor the queue for it.
//
// What it promises: nothing is applied twice. The processor meets a replayed
// event like any other, so a fact that was applied is found repeated. An event
// gets one turn more, however many replay it at the same moment. What it does
// not: undo anything, or touch an event that is unfinished.
package replay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/umavez/umavez/pkg/event"
)

// Filter says which events are meant. IDs stand alone; else every other field
// that is set must fit.
type Filter struct {
	IDs                        []int64
	Provider, Account, Payment string
	Statuses                   []event.Status // of their newest result
	Since, Until               time.Time      // of receipt: from, and before; zero is open
}

// Row is one event that a filter names.
type Row struct {
	Event event.Event // with its body and headers only where OnReceipt
	// Status, Outcome and Reason are those of its newest result, or why it is
	// unfinished.
	Status     event.Status
	Outcome    event.Outcome
	Reason     string
	Turn       int32 // of the newest result
	Unfinished bool
	HasBody    bool
	OnReceipt  bool // settled when it was received: no processor has seen it
}

// Store is the storage that a replay needs.
type Store interface {
	// ReplayPage reads events that a filter names, in the order of their ids
	// and behind the given one.
	ReplayPage(ctx context.Context, f Filter, after int64, limit int) ([]Row, error)
	// Replay gives settled events another turn and returns the ids of those
	// that got it: not those with another turn than the row's since.
	Replay(ctx context.Context, rows []Row) ([]int64, error)
}

// Judge says why an event must be left alone, or "".
type Judge func(Row) string

// Listed is one event of a summary.
type Listed struct {
	ID         int64     `json:"id"`
	Provider   string    `json:"provider"`
	Account    string    `json:"account"`
	Type       string    `json:"type"`
	Payment    string    `json:"payment,omitempty"`
	ReceivedAt time.Time `json:"received_at"`
	Was        string    `json:"was"` // status, and outcome or reason
	LeftAlone  string    `json:"left_alone,omitempty"`
	// Became is what the processor made of it, where that was waited for.
	Became string `json:"became,omitempty"`
}

// Summary is what a replay did, or with a dry run would have done.
type Summary struct {
	DryRun    bool           `json:"dry_run"`
	Matched   int            `json:"matched"`
	Replayed  int            `json:"replayed"`
	LeftAlone map[string]int `json:"left_alone"` // by reason
	NotFound  []int64        `json:"not_found,omitempty"`
	More      bool           `json:"more"` // the limit was reached
	Events    []Listed       `json:"events"`
	Became    map[string]int `json:"became,omitempty"`
	Took      time.Duration  `json:"took_ns"`
	replayed  []int64
}

// Replayer makes replays.
type Replayer struct {
	Store Store
	Judge Judge
	// Progress is told how many events were looked at so far.
	Progress func(looked int)
}

// pageSize is how many events get their turn in one transaction.
const pageSize = 500

// Run replays what the filter names, at most limit events, and lists at most
// rows of them. A run that is cut short has done part of its work and harmed
// nothing.
func (r *Replayer) Run(ctx context.Context, f Filter, dryRun bool, limit, rows int) (sum Summary, err error) {
	started := time.Now()
	sum = Summary{DryRun: dryRun, LeftAlone: map[string]int{}, Events: []Listed{}}
	defer func() { sum.Took = time.Since(started) }()
	missing := slices.Clone(f.IDs)
	for after := int64(0); ; {
		size := pageSize
		if left := limit - sum.Matched; left < size {
			size = left + 1 // one more says that there are more
		}
		page, err := r.Store.ReplayPage(ctx, f, after, size)
		if err != nil {
			return sum, err
		}
		if len(page) == 0 {
			break
		}
		after = page[len(page)-1].Event.ID
		if left := limit - sum.Matched; len(page) > left {
			page, sum.More = page[:left], true
		}
		for _, row := range page {
			missing = slices.DeleteFunc(missing, func(id int64) bool { return id == row.Event.ID })
		}
		if err := r.page(ctx, page, rows, &sum); err != nil {
			return sum, err
		}
		if r.Progress != nil {
			r.Progress(sum.Matched)
		}
		if sum.More {
			return sum, nil
		}
	}
	sum.NotFound = missing
	return sum, nil
}

func (r *Replayer) page(ctx context.Context, page []Row, rows int, sum *Summary) error {
	whys := make([]string, len(page))
	var chosen []Row
	for i, row := range page {
		if whys[i] = r.leave(row); whys[i] == "" {
			chosen = append(chosen, row)
		}
	}
	if !sum.DryRun {
		done, err := r.Store.Replay(ctx, chosen)
		if err != nil {
			return err
		}
		sum.replayed = append(sum.replayed, done...)
		for i, row := range page {
			if whys[i] == "" && !slices.Contains(done, row.Event.ID) {
				whys[i] = "unfinished: somebody else put it back a moment ago"
			}
		}
	}
	for i, row := range page {
		sum.Matched++
		if whys[i] == "" {
			sum.Replayed++
		} else {
			sum.LeftAlone[whys[i]]++
		}
		if len(sum.Events) < rows {
			sum.Events = append(sum.Events, listed(row, whys[i]))
		}
	}
	return nil
}

// leave says why an event is left alone, or "".
func (r *Replayer) leave(row Row) string {
	switch {
	case row.Unfinished:
		return "unfinished: it is worked on, or waits"
	case row.Turn == 0:
		return "defect: it is neither unfinished nor settled; see umavez verify"
	case !row.HasBody && !row.Event.Own():
		return "its body is gone: dropped by BODY_RETENTION"
	}
	return r.Judge(row)
}

func listed(row Row, why string) Listed {
	e := &row.Event
	was := string(row.Status)
	switch {
	case row.Outcome != "":
		was += ", " + string(row.Outcome)
	case row.Reason != "":
		was += ", " + row.Reason
	}
	return Listed{ID: e.ID, Provider: e.Provider, Account: e.Account, Type: e.Type, Payment: e.PaymentRef, ReceivedAt: e.ReceivedAt, Was: was, LeftAlone: why}
}

// Await looks at the replayed events until they are settled, or ctx ends, and
// adds to the summary what became of them: its status with its outcome. It
// returns how many are unfinished. A parked event waits for its own time and
// is not waited for here.
func (r *Replayer) Await(ctx context.Context, sum *Summary) (unfinished int, err error) {
	for {
		became := map[int64]string{}
		unfinished = 0
		for ids := range slices.Chunk(sum.replayed, pageSize) {
			page, err := r.Store.ReplayPage(context.WithoutCancel(ctx), Filter{IDs: ids}, 0, len(ids))
			if err != nil {
				return len(sum.replayed), err
			}
			for _, row := range page {
				if row.Status == event.StatusPending {
					unfinished++
				}
				became[row.Event.ID] = listed(row, "").Was
			}
		}
		if unfinished > 0 && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
			continue
		}
		sum.Became = map[string]int{}
		for _, what := range became {
			sum.Became[what]++
		}
		for i := range sum.Events {
			sum.Events[i].Became = became[sum.Events[i].ID]
		}
		return unfinished, nil
	}
}

// Validate says what is wrong with a filter.
func (f Filter) Validate() error {
	others := f.Provider != "" || f.Account != "" || f.Payment != "" || len(f.Statuses) > 0 || !f.Since.IsZero() || !f.Until.IsZero()
	switch {
	case len(f.IDs) > 0 && others:
		return fmt.Errorf("event ids stand alone, without a filter")
	case len(f.IDs) == 0 && !others:
		return fmt.Errorf("name events by their ids, or by a filter such as --payment or --status")
	case !f.Until.IsZero() && !f.Since.Before(f.Until):
		return fmt.Errorf("--since must be before --until")
	}
	for _, s := range f.Statuses {
		if !slices.Contains(settled, s) {
			return fmt.Errorf("--status %.40q is not one of dead, quarantined, ignored, processed", s)
		}
	}
	return nil
}

var settled = []event.Status{event.StatusDead, event.StatusQuarantined, event.StatusIgnored, event.StatusProcessed}
