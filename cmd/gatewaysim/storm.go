package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

// storm is one run of the command.
type storm struct {
	simFlags
	targetFlags
	run      gatewaysim.RunConfig
	api      string
	linger   time.Duration
	truth    string
	accepted string
}

func newStorm() *cobra.Command {
	s := &storm{}
	cmd := &cobra.Command{
		Use:   "storm",
		Short: "Sends the webhooks of many payments and serves the lookup API",
		Long: `storm sends the whole schedule to ingest as fast as it goes (or at --rate),
tries again what is not acknowledged, and prints a report. Meanwhile, and for
--linger afterwards, it serves the lookup API. umavez must run with the output
of "gatewaysim settings" of the same seed and gateways.`,
		Example: `  gatewaysim storm --seed 7 --payments 2000 --target http://127.0.0.1:8080
  gatewaysim storm --order reverse --duplicates 2 --api-stale 0.2 --truth-file truth.json -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.execute(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	s.simFlags.register(cmd, defaultPayments)
	s.registerShares(cmd)
	s.registerAPI(cmd)
	s.targetFlags.register(cmd)
	fs := cmd.Flags()
	fs.IntVar(&s.run.Concurrency, "concurrency", 32, "how many senders")
	fs.Float64Var(&s.run.Rate, "rate", 0, "deliveries a second; 0 is as many as go")
	fs.DurationVar(&s.run.RetryFor, "retry-for", time.Minute, "how long a delivery is tried again")
	fs.BoolVar(&s.run.Contracts, "contracts", false, "keep the gateways' own time-outs and retry schedules, and interrupt queues as they do")
	fs.Float64Var(&s.run.Hurry, "hurry", 600, "with --contracts: divide the waits of the schedules by this")
	fs.DurationVar(&s.run.ResumeAfter, "resume-after", 5*time.Second, "with --contracts: when an interrupted queue is put on again; 0 is never")
	fs.StringVar(&s.api, "api-addr", defaultAPI, "address of the lookup API; of this machine only")
	fs.DurationVar(&s.linger, "linger", 0, "how long to serve the lookup API after the last webhook")
	fs.StringVar(&s.truth, "truth-file", "", "write the truth about all payments there, as JSON")
	fs.StringVar(&s.accepted, "accepted-file", "", "write the acknowledged deliveries there, as JSON")
	return cmd
}

func (s *storm) execute(ctx context.Context, stdout, stderr io.Writer) error {
	if err := s.check(); err != nil {
		return err
	}
	if n := s.run.Concurrency; n < 1 || n > 10_000 {
		return fmt.Errorf("--concurrency is %d; it must be from 1 to 10000", n)
	}
	if r := s.run.Rate; !(r >= 0) || math.IsInf(r, 0) { // NaN is not above zero either
		return fmt.Errorf("--rate is %v; it must be a number of deliveries a second, or 0", r)
	}
	if err := notNegative(map[string]time.Duration{"retry-for": s.run.RetryFor, "linger": s.linger}); err != nil {
		return err
	}
	sim, err := s.sim()
	if err != nil {
		return err
	}
	if err := toFile(s.truth, sim.Truth()); err != nil {
		return err
	}
	api, err := listen(sim, s.api)
	if err != nil {
		return err
	}
	defer api.close()
	s.run.BaseURL = func(string, string) string { return s.target }
	s.run.Progress = progress(stderr)
	report, runErr := sim.Run(ctx, s.run)
	if err := toFile(s.accepted, report.Accepted); err != nil {
		return err
	}
	report.Accepted = nil
	if s.output == "json" {
		err = writeJSON(stdout, report)
	} else {
		printReport(stdout, report)
	}
	if err != nil || runErr != nil {
		return errors.Join(err, runErr)
	}
	select {
	case <-time.After(s.linger):
	case <-ctx.Done():
	}
	return verdict(report)
}

// verdict says whether the target did its part.
func verdict(r gatewaysim.Report) error {
	var faults []error
	for _, f := range []struct {
		n    int
		what string
	}{
		{r.GivenUp, "authentic webhooks were never acknowledged"},
		{r.ForgedAccepted, "forged webhooks were accepted"},
		{r.ForgedOdd, "forged webhooks were not answered 400 or 401"},
	} {
		if f.n > 0 {
			faults = append(faults, fmt.Errorf("%w: %d %s", errTarget, f.n, f.what))
		}
	}
	return errors.Join(faults...)
}

// progress shows a bar on a terminal, and nothing elsewhere.
func progress(w io.Writer) func(done, total int) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	bar := progressbar.NewOptions(0, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription("webhooks"),
		progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	return func(_, total int) {
		if bar.GetMax() != total {
			bar.ChangeMax(total)
		}
		_ = bar.Add(1)
	}
}

func toFile(path string, v any) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(writeJSON(f, v), f.Close())
}

func printReport(w io.Writer, r gatewaysim.Report) {
	fmt.Fprintf(w, "seed %d: %d payments, %d webhooks in %s\n", r.Seed, r.Payments, r.Scheduled, r.Elapsed.Round(time.Millisecond))
	for _, kind := range slices.Sorted(maps.Keys(r.ByKind)) {
		fmt.Fprintf(w, "  %-22s %8d\n", kind, r.ByKind[kind])
	}
	fmt.Fprintf(w, "acknowledged %d (%.0f a second), given up %d, retries %d\n", r.Acknowledged, r.EventsPerSecond, r.GivenUp, r.Retries)
	fmt.Fprintf(w, "forged: refused %d, accepted %d, answered oddly %d\n", r.Refused, r.ForgedAccepted, r.ForgedOdd)
	fmt.Fprintf(w, "answers:")
	for _, name := range slices.Sorted(maps.Keys(r.Answers)) {
		fmt.Fprintf(w, " %s x %d", name, r.Answers[name])
	}
	fmt.Fprintf(w, "\nacknowledged within: p50 %.1f ms, p90 %.1f ms, p99 %.1f ms, max %.1f ms\n", r.Latency.P50, r.Latency.P90, r.Latency.P99, r.Latency.Max)
}
