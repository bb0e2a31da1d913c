// Command powercuts takes the power from PostgreSQL and from the broker, some
// hundred times each, and says whether a promise was broken; `make powercut`
// calls it from the root of the repository. It reads
//
//	POWERCUTS      cuts of each campaign, 200 by default
//	POWERCUT_SEED  of everything that a seed can repeat; by default the time
//	POWERCUT_ONLY  postgres or jetstream, to play one of them
//
// and writes .umavez/powercut-report.json and .umavez/powercut-report.md. The
// exit code is 0 when every promise was kept, 1 when one was broken or a
// campaign could not be played, 2 for settings that cannot be right.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/umavez/umavez/pkg/powercut/campaign"
)

// reports is where the reports go.
const reports = ".umavez"

var errSettings = errors.New("settings")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx); {
	case errors.Is(err, errSettings):
		fmt.Fprintln(os.Stderr, "powercuts:", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "powercuts:", err)
		os.Exit(1)
	}
}

// number reads a setting.
func number(name string, otherwise uint64) (uint64, error) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%w: %s is %q; it must be a whole number", errSettings, name, text)
	}
	return n, nil
}

// play is one of the campaigns.
type play struct {
	name     string
	perPhase int // a broker is back sooner than a database, so a load meets more cuts
	run      func(context.Context, campaign.Config) (*campaign.Result, error)
}

func run(ctx context.Context) error {
	cuts, err := number("POWERCUTS", 200)
	if err != nil {
		return err
	}
	seed, err := number("POWERCUT_SEED", uint64(time.Now().Unix()))
	if err != nil {
		return err
	}
	if cuts < 1 || cuts > 100_000 {
		return fmt.Errorf("%w: POWERCUTS is %d; it must be from 1 to 100000", errSettings, cuts)
	}
	plays := []play{{"postgres", 20, campaign.Postgres}, {"jetstream", 40, campaign.JetStream}}
	switch only := os.Getenv("POWERCUT_ONLY"); only {
	case "":
	case plays[0].name:
		plays = plays[:1]
	case plays[1].name:
		plays = plays[1:]
	default:
		return fmt.Errorf("%w: POWERCUT_ONLY is %q; it must be postgres or jetstream", errSettings, only)
	}
	dir, err := os.MkdirTemp("", "umavez-powercut-")
	if err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.MkdirAll(reports, 0o755)); err != nil { // PostgreSQL's user passes through it
		return err
	}
	bin := filepath.Join(dir, "bin")
	if err := campaign.Build(ctx, ".", bin, os.Stderr); err != nil {
		return err
	}
	r := &campaign.Report{Seed: seed, Command: fmt.Sprintf("POWERCUT_SEED=%d POWERCUTS=%d make powercut", seed, cuts)}
	for _, one := range plays {
		began := time.Now()
		result, err := one.run(ctx, campaign.Config{
			Dir: filepath.Join(dir, one.name), Bin: bin, Seed: seed, Cuts: int(cuts), PerPhase: one.perPhase, Payments: 700, Rate: 60, Sync: campaign.Syncs,
			Say: func(format string, args ...any) {
				fmt.Printf("%4.0f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
			},
		})
		r.Results = append(r.Results, result)
		if err != nil {
			break
		}
	}
	r.Table(os.Stdout)
	if err := r.Write(reports); err != nil {
		return err
	}
	fmt.Printf("\nThe same as JSON and Markdown: %s/powercut-report.json, %s/powercut-report.md\n", reports, reports)
	if !r.OK() {
		return fmt.Errorf("a promise was broken, or a campaign could not be played; logs are in %s; again: %s", dir, r.Command)
	}
	return os.RemoveAll(dir)
}
