package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/umavez/umavez/pkg/gatewaysim"
)

// command runs one command line.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = execute(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// target answers everything with one status and keeps what it got.
type target struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	heads  []http.Header
	paths  []string
}

func newTarget(t *testing.T, status func(*http.Request) int) *target {
	tg := &target{}
	tg.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		tg.mu.Lock()
		tg.bodies, tg.heads, tg.paths = append(tg.bodies, string(body)), append(tg.heads, r.Header), append(tg.paths, r.URL.Path)
		tg.mu.Unlock()
		w.WriteHeader(status(r))
	}))
	t.Cleanup(tg.Close)
	return tg
}

func always(status int) func(*http.Request) int { return func(*http.Request) int { return status } }

func TestAStormPrintsItsReportAndWritesItsFiles(t *testing.T) {
	t.Parallel()
	tg := newTarget(t, always(200))
	dir := t.TempDir()
	truth, accepted := filepath.Join(dir, "truth.json"), filepath.Join(dir, "accepted.json")
	code, stdout, stderr := command(t, "storm", "--target", tg.URL, "--api-addr", "127.0.0.1:0", "--payments", "80", "--seed", "3",
		"--wrong-signatures", "0", "--truth-file", truth, "--accepted-file", accepted, "-o", "json")
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var report gatewaysim.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatal(err)
	}
	if report.Seed != 3 || report.Payments != 80 || report.Acknowledged == 0 || report.Requests != len(tg.bodies) {
		t.Errorf("%d requests came: %+v", len(tg.bodies), report)
	}
	var payments []gatewaysim.Payment
	var list []gatewaysim.Accepted
	for path, v := range map[string]any{truth: &payments, accepted: &list} {
		b, err := os.ReadFile(path)
		if err != nil || json.Unmarshal(b, v) != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	if len(payments) != 80 || len(list) != report.Acknowledged {
		t.Errorf("%d payments, %d accepted of %d", len(payments), len(list), report.Acknowledged)
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	careless, broken := newTarget(t, always(200)), newTarget(t, always(503))
	few := []string{"--payments", "5", "--api-addr", "127.0.0.1:0", "--retry-for", "1ms"}
	for name, tc := range map[string]struct {
		args []string
		code int
		says string
	}{
		"a target that takes forged webhooks": {append([]string{"storm", "--target", careless.URL, "--wrong-signatures", "1"}, few...), exitTarget, "forged webhooks were accepted"},
		"a target that is down":               {append([]string{"storm", "--target", broken.URL, "--wrong-signatures", "0"}, few...), exitTarget, "never acknowledged"},
		"a target elsewhere":                  {[]string{"storm", "--target", "http://192.0.2.1:8080"}, exitUsage, "--allow-remote"},
		"a name that only looks local":        {[]string{"send", "--target", "http://127.0.0.1.example", "--provider", "stripe", "--event", "x"}, exitUsage, "--allow-remote"},
		"no address":                          {[]string{"storm", "--target", "ftp://x"}, exitUsage, "not an address"},
		"an API address for everybody":        {[]string{"serve", "--addr", "0.0.0.0:0"}, exitUsage, "of this machine alone"},
		"an unknown gateway":                  {[]string{"print", "--gateways", "acme"}, exitUsage, "not a gateway"},
		"an unknown order":                    {[]string{"print", "--order", "sideways"}, exitUsage, "order"},
		"an unknown output":                   {[]string{"print", "-o", "xml"}, exitUsage, "neither text nor json"},
		"an unknown flag":                     {[]string{"print", "--no-such"}, exitUsage, "no-such"},
		"send without an event":               {[]string{"send", "--provider", "stripe"}, exitUsage, "event"},
		"send that is refused":                {[]string{"send", "--target", broken.URL, "--provider", "asaas", "--event", "PAYMENT_RECEIVED"}, exitTarget, "503"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := command(t, tc.args...)
			if code != tc.code || !strings.Contains(stderr, tc.says) {
				t.Errorf("exit code %d, want %d: %s", code, tc.code, stderr)
			}
		})
	}
}

