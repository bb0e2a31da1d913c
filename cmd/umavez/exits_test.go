package main

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// build builds every command into one directory.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command("go", "build", "-o", dir, "../ingest", "../processor", "../sweeper", "../gatewaysim", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return dir
}

// run runs a binary with these settings and no others of ours.
func run(t *testing.T, program string, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), &out, &errs
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// working are settings with which nothing is wrong but that nobody answers.
var working = []string{
	"DATABASE_URL=postgres://u:canary@127.0.0.1:1/umavez?connect_timeout=2", "NATS_URL=nats://u:canary@127.0.0.1:1",
	"SOURCES=stripe", "STRIPE_WEBHOOK_SECRETS=whsec_0123456789", "INGEST_ADDR=127.0.0.1:0", "ADMIN_ADDR=off",
}

func TestWrongArgumentsAndSettingsExitWithTwoAndSayWhich(t *testing.T) {
	t.Parallel()
	bin := build(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close() //nolint:errcheck // a test
	for _, c := range []struct {
		line string   // the command line
		env  []string // instead of, or after, the working settings
		says string   // in stderr
	}{
		{"umavez nonsense", nil, `unknown command "nonsense"`},
		{"umavez replay", nil, "name events by their ids, or by a filter"},
		{"umavez replay 0", nil, `"0" is not an event's id`},
		{"umavez replay 7 --payment pay_1", nil, "event ids stand alone"},
		{"umavez replay --status pending", nil, `--status "pending" is not one of dead, quarantined, ignored, processed`},
		{"umavez replay --since yesterday", nil, "--since \"yesterday\" is neither a time"},
		{"umavez replay --since 1h --until 2h", nil, "--since must be before --until"},
		{"umavez replay --status dead --limit 0", nil, "--limit must be at least 1"},
		{"umavez replay --status dead -o xml", nil, "--output"},
		{"umavez replay --status dead", []string{"SOURCES="}, "SOURCES"},
		{"umavez replay --status dead", []string{"STRIPE_API_KEY=sk_live_0123456789"}, "DATABASE_URL"}, // nobody answers there
		{"umavez migrate extra", nil, "see umavez migrate --help"},
		{"umavez verify --nonsense", nil, "see umavez verify --help"},
		{"umavez verify --rows 0", nil, "--rows is 0"},
		{"umavez verify --pending-limit -1s", nil, "--pending-limit is -1s"},
		{"umavez verify -o xml", nil, "--output"},
		{"umavez verify", nil, "DATABASE_URL"}, // nobody answers there
		{"umavez verify", []string{"DATABASE_URL="}, "DATABASE_URL is not set"},
		{"umavez migrate", []string{"DATABASE_URL=mysql://u:canary@h"}, "DATABASE_URL is not a PostgreSQL address"},
		{"umavez migrate", []string{"NATS_REPLICAS=2"}, "NATS_REPLICAS is 2; it must be 1, 3 or 5"},
		{"umavez migrate", nil, "DATABASE_URL"},
		{"umavez demo --payments 0", nil, "--payments is 0"},
		{"umavez demo --payments 2000000", nil, "--payments is 2000000"},
		{"umavez demo --rate NaN", nil, "--rate is NaN"},
		{"umavez demo --rate -1", nil, "--rate is -1"},
		{"umavez demo --settle 0s", nil, "--settle is 0s"},
		{"umavez demo --concurrency 0", nil, "--concurrency is 0"},
		{"umavez demo --dir=", nil, "--dir is empty"},
		{"umavez demo", []string{"NATS_URL=", "DATABASE_URL=mysql://u:canary@h"}, "DATABASE_URL is not a PostgreSQL address"},
		{"umavez demo --nats nats://u:canary@127.0.0.1:1", nil, "NATS"},
		{"umavez dev --dir=", nil, "--dir is empty"},
		{"umavez dev", []string{"DATABASE_URL=mysql://u:canary@h"}, "DATABASE_URL is not a PostgreSQL address"},
		{"umavez dev", []string{"DATABASE_URL="}, "NATS_URL is set and DATABASE_URL is not"},
		{"umavez dev", []string{"ADMIN_ADDR=" + taken.Addr().String()}, "ADMIN_ADDR"},
		{"umavez dev", []string{"INGEST_ADDR=nonsense"}, "INGEST_ADDR"},
		{"umavez broker", nil, "--dir is empty"},
		{"umavez broker --dir x --sync sometimes", nil, `--sync is "sometimes"`},
		{"umavez broker --dir x --sync 0s", nil, `--sync is "0s"`},
		{"umavez relay", nil, "--since is 0s"},
		{"umavez relay --since 1h", nil, "DATABASE_URL"},
		{"umavez role nonsense", nil, `"nonsense" is unknown`},
		{"sweeper nonsense", nil, `unknown command "nonsense"`},
		{"sweeper run extra", nil, "see sweeper run --help"},
		{"sweeper run --limit -1", nil, "--limit must not be negative"},
		{"sweeper run --older-than -1s", nil, "--older-than must not be negative"},
		{"sweeper run", []string{"SWEEP_LIMIT=many"}, "SWEEP_LIMIT is not a whole number"},
		{"sweeper loop", []string{"SOURCES="}, "SOURCES is not set"},
		{"gatewaysim nonsense", nil, `unknown command "nonsense"`},
		{"gatewaysim storm --nonsense", nil, "see gatewaysim storm --help"},
		{"gatewaysim storm --payments -1", nil, "--payments is -1"},
		{"gatewaysim storm --rate NaN", nil, "--rate is NaN"},
		{"gatewaysim storm --lost NaN", nil, "--lost is NaN"},
		{"gatewaysim storm --concurrency -1", nil, "--concurrency is -1"},
		{"gatewaysim storm --linger -1s", nil, "--linger is -1s"},
		{"gatewaysim print --count -1", nil, "--count is -1"},
		{"ingest foo", nil, `"foo" is not known`},
		{"ingest --foo", nil, "see ingest --help"},
		{"processor foo", nil, "see processor --help"},
		{"ingest", []string{"ADMIN_ADDR=9090"}, "ADMIN_ADDR is neither host:port"},
		{"ingest", []string{"ADMIN_ADDR=127.0.0.1:99999"}, "ADMIN_ADDR has no valid port"},
		{"ingest", []string{"SHUTDOWN_GRACE=soon"}, "SHUTDOWN_GRACE is not a duration such as 72h"},
		{"ingest", []string{"DATABASE_SIMPLE_PROTOCOL=perhaps"}, "DATABASE_SIMPLE_PROTOCOL is not true or false"},
		{"processor", []string{"LOOKUP_CONCURRENCY=many"}, "processor: LOOKUP_CONCURRENCY is not a whole number"},
	} {
		args := strings.Fields(c.line)
		code, out, errs := run(t, filepath.Join(bin, args[0]), append(append([]string{}, working...), c.env...), args[1:]...)
		if code != 2 || !strings.Contains(errs, c.says) {
			t.Errorf("%s %v: code %d, wanted 2 and %q, said:\n%s", c.line, c.env, code, c.says, errs)
		}
		if strings.Contains(out+errs, "canary") {
			t.Errorf("%s %v shows a password", c.line, c.env)
		}
	}
	for _, line := range []string{"umavez", "umavez --help", "umavez demo --help", "umavez migrate --help", "sweeper --help", "gatewaysim --help", "ingest --help", "processor -h"} {
		args := strings.Fields(line)
		if code, out, errs := run(t, filepath.Join(bin, args[0]), working, args[1:]...); code != 0 || out == "" || errs != "" || strings.Contains(out, "canary") {
			t.Errorf("%s: code %d, %d bytes, %q", line, code, len(out), errs)
		}
	}
}

func TestAllFaultsOfTheSettingsAreSaidAtOnce(t *testing.T) {
	t.Parallel()
	bin := build(t)
	wrong := []string{
		"DATABASE_URL=", "DATABASE_MAX_CONNS=many", "DATABASE_LOCK_TIMEOUT=soon", "NATS_REPLICAS=2", "NATS_ACK_WAIT=later",
		"ADMIN_ADDR=here", "SHUTDOWN_DELAY=-1s", "SOURCES=stripe,none", "STRIPE_WEBHOOK_SECRETS=",
	}
	common := []string{
		"DATABASE_URL is not set", "DATABASE_MAX_CONNS is not a whole number", "DATABASE_LOCK_TIMEOUT is not a duration such as 72h",
		"NATS_REPLICAS is 2", "NATS_ACK_WAIT is not a duration such as 72h", "unknown gateway", "STRIPE_WEBHOOK_SECRETS",
	}
	served := []string{"ADMIN_ADDR is neither", "SHUTDOWN_DELAY is -1s"}
	for _, c := range []struct {
		line string
		env  []string
		says []string
	}{
		{"ingest", []string{"INGEST_BATCH_ROWS=x", "INGEST_FLUSHERS=y"}, append([]string{"INGEST_BATCH_ROWS is", "INGEST_FLUSHERS is"}, served...)},
		{"processor", []string{"PROCESSOR_BATCH=x", "LOOKUP_TIMEOUT=y", "UNKNOWN_PAYMENT=z"}, append([]string{"PROCESSOR_BATCH is", "LOOKUP_TIMEOUT is", "UNKNOWN_PAYMENT must"}, served...)},
		{"sweeper loop", []string{"SWEEP_EVERY=x", "RECONCILE_ALL=y"}, append([]string{"SWEEP_EVERY is", "RECONCILE_ALL is not true or false"}, served...)},
		{"sweeper run", []string{"SWEEP_EVERY=x", "RECONCILE_ALL=y"}, []string{"SWEEP_EVERY is", "RECONCILE_ALL is not true or false"}},
		{"umavez role ingest", []string{"PUBLISH_CAPACITY=x"}, append([]string{"PUBLISH_CAPACITY is not a whole number"}, served...)},
	} {
		args := strings.Fields(c.line)
		code, _, errs := run(t, filepath.Join(bin, args[0]), append(append([]string{}, wrong...), c.env...), args[1:]...)
		if code != 2 {
			t.Errorf("%s: code %d", c.line, code)
		}
		for _, text := range append(append([]string{}, common...), c.says...) {
			if n := strings.Count(errs, text); n == 0 {
				t.Errorf("%s does not say %q:\n%s", c.line, text, errs)
			}
		}
		lines := map[string]bool{}
		for line := range strings.Lines(errs) {
			if lines[line] {
				t.Errorf("%s says twice: %s", c.line, line)
			}
			lines[line] = true
		}
	}
}
