package process_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/process"
)

func shell(t *testing.T, script string) *process.Process {
	t.Helper()
	p, err := process.Start(process.Spec{Name: "ingest", Program: "/bin/sh", Args: []string{"-c", script}, LogDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestAProcessThatDiesAtItsStartIsQuoted(t *testing.T) {
	t.Parallel()
	p := shell(t, "echo first; echo 'umavez: INGEST_ADDR: taken'; echo; exit 2")
	begin := time.Now()
	err := process.Await(t.Context(), time.Minute, "ingest", func() error { return errors.New("refused") }, p)
	if err == nil || err.Error() != "ingest ended at its start: umavez: INGEST_ADDR: taken" || time.Since(begin) > 30*time.Second {
		t.Errorf("after %s: %v", time.Since(begin), err)
	}
	if code := p.ExitCode(); code != 2 {
		t.Errorf("exit code %d", code)
	}
}

func TestWhatDoesNotComeUpIsNamed(t *testing.T) {
	t.Parallel()
	p := shell(t, "sleep 60")
	if err := p.EarlyEnd(); err != nil {
		t.Fatalf("it lives, and gives %v", err)
	}
	err := process.Await(t.Context(), time.Millisecond, "the broker", func() error { return errors.New("refused") }, p)
	if err == nil || err.Error() != "the broker did not come up within 1ms: refused" {
		t.Errorf("%v", err)
	}
}

func TestAStopAsksFirstAndInsistsLater(t *testing.T) {
	t.Parallel()
	polite := shell(t, "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done")
	await(t, polite, "up")
	polite.Stop(30 * time.Second)
	if polite.ExitCode() != 0 || polite.LastWords() != "bye" {
		t.Errorf("exit code %d, last words %q", polite.ExitCode(), polite.LastWords())
	}
	deaf := shell(t, "trap '' TERM; echo up; while :; do sleep 0.05; done")
	await(t, deaf, "up")
	deaf.Stop(100 * time.Millisecond)
	if deaf.ExitCode() != -1 {
		t.Errorf("exit code %d, want that of a kill", deaf.ExitCode())
	}
	deaf.Signal(syscall.SIGCONT) // of no effect, and no panic
	var none *process.Process
	none.Stop(time.Second)
	none.Kill()
}

func TestMemoryAndEnvironment(t *testing.T) {
	t.Parallel()
	p, err := process.Start(process.Spec{Name: "role", Program: "/bin/sh", Args: []string{"-c", `echo "$CANARY"; sleep 60`}, Env: []string{"CANARY=sings"}, LogDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	await(t, p, "sings")
	if _, err := os.Stat("/proc/self/status"); err == nil && p.PeakMiB() <= 0 {
		t.Error("no memory was read")
	}
}

func await(t *testing.T, p *process.Process, words string) {
	t.Helper()
	err := process.Await(t.Context(), 30*time.Second, words, func() error {
		if !strings.Contains(p.LastWords(), words) {
			return errors.New("not said yet")
		}
		return nil
	}, p)
	if err != nil {
		t.Fatal(err)
	}
}