func TestSendSignsWhatWasSet(t *testing.T) {
	t.Parallel()
	tg := newTarget(t, always(200))
	for range 2 {
		code, stdout, stderr := command(t, "send", "--target", tg.URL, "--provider", "asaas", "--event", "PAYMENT_RECEIVED",
			"--set", "payment.id=pay_1", "--set", "payment.value=8.20", "--set", "payment.new.field=true", "-o", "json")
		if code != exitOK || !strings.Contains(stdout, `"success": true`) {
			t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
		}
	}
	for _, want := range []string{`"event":"PAYMENT_RECEIVED"`, `"id":"pay_1"`, `"value":8.20`, `"new":{"field":true}`} {
		if !strings.Contains(tg.bodies[0], want) {
			t.Errorf("no %s in %s", want, tg.bodies[0])
		}
	}
	if tg.bodies[0] == tg.bodies[1] {
		t.Error("the second webhook is a duplicate of the first")
	}
	if tg.paths[0] != "/webhooks/asaas" || tg.heads[0].Get("asaas-access-token") == "" {
		t.Errorf("sent to %s with %v", tg.paths[0], tg.heads[0])
	}
	code, _, stderr := command(t, "send", "--target", tg.URL, "--provider", "stripe/loja2", "--event", "brand.new", "--set", "data.object.metadata.order_id=loja-01:X")
	if code != exitOK || tg.paths[2] != "/webhooks/stripe/loja2" || !strings.Contains(tg.bodies[2], `"type":"brand.new"`) {
		t.Errorf("exit code %d %s: %s %s", code, stderr, tg.paths[2], tg.bodies[2])
	}
}

func TestCredentialsOfTheEnvironmentAreUsed(t *testing.T) {
	t.Setenv("ASAAS_WEBHOOK_SECRETS", "first-token-of-the-environment-0000, second-token-of-the-environment-000")
	t.Setenv("ASAAS_API_KEY", "key-of-the-environment")
	tg := newTarget(t, always(200))
	if code, _, stderr := command(t, "send", "--target", tg.URL, "--provider", "asaas", "--event", "PAYMENT_CREATED"); code != exitOK {
		t.Fatal(stderr)
	}
	if got := tg.heads[0].Get("asaas-access-token"); got != "first-token-of-the-environment-0000" {
		t.Errorf("token %q", got)
	}
	_, stdout, _ := command(t, "settings", "-o", "json")
	var settings map[string]string
	if err := json.Unmarshal([]byte(stdout), &settings); err != nil || settings["ASAAS_API_KEY"] != "key-of-the-environment" {
		t.Errorf("settings %v, %v", settings, err)
	}
}

// The shell reads the command lines; its curl is a function that shows what
// it was called with.
func TestPrintedCommandLinesMeanTheWebhook(t *testing.T) {
	t.Parallel()
	args := []string{"print", "--provider", "asaas", "--count", "3", "--seed", "5"}
	code, script, stderr := command(t, args...)
	if code != exitOK {
		t.Fatal(stderr)
	}
	out, err := exec.Command("sh", "-c", "curl() { printf '%s\\0' \"$@\"; }\n"+script).Output()
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Split(string(out), "\x00")
	_, asJSON, _ := command(t, append(args, "-o", "json")...)
	var shown []printed
	if err := json.Unmarshal([]byte(asJSON), &shown); err != nil || len(shown) != 3 {
		t.Fatalf("%v: %s", err, asJSON)
	}
	for _, p := range shown {
		for _, want := range []string{p.Body, p.URL, "Asaas-Access-Token: " + p.Header.Get("Asaas-Access-Token")} {
			if !slices.Contains(words, want) {
				t.Errorf("curl is not called with %s", want)
			}
		}
	}
}

func TestServeAnswersUntilItIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- execute(ctx, []string{"serve", "--addr", "127.0.0.1:0", "--payments", "60", "-o", "json"}, writer, io.Discard)
		writer.Close()
	}()
	var settings map[string]string
	if err := json.NewDecoder(reader).Decode(&settings); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	req, _ := http.NewRequest(http.MethodGet, settings["ASAAS_API_BASE"]+"/payments?externalReference=none", nil)
	req.Header = http.Header{"access_token": {settings["ASAAS_API_KEY"]}}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
	cancel()
	select {
	case got := <-code:
		if got != exitOK {
			t.Errorf("exit code %d", got)
		}
	case <-time.After(10 * time.Second):
		t.Error("serve does not end")
	}
}

func TestHelpShowsExamples(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"serve", "settings", "storm", "print", "send"} {
		code, stdout, _ := command(t, name, "--help")
		if code != exitOK || !strings.Contains(stdout, "Examples:\n  gatewaysim "+name) {
			t.Errorf("%s --help: exit code %d\n%s", name, code, stdout)
		}
	}
}

// serve answers for what the other commands send: the payments of two
// simulations that differ in their number are others.
func TestEveryCommandPlaysTheSamePaymentsUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	for _, cmd := range newRoot().Commands() {
		flag := cmd.Flags().Lookup("payments")
		if flag == nil || cmd.Name() == "settings" { // settings do not depend on the payments
			continue
		}
		if flag.DefValue != "1000" {
			t.Errorf("%s plays %s payments", cmd.Name(), flag.DefValue)
		}
	}
}

// A shell that has read sim.env for umavez knows public keys only: nothing can
// be signed with those.
func TestPublicKeysOfTheEnvironmentAreNotSignedWith(t *testing.T) {
	t.Setenv("STANDARDWEBHOOKS_ED25519_WEBHOOK_SECRETS", "whpk_kQvASM5qRa8NynNsX3LteT1Yz27rEPd1Zx7wSudHkL8=")
	t.Setenv("STANDARDWEBHOOKS_MAPPED_WEBHOOK_SECRETS", "whsec_4I11kXIdf1ebY+DoAST4cecRbKyt+VHt,whpk_LdCbfN09y4eIV9DYtRJReb4aWHb98Mk7aL5eVBV0Ldw=")
	if c := fromEnvironment("standardwebhooks/ed25519"); len(c.WebhookSecrets) != 0 {
		t.Error("a public key is taken for a secret")
	}
	if c := fromEnvironment("standardwebhooks/mapped"); len(c.WebhookSecrets) != 1 || !strings.HasPrefix(c.WebhookSecrets[0], "whsec_") {
		t.Errorf("%d secrets", len(c.WebhookSecrets))
	}
}

func TestPrintTakesAnAccountAsSendDoes(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := command(t, "print", "--provider", "standardwebhooks/mapped", "--count", "3", "-o", "json")
	if code != exitOK || strings.Count(stdout, `"account": "mapped"`) != 3 {
		t.Errorf("exit code %d, %s\n%s", code, stderr, stdout)
	}
}

// A notification code means nothing by itself: an invented one could not be
// asked for.
func TestACodeOfPagBankThatIsSentIsOneOfTheSimulation(t *testing.T) {
	t.Parallel()
	tg := newTarget(t, always(200))
	code, _, stderr := command(t, "send", "--target", tg.URL, "--provider", "pagbank", "--event", "transaction.4")
	_, printed, _ := command(t, "print", "--provider", "pagbank", "--event", "transaction.4", "--count", "1000", "-o", "json")
	if code != exitOK || len(tg.bodies) != 1 || !strings.Contains(printed, strings.SplitN(tg.bodies[0], "&", 2)[0]) {
		t.Errorf("exit code %d, %s\n%v", code, stderr, tg.bodies)
	}
}
