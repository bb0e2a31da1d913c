// Package campaign takes the power away, hundreds of times, from the machine
// that PostgreSQL runs on and from the one that the broker runs on, while the
// whole of umavez is under load, and judges after each cut and at the end
// whether a promise was broken.
//
// What a gateway was told is written down by its side, attempt by attempt: ok,
// failed, or unknown when no answer came. Only then is the database looked at.
// An event that was answered with success must be stored with its bytes, what
// anybody could read before the cut must still be there, every invariant must
// hold at once, and in the end everything is final and equal to the simulator's
// truth to the cent.
//
// A campaign that cannot fail shows nothing. With fsync turned off in
// PostgreSQL the same campaign must break (Liar), and over the cuts of the
// broker at least one message that it had acknowledged must be lost.
package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/umavez/umavez/pkg/powercut"
)

// Config says how much is cut, and where.
type Config struct {
	// Dir takes data of what is not cut, logs and mounts; it must be empty or
	// absent, and every user must be able to pass through it.
	Dir string
	// Bin holds the programs umavez and sweeper; see Build.
	Bin string
	// Seed determines the simulator's load, the moments and the remains of the
	// cuts. Processes are scheduled as ever, so that a seed repeats the
	// campaign and not each interleaving.
	Seed uint64
	// Cuts is how many there are at least; PerPhase how many meet one load.
	Cuts, PerPhase int
	// Payments of one load; Rate is how many webhooks a second it sends.
	Payments int
	Rate     float64
	// Liar runs PostgreSQL with fsync off: the campaign must fail then.
	Liar bool
	// Sync are the sync intervals of the broker, phase by phase; 0 is always.
	Sync []time.Duration
	// Say takes lines about the progress.
	Say func(format string, args ...any)
}

// Result is what one campaign did and found.
type Result struct {
	Name    string                `json:"name"`
	Seed    uint64                `json:"seed"`
	Cuts    int                   `json:"cuts"`
	ByMode  map[powercut.Mode]int `json:"cuts_by_mode"`
	Phases  int                   `json:"load_phases"`
	Kills   int                   `json:"kills_of_the_roles"` // together with a cut
	Seconds float64               `json:"seconds"`
	// Kept and Torn are pieces that were not synced, over all cuts.
	PiecesKept int `json:"unsynced_pieces_kept"`
	PiecesLost int `json:"unsynced_pieces_lost"`

	Attempts     Attempts `json:"attempts"`
	Acknowledged int      `json:"events_acknowledged"` // different ones
	Entries      int      `json:"ledger_entries"`
	Transitions  int      `json:"transitions"`
	Payments     int      `json:"payments"`
	Rescued      int      `json:"events_rescued_by_sweeps"`
	// RestartMedian is from the return of the power until the first answer.
	RestartMedian float64 `json:"restart_median_ms"`
	RestartMax    float64 `json:"restart_max_ms"`

	Broker *BrokerLoss `json:"broker,omitempty"`

	// Lost counts acknowledged events that were not stored, or not as they
	// came; Faults are the first things that were wrong, Faulty all of them.
	Lost   int      `json:"acknowledged_events_lost"`
	Faulty int      `json:"faults"`
	Faults []string `json:"first_faults,omitempty"`
	Error  string   `json:"error,omitempty"` // why it did not come to its end

	restarts []time.Duration
}

// OK says whether every promise was kept and the campaign came to its end.
func (r *Result) OK() bool { return r.Faulty == 0 && r.Error == "" }

// shown bounds the list of faults.
const shown = 30

func (r *Result) fault(format string, args ...any) {
	r.Faulty++
	if len(r.Faults) < shown {
		r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
	}
}

func (r *Result) cut(l powercut.Loss) {
	r.Cuts++
	r.ByMode[l.Mode]++
	r.PiecesKept += l.Kept
	r.PiecesLost += l.Lost
}

// campaign is what both of them share.
type campaign struct {
	Config
	r     *Result
	rng   *rand.Rand
	disk  *powercut.Disk
	mount *powercut.Mount
}

// begin prepares the directory and mounts a disk in it.
func begin(cfg Config, name string, o powercut.Options) (*campaign, error) {
	if cfg.Say == nil {
		cfg.Say = func(string, ...any) {}
	}
	c := &campaign{Config: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, uint64(len(name)))),
		r: &Result{Name: name, Seed: cfg.Seed, ByMode: map[powercut.Mode]int{}}}
	at := filepath.Join(cfg.Dir, "mount")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return c, err
	}
	c.disk = powercut.New(o)
	var err error
	if c.mount, err = c.disk.Mount(at); err != nil {
		return c, err
	}
	return c, os.Chmod(at, 0o777) // PostgreSQL's user makes its directory here
}

// end unmounts, and finishes the result.
func (c *campaign) end(began time.Time, err error) (*Result, error) {
	if c.mount != nil {
		err = errors.Join(err, c.mount.Unmount())
	}
	c.r.Seconds = time.Since(began).Seconds()
	c.r.RestartMedian, c.r.RestartMax = medianAndMax(c.r.restarts)
	if err != nil {
		c.r.Error = err.Error()
	}
	return c.r, err
}

// mode goes through the modes in turn, so that each has its share.
func (c *campaign) mode() powercut.Mode { return powercut.Modes[c.r.Cuts%len(powercut.Modes)] }

// Build compiles the programs that a campaign runs into dir, from the module
// whose root is given.
func Build(ctx context.Context, root, dir string, out io.Writer) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator), "./cmd/umavez", "./cmd/sweeper")
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build: %w", err)
	}
	return nil
}

func medianAndMax(all []time.Duration) (median, most float64) {
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return ms(all[len(all)/2]), ms(all[len(all)-1])
}
