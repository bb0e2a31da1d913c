//go:build failpoints

package failpoint_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/failpoint"
)

const point, another = "postgres.settle_committed", "ingest.parsed"

func arm(t *testing.T, spec string) {
	t.Helper()
	failpoint.Reset()
	t.Cleanup(failpoint.Reset)
	if err := failpoint.Arm(spec); err != nil {
		t.Fatal(err)
	}
}

// The registry is the process's: these tests run one after the other.

func TestEachActionDoesWhatItsNameSays(t *testing.T) {
	for action, want := range map[string]error{
		"error": failpoint.ErrInjected, "lost": io.ErrUnexpectedEOF,
		"deadlock": failpoint.ErrDeadlock, "serialization": failpoint.ErrSerialization,
	} {
		arm(t, point+"="+action)
		if err := failpoint.At(t.Context(), point); !errors.Is(err, want) || !strings.Contains(err.Error(), point) {
			t.Errorf("%s: %v", action, err)
		}
		if err := failpoint.At(t.Context(), another); err != nil {
			t.Errorf("%s at another point: %v", action, err)
		}
		if got := failpoint.Now().Fired[point][action]; got != 1 {
			t.Errorf("%s fired %d times", action, got)
		}
	}
	arm(t, point+"=panic")
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_ = failpoint.At(t.Context(), point)
	}()
	arm(t, point+"=delay:30ms")
	started := time.Now()
	if err := failpoint.At(t.Context(), point); err != nil || time.Since(started) < 30*time.Millisecond {
		t.Errorf("delay: %v after %s", err, time.Since(started))
	}
}

func TestACrashRunsNothingThatWasDeferred(t *testing.T) {
	if os.Getenv("FAILPOINT_TEST_CHILD") != "" {
		defer os.Stdout.WriteString("deferred\n")
		arm(t, point+"=crash")
		_ = failpoint.At(t.Context(), point)
		os.Stdout.WriteString("went on\n")
		return
	}
	child := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	child.Env = append(os.Environ(), "FAILPOINT_TEST_CHILD=1")
	out, err := child.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("the child ended with %v", err)
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	if !ok || status.Signal() != syscall.SIGKILL || len(out) > 0 {
		t.Errorf("the child ended with %v and said %q", err, out)
	}
}

func TestCountAndProbabilityBoundWhatIsDone(t *testing.T) {
	arm(t, point+"=error*2;"+point+"=lost*1")
	var got []error
	for range 4 {
		got = append(got, failpoint.At(t.Context(), point))
	}
	for i, want := range []error{failpoint.ErrInjected, failpoint.ErrInjected, failpoint.ErrLost, nil} {
		if !errors.Is(got[i], want) {
			t.Errorf("time %d: %v, want %v", i+1, got[i], want)
		}
	}
	if failpoint.Armed("postgres.") {
		t.Error("used up, and still armed")
	}
	arm(t, point+"=error@0.5")
	if !failpoint.Armed("postgres.") || failpoint.Armed("ingest.") {
		t.Error("what is armed is not told")
	}
	failed := 0
	for range 1000 {
		if failpoint.At(t.Context(), point) != nil {
			failed++
		}
	}
	if failed < 350 || failed > 650 { // 9 standard deviations
		t.Errorf("failed %d times of 1000 at a probability of 0.5", failed)
	}
	if hits := failpoint.Now().Hits[point]; hits != 1000 {
		t.Errorf("hit %d times", hits)
	}
}

func TestASpecThatIsNotUnderstoodChangesNothing(t *testing.T) {
	arm(t, point+"=error*3")
	for spec, want := range map[string]string{
		"nobody=error":                      `no point is named "nobody"`,
		point + "=explode":                  "the action must be one of crash, panic, error, lost, delay, deadlock, serialization",
		another + "=deadlock":               "the action must be one of crash, panic, error, lost, delay",
		point:                               "name=action",
		point + "=delay":                    "duration",
		point + "=error:1s":                 "duration",
		point + "=delay:-1s":                "above zero",
		point + "=error*0":                  "count",
		point + "=error*x":                  "count",
		point + "=error@0":                  "probability",
		point + "=error@1.5":                "probability",
		point + "=error@NaN":                "probability",
		point + "=error;nobody=x;other=x":   `"other"`,
		another + "=error;" + point + "=no": "the action must be",
	} {
		if err := failpoint.Arm(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", spec, err, want)
		}
	}
	if got := failpoint.Now().Armed; len(got) != 1 || got[0] != point+"=error*3" {
		t.Errorf("armed is %q", got)
	}
	if err := failpoint.Arm(" ; "); err != nil || failpoint.Armed("") {
		t.Errorf("an empty spec: %v, armed %q", err, failpoint.Now().Armed)
	}
}

func TestANameThatNobodyDeclaredIsAPanic(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	_ = failpoint.At(t.Context(), "nobody")
}
