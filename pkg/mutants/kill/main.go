// Command kill tries every mutant of pkg/mutants on the tests that must notice
// it, and fails when one survives.
//
//	go run ./pkg/postgres/postgrestest/withpostgres go run ./pkg/mutants/kill
//	go run ./pkg/mutants/kill -mutant answer-before-commit
//	go run ./pkg/mutants/kill -shard 1/4
//
// Exit codes: 0 when all were killed, 1 when one was not, 2 when the run itself
// failed: the tests are red without a mutant, or a mutant does not apply.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/umavez/umavez/pkg/mutants"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	survivors, err := run(ctx)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	case survivors > 0:
		os.Exit(1)
	}
}

func run(ctx context.Context) (survivors int, err error) {
	var (
		names  = flag.String("mutant", "", "try only these, separated by commas")
		shard  = flag.String("shard", "", "try only the i-th of n parts, as in 1/4")
		limit  = flag.Duration("limit", time.Minute, "for the tests of one mutant, without compiling them")
		file   = flag.String("report", ".umavez/mutants-report.json", "where the JSON report goes")
		goTool = flag.String("go", "go", "the go command")
	)
	flag.Parse()
	list, err := mutants.Select(mutants.All(), *names, *shard)
	if err != nil {
		return 0, err
	}
	root, err := moduleRoot()
	if err != nil {
		return 0, err
	}
	r, err := mutants.NewRunner(root, *goTool, *limit)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	started := time.Now()
	say := func(text string) { fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(started).Seconds(), text) }
	if err := r.Baseline(ctx, list, say); err != nil {
		return 0, err
	}
	var verdicts []mutants.Verdict
	var faults []error
	for i := range list {
		v := r.Try(ctx, &list[i])
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		say(fmt.Sprintf("%d/%d %s: %s %s (%.1f s, built in %.1f s)", i+1, len(list), v.Mutant, v.Outcome, v.Test, v.Seconds, v.Build))
		switch v.Outcome {
		case mutants.Broken:
			faults = append(faults, fmt.Errorf("%s: %s", v.Mutant, v.Detail))
		case mutants.Survived, mutants.TooSlow:
			survivors++
		}
		verdicts = append(verdicts, v)
	}
	report := mutants.NewReport(started, *limit, verdicts)
	if !filepath.IsAbs(*file) {
		*file = filepath.Join(root, *file)
	}
	return survivors, errors.Join(report.Print(os.Stdout), report.Save(*file), errors.Join(faults...))
}

// moduleRoot is the directory of go.mod at or above the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("no go.mod at or above the working directory")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}
