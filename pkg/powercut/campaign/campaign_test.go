package campaign

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/powercut"
)

// programs are built once for all tests of the run.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "umavez-powercut-bin-")
	if err != nil {
		return "", err
	}
	return dir, Build(context.Background(), filepath.Join("..", "..", ".."), dir, os.Stderr)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := programs(); err == nil {
		os.RemoveAll(dir) //nolint:errcheck // scratch
	}
	os.Exit(code)
}

// short is the short form of a campaign: a handful of cuts in every mode, from
// one seed.
func short(t *testing.T) Config {
	t.Helper()
	needMount(t)
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	// t.TempDir is closed to PostgreSQL's user.
	dir, err := os.MkdirTemp("", "umavez-powercut-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs are in %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return Config{Dir: dir, Bin: bin, Seed: 3, Cuts: 4, PerPhase: 4, Payments: 120, Rate: 60, Say: t.Logf}
}

// needMount fails in CI and skips elsewhere when nothing can be mounted.
func needMount(t *testing.T) {
	t.Helper()
	m, err := powercut.New(powercut.Options{}).Mount(t.TempDir())
	powercut.NeedMount(t, err)
	if err := m.Unmount(); err != nil {
		t.Fatal(err)
	}
}

func wantClean(t *testing.T, r *Result, err error, cuts int) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range r.Faults {
		t.Error(fault)
	}
	if r.Cuts < cuts || r.Acknowledged == 0 || r.Entries == 0 || r.PiecesLost == 0 {
		t.Errorf("the campaign shows nothing: %+v", r)
	}
}

func TestPostgreSQLLosesNothingThatWasPromised(t *testing.T) {
	t.Parallel()
	cfg := short(t)
	r, err := Postgres(t.Context(), cfg)
	wantClean(t, r, err, cfg.Cuts)
}

func TestTheBrokerLosesMessagesAndUmavezLosesNothing(t *testing.T) {
	t.Parallel()
	cfg := short(t)
	cfg.Sync = []time.Duration{10 * time.Second}
	r, err := JetStream(t.Context(), cfg)
	wantClean(t, r, err, cfg.Cuts)
}

// The same campaign must fail on a database that does not sync, or it would
// show nothing of one that does.
func TestACampaignFindsADatabaseThatDoesNotSync(t *testing.T) {
	t.Parallel()
	cfg := short(t)
	cfg.Liar = true
	r, err := Postgres(t.Context(), cfg)
	if err != nil && r.Faulty == 0 {
		t.Fatal(err)
	}
	if r.Lost == 0 {
		t.Errorf("with fsync off no acknowledged event was lost: %+v", r)
	}
}

func TestACampaignOnNoMountSaysSo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mount"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Postgres(t.Context(), Config{Dir: dir, Cuts: 1})
	if err == nil || r.OK() || !errors.Is(err, os.ErrExist) && r.Error == "" {
		t.Errorf("%v, %+v", err, r)
	}
}
