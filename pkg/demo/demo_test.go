package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/daemon"
)

// nobody is a broker that nobody runs: with it a demo ends before it starts
// anything.
const nobody = "nats://u:canary@127.0.0.1:1"

func failing(t *testing.T, ctx context.Context, dir string) (Report, error) {
	t.Helper()
	path := filepath.Join(dir, "demo-report.json")
	if err := os.WriteFile(path, []byte(`{"seed": 1, "mismatches": 0, "payments": 5000}`), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := Run(ctx, Config{Dir: dir, NATS: nobody, Seed: 7, Payments: 1, Concurrency: 1, Settle: time.Minute, Output: "table"}, &out)
	if !strings.Contains(out.String(), "1 payment at 10 gateways") {
		t.Errorf("it said %q", out.String())
	}
	text, readErr := os.ReadFile(path)
	if readErr != nil {
		t.Fatal(readErr)
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r, err
}

func TestADemoThatFailsReplacesTheOldReportByItsError(t *testing.T) {
	r, err := failing(t, t.Context(), t.TempDir())
	if daemon.ExitCode(err) != daemon.ExitConfig {
		t.Errorf("%v has exit code %d", err, daemon.ExitCode(err))
	}
	if r.Error == "" || r.Error != err.Error() || r.Seed != 7 || r.Payments != 0 {
		t.Errorf("the error is %v, the report %+v", err, r)
	}
	if strings.Contains(r.Error, "canary") {
		t.Errorf("the password is shown: %s", r.Error)
	}
}

func TestADemoThatIsInterruptedSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(daemon.SignalError{Signal: os.Interrupt})
	r, err := failing(t, ctx, t.TempDir())
	if err == nil || !strings.HasPrefix(err.Error(), "interrupted (signal: interrupt)") || r.Error != err.Error() {
		t.Errorf("the error is %v, the report's %q", err, r.Error)
	}
}

func TestTheReportCountsWhatIsStoredAndWhatNobodyHeardOf(t *testing.T) {
	t.Parallel()
	r := newReport(1)
	r.Accepted, r.EventsStored, r.EventsAcknowledged, r.Lost, r.Unheard = 12, 9, 8, 3, 1
	var out bytes.Buffer
	r.table(&out)
	for _, line := range []string{
		"12  deliveries answered with success, 9 different events stored\n", "3  webhooks that never came\n", "1  payment of which no webhook ever came\n",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is missing in\n%s", line, out.String())
		}
	}
}

func TestWhereNothingCanBeDrawnALineSaysWhatIsWaitedFor(t *testing.T) {
	t.Parallel()
	var said []string
	show, clear := showWaiting(Config{Output: "json"}, func(format string, _ ...any) { said = append(said, format) })
	show(1161, 0)
	if len(said) != 0 {
		t.Errorf("said at once: %q", said)
	}
	time.Sleep(quietFor)
	show(1161, 0)
	show(1160, 0)
	clear()
	if len(said) != 1 || !strings.Contains(said[0], "NATS_ACK_WAIT") {
		t.Errorf("said %q", said)
	}
}
