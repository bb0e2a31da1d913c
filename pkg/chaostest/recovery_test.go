package chaostest_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/umavez/umavez/pkg/app"
	"github.com/umavez/umavez/pkg/chaostest"
)

// TestMain lets this program be the processes of a world too: umavez under that
// name, and a broker when it is called as one.
func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case filepath.Base(os.Args[0]) == "umavez":
		err = role(ctx, os.Args[len(os.Args)-1])
	case filepath.Base(os.Args[0]) == "sweeper":
		err = fmt.Errorf("nothing is swept here: what recovers does so without") // stricter
	case len(os.Args) > 1 && os.Args[1] == "broker":
		f := flag.NewFlagSet("broker", flag.ContinueOnError)
		name, dir, addr := f.String("name", "", ""), f.String("dir", "", ""), f.String("addr", "", "")
		if err = f.Parse(os.Args[2:]); err == nil {
			err = chaostest.RunBroker(ctx, *name, *dir, *addr, "", "")
		}
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func role(ctx context.Context, name string) error {
	build := app.IngestRole
	if name == "processor" {
		build = app.ProcessorRole
	}
	return app.Serve(ctx, name, build)
}

// Recovery is measured in full by `make recovery`. This is its short form, with
// the same bound: 99 of 100 new events are final within 5 s of their
// acceptance, from the moment each of some faults is healed, and without a
// sweep.
func TestNewEventsAreFinalSoonAfterAFaultIsHealed(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	for _, name := range []string{"umavez", "sweeper"} {
		if err := os.Symlink(self, filepath.Join(programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := chaostest.Recovery(t.Context(), chaostest.RecoveryConfig{
		Dir: t.TempDir(), Programs: programs, Seed: 7, Rounds: 1, Brokers: 1, Seconds: 1.5, Payments: 1500, Say: t.Logf,
		Kinds: regexp.MustCompile(`^(processor killed|broker killed|postgres: every session terminated|gateway API: 5xx)$`),
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Probes != 4*30 {
		t.Errorf("%d new events were sent, want 30 after each of 4 faults", r.Probes)
	}
	for _, m := range append(r.Missed, r.Found...) {
		t.Error(m)
	}
}
